"""What an overlay says about objects of a base that it may not write.

A base outside the target path is read-only, but the overlay can override it: a new image or replica count
becomes an entry of its kustomization, and a deleted object a small patch file that deletes it from the build.
Nothing in the overlay is overwritten, and a repeated change changes nothing.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..emitter import render_document
from ..inventory import Inventory
from ..placement.names import escape_segment, safe_path
from ..records import DocumentRef
from .edits import KustomizationEdits
from .images import Image, trace
from .model import Kustomization
from .outside import is_outside


def overlay_of(inventory: Inventory, ref: DocumentRef) -> Kustomization | None:
    """The kustomization inside the target path that builds a base's document, if exactly one does and it
    is editable.
    """
    reaches = inventory.context.reaches.get(ref.path, ())
    if len(reaches) != 1 or is_outside(reaches[0].root):
        return None
    root = inventory.context.by_directory[posixpath.dirname(reaches[0].root)]
    return root if root.editable else None


@dataclass(slots=True)
class AuthoredEntries:
    """New entries for one object: image parts by image name, and counts by object name."""

    images: dict[str, dict[str, str]] = field(default_factory=dict)
    replicas: dict[str, int] = field(default_factory=dict)

    def image(
        self, built: str, live: str, chain: Sequence[Kustomization], source: str, overlay: str
    ) -> str | None:
        """Author an entry that turns the built image into the live one; the reason where none can."""
        last = trace(Image.parse(source), chain)
        parts_from = (last.name_from, last.tag_from, last.digest_from)
        if any(part is not None and part.kustomization == overlay for part in parts_from):
            return "an entry of the overlay sets it already"
        before, after = Image.parse(built), Image.parse(live)
        if (before.tag or before.digest) and not (after.tag or after.digest):
            return "an entry cannot remove a tag"
        parts = {
            key: value
            for key, value in (
                ("newName", after.name if after.name != before.name else ""),
                ("newTag", after.tag),
                ("digest", after.digest),
            )
            if value
        }
        if self.images.setdefault(before.name, parts) != parts:
            return "two containers need different entries for one image"
        return None


@dataclass(frozen=True, slots=True)
class Deletion:
    """A patch file that deletes a base's object; `done` when it stands there already."""

    path: str
    content: bytes
    edits: KustomizationEdits
    done: bool


def deletion_of(inventory: Inventory, ref: DocumentRef) -> Deletion | None:
    """How the overlay deletes a base's object, or None where it cannot without overwriting something."""
    overlay = overlay_of(inventory, ref)
    if overlay is None:
        return None
    fact = ref.fact
    name = f"{fact.kind.lower()}-{escape_segment(fact.name)}-delete.yaml"
    path = safe_path(posixpath.join(overlay.directory, name), sensitive=False)
    done = path in inventory.context.patches
    if path in inventory.files and not done:
        return None
    metadata = {"name": fact.name, **({"namespace": fact.namespace} if fact.namespace else {})}
    document = {"apiVersion": fact.api_version, "kind": fact.kind, "metadata": metadata}
    edits = KustomizationEdits(overlay.path, overlay.directory, new_patches={posixpath.basename(path)})
    return Deletion(path, b"$patch: delete\n" + render_document(document), edits, done)
