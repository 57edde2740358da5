"""One soak run: episodes of changes and faults, each judged when everything is written."""

from __future__ import annotations

import base64
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reverser.errors import KubeConflict, KubeNotFound, ReverserError
from reverser.kube.paths import core_path
from reverser.store import Store
from tests.e2e.audited import Person
from tests.e2e.hunt import Plants
from tests.e2e.trust import ENCRYPTION, SECRETS, age_identity, decrypted
from tests.e2e.workspace import Workspace, until
from tests.soak.canary import CONTROL, Search, planted
from tests.soak.faults import GROUP, Injector
from tests.soak.fleet import Fleet
from tests.soak.oracle import Authors, Record, State, Verdict, judge, judge_authors
from tests.soak.plan import SECRET_NAMES, STORE, Change, Episode, Fault, episodes
from tests.soak.shown import Shown, shown

NAMESPACE = "soak"
COMMITTER = "GitOps Reverser <noreply@configbutler.ai>"
GIZMOS = {"apiGroups": [GROUP], "apiVersions": ["*"], "resources": ["gizmos"]}
SETTLE_SECONDS = 240.0
API_SECONDS = 60.0


@dataclass(slots=True)
class Result:
    """What a run did and found."""

    seed: int
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
    deaths: list[str] = field(default_factory=list)

    def document(self) -> dict[str, object]:
        """For machines."""
        faults = {fault.value: count for fault, count in sorted(self.faults.items())}
        left_out = {fault.value: why for fault, why in sorted(self.left_out.items())}
        return {**asdict(self), "faults": faults, "left_out": left_out, "looked": dict(self.looked)}

    def table(self) -> str:
        """For people."""
        verdict = self.verdict
        rows: list[tuple[str, object]] = [
            ("seed", self.seed),
            ("episodes", self.episodes),
            ("changes made", self.changes),
            ("faults injected", sum(self.faults.values())),
            *((f"  {fault}", count) for fault, count in sorted(self.faults.items())),
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
        self._plants = Plants()
        self._plants_made = 0
        self._planted: dict[str, str] = {}
        """The newest content of each Secret."""
        self._makers: dict[str, list[tuple[State, str]]] = {}
        """Each state asked for, and the author line of who did, by object."""
        self._identity = ""

    def run(self, seconds: float, longest_pause: float) -> Result:
        result = Result(self._seed, left_out=dict(self._fleet.machine.missing))
        self._prepare()
        deadline = time.monotonic() + seconds
        for episode in episodes(self._seed, longest_pause=longest_pause):
            if time.monotonic() >= deadline or not result.verdict.clean:
                break
            self._episode(episode, result)
        result.deaths = self._fleet.deaths
        self._judge_authors(result)
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
        space.configmap("first", {"v": "0", "control": CONTROL})
        for name in SECRET_NAMES:
            self._make(Change(name, 0, 0.0))
        space.base(window="0s", rules=(SECRETS, GIZMOS), encryption=ENCRYPTION)
        space.in_git("first", seconds=60)
        until(self._settled, "the first replay is in Git", 60)
        self._identity = age_identity(space)
        self._plants.add("the private age key", self._identity)

    def _judge_authors(self, result: Result) -> None:
        found = {
            name: [(state.value, state.author) for state in states] for name, states in self._shown().items()
        }
        for name, states in shown(self._space.repository, f"live/{NAMESPACE}/secrets").items():
            if name in SECRET_NAMES:
                found[name] = [(self._opened(state.content), state.author) for state in states]
        result.authors = judge_authors(self._makers, found, committer=COMMITTER)
        result.verdict.problems += result.authors.problems

    def _opened(self, sealed: bytes | None) -> str | None:
        if sealed is None:
            return None
        return base64.b64decode(decrypted(sealed, self._identity)["data"]["v"]).decode()

    def _search(self, result: Result) -> None:
        fleet = self._fleet
        states = [fleet.state_dir(name) for name in (STORE, *fleet.replicas)]
        search = Search(self._space.folder, fleet.store_url, cluster=fleet.cluster_files, states=states)
        leaks = search.leaks(self._plants)
        result.secrets, result.plain, result.looked = self._plants_made, len(leaks), search.looked
        result.verdict.problems += leaks

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
        result.faults.update(
            step.fault
            for step in episode.steps
            if step.fault is not Fault.NONE and self._injector.possible(step)
        )
        result.longest_behind = max(result.longest_behind, behind or SETTLE_SECONDS)
        good = "ok" if verdict.clean else "WRONG"
        self._say(
            f"episode {episode.number}: {len(episode.changes)} changes, {names}: {good}, "
            f"{time.monotonic() - began:.0f} s, behind {behind or SETTLE_SECONDS:.1f} s"
        )

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
        self._makers.setdefault(change.name, []).append((state, author_line(change.person)))
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
        resource, key, kind = (
            ("secrets", "stringData", "Secret") if change.secret else ("configmaps", "data", "ConfigMap")
        )
        path = self._space.path(resource, change.name)
        body: dict[str, Any] = {key: {"v": value}}

        def patch() -> None:
            person.request("PATCH", path, body, content_type="application/merge-patch+json")

        try:
            patch()
        except KubeNotFound:
            whole = {"apiVersion": "v1", "kind": kind, "metadata": {"name": change.name}, **body}
            try:
                person.request("POST", self._space.path(resource), whole)
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
        live = space.kube.get(space.path("gizmos", "g0", group=GROUP))["spec"]["v"]
        if live.encode() not in (space.git.read(space.file("g0", f"{GROUP}/gizmos")) or b""):
            wrong.append("g0")
        if self._identity:
            for name, value in self._planted.items():
                sealed = space.git.read(space.file(name, "secrets", suffix=".sops.yaml"))
                if self._opened(sealed) != value:
                    wrong.append(name)
        return wrong

    def _shown(self) -> dict[str, list[Shown]]:
        return shown(self._space.repository, f"live/{NAMESPACE}/configmaps")

    def _written(self, names: Mapping[str, Sequence[State]]) -> dict[str, list[State]]:
        found = self._shown()
        return {
            name: [state.value for state in found.get(name, ())]
            for name in names
            if name != "kube-root-ca.crt"
        }


def author_line(user: str) -> str:
    """The author line of a user without claims."""
    local = "".join(char for char in user.lower() if char.isalnum() or char in ".-")
    return f"{user} <{user if '@' in user else f'{local}@noreply.cluster.local'}>"


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
