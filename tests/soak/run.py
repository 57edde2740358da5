"""One soak run: episodes of changes and faults, each judged when everything is written."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from reverser.errors import KubeConflict, KubeNotFound, ReverserError
from reverser.kube.paths import core_path
from reverser.store import Store
from tests.e2e.workspace import Workspace
from tests.soak.faults import Injector
from tests.soak.fleet import Fleet
from tests.soak.oracle import Record, State, Verdict, judge
from tests.soak.plan import Change, Episode, Fault, episodes

NAMESPACE = "soak"
SETTLE_SECONDS = 240.0
API_SECONDS = 60.0


@dataclass(slots=True)
class Result:
    """What a run did and found."""

    seed: int
    episodes: int = 0
    changes: int = 0
    faults: Counter[Fault] = field(default_factory=Counter)
    verdict: Verdict = field(default_factory=Verdict)
    longest_behind: float = 0.0
    deaths: list[str] = field(default_factory=list)

    def document(self) -> dict[str, object]:
        """For machines."""
        faults = {fault.value: count for fault, count in sorted(self.faults.items())}
        return {**asdict(self), "faults": faults}

    def table(self) -> str:
        """For people."""
        verdict = self.verdict
        rows: list[tuple[str, object]] = [
            ("seed", self.seed),
            ("episodes", self.episodes),
            ("changes made", self.changes),
            ("faults injected", sum(self.faults.values())),
            *((f"  {fault}", count) for fault, count in sorted(self.faults.items())),
            ("changes lost", verdict.lost),
            ("changes invented", verdict.invented),
            ("changes doubled", verdict.doubled),
            ("changes out of order", verdict.reordered),
            ("states that a replay passed over", verdict.skipped),
            ("processes that ended by themselves", ", ".join(self.deaths) or "none"),
            ("longest time behind", f"{self.longest_behind:.1f} s"),
        ]
        return "\n".join(f"{name:44} {value}" for name, value in rows)


def soak(
    folder: Path, *, seed: int, seconds: float, longest_pause: float, say: Callable[[str], None]
) -> Result:
    """Run episodes until the time is over, and end at the first that went wrong."""
    with (folder / "fleet.log").open("w", encoding="utf-8") as output:
        fleet = Fleet.start(folder, output)
        try:
            return _Run(fleet, folder, seed, say).run(seconds, longest_pause)
        finally:
            fleet.stop()


class _Run:
    def __init__(self, fleet: Fleet, folder: Path, seed: int, say: Callable[[str], None]) -> None:
        self._fleet = fleet
        self._say = say
        self._seed = seed
        self._space = Workspace(fleet.kube(), NAMESPACE, folder)
        self._record = Record(NAMESPACE)
        self._injector = Injector(fleet, self._space, self._record)
        self._store = fleet.store()

    def run(self, seconds: float, longest_pause: float) -> Result:
        result = Result(self._seed)
        self._space.configmap("first", {"v": "0"})
        self._space.base(window="0s")
        self._space.in_git("first", seconds=60)
        deadline = time.monotonic() + seconds
        for episode in episodes(self._seed, longest_pause=longest_pause):
            if time.monotonic() >= deadline or not result.verdict.clean:
                break
            self._episode(episode, result)
        result.deaths = self._fleet.deaths
        problems = self._space.git.problems()
        if problems:
            result.verdict.problems.append(f"git fsck: {problems}")
        self._store.close()
        return result

    def _episode(self, episode: Episode, result: Result) -> None:
        names = ", ".join(f"{step.fault} ({step.target}, {step.seconds:.0f} s)" for step in episode.steps)
        self._record.gather(self._fleet.cluster_files)
        made_before = self._record.objects()
        written_before = self._written(made_before)
        began = time.monotonic()
        for number, change in enumerate(episode.changes):
            for step in episode.steps:
                if step.after == number:
                    self._injector.begin(step)
            self._make(change)
            self._fleet.check()
        self._injector.finish()
        behind = self._settle()
        self._record.gather(self._fleet.cluster_files)
        made = self._record.objects()
        new = {name: states[len(made_before.get(name, ())) :] for name, states in made.items()}
        verdict = judge(
            new, _fresh(self._written(made), written_before, made_before, episode), exact=episode.exact
        )
        if behind is None:
            verdict.problems.append(f"not written after {SETTLE_SECONDS:.0f} s: {self._difference()}")
        verdict.problems += self._injector.failed
        result.verdict.add(verdict)
        result.episodes += 1
        result.changes += sum(len(states) for states in new.values())
        result.faults.update(step.fault for step in episode.steps if step.fault is not Fault.NONE)
        result.longest_behind = max(result.longest_behind, behind or SETTLE_SECONDS)
        good = "ok" if verdict.clean else "WRONG"
        self._say(
            f"episode {episode.number}: {len(episode.changes)} changes, {names}: {good}, "
            f"{time.monotonic() - began:.0f} s, behind {behind or SETTLE_SECONDS:.1f} s"
        )

    def _make(self, change: Change) -> None:
        """Until the API server has taken it: what it took twice it recorded twice."""
        deadline = time.monotonic() + API_SECONDS
        path = core_path("configmaps", namespace=NAMESPACE, name=change.name)
        while True:
            try:
                if change.value is None:
                    self._space.kube.delete(path)
                else:
                    self._put(change.name, str(change.value))
                break
            except KubeNotFound:
                break  # a deletion whose answer was lost
            except ReverserError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
                self._fleet.check()
        time.sleep(change.pause)

    def _put(self, name: str, value: str) -> None:
        try:
            self._space.set(name, value)
        except KubeNotFound:
            try:
                self._space.configmap(name, {"v": value})
            except KubeConflict:
                self._space.set(name, value)

    def _settle(self) -> float | None:
        """Seconds until everything is written, None if it takes too long."""
        began = time.monotonic()
        while time.monotonic() - began < SETTLE_SECONDS:
            self._fleet.check()
            try:
                if _drained(self._store) and not self._difference():
                    return time.monotonic() - began
            except ReverserError:
                pass  # what was hit has not come back yet
            time.sleep(0.2)
        return None

    def _difference(self) -> list[str]:
        """The objects whose file does not show their present state."""
        path = core_path("configmaps", namespace=NAMESPACE)
        live = {
            item["metadata"]["name"]: item["data"]["v"]
            for item in self._space.kube.list(path).items
            if item["metadata"]["name"] != "kube-root-ca.crt"
        }
        files = self._space.git.files(f"live/{NAMESPACE}/configmaps")
        there = {Path(file).stem for file in files}
        wrong = set(live) ^ there
        for name in set(live) & there:
            content = self._space.git.read(self._space.file(name)) or b""
            if f'v: "{live[name]}"'.encode() not in content:
                wrong.add(name)
        return sorted(wrong)

    def _written(self, names: Mapping[str, Sequence[State]]) -> dict[str, list[State]]:
        return {
            name: [value or None for value in self._space.values(name)]
            for name in names
            if name != "kube-root-ca.crt"
        }


def _fresh(
    written: Mapping[str, Sequence[State]],
    before: Mapping[str, Sequence[State]],
    made_before: Mapping[str, Sequence[State]],
    episode: Episode,
) -> dict[str, list[State]]:
    """What an episode added to Git. Where history may have been cut off, by value and not by number."""
    if episode.exact:
        return {name: list(states[len(before.get(name, ())) :]) for name, states in written.items()}
    found: dict[str, list[State]] = {}
    for name, states in written.items():
        old = {state for state in made_before.get(name, ()) if state is not None}
        found[name] = [state for state in states if state not in old]
        if states and states[-1] is not None:
            found[name] = [state for state in found[name] if state is not None]
    return found


def _drained(store: Store) -> bool:
    return all(store.read_branch(branch).entries == 0 for branch in store.known_branches())
