"""The verdict on a target's folder, as the status shows it: pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from gitwriter.git.objects import SUBMODULE, SYMLINK, TreeEntry
from gitwriter.manifests import Inventory, Issue, check, refusal_message, refusal_reason
from reverser.store.model import PathVerdict

SHOWN_ISSUES = 20
_OBSTACLES = {
    SYMLINK: "a symbolic link, which is never followed",
    SUBMODULE: "a Git submodule, which is never entered",
}


def verdict_of(inventory: Inventory, *, now_ms: int, remarks: tuple[str, ...] = ()) -> PathVerdict:
    """Accepted, or refused with its issues."""
    issues = check(inventory)
    if issues:
        return refused_verdict(issues, now_ms=now_ms)
    return PathVerdict(accepted=True, checked_ms=now_ms, remarks=remarks)


def refused_verdict(issues: Sequence[Issue], *, now_ms: int, contents: str = "") -> PathVerdict:
    """A refusal; the first text is the message of the condition, the others name the further issues."""
    further = (f"{issue.path}: {issue.message}" for issue in issues[1:SHOWN_ISSUES])
    return PathVerdict(
        accepted=False,
        reason=refusal_reason(issues),
        issues=(refusal_message(issues), *further),
        total_issues=len(issues),
        checked_ms=now_ms,
        contents=contents,
    )


def contents_of(inventory: Inventory) -> str:
    """A digest of all that a plan reads of a folder, the bases outside of it included.

    What a plan alone finds out (a build that fails, a place that is hidden) no look at the structure sees,
    and it cannot be otherwise before this changes.
    """
    digest = hashlib.sha256()
    for path in sorted(inventory.files):
        entry = inventory.files[path].entry
        digest.update(f"{entry.mode} {entry.blob} {path}\0".encode(errors="backslashreplace"))
    for path, data in sorted(inventory.outside.files.items()):
        digest.update(f"{len(data)} {path}\0".encode(errors="backslashreplace") + data)
    return digest.hexdigest()


def obstacle_verdict(obstacle: TreeEntry, *, now_ms: int) -> PathVerdict:
    """The target path itself leads through something that is not a folder."""
    kind = _OBSTACLES.get(obstacle.mode, "a file")
    text = f"Git path refused at {obstacle.path}: it is {kind}; replace it by a folder"
    return PathVerdict(
        accepted=False, reason="UnsupportedContent", issues=(text,), total_issues=1, checked_ms=now_ms
    )
