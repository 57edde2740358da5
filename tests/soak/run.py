"""One soak run: episodes of changes and faults, each judged when everything is written."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reverser.errors import KubeConflict, KubeNotFound, ReverserError
from reverser.kube.paths import core_path
from reverser.store import Store
from tests.e2e.audited import Person
from tests.e2e.hunt import Plants
from tests.e2e.trust import ENCRYPTION, SECRETS, age_identity
from tests.e2e.workspace import Workspace, until
from tests.soak.canary import CONTROL, Search, planted
from tests.soak.faults import GROUP, TAKE_OVER_SECONDS, Injector, TakeOver
from tests.soak.fleet import Fleet
from tests.soak.judging import VALUES, Judge
from tests.soak.oracle import Authors, Record, State, Verdict
from tests.soak.plan import SECRET_NAMES, Change, Episode, Fault, episodes
from tests.soak.stores import SERVERS

NAMESPACE = "soak"
COMMITTER = "GitOps Reverser <noreply@configbutler.ai>"
GIZMOS = {"apiGroups": [GROUP], "apiVersions": ["*"], "resources": ["gizmos"]}
FOLDERS = {
    "configmaps": f"live/{NAMESPACE}/configmaps",
    "secrets": f"live/{NAMESPACE}/secrets",
    "gizmos": f"live/{NAMESPACE}/{GROUP}/gizmos",
}
SETTLE_SECONDS = 240.0
API_SECONDS = 60.0


@dataclass(slots=True)
class Result:
    """What a run did and found."""

    seed: int
    only: Collection[Fault] = tuple(Fault)
    episodes: int = 0
    changes: int = 0
    faults: Counter[Fault] = field(default_factory=Counter)
    left_out: dict[Fault, str] = field(default_factory=dict)
    verdict: Verdict = field(default_factory=Verdict)
    authors: Authors = field(default_factory=Authors)
    secrets: int = 0
    plain: int = 0
    looked: Counter[str] = field(default_factory=Counter)
    longest_behind: float = 0.0
    behind: dict[Fault, float] = field(default_factory=dict)
    """The longest time behind in an episode with this fault."""
    take_overs: list[TakeOver] = field(default_factory=list)
    deaths: list[str] = field(default_factory=list)

    def document(self) -> dict[str, object]:
        """For machines."""
        faults = {fault.value: count for fault, count in sorted(self.faults.items())}
        left_out = {fault.value: why for fault, why in sorted(self.left_out.items())}
        behind = {fault.value: round(seconds, 2) for fault, seconds in sorted(self.behind.items())}
        return {
            **asdict(self),
            "only": sorted(fault.word for fault in self.only),
            "faults": faults,
            "left_out": left_out,
            "not_reached": [fault.value for fault in self.not_reached],
            "behind": behind,
            "looked": dict(self.looked),
            "verdict": asdict(self.verdict) | {"repeated": len(self.verdict.repeated)},
        }

    @property
    def longest_take_over(self) -> float:
        """Seconds from a fault until a change made right after it was in Git."""
        return max((each.seconds for each in self.take_overs), default=0.0)

    @property
    def not_reached(self) -> list[Fault]:
        """What could have come and did not, for want of time."""
        known = {Fault.NONE, *self.faults, *self.left_out}
        return sorted(fault for fault in self.only if fault not in known)

    def table(self) -> str:
        """For people."""
        verdict = self.verdict
        rows: list[tuple[str, object]] = [
            ("seed", self.seed),
            ("episodes", self.episodes),
            ("changes made", self.changes),
            ("faults injected", sum(self.faults.values())),
            *(
                (f"  {fault}", f"{count}, behind {self.behind.get(fault, 0.0):.1f} s at most")
                for fault, count in sorted(self.faults.items())
            ),
            *((f"  not reached: {fault}", "the time was over") for fault in self.not_reached),
            *((f"  left out: {fault}", why) for fault, why in sorted(self.left_out.items())),
            ("changes lost", verdict.lost),
            ("changes invented", verdict.invented),
            ("changes doubled", verdict.doubled),
            ("changes out of order", verdict.reordered),
            ("changes misattributed", self.authors.misattributed),
            ("  named, left to the committer", f"{self.authors.named}, {self.authors.by_committer}"),
            ("plain secrets found", self.plain),
            ("  values planted", self.secrets),
            ("  searched", ", ".join(f"{count} {kind}" for kind, count in sorted(self.looked.items()))),
            ("states that a replay passed over", verdict.skipped),
            ("states repeated after a fail-over", len(verdict.repeated)),
            ("processes that ended by themselves", ", ".join(self.deaths) or "none"),
            ("longest time behind", f"{self.longest_behind:.1f} s"),
            (
                "longest until others had taken over",
                f"{self.longest_take_over:.1f} s in {len(self.take_overs)} cases",
            ),
            *(
                (f"  {fault}", ", ".join(f"{each.seconds:.1f} ({each.target})" for each in found))
                for fault in sorted({each.fault for each in self.take_overs})
                if (found := [each for each in self.take_overs if each.fault is fault])
            ),
        ]
        return "\n".join(f"{name:44} {value}" for name, value in rows)


def soak(
    folder: Path,
    *,
    seed: int,
    seconds: float,
    longest_pause: float,
    say: Callable[[str], None],
    only: Collection[Fault] = tuple(Fault),
    most_take_over: float = TAKE_OVER_SECONDS,
) -> Result:
    """Run episodes until the time is over, and end at the first that went wrong.

    A change that came into Git later than ``most_take_over`` seconds after a process was killed or stopped,
    or after the store's primary was lost, is wrong too.
    """
    with (folder / "fleet.log").open("w", encoding="utf-8") as output:
        fleet = Fleet.start(folder, output)
        try:
            return _Run(fleet, folder, seed, say, most_take_over).run(seconds, longest_pause, only)
        finally:
            fleet.stop()


class _Run:
    def __init__(
        self, fleet: Fleet, folder: Path, seed: int, say: Callable[[str], None], most_take_over: float
    ) -> None:
        self._fleet = fleet
        self._say = say
        self._seed = seed
        self._most_take_over = most_take_over
        self._space = Workspace(fleet.kube(), NAMESPACE, folder)
        self._record = Record(NAMESPACE, VALUES, _counts)
        self._judge = Judge(self._record, self._space.repository, FOLDERS)
        self._injector = Injector(fleet, self._space, self._record)
        self._store = fleet.store()
        self._plants = Plants()
        self._plants_made = 0
        self._planted: dict[str, str] = {}
        """The newest content of each Secret."""
        self._makers: dict[str, list[tuple[State, str]]] = {}
        """Each state asked for, and the author line of who did, by object."""

    def run(self, seconds: float, longest_pause: float, only: Collection[Fault]) -> Result:
        result = Result(self._seed, only, left_out=dict(self._fleet.machine.missing))
        self._prepare()
        deadline = time.monotonic() + seconds
        for episode in episodes(self._seed, longest_pause=longest_pause, only=only):
            if time.monotonic() >= deadline or not result.verdict.clean:
                break
            self._episode(episode, result)
        result.deaths = self._fleet.deaths
        self._judge_take_overs(result)
        result.authors = self._judge.authors(self._makers, committer=COMMITTER)
        result.verdict.problems += result.authors.problems
        self._search(result)
        problems = self._space.git.problems()
        if problems:
            result.verdict.problems.append(f"git fsck: {problems}")
        self._store.close()
        return result

    def _prepare(self) -> None:
        space = self._space
        self._injector.definition = space.definition(GROUP)
        space.custom(GROUP, "g0", v="0")
        space.custom(GROUP, "canary", v="0")
        space.configmap("first", {"v": "0", "control": CONTROL})
        for name in SECRET_NAMES:
            self._make(Change(name, 0, 0.0))
        space.base(window="0s", rules=(SECRETS, GIZMOS), encryption=ENCRYPTION)
        space.in_git("first", seconds=60)
        until(self._settled, "the first replay is in Git", 60)
        self._store.client.set("control", CONTROL)
        for state in map(self._fleet.state_dir, (*SERVERS, *self._fleet.replicas)):
            (state / "control").write_text(CONTROL, encoding="utf-8")
        self._judge.identity = age_identity(space)
        self._plants.add("the private age key", self._judge.identity)
        self._record.gather(self._fleet.cluster_files)
        self._judge.begin()

    def _judge_take_overs(self, result: Result) -> None:
        result.take_overs = self._injector.take_overs
        result.verdict.problems += [
            f"{each.told}: a change came into Git only after {each.seconds:.1f} s"
            for each in result.take_overs
            if each.seconds > self._most_take_over
        ]

    def _search(self, result: Result) -> None:
        fleet = self._fleet
        states = [fleet.state_dir(name) for name in (*SERVERS, *fleet.replicas)]
        search = Search(
            self._space.folder, fleet.stores.primary_url, cluster=fleet.cluster_files, states=states
        )
        leaks = search.leaks(self._plants)
        result.secrets, result.plain, result.looked = self._plants_made, len(leaks), search.looked
        result.verdict.problems += leaks

    def _episode(self, episode: Episode, result: Result) -> None:
        names = ", ".join(f"{step.fault} ({step.target}, {step.seconds:.0f} s)" for step in episode.steps)
        began = time.monotonic()
        for number, change in enumerate(episode.changes):
            for step in episode.steps:
                if step.after == number:
                    self._injector.begin(step, alone=len(episode.steps) == 1)
            self._make(change)
            self._fleet.check()
        self._injector.finish()
        if episode.breaking:
            self._touch_every_type(episode.number)
        behind = self._settle()
        self._record.gather(self._fleet.cluster_files)
        changes, verdict = self._judge.episode(exact=episode.exact, may_repeat=episode.may_repeat)
        if behind is None:
            verdict.problems.append(f"not written after {SETTLE_SECONDS:.0f} s: {self._difference()}")
        verdict.problems += self._injector.failed
        self._injector.failed.clear()
        result.verdict.add(verdict)
        result.episodes += 1
        result.changes += changes
        behind_for = SETTLE_SECONDS if behind is None else behind
        for step in episode.steps:
            if step.fault is not Fault.NONE and self._injector.possible(step):
                result.faults[step.fault] += 1
                result.behind[step.fault] = max(result.behind.get(step.fault, 0.0), behind_for)
        result.longest_behind = max(result.longest_behind, behind_for)
        good = "ok" if verdict.clean else "WRONG"
        self._say(
            f"episode {episode.number}: {len(episode.changes)} changes, {names}: {good}, "
            f"{time.monotonic() - began:.0f} s, behind {behind_for:.1f} s"
        )

    def _touch_every_type(self, episode: int) -> None:
        """Change an object of each watched type. Once these are in Git, every watch is past the gap that the
        episode made: what is passed over after that is lost.
        """
        for name in ("touched", SECRET_NAMES[0]):
            self._make(Change(name, -1 - episode, 0.0))
        self._injector.touch(f"touched-{episode}")

    def _make(self, change: Change) -> None:
        """Until the API server has taken it: what it took twice it recorded twice."""
        deadline = time.monotonic() + API_SECONDS
        person = Person(self._space.kube, change.person)
        state = None if change.value is None else str(change.value)
        if change.secret:
            state = planted(self._seed, change.value or 0)
            self._plants.add(f"{change.name} of change {change.value}", state)
            self._planted[change.name] = state
            self._plants_made += 1
        self._makers.setdefault(f"{change.resource}/{change.name}", []).append(
            (state, author_line(change.person))
        )
        while True:
            try:
                if state is None:
                    person.delete(self._space, change.name)
                else:
                    self._put(person, change, state)
                break
            except KubeNotFound:
                break  # a deletion whose answer was lost
            except ReverserError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
                self._fleet.check()
        time.sleep(change.pause)

    def _put(self, person: Person, change: Change, value: str) -> None:
        key, kind = ("stringData", "Secret") if change.secret else ("data", "ConfigMap")
        path = self._space.path(change.resource, change.name)
        body: dict[str, Any] = {key: {"v": value}}

        def patch() -> None:
            person.request("PATCH", path, body, content_type="application/merge-patch+json")

        try:
            patch()
        except KubeNotFound:
            whole = {"apiVersion": "v1", "kind": kind, "metadata": {"name": change.name}, **body}
            try:
                person.request("POST", self._space.path(change.resource), whole)
            except KubeConflict:
                patch()

    def _settle(self) -> float | None:
        """Seconds until everything is written, None if it takes too long."""
        began = time.monotonic()
        while time.monotonic() - began < SETTLE_SECONDS:
            self._fleet.check()
            try:
                if self._settled():
                    return time.monotonic() - began
            except ReverserError:
                pass  # what was hit has not come back yet
            time.sleep(0.2)
        return None

    def _settled(self) -> bool:
        return _drained(self._store) and not self._difference()

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
        return sorted(wrong) or self._other_difference()

    def _other_difference(self) -> list[str]:
        """The same of the custom type and of Secrets."""
        space = self._space
        wrong = []
        for item in space.kube.list(space.path("gizmos", group=GROUP)).items:
            name, live = item["metadata"]["name"], item["spec"]["v"]
            if live.encode() not in (space.git.read(space.file(name, f"{GROUP}/gizmos")) or b""):
                wrong.append(name)
        if self._judge.identity:
            for name, value in self._planted.items():
                sealed = space.git.read(space.file(name, "secrets", suffix=".sops.yaml"))
                if self._judge.opened(sealed) != value:
                    wrong.append(name)
        return wrong


def _counts(name: str) -> bool:
    """Not what every namespace has, and of the Secrets not the target's own key."""
    resource, _, rest = name.partition("/")
    return rest in SECRET_NAMES if resource == "secrets" else rest != "kube-root-ca.crt"


def author_line(user: str) -> str:
    """The author line of a user without claims."""
    local = "".join(char for char in user.lower() if char.isalnum() or char in ".-")
    return f"{user} <{user if '@' in user else f'{local}@noreply.cluster.local'}>"


def _drained(store: Store) -> bool:
    return all(store.read_branch(branch).entries == 0 for branch in store.known_branches())
