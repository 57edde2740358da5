"""What keeps a change out of a plan.

The last guard of sensitive values is here: nothing of a sensitive type passes unless it is encrypted.
``Exclusion`` is how one attempt tells the next which changes to leave out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reverser.kinds.sensitive import is_sensitive

from .changes import SkipReason, Upsert
from .editing import NOT_EDITABLE
from .emitter import check_writable
from .facts import DocumentFact, read_facts
from .records import DocumentRef

SEAL_AGAIN = "the encrypted text has to be sent again"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Why a change is left out of an attempt; with `builds_only` just its documents that a build reads."""

    code: SkipReason
    message: str
    builds_only: bool = False


def leak(change: Upsert, sensitive_types: frozenset[str]) -> str:
    """Why writing this object would put a sensitive value in clear text into Git, or empty."""
    if not change.sensitive:
        sensitive = is_sensitive(change.group, (change.resource, change.kind), sensitive_types)
        return "objects of this type are written encrypted only" if sensitive else ""
    if change.sealed is None:
        return ""
    documents = read_facts(change.sealed).documents
    if len(documents) != 1 or not documents[0].sealed or documents[0].name != change.name:
        return "the encrypted text is not one encrypted document of this object; it has to be sent again"
    return ""


def unfit(change: Upsert, sensitive_types: frozenset[str]) -> tuple[SkipReason, str] | None:
    """Why an object is not written wherever it would stand, or None.

    Asked before anything else: an object that nests too deep must not even be copied.
    """
    problem = leak(change, sensitive_types)
    if problem:
        return SkipReason.SENSITIVE_IN_CLEAR, problem
    if change.sensitive or change.body is None:
        return None
    try:
        check_writable(dict(change.body))
    except (TypeError, ValueError) as error:
        return SkipReason.UNREADABLE_RESULT, str(error)
    return None


def undeclared_text(ref: DocumentRef) -> str:
    """Why a document without a namespace is neither changed nor removed for an object that has one."""
    return (
        f"{ref.fact.kind} {ref.fact.name} in {ref.path} has no namespace, so nobody can tell whether it "
        "is this object; add metadata.namespace or a kustomization that sets it"
    )


def escape_text(path: str) -> str:
    """Why a base beside the target path is not changed."""
    return f"{path} lies outside the target path and is only read; change it there or widen the path"


def fan_in_text(path: str, roots: Iterable[str]) -> str:
    """Why a file that several builds use is not changed."""
    return f"{path} is read-only here: several builds use it ({', '.join(roots)}); give each its own file"


def untouchable_text(path: str, fact: DocumentFact) -> tuple[SkipReason, str] | None:
    """Why a document is never edited, whatever the change, judged by its index entry alone; None where it may
    be.
    """
    if fact.has_sops:
        return SkipReason.ENCRYPTED, f"{path} is encrypted, never patched"
    for construct, remedy in NOT_EDITABLE.items():
        if construct in fact.constructs:
            return SkipReason.NOT_EDITABLE, f"the document {remedy}"
    return None
