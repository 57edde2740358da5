"""The overview: every target with its verdict, the worst first, and the totals above them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from reverser.dashboard.forge import commit_url
from reverser.dashboard.readings import (
    BranchReading,
    Reading,
    branches_by_worker,
    targets_by_watcher,
)
from reverser.dashboard.verdicts import State, Verdict, judge
from reverser.history.models import Commit, TargetState
from reverser.history.queries import Hour, hours, latest_commits, living_targets
from reverser.store.model import BranchKey

PAGE_ROWS = 100


@dataclass(frozen=True, slots=True)
class Row:
    """One target as the overview shows it."""

    target: TargetState
    verdict: Verdict
    branch: BranchReading | None
    commit: Commit | None = None

    @property
    def commit_link(self) -> str:
        """The commit's page at the forge, or nothing."""
        return commit_url(self.target.url, self.commit.sha) if self.commit else ""

    @property
    def depth(self) -> int | None:
        """Entries in the journal of the target's branch; None where the store does not answer."""
        return self.branch.record.entries if self.branch else None


@dataclass(frozen=True, slots=True)
class Overview:
    """The page's content."""

    rows: Sequence[Row]
    total: int
    shown: int
    """Rows that match the filters, of which ``rows`` is one page."""
    states: Sequence[tuple[State, int]]
    problems: Sequence[str]
    """Problems of the whole installation: no store, no watcher, no worker."""
    hours: Sequence[Hour]
    watchers: Sequence[tuple[str, list[str]]]
    workers: Sequence[tuple[str, list[BranchReading]]]
    pages: int
    page: int
    now: datetime
    incomplete: int = 0
    """Targets that are up to date but for objects that are left out."""

    @property
    def worst(self) -> State | None:
        """The state that the headline shows."""
        return self.states[0][0] if self.states else None

    @property
    def tone(self) -> State:
        """The colour of the headline: never a good one while the whole installation has a problem."""
        worst = self.worst if self.worst is not None else State.UNKNOWN
        return min(worst, State.LATE) if self.problems and self.total else worst

    @property
    def behind(self) -> int:
        """Targets whose Git is not, or may not be, up to date."""
        return sum(count for state, count in self.states if state < State.WRITING)


def branch_of(target: TargetState) -> BranchKey:
    """The branch that a target writes."""
    return BranchKey(target.namespace, target.provider, target.branch)


def build(
    reading: Reading, *, text: str = "", state: str = "", namespace: str = "", page: int = 1
) -> Overview:
    """The overview under these filters: four SQL queries whatever the number of targets."""
    now = datetime.now(tz=UTC)
    now_ms = reading.now_ms or int(now.timestamp() * 1000)
    everything = [_row(target, reading, now_ms) for target in living_targets()]
    everything.sort(key=lambda row: (row.verdict.state, row.target.namespace, row.target.name))
    counts = Counter(row.verdict.state for row in everything)
    matching = [row for row in everything if _matches(row, text.lower(), state, namespace)]
    pages = max(1, -(-len(matching) // PAGE_ROWS))
    page = min(max(1, page), pages)
    chosen = matching[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    commits = latest_commits(row.target for row in chosen)
    names = {row.target.uid: str(row.target) for row in everything}
    return Overview(
        rows=[
            Row(
                row.target,
                row.verdict,
                row.branch,
                commits.get((row.target.namespace, row.target.name)),
            )
            for row in chosen
        ],
        total=len(everything),
        shown=len(matching),
        states=sorted(counts.items()),
        problems=_problems(reading, everything),
        hours=hours(now),
        watchers=targets_by_watcher(reading, names),
        workers=branches_by_worker(reading),
        pages=pages,
        page=page,
        now=now,
        incomplete=sum(row.verdict.state is State.CURRENT and bool(row.verdict.reason) for row in everything),
    )


def _row(target: TargetState, reading: Reading, now_ms: int) -> Row:
    branch = reading.branches.get(branch_of(target).id)
    return Row(target, judge(target, branch, now_ms=now_ms), branch)


def _matches(row: Row, text: str, state: str, namespace: str) -> bool:
    target = row.target
    if state and row.verdict.state.slug != state:
        return False
    if namespace and target.namespace != namespace:
        return False
    if not text:
        return True
    words = f"{target} {target.provider} {target.branch} {target.path} {row.verdict.reason}".lower()
    return all(word in words for word in text.split())


def _problems(reading: Reading, rows: Sequence[Row]) -> list[str]:
    if reading.problem:
        return [f"What waits for Git cannot be told: {reading.problem}"]
    found = []
    if not reading.watchers:
        found.append(
            "No watcher is running: changes in the cluster are not seen. Start one (manage.py watch)."
        )
    if not branches_by_worker(reading):
        found.append(
            "No worker is running: changes wait and are not written. Start one (celery -A reverser worker)."
        )
    elif any(row.verdict.state is State.LATE for row in rows) and not any(
        branches for _, branches in branches_by_worker(reading)
    ):
        found.append("Changes wait and no worker writes. The log of the workers tells why.")
    return found
