"""The last guard of sensitive values: nothing of a sensitive type passes unless it is encrypted."""

from __future__ import annotations

from .changes import Upsert, is_sensitive
from .facts import read_facts


def leak(change: Upsert, sensitive_types: frozenset[str]) -> str:
    """Why writing this object would put a sensitive value in clear text into Git, or empty (rule N1)."""
    if not change.sensitive:
        sensitive = is_sensitive(change.group, change.resource, sensitive_types)
        return "objects of this type are written encrypted only" if sensitive else ""
    if change.sealed is None:
        return ""
    documents = read_facts(change.sealed).documents
    if len(documents) != 1 or not documents[0].sealed or documents[0].name != change.name:
        return "the encrypted text is not one encrypted document of this object; it has to be sent again"
    return ""
