"""Whether a bundle takes one more document, and where its surplus goes.

A file beyond its limits would be refused, and with it the whole path. So a bundle is filled up to them and
goes on in numbered files beside it: `all.yaml`, `all-2.yaml`, `all-3.yaml`. The first with room is taken, so
the same folder always gives the same answer and a gap that opens is filled again. Part of the bytes is left
for documents that grow.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from ..filework import FileWork
from ..limits import Limits
from ..records import FileRecord
from ..roles import MANIFEST_SUFFIXES
from .names import safe_path

_SEPARATOR_BYTES = 8
_GROWTH = 8
"""New documents leave one part of this many of a file's bytes free."""


def sequels(path: str) -> Iterator[str]:
    """The paths of the files that continue a bundle, without end."""
    suffix = next((end for end in MANIFEST_SUFFIXES if path.endswith(end)), "")
    stem = path.removesuffix(suffix)
    for number in count(2):
        yield safe_path(f"{stem}-{number}{suffix}", sensitive=False)


def is_full(record: FileRecord | None, work: FileWork | None, limits: Limits) -> bool:
    """True when a file holds as many documents as it may, with the work that is pending on it."""
    documents = len(record.facts.documents) if record is not None and record.facts is not None else 0
    if work is not None:
        documents += len(work.appended) - len(work.removals)
    return documents >= limits.documents_per_file


def has_bytes_left(record: FileRecord | None, work: FileWork | None, rendered: bytes, limits: Limits) -> bool:
    """True when a new document's bytes fit as well. A file's first document is never turned away here."""
    taken = record.entry.size if record is not None else 0
    if work is not None:
        taken += work.appended_bytes + len(work.appended) * _SEPARATOR_BYTES
    bound = limits.file_bytes - limits.file_bytes // _GROWTH
    return not taken or taken + len(rendered) + _SEPARATOR_BYTES <= bound
