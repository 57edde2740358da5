"""Lines for an ignore file that hide what refuses a path and need not be managed.

A repository of years has hundreds of such files. A folder that holds nothing else becomes one line, and so do
files of one suffix; a Helm chart is one folder whatever lies in it. Nothing that would be managed is hidden
outside charts, and a manifest with a mistake is for its owner to correct, not to hide.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from .ignore import MAX_PATTERNS
from .issues import Issue, IssueKind

_HIDEABLE = frozenset(
    (
        IssueKind.FOREIGN_FILE,
        IssueKind.FOREIGN_SYMLINK,
        IssueKind.FOREIGN_SUBMODULE,
        IssueKind.NON_KRM_YAML,
    )
)
_CHART = "Chart.yaml"
_ENOUGH_OF_A_SUFFIX = 3
_SPECIAL = re.compile(r"([\\*?\[])")


def ignore_lines(issues: Iterable[Issue], needed: Iterable[str]) -> tuple[str, ...]:
    """The lines, sorted; ``needed`` are the paths of documents and kustomizations that are to be seen."""
    listed = list(issues)
    hideable = {issue.path for issue in listed if issue.kind in _HIDEABLE}
    charts = {posixpath.dirname(path) for path in hideable if posixpath.basename(path) == _CHART} - {""}
    in_charts = {issue.path: top for issue in listed if (top := _top(issue.path, charts)) is not None}
    blocked = {
        folder
        for path in (*needed, *(issue.path for issue in listed if issue.path not in hideable))
        if path not in hideable and _top(path, charts) is None
        for folder in _folders(path)
    }
    held = Counter(folder for path in hideable for folder in _folders(path))
    free = {
        folder
        for folder, files in held.items()
        if folder not in blocked and (files > 1 or posixpath.basename(folder).startswith("."))
    }
    places = {path: _top(path, free) or in_charts.get(path) for path in {*hideable, *in_charts}}
    lines = _lines(places)
    if len(lines) > MAX_PATTERNS:  # too many folders: what has a common suffix goes by that
        lines = _lines({path: None if _suffix(path) else folder for path, folder in places.items()})
    return tuple(sorted(line for line in lines if line.isprintable()))


def _lines(places: Mapping[str, str | None]) -> set[str]:
    """Lines for files by the folder to hide; None for a file that goes by its suffix or its name."""
    suffixes = Counter(_suffix(path) for path, folder in places.items() if folder is None)
    lines: set[str] = set()
    for path, folder in places.items():
        suffix = _suffix(path)
        if folder is not None:
            lines.add(f"/{_escaped(folder)}/")
        elif suffix and suffixes[suffix] >= _ENOUGH_OF_A_SUFFIX:
            lines.add(f"*{_escaped(suffix)}")
        else:
            lines.add(f"/{_escaped(path)}")
    return lines


def _folders(path: str) -> list[str]:
    """The folders above a path, the outermost first, without the root."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:size]) for size in range(1, len(parts) + 1)]


def _top(path: str, folders: Collection[str]) -> str | None:
    """The outermost of the folders that hold the path."""
    return next((folder for folder in _folders(path) if folder in folders), None)


def _suffix(path: str) -> str:
    """The suffix of a file that is no YAML; empty where it has none."""
    suffix = posixpath.splitext(posixpath.basename(path))[1]
    return "" if suffix.lower() in (".yaml", ".yml") else suffix


def _escaped(text: str) -> str:
    text = _SPECIAL.sub(r"\\\1", text)
    return f"{text[:-1]}\\ " if text.endswith(" ") else text
