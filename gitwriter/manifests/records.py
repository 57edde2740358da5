"""What an inventory holds: an entry with its role, and where a document stands."""

from __future__ import annotations

from dataclasses import dataclass

from .facts import DocumentFact, FileFacts
from .identity import is_known_cluster_scoped
from .kustomize.context import KustomizeContext
from .roles import Role
from .tree import TreeEntry


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One entry with its role; `facts` only for files that are read, `oversize` for those too big to be."""

    entry: TreeEntry
    role: Role
    facts: FileFacts | None = None
    oversize: bool = False


@dataclass(frozen=True, slots=True)
class DocumentRef:
    """Where a document stands."""

    path: str
    fact: DocumentFact


def namespace_of(context: KustomizeContext, path: str, fact: DocumentFact) -> str:
    """The namespace a document ends up in: the outermost kustomization's, else its own, else empty."""
    if is_known_cluster_scoped(fact.group, fact.kind):
        return ""
    return context.namespace(path) or fact.namespace
