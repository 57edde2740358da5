"""How much a path may hold before it is refused with a message instead of running out of memory.

CRD bundles of several megabytes are ordinary, so the bounds are generous; what passes them is a mistake
or an attack.
"""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds; sizes are bytes.

    ``nodes`` counts the keys, values and collections of one document: more than any object has that the API
    server would store. ``aliases`` counts its anchors and aliases.
    """

    file_bytes: int = 8 * _MIB
    files: int = 20_000
    tree_bytes: int = 256 * _MIB
    documents_per_file: int = 2_000
    depth: int = 100
    nodes: int = 300_000
    aliases: int = 10_000


DEFAULT_LIMITS = Limits()
CONTEXT_LIMITS = Limits(file_bytes=_MIB, documents_per_file=20, nodes=50_000)
"""For what is read to understand the manifests: kustomizations and objects that name values files."""
