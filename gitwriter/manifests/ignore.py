"""The ignore file of a target path: what the repository's owners hide from the product.

Only the copy in the root of the path counts. Patterns that would hide everything the product writes are
refused when the file is read, because a mirror that cannot see its own files would write them again and
again.
"""

from __future__ import annotations

from collections.abc import Sequence

from .globs import Pattern, parse_pattern
from .issues import Issue, IssueKind

IGNORE_FILE = ".gittargetignore"

MAX_PATTERNS = 500
MAX_PATTERN_LENGTH = 1024
_CATASTROPHIC = frozenset({"*", "**", "/", "*.yaml", "*.yml", "**/*", "**/*.yaml", "**/*.yml"})


class IgnoreRules:
    """Parsed rules and the issues found in them; nothing matches when there is no file."""

    def __init__(self, patterns: Sequence[Pattern] = (), issues: tuple[Issue, ...] = ()) -> None:
        self.issues = issues
        self._patterns = tuple(reversed(patterns))
        self._folders: dict[str, bool] = {"": False}

    def matches(self, path: str) -> bool:
        """True when the file at this path is hidden, by itself or by a folder above it."""
        if not self._patterns:
            return False
        return self.hides_folder_of(path) or self._matched(path, folder=False)

    def _matched(self, path: str, *, folder: bool) -> bool:
        """Whether the last pattern that names this very entry hides it."""
        parts = path.split("/")
        for pattern in self._patterns:
            if pattern.fits(parts, folder=folder):
                return not pattern.negated
        return False

    def hides_folder_of(self, path: str) -> bool:
        """True when a folder above this path is excluded; nothing below it can be included again."""
        return bool(self._patterns) and self._hides(path.rpartition("/")[0])

    def _hides(self, folder: str) -> bool:
        hidden = self._folders.get(folder)
        if hidden is None:
            parent = folder.rpartition("/")[0]
            hidden = self._hides(parent) or self._matched(folder, folder=True)
            self._folders[folder] = hidden
        return hidden


NO_RULES = IgnoreRules()


def parse_ignore(data: bytes) -> IgnoreRules:
    """Read an ignore file (UTF-8, gitignore syntax, lines trimmed).

    A pattern that hides every managed path is an issue and is left out of the rules, so that the rest of
    the path can still be reported on.
    """
    patterns: list[Pattern] = []
    issues: list[Issue] = []
    for raw in data.decode("utf-8", errors="replace").lstrip("\ufeff").splitlines():
        line = _trimmed(raw)
        if not line or line.startswith("#"):
            continue
        if line in _CATASTROPHIC:
            issues.append(
                Issue(
                    IssueKind.IGNORE_SHADOWS_MANAGED,
                    IGNORE_FILE,
                    f'pattern "{line}" would hide every manifest of this path; '
                    "list the files or folders that are not to be managed instead",
                )
            )
            continue
        if len(patterns) == MAX_PATTERNS or len(line) > MAX_PATTERN_LENGTH:
            text = (
                f"holds over {MAX_PATTERNS} patterns, or one of over {MAX_PATTERN_LENGTH} characters; "
                "name folders instead of single files"
            )
            issues.append(Issue(IssueKind.LIMIT_EXCEEDED, IGNORE_FILE, f"{IGNORE_FILE} {text}"))
            break
        pattern = parse_pattern(line)
        if pattern is not None:
            patterns.append(pattern)
    return IgnoreRules(patterns, tuple(issues))


def refused_rules(size: int, limit: int) -> IgnoreRules:
    """For an ignore file that is too big to be read: what it hides is unknown, so the path is refused."""
    text = f"{IGNORE_FILE} has {size} bytes, the limit is {limit}; name folders instead of single files"
    return IgnoreRules((), (Issue(IssueKind.LIMIT_EXCEEDED, IGNORE_FILE, text),))


def _trimmed(raw: str) -> str:
    """The line without blanks around it; a blank behind a backslash belongs to the pattern."""
    line = raw.strip()
    escaped = (len(line) - len(line.rstrip("\\"))) % 2 == 1
    return line + " " if escaped and raw.lstrip() != line else line
