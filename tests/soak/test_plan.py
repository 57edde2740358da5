"""What a soak does: every fault that it promises, by name, in a schedule that a seed decides."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.soak.faults import Injector
from tests.soak.plan import FAIL_OVERS, STORE, STORE_FAULTS, Fault, Step, episodes, fault_of

SEED = 7
PROMISED = {
    "kills": {Fault.KILL, Fault.KILL_ROLE},
    "pauses": {Fault.PAUSE, Fault.STORE_PAUSED},
    "Redis restarts": {Fault.STORE_KILLED},
    "Redis fail-overs": {Fault.STORE_FAILS_OVER},
    "API server restarts": {Fault.API_KILLED, Fault.API_DROPS, Fault.API_ERRORS},
    "compactions": {Fault.API_COMPACTED},
    "remote down": {Fault.REMOTE_AWAY, Fault.REMOTE_REFUSES},
    "remote slow": {Fault.REMOTE_SLOW},
    "remote moved": {Fault.REMOTE_MOVED},
    "remote force-pushed": {Fault.REMOTE_REWRITTEN},
    "discovery blinks": {Fault.DEFINITION_BLINKS, Fault.GROUP_FAILS},
    "certificate rotation": {Fault.CERTIFICATES, Fault.TOKEN},
    "clock steps": {Fault.CLOCK},
    "disk full on the state directory": {Fault.DISK_FULL},
    "memory limits": {Fault.MEMORY},
    "none, as the measure of the others": {Fault.NONE},
}
"""What a soak promises to do, and the faults that do it."""


def test_every_promised_fault_comes() -> None:
    """Every fault belongs to a promise, and in two dozen episodes of any seed each comes at least once."""
    assert {fault for kinds in PROMISED.values() for fault in kinds} == set(Fault)
    for seed in (SEED, 0, 2**32 - 1):
        steps = [step for episode in islice(episodes(seed), len(Fault)) for step in episode.steps]
        come = {step.fault for step in steps}
        for promise, kinds in PROMISED.items():
            assert come & kinds == kinds, promise


def test_a_seed_decides_everything() -> None:
    """The same seed gives the same changes and faults, another one others; also of a choice of faults."""
    only = {Fault.KILL, Fault.MEMORY}
    for options in ({}, {"only": only}, {"longest_pause": 3.0}):
        first = list(islice(episodes(SEED, **options), 20))
        assert first == list(islice(episodes(SEED, **options), 20))
        assert first != list(islice(episodes(SEED + 1, **options), 20))
    assert {step.fault for each in islice(episodes(SEED, only=only), 9) for step in each.steps} == only


def test_who_is_down_is_not_struck_again() -> None:
    """At most one fault of the store at a time; all ways to lose a primary come."""
    plan = list(islice(episodes(SEED), 400))
    assert all(sum(step.fault in STORE_FAULTS for step in each.steps) < 2 for each in plan)
    ways = {step.target for each in plan for step in each.steps if step.fault is Fault.STORE_FAILS_OVER}
    assert ways == set(FAIL_OVERS)
    targets = {step.target for each in plan for step in each.steps if step.fault is Fault.DISK_FULL}
    assert {STORE, "worker", "watcher"} < targets


def test_names_on_the_command_line() -> None:
    """``--list-faults`` names all, ``--only`` takes those names and refuses others."""
    command = [sys.executable, "-m", "tests.soak"]
    listed = subprocess.run([*command, "--list-faults"], capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in listed.splitlines()] == [fault.word for fault in Fault]
    assert [fault_of(fault.word) for fault in Fault] == list(Fault)
    wrong = subprocess.run([*command, "--only", "kill,rain"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "no fault is called 'rain'" in wrong.stderr


class Trace:
    """Takes any call of anything, and writes down which."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self._name = name
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return Trace(f"{self._name}.{name}", self._calls)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self._calls.append(f"{self._name} {arguments} {named}")
        return nullcontext()


STEPS = [Step(fault, 0, "worker-0", 0.0, 5) for fault in Fault if fault is not Fault.STORE_FAILS_OVER]
STEPS += [Step(Fault.STORE_FAILS_OVER, 0, how) for how in FAIL_OVERS]
EFFECTS = {
    Fault.KILL: "fleet.kill ('worker-0',)",
    Fault.KILL_ROLE: "fleet.kill ('worker-1',)",
    Fault.PAUSE: "fleet.pause ('worker-0',)",
    Fault.STORE_KILLED: "fleet.kill ('store-2',)",
    Fault.STORE_PAUSED: "fleet.pause ('store-2',)",
    Fault.API_KILLED: "fleet.killed ('sandbox',)",
    Fault.API_COMPACTED: "'compact'",
    Fault.API_DROPS: "'drop_watches'",
    Fault.API_ERRORS: "503",
    Fault.CERTIFICATES: "fleet.trust.rotate",
    Fault.TOKEN: "fleet.new_token",
    Fault.CLOCK: "fleet.machine.step_clock ('worker-0', 5)",
    Fault.DISK_FULL: "fleet.machine.full_disk",
    Fault.MEMORY: "fleet.machine.little_memory",
    Fault.DEFINITION_BLINKS: "'value': False",
    Fault.GROUP_FAILS: "'fail_group'",
    Fault.REMOTE_SLOW: "sleep 2",
    Fault.REMOTE_REFUSES: "exit 1",
    Fault.REMOTE_MOVED: "space.seed",
}
WAYS = {
    "dead": "fleet.take_down ('store-2',)",
    "isolated": "fleet.pause ('store-2',)",
    "ordered": "order_fail_over",
}


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step.fault.word} {step.target}")
def test_a_fault_has_its_effect(step: Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is carried out, on those whom the plan names, and fails loudly where it cannot be."""
    calls: list[str] = []
    monkeypatch.setattr("tests.soak.faults.time.sleep", lambda seconds: None)
    repository = _repository(tmp_path) if step.fault.word.startswith("remote") else tmp_path
    fleet: Any = Trace("fleet", calls)
    fleet.machine = Trace("fleet.machine", calls)
    fleet.machine.missing = {}
    fleet.meant = lambda target: ["store-2"] if target == STORE else [target]
    fleet.names = lambda role: ["worker-0", "worker-1"]
    fleet.state_dir = lambda name: tmp_path
    fleet.has_come_up = lambda name: True
    fleet.stores = SimpleNamespace(
        primary="store-2",
        impatient=lambda: nullcontext(),
        order_fail_over=Trace("order_fail_over", calls),
        wait_other_than=Trace("wait_other_than", calls),
        wait_in_step=Trace("wait_in_step", calls),
    )
    space: Any = Trace("space", calls)
    space.repository = repository
    space.hook = lambda name, script: _hook(tmp_path, script, calls)
    record: Any = Trace("record", calls)
    injector = Injector(fleet, space, record)
    injector.begin(step)
    injector.finish()
    assert injector.failed == []
    if step.fault is Fault.REMOTE_REWRITTEN:
        assert _commits(repository) == 1
    elif step.fault is Fault.REMOTE_AWAY:
        assert repository.exists()
        assert not repository.with_name("away.git").exists()
    elif step.fault is Fault.STORE_FAILS_OVER:
        assert any(WAYS[step.target] in call for call in calls), calls
        assert any("wait_other_than" in call for call in calls)
    elif step.fault is not Fault.NONE:
        assert any(EFFECTS[step.fault] in call for call in calls), calls


def test_faults_of_the_remote_wait_for_each_other(tmp_path: Path) -> None:
    """A repository that is away for a while is rewritten when it is back."""
    fleet: Any = Trace("fleet", [])
    fleet.machine = Trace("fleet.machine", [])
    fleet.machine.missing = {}
    space: Any = Trace("space", [])
    space.repository = _repository(tmp_path)
    injector = Injector(fleet, space, Trace("record", []))  # type: ignore[arg-type]
    injector.begin(Step(Fault.REMOTE_AWAY, 0, "worker", 0.5))
    injector.begin(Step(Fault.REMOTE_REWRITTEN, 0, "worker", 0.0))
    injector.finish()
    assert injector.failed == []
    assert _commits(space.repository) == 1


def test_who_is_only_just_starting_is_not_left_without_memory() -> None:
    """Nothing at all could start with that, so it would say nothing of the product."""
    calls: list[str] = []
    fleet: Any = Trace("fleet", calls)
    fleet.machine = Trace("fleet.machine", calls)
    fleet.machine.missing = {}
    fleet.meant = lambda target: ["worker-0", "worker-1"]
    fleet.has_come_up = lambda name: name == "worker-1"
    injector = Injector(fleet, Trace("space", calls), Trace("record", calls))  # type: ignore[arg-type]
    injector.begin(Step(Fault.MEMORY, 0, "worker", 0.0, 0))
    injector.finish()
    assert injector.failed == []
    limited = [call for call in calls if "little_memory" in call]
    assert len(limited) == 1, calls


def _hook(folder: Path, script: str, calls: list[str]) -> Path:
    calls.append(script)
    path = folder / "hook"
    path.touch()
    return path


def _repository(folder: Path) -> Path:
    work, bare = folder / "work", folder / "repo.git"
    subprocess.run(["git", "init", "-q", "-b", "main", str(work)], check=True)
    git = ["git", "-C", str(work), "-c", "user.name=x", "-c", "user.email=x@lab.test"]
    for _ in range(3):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "m"], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(bare)], check=True)
    return bare


def _commits(repository: Path) -> int:
    command = ["git", f"--git-dir={repository}", "rev-list", "--count", "main"]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
