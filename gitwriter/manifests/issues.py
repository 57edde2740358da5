"""Why a path is refused, and remarks on paths that are not.

An issue refuses the whole path: nothing is written while there is one. A diagnostic is a remark about one
document. Code decides by `kind` or `reason`; the message is for people and ends with what they can do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class IssueKind(StrEnum):
    """Every reason for which the acceptance gate refuses a path."""

    DUPLICATE_IDENTITY = "duplicate-identity"
    IMPURE_MANAGED_FILE = "impure-managed-file"
    NON_KRM_YAML = "non-krm-yaml"
    INVALID_YAML = "invalid-yaml"
    MIXED_MANAGED_ALLOWLISTED = "mixed-managed-allowlisted"
    UNSUPPORTED_KUSTOMIZE = "unsupported-kustomize"
    AMBIGUOUS_NAMESPACE = "ambiguous-namespace"
    KUSTOMIZE_RENDER_REFUSED = "kustomize-render-refused"
    FOREIGN_FILE = "foreign-file"
    FOREIGN_SYMLINK = "foreign-symlink"
    FOREIGN_SUBMODULE = "foreign-submodule"
    IGNORE_SHADOWS_MANAGED = "ignore-shadows-managed"
    LIMIT_EXCEEDED = "limit-exceeded"
    UNRESOLVED_KRM = "unresolved-krm"
    OUT_OF_SCOPE = "out-of-scope"


class Actor(StrEnum):
    """Who can solve an issue."""

    REPOSITORY_AUTHOR = "repository-author"
    PLATFORM_OPERATOR = "platform-operator"


@dataclass(frozen=True, slots=True)
class Issue:
    """One reason to refuse. `path` is relative to the target path; `document` counts from 0."""

    kind: IssueKind
    path: str
    message: str
    document: int = 0

    @property
    def actor(self) -> Actor:
        """Limits and the renderer are the platform's; everything else is a file in the repository."""
        if self.kind in (IssueKind.LIMIT_EXCEEDED, IssueKind.UNRESOLVED_KRM, IssueKind.OUT_OF_SCOPE):
            return Actor.PLATFORM_OPERATOR
        return Actor.REPOSITORY_AUTHOR

    @property
    def solvable(self) -> bool:
        """True when editing the repository alone makes the issue go away."""
        return self.actor is Actor.REPOSITORY_AUTHOR

    @property
    def sort_key(self) -> tuple[str, int, str, str]:
        return (self.path, self.document, self.kind.value, self.message)


class Level(StrEnum):
    """How loudly a diagnostic is logged."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A remark about one document that does not refuse the path."""

    level: Level
    reason: str
    path: str
    document: int
    message: str


def sort_issues(issues: Iterable[Issue]) -> tuple[Issue, ...]:
    """Order by path, document, kind; each once. What names a file comes before what is said of the whole."""
    return tuple(sorted(set(issues), key=lambda issue: (issue.path == ".", issue.sort_key)))


def refusal_message(issues: Sequence[Issue]) -> str:
    """The condition message for a refused path: the first issue, and how many more there are."""
    if not issues:
        return ""
    first = issues[0]
    more = f" (and {len(issues) - 1} more issue(s))" if len(issues) > 1 else ""
    return f"Git path refused at {first.path}: {first.message}{more}"


def refusal_reason(issues: Sequence[Issue]) -> str:
    """The condition reason: its own word only when ignore rules are all that is wrong."""
    if issues and all(issue.kind is IssueKind.IGNORE_SHADOWS_MANAGED for issue in issues):
        return "IgnoreShadowsManagedPath"
    return "UnsupportedContent"
