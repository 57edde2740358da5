"""Commit windows, computed from the journal: ``plan_windows`` and the order in which its units may go."""

from gitwriter.windows.order import displaced_by, instead_of, passable, paths_overlap
from gitwriter.windows.plan import (
    AttachDue,
    ClosedWindow,
    FoldedEvent,
    OpenWindow,
    Plan,
    SweepUnit,
    TargetSettings,
    Unit,
    scopes_of,
)
from gitwriter.windows.planner import plan_windows

__all__ = [
    "AttachDue",
    "ClosedWindow",
    "FoldedEvent",
    "OpenWindow",
    "Plan",
    "SweepUnit",
    "TargetSettings",
    "Unit",
    "displaced_by",
    "instead_of",
    "passable",
    "paths_overlap",
    "plan_windows",
    "scopes_of",
]
