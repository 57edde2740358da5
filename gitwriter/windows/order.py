"""Which unit may pass which (J17): order is kept per folder, not per target.

Two targets whose folders do not overlap cannot see each other's commits, so one that waits need not hold
the other. Two targets on one folder (a re-created target, say) must go in order whatever their UIDs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gitwriter.windows.plan import ClosedWindow, SweepUnit, Unit, object_key, scopes_of
from reverser.kinds.model import PruneMode
from reverser.store.model import Operation


def paths_overlap(one: str, other: str) -> bool:
    """Whether two folders are the same or one holds the other. The empty path is the repository root."""
    a = [part for part in one.split("/") if part not in ("", ".")]
    b = [part for part in other.split("/") if part not in ("", ".")]
    shorter = min(len(a), len(b))
    return a[:shorter] == b[:shorter]


def _path(unit: Unit) -> str:
    return unit.boundary.frozen.path if unit.boundary.frozen else ""


def passable(units: Sequence[Unit], waiting: Collection[str]) -> list[Unit]:
    """The units that may go now, in order, while those whose boundary ids are ``waiting`` may not."""
    blocked: list[str] = []
    out: list[Unit] = []
    for unit in units:
        path = _path(unit)
        if unit.boundary.id in waiting or any(paths_overlap(path, other) for other in blocked):
            blocked.append(path)
        else:
            out.append(unit)
    return out


def displaced_by(sweep: SweepUnit, units: Iterable[Unit]) -> list[Unit]:
    """Units of predecessors on the same folder that a first sweep makes pointless: settle them as retired.

    Only units before the sweep count, so ``units`` is in the plan's order.
    """
    if not sweep.sweep.first:
        return []
    path = [part for part in _path(sweep).split("/") if part not in ("", ".")]
    out: list[Unit] = []
    for unit in units:
        if unit.boundary.id == sweep.boundary.id:
            break
        same = [part for part in _path(unit).split("/") if part not in ("", ".")] == path
        if same and unit.boundary.target.uid != sweep.boundary.target.uid:
            out.append(unit)
    return out


def instead_of(offender: Unit, units: Sequence[Unit]) -> list[Unit]:
    """What may be pushed in place of a unit that the remote refuses: what follows it on its folder, up to the
    first unit that says anew what became of something in it. Empty where nothing does, or where the unit
    deletes what no replay would delete.

    ``units`` are in the plan's order. Nothing in front of that unit speaks of the offender's objects, so all
    of it can be built without the offender.
    """
    follow: list[Unit] = []
    ids = [unit.boundary.id for unit in units]
    if offender.boundary.id not in ids:
        return follow
    for unit in units[ids.index(offender.boundary.id) + 1 :]:
        if not paths_overlap(_path(unit), _path(offender)):
            continue
        if unit.boundary.target.uid != offender.boundary.target.uid:
            break
        follow.append(unit)
        if _says_anew(unit, offender):
            return [] if _deletes_alone(offender, follow) else follow
    return []


def _says_anew(unit: Unit, earlier: Unit) -> bool:
    """Whether ``unit`` holds a later state of something that ``earlier`` holds, too."""
    if isinstance(unit, ClosedWindow) and isinstance(earlier, ClosedWindow):
        return not _objects(unit).isdisjoint(_objects(earlier))
    return not set(scopes_of(unit)).isdisjoint(scopes_of(earlier))


def _deletes_alone(offender: Unit, follow: Iterable[Unit]) -> bool:
    """Whether a deletion would be lost: no replay repeats it, and nothing that follows says more."""
    frozen = offender.boundary.frozen
    if isinstance(offender, SweepUnit) or frozen is None or frozen.prune != PruneMode.ON_EVENT:
        return False
    said = {name for unit in follow if isinstance(unit, ClosedWindow) for name in _objects(unit)}
    events = (folded.event for folded in offender.events)
    return any(event.operation is Operation.DELETE and object_key(event) not in said for event in events)


def _objects(window: ClosedWindow) -> set[tuple[str, str, str]]:
    return {object_key(folded.event) for folded in window.events}
