"""The ignore file of a target path: what the repository's people keep out of the product's sight.

Only the copy in the root of the path counts. Patterns that would hide everything the product writes are
refused when the file is read, because a mirror that cannot see its own files would write them again and
again.
"""

from __future__ import annotations

import pathspec

from .issues import Issue, IssueKind

IGNORE_FILE = ".gittargetignore"

_CATASTROPHIC = frozenset({"*", "**", "/", "*.yaml", "*.yml", "**/*", "**/*.yaml", "**/*.yml"})


class IgnoreRules:
    """Parsed rules and the issues found in them; nothing matches when there is no file."""

    def __init__(self, spec: pathspec.GitIgnoreSpec | None = None, issues: tuple[Issue, ...] = ()) -> None:
        self.issues = issues
        self._spec = spec
        self._folders: dict[str, bool] = {"": False}

    def matches(self, path: str) -> bool:
        """True when the file at this path is hidden, by itself or by a folder above it."""
        if self._spec is None:
            return False
        return self.hides_folder_of(path) or bool(self._spec.match_file(path))

    def hides_folder_of(self, path: str) -> bool:
        """True when a folder above this path is excluded; nothing below it can be included again."""
        return self._spec is not None and self._hides(path.rpartition("/")[0])

    def _hides(self, folder: str) -> bool:
        hidden = self._folders.get(folder)
        if hidden is None:
            parent = folder.rpartition("/")[0]
            spec = self._spec
            hidden = self._hides(parent) or (spec is not None and bool(spec.match_file(folder + "/")))
            self._folders[folder] = hidden
        return hidden


NO_RULES = IgnoreRules()


def parse_ignore(data: bytes) -> IgnoreRules:
    """Read an ignore file (UTF-8, gitignore syntax, lines trimmed).

    A pattern that hides every managed path is an issue and is left out of the rules, so that the rest of
    the path can still be reported on.
    """
    lines: list[str] = []
    issues: list[Issue] = []
    for raw in data.decode("utf-8", errors="replace").lstrip("\ufeff").splitlines():
        line = raw.strip()
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
        lines.append(line)
    if not lines:
        return IgnoreRules(None, tuple(issues))
    return IgnoreRules(pathspec.GitIgnoreSpec.from_lines(lines), tuple(issues))
