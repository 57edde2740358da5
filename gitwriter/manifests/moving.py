"""Where an encrypted object may be written whose document is already in Git.

Sealed text is always a whole file. A document that is alone in its file is replaced there, plain or sealed.
One in clear text among others can be moved to a file of its own; that is safe only where nothing else names
the file and nothing in it is encrypted: SOPS seals files, not documents.
"""

from __future__ import annotations

from enum import StrEnum

from .inventory import Inventory
from .records import DocumentRef


class Home(StrEnum):
    """Where the sealed text of a document goes."""

    HERE = "here"
    OWN_FILE = "own-file"
    NOWHERE = "nowhere"


def home_of(inventory: Inventory, ref: DocumentRef) -> Home:
    """Where the document at ``ref`` goes when it is sealed."""
    facts = inventory.files[ref.path].facts
    if facts is None:
        return Home.NOWHERE
    if sum(1 for fact in facts.documents if fact.is_krm) <= 1:
        return Home.HERE
    if any(fact.has_sops for fact in facts.documents) or ref.path in inventory.context.reaches:
        return Home.NOWHERE
    return Home.OWN_FILE
