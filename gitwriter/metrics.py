"""Metrics of the branch writers. Labels are bounded: branches, outcomes, types; never an object's name."""

from __future__ import annotations

from reverser.instruments import Counter, Histogram
from reverser.store.model import BranchKey

_BRANCH = ("provider_namespace", "provider_name", "branch")
_TYPE = ("group", "version", "resource")

COMMITS = Counter("gitopsreverser_commits", "Commits that reached the remote", (*_BRANCH, "author_kind"))
PUSHES = Counter("gitopsreverser_git_operations", "Pushes that reached the remote")
OBJECTS_WRITTEN = Counter("gitopsreverser_objects_written", "Documents created, updated or deleted in Git")
PUSH_ATTEMPTS = Counter("gitopsreverser_git_push_attempts", "Push attempts by result", (*_BRANCH, "result"))
PUSH_CONFLICTS = Counter("gitopsreverser_git_push_conflicts", "Pushes that lost a race", _BRANCH)
PUSH_SECONDS = Histogram(
    "gitopsreverser_git_push_duration_seconds",
    "Duration of one push",
    _BRANCH,
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)
WINDOWS = Counter("gitopsreverser_windows", "Closed windows by reason", (*_BRANCH, "reason"))
SWEPT = Counter("gitopsreverser_resync_sweep_deletes", "Documents removed by sweeps", _TYPE)
KEPT = Counter(
    "gitopsreverser_prune_retained_documents",
    "Documents whose object is gone and that the prune mode was first seen to keep",
    ("mode", "gittarget_namespace", "gittarget_name"),
)
REPLAYS_FAILED = Counter(
    "gitopsreverser_resync_background_failures",
    "Sweeps that could not be applied",
    ("gittarget_namespace", "gittarget_name"),
)
SKIPPED = Counter("gitopsreverser_changes_skipped", "Changes that were deliberately not written", ("reason",))
PLACEMENTS = Counter(
    "gitopsreverser_placements",
    "New documents by the rule that placed them, and by whether they came to stand in a file of others",
    ("source", "disposition", *_TYPE, "gittarget_namespace", "gittarget_name"),
)
PLACEMENT_REFUSALS = Counter(
    "gitopsreverser_placement_refusals", "New objects for which there was no permitted place", ("reason",)
)


def branch_labels(branch: BranchKey) -> tuple[str, str, str]:
    """The label values of a branch, in the order of ``_BRANCH``."""
    return branch.namespace, branch.provider, branch.branch
