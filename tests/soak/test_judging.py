"""The oracle can fail: each kind of untruth is planted in a true run, and it is found.

A real API server makes the record, a real repository holds what a mirror of it would, and both are judged by
the code that judges a run.
"""

from __future__ import annotations

import base64
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyrage
import pytest
import redis
import yaml

from reverser.kube.paths import core_path
from reverser.kube.sync import Kube
from reverser.sandbox.thread import SandboxServer
from reverser.trust.sealing import SECRET_REGEX, find_sops
from tests.e2e.hunt import Plants
from tests.soak.canary import CONTROL, Search, planted
from tests.soak.judging import VALUES, Judge
from tests.soak.oracle import Record, State, Verdict
from tests.valkey import running_valkey

COMMITTER = "Robot <robot@lab.test>"
ANN, BOB = "ann <ann@lab.test>", "bob <bob@lab.test>"
FOLDERS = {"configmaps": "live/soak/configmaps", "secrets": "live/soak/secrets"}
Step = tuple[str, State, str]
"""Object, new state, author."""
STORY: tuple[Step, ...] = (
    ("configmaps/a", "1", ANN),
    ("configmaps/b", "2", BOB),
    ("secrets/s", "3", ANN),
    ("configmaps/a", "4", BOB),
    ("configmaps/b", None, ANN),
    ("secrets/s", "5", BOB),
    ("configmaps/b", "6", BOB),
)


@dataclass(slots=True)
class Trial:
    """The record of the story, and a branch that is to be filled."""

    record: Record
    repository: Path
    identity: pyrage.x25519.Identity

    def write(self, steps: tuple[Step, ...]) -> None:
        """One commit for each step, as a mirror makes them."""
        git = ["git", "-C", str(self.repository), "-c", "user.name=Robot", "-c", "user.email=robot@lab.test"]
        for name, state, author in steps:
            resource, _, stem = name.partition("/")
            secret = resource == "secrets"
            file = self.repository / FOLDERS[resource] / f"{stem}{'.sops' if secret else ''}.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            if state is None:
                file.unlink()
            else:
                file.write_bytes(self._sealed(state) if secret else f'data:\n  v: "{state}"\n'.encode())
            subprocess.run([*git, "add", "-A"], check=True)
            subprocess.run([*git, "commit", "-q", "-m", "m", f"--author={author}"], check=True)

    def _sealed(self, state: str) -> bytes:
        kind = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
        text = yaml.safe_dump({**kind, "data": {"v": base64.b64encode(state.encode()).decode()}})
        options = ["--age", str(self.identity.to_public()), "--encrypted-regex", SECRET_REGEX]
        kinds = ["--input-type", "yaml", "--output-type", "yaml"]
        command = [str(find_sops()), "--disable-version-check", "--encrypt", *kinds, *options, "/dev/stdin"]
        return subprocess.run(command, input=text.encode(), check=True, capture_output=True).stdout

    def judge(self) -> Judge:
        found = Judge(self.record, self.repository / ".git", FOLDERS)
        found.identity = str(self.identity)
        return found

    def verdict(self, *, exact: bool = True, may_repeat: bool = False) -> Verdict:
        changes, verdict = self.judge().episode(exact=lambda _: exact, may_repeat=may_repeat)
        assert changes == len(STORY)
        return verdict

    def misattributed(self) -> int:
        makers: dict[str, list[tuple[State, str]]] = {}
        for name, state, author in STORY:
            makers.setdefault(name, []).append((state, author))
        return self.judge().authors(makers, committer=COMMITTER).misattributed


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Record]:
    """What a real API server wrote down of the story."""
    folder = tmp_path_factory.mktemp("cluster")
    found = Record("soak", VALUES, lambda name: not name.endswith("kube-root-ca.crt"))
    with SandboxServer(folder) as server:
        kube = Kube.connect(str(server.kubeconfig_path))
        kube.create(core_path("namespaces"), {"metadata": {"name": "soak"}})
        for name, state, _ in STORY:
            _change(kube, name, state)
        found.gather(folder)
    yield found


def _change(kube: Kube, full: str, state: State) -> None:
    resource, _, name = full.partition("/")
    place = core_path(resource, namespace="soak")
    if state is None:
        kube.delete(f"{place}/{name}")
        return
    body: dict[str, Any] = {"data" if resource == "configmaps" else "stringData": {"v": state}}
    if any(item["metadata"]["name"] == name for item in kube.list(place).items):
        kube.patch(f"{place}/{name}", body)
    else:
        kube.create(place, {"metadata": {"name": name}, **body})


@pytest.fixture
def trial(record: Record, tmp_path: Path) -> Trial:
    """An empty branch."""
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path)], check=True)
    return Trial(record, tmp_path, pyrage.x25519.Identity.generate())


def _counts(verdict: Verdict) -> dict[str, int]:
    counts = {name: getattr(verdict, name) for name in ("lost", "invented", "doubled", "reordered")}
    return {name: count for name, count in counts.items() if count}


def test_a_true_branch_is_clean(trial: Trial) -> None:
    """Nothing is found where nothing is wrong; a Secret that was sealed again is no change."""
    trial.write((*STORY, ("secrets/s", "5", COMMITTER)))
    assert _counts(trial.verdict()) == {}
    assert trial.verdict().clean
    assert trial.misattributed() == 0


PLANTED: dict[str, tuple[Callable[[tuple[Step, ...]], tuple[Step, ...]], dict[str, int]]] = {
    "a lost change": (lambda story: story[1:], {"lost": 1}),
    "a lost last change": (lambda story: story[:-1], {"lost": 1}),
    "a lost removal": (lambda story: (*story[:4], *story[5:]), {"lost": 1}),
    "a lost change of a Secret": (lambda story: (*story[:2], *story[3:]), {"lost": 1}),
    "an invented change": (lambda story: (("configmaps/a", "9", ANN), *story), {"invented": 1}),
    "an invented object": (lambda story: (*story, ("configmaps/c", "9", ANN)), {"invented": 1}),
    "an invented removal": (
        lambda story: (*story[:3], ("configmaps/a", None, ANN), *story[3:]),
        {"invented": 1},
    ),
    "an invented change of a Secret": (
        lambda story: (*story[:5], ("secrets/s", "9", ANN), *story[5:]),
        {"invented": 1},
    ),
    "a doubled change": (
        lambda story: (*story[:4], ("configmaps/a", "1", ANN), ("configmaps/a", "4", BOB), *story[4:]),
        {"doubled": 2},
    ),
    "two changes turned round": (
        lambda story: (story[3], *story[:3], *story[4:], ("configmaps/a", "4", BOB)),
        {"reordered": 1, "doubled": 1},
    ),
}


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_is_found(trial: Trial, what: str) -> None:
    """A lost, an invented, a doubled, a turned-round change: each is counted as what it is, and told."""
    plant, counts = PLANTED[what]
    trial.write(plant(STORY))
    verdict = trial.verdict()
    assert _counts(verdict) == counts
    assert not verdict.clean


def test_a_wrong_name_is_found(trial: Trial) -> None:
    """The committer may stand for anybody, another person may not; for a ConfigMap and for a Secret."""
    wrong = {0: BOB, 4: BOB, 5: ANN, 6: COMMITTER}
    trial.write(tuple((name, state, wrong.get(n, author)) for n, (name, state, author) in enumerate(STORY)))
    assert trial.misattributed() == 3


def test_a_replay_excuses_little(trial: Trial) -> None:
    """After a fault that breaks history states between may be missing; nothing else is excused by it."""
    passed_over = (*STORY[1:2], *STORY[3:])
    trial.write(passed_over)
    assert trial.verdict(exact=False).clean
    assert trial.verdict(exact=False).skipped == 2
    trial.write((("configmaps/a", "1", ANN),))
    assert _counts(trial.verdict(exact=False)) == {"reordered": 1, "lost": 1}


def test_an_earlier_episode_is_not_forgotten(trial: Trial) -> None:
    """A state of an earlier episode that comes again is found, whatever this episode excuses but repeats."""
    trial.write(STORY)
    judge = trial.judge()
    assert judge.episode(exact=lambda _: True)[1].clean
    trial.write((("configmaps/a", "1", ANN), ("configmaps/a", "4", BOB)))
    changes, verdict = judge.episode(exact=lambda _: False)
    assert (changes, _counts(verdict)) == (0, {"doubled": 2})
    changes, verdict = judge.episode(exact=lambda _: True, may_repeat=True)
    assert verdict.clean
    assert verdict.repeated == {("configmaps/a", "1"), ("configmaps/a", "4")}
    assert judge.episode(exact=lambda _: True)[1].clean


SECRET = planted(1, 2)
HIDING_PLACES: dict[str, Callable[[Path], object]] = {
    "log": lambda folder: (folder / "x.log").write_text(f"it is {SECRET}!"),
    "base64": lambda folder: (folder / "x").write_bytes(base64.b64encode(b"ab" + SECRET.encode())),
    "database": lambda folder: _row(folder / "history.sqlite3"),
    "git": lambda folder: _blob(folder / "clone"),
}


def _row(file: Path) -> None:
    with sqlite3.connect(file) as database:
        database.execute("create table t (x text)")
        database.execute("insert into t values (?)", (SECRET,))


def _blob(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    git = ["git", "-C", str(folder), "hash-object", "-w", "--stdin"]
    subprocess.run(git, input=SECRET.encode(), check=True, capture_output=True)


@pytest.mark.parametrize("place", [*HIDING_PLACES, "store", "small disk", "nowhere"])
def test_a_plain_secret_is_found(tmp_path: Path, place: str) -> None:
    """In a log, encoded in a file, in a row, in a Git object that nothing refers to, in the store, on a small
    disk.
    """
    folder, state = tmp_path / "run", tmp_path / "state"
    folder.mkdir()
    state.mkdir()
    (folder / "control").write_text(CONTROL)
    subprocess.run(["git", "init", "-q", str(folder / "repo")], check=True)
    git = ["git", "-C", str(folder / "repo"), "hash-object", "-w", "--stdin"]
    subprocess.run(git, input=CONTROL.encode(), check=True, capture_output=True)
    plants = Plants()
    plants.add("s of change 2", SECRET)
    with running_valkey() as server:
        client = redis.Redis(port=server.port)
        client.set("control", CONTROL)
        if place == "store":
            client.hset("h", "f", SECRET)
        elif place == "small disk":
            (state / "scratch").write_text(SECRET)
        elif place != "nowhere":
            HIDING_PLACES[place](folder)
        search = Search(
            folder, f"redis://127.0.0.1:{server.port}", cluster=folder / "cluster", states=[state]
        )
        leaks = search.leaks(plants)
        client.close()
    assert bool(leaks) == (place != "nowhere"), leaks
    assert all("s of change 2" in leak for leak in leaks)


def test_a_blind_search_is_a_find(tmp_path: Path) -> None:
    """A search that does not see what must be there is no proof of anything."""
    with running_valkey() as server:
        search = Search(tmp_path, f"redis://127.0.0.1:{server.port}", cluster=tmp_path / "c", states=[])
        assert len(search.leaks(Plants())) == 3
