"""When a branch is tried again, and what is tried then: cooldown, back-off, gates, rescans."""

from __future__ import annotations

import dataclasses
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from gitwriter.attempt import Attempt
from gitwriter.backoff import rescan_delay, stalled_delay, transient_delay
from gitwriter.base import Base
from gitwriter.health import BLOCKED_RECHECK_SECONDS
from gitwriter.rescan import LOOKS_AT_THE_SAME
from gitwriter.windows import Unit
from gitwriter.writer import CLOSED_GATE_RECHECK_MS
from reverser.config import load_config
from reverser.store import Store, keys
from reverser.store.model import AttachEntry, Gate, OutcomeKind, StreamRecord, StreamState, TypeRef
from tests.manifests.folder import manifest

from .conftest import PREFIX, World
from .test_decisions import outcomes
from .test_writer import hook, message, restart, seed, shutdown_write


def due_within(world: World, since: int, milliseconds: int) -> bool:
    """Whether the branch is due by itself after ``since``, at the latest so many milliseconds from now."""
    return since < world.store.read_due()[world.branch.id] <= world.store.time_ms() + milliseconds


def write_without_a_remote(world: World) -> None:
    """A change whose first attempt fails, because the remote is away for just that long."""
    away = world.repository.rename(world.repository.with_name("away.git"))
    world.event("a", "1")
    world.write()
    away.rename(world.repository)


def delete_main(world: World) -> None:
    """Somebody deletes the branch on the remote."""
    git = ["git", f"--git-dir={world.repository}", "update-ref", "-d", "refs/heads/main"]
    subprocess.run(git, check=True)


def pause(monkeypatch: pytest.MonkeyPatch, seconds: float) -> list[int]:
    """Every failed attempt is followed by this pause; answers how many failed in a row before each."""
    seen: list[int] = []

    def delay(attempts: int, *, jitter: float, asked: float | None = None) -> float:
        seen.append(attempts)
        return seconds

    monkeypatch.setattr("gitwriter.health.transient_delay", delay)
    return seen


def test_a_push_waits_for_the_cooldown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1, D11: counted from the last push that succeeded; the branch is due when it is over, not before."""
    cooldown = 600_000
    monkeypatch.setattr("gitwriter.writer.PUSH_COOLDOWN_MS", cooldown)
    world.event("a", "1")
    world.write()
    world.event("a", "2")
    record, now = keys.branch_part(world.branch, "record"), world.store.time_ms()
    world.redis.hset(record, "last_push", now)
    world.write()
    assert len(world.subjects()) == world.pending() == 1
    assert abs(world.store.read_due()[world.branch.id] - (now + cooldown)) <= 2
    world.redis.hset(record, "last_push", now - cooldown)
    world.write()
    assert (len(world.subjects()), world.pending()) == (2, 0)


def test_a_failed_attempt_is_not_repeated_before_its_pause(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Z1, J18: whatever wakes the branch meanwhile, a shutdown included; another process may try at once."""
    pause(monkeypatch, 3600)
    write_without_a_remote(world)
    for _ in range(2):
        shutdown_write(world)
        assert (world.git.tip(), world.pending()) == ("", 1)
        assert due_within(world, world.store.time_ms(), 3_600_000)
    restart(world)
    shutdown_write(world)
    assert world.pending() == 0


def test_the_pause_grows_with_failures_in_a_row_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Z1: after a push that succeeded the next failure is the first again."""
    seen = pause(monkeypatch, 0.0)
    world.runtime.begin_shutdown(grace=600)
    kept = world.repository.with_name("away.git")
    for number in range(2):
        world.event("a", str(number))
        world.repository.rename(kept)
        world.write()
        world.write()
        kept.rename(world.repository)
        world.write()
        assert world.pending() == 0
    assert seen == [0, 1, 0, 1]


@pytest.mark.parametrize("known", [True, False])
def test_entries_behind_a_closed_gate_are_looked_at_again(world: World, known: bool) -> None:
    """J21: a gate that is closed, or of which nothing is known yet, holds what is not finalized."""
    closed = Gate(open=False, generation=1, branch=world.branch, path="live")
    if known:
        world.store.write_gate(world.target.uid, closed)
    else:
        world.store.drop_gate(world.target.uid)
    world.event("a", "1")
    began = world.store.time_ms()
    world.write()
    assert (world.git.tip(), world.pending()) == ("", 1)
    assert due_within(world, began, CLOSED_GATE_RECHECK_MS)
    world.store.write_gate(world.target.uid, dataclasses.replace(closed, open=True))
    world.write()
    assert world.pending() == 0


def test_a_finalized_window_behind_a_closed_gate_is_looked_at_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J21: nobody wakes the branch for it but its own score."""
    pause(monkeypatch, 0.0)
    write_without_a_remote(world)
    gate = world.store.read_gate(world.target.uid)
    assert gate is not None
    world.store.write_gate(world.target.uid, dataclasses.replace(gate, open=False))
    began = world.store.time_ms()
    world.write()
    assert (world.git.tip(), world.pending()) == ("", 1)
    assert due_within(world, began, CLOSED_GATE_RECHECK_MS)


def test_a_missing_secret_is_asked_for_every_quarter_minute(world: World) -> None:
    """Z1: the branch says what is missing, and nothing is asked before that time."""
    world.provider["spec"]["secretRef"] = {"name": "absent"}
    world.event("a", "1")
    before = world.store.time_ms()
    world.write()
    due = world.store.read_due()[world.branch.id]
    assert before + BLOCKED_RECHECK_SECONDS * 1000 <= due
    assert world.memory.retry_at > 0
    health = world.store.read_branch_health(world.branch)
    assert health is not None and health.reason == "SecretNotFound"
    del world.provider["spec"]["secretRef"]
    restart(world)
    shutdown_write(world)
    assert world.pending() == 0


def test_a_push_that_arrived_is_not_built_again_over_a_human(world: World) -> None:
    """J15: killed before it settled; meanwhile a person edited the same file. Their edit stays."""

    class Killed(BaseException):
        pass

    def dying(*_args: object, **_kwargs: object) -> bool:
        raise Killed

    world.event("a", "1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(world.store), "settle", dying)
        with pytest.raises(Killed):
            world.write()
    path = "live/shop/configmaps/a.yaml"
    edited = world.git.read(path).replace(b'"1"', b'"by hand"')
    seed(world, path, edited.decode())
    world.expire_lease()
    restart(world)
    shutdown_write(world)
    assert world.git.read(path) == edited
    assert (len(world.subjects()), world.pending()) == (2, 0)


def test_what_was_settled_is_pending_again_after_a_roll_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that failed over to a server which lacks a settlement holds its entries again: they keep their
    place before what is known of the journal already, and do not come back behind it.
    """
    world.event("a", "1")
    world.write()
    world.set_window("60s")
    world.event("a", None, author="alice")
    world.event("b", "1", author="bob")
    then = {key: world.redis.dump(key) for key in world.redis.keys("*")}
    with monkeypatch.context() as patch:
        patch.setattr("gitwriter.writer.PUSH_COOLDOWN_MS", 0)
        world.write()
    assert world.git.read("live/shop/configmaps/a.yaml") is None
    assert world.pending() == 1
    world.redis.flushall()
    for key, value in then.items():
        world.redis.restore(key, 0, value)
    assert world.pending() == 2
    world.event("a", "2", author="alice")
    shutdown_write(world)
    restart(world)
    shutdown_write(world)
    assert (world.git.read("live/shop/configmaps/a.yaml") or b"").endswith(b'v: "2"\n')
    assert world.pending() == 0


def test_a_request_that_was_withdrawn_names_no_commit(world: World) -> None:
    """J7: it was deleted while it waited; it ends without a window, and the window goes without it."""
    world.set_window("60s")
    request = AttachEntry(
        world.target, "shop", "save", "cr-1", None, any_author=True, message="mine", close_delay_seconds=60
    )
    world.store.append_attach(world.branch, world.fence, request)
    world.store.withdraw_attach("cr-1")
    world.event("a", "1")
    shutdown_write(world)
    assert message(world).strip() == "[UPDATE] v1/configmaps/a"
    kinds = {item.request_uid: item.kind for item in outcomes(world)}
    assert kinds == {"cr-1": OutcomeKind.NO_WINDOW, "": OutcomeKind.PUSHED}


def test_a_rescan_frees_only_what_waited_for_the_folder(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J14: a scope that is parked for another reason stays parked when the folder is accepted again."""
    seed(world, "live/deploy.sh", "echo\n")
    world.event("a", "1")
    world.write()
    other = dataclasses.replace(world.scope(), namespace="depot")
    world.store.park(other, "template", 0)
    delete_main(world)
    monkeypatch.setattr("gitwriter.rescan.rescan_delay", lambda tries: 0.0)
    restart(world)
    world.write()
    marks = world.store.read_marks(world.target.uid)
    assert marks[world.scope()].parked_reason == ""
    assert marks[other].parked_reason == "template"


def test_an_accepted_folder_is_filled_from_the_cluster(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """N05: whoever corrects a folder may take a managed file away; all types are read again, each once."""
    seed(world, "live/deploy.sh", "echo\n")
    world.event("a", "1")
    world.write()
    other = dataclasses.replace(world.scope(), group_resource="services")
    for scope in (world.scope(), other):
        kind = TypeRef("", "v1", scope.group_resource, "Kind", True)
        world.store.write_stream(StreamRecord(scope, kind, StreamState.STREAMING, "Streaming", since_ms=5))
    before = world.store.read_marks(world.target.uid)
    assert other not in before
    delete_main(world)
    monkeypatch.setattr("gitwriter.rescan.rescan_delay", lambda tries: 0.0)
    restart(world)
    world.write()
    marks = world.store.read_marks(world.target.uid)
    assert marks[world.scope()].needs_replay and marks[world.scope()].parked_reason == ""
    assert marks[world.scope()].wanted == before[world.scope()].wanted
    assert marks[other].needs_replay


def test_a_change_that_is_written_frees_what_the_folder_refused(world: World) -> None:
    """N05: the next change may come before the next scan and find the folder in order; what was refused until
    then is read again all the same.
    """
    seed(world, "live/deploy.sh", "echo\n")
    world.event("a", "1")
    world.write()
    assert world.store.read_marks(world.target.uid)[world.scope()].parked_reason == "path-refused"
    delete_main(world)
    world.event("b", "1")
    shutdown_write(world)
    verdict = world.store.read_path_verdict(world.target.uid)
    assert verdict is not None and verdict.accepted
    marks = world.store.read_marks(world.target.uid)[world.scope()]
    assert marks.needs_replay and marks.parked_reason == ""


@pytest.mark.parametrize(("percent", "left"), [(50, 2), (49, 4)])
def test_the_brake_holds_what_is_above_its_share(world: World, percent: int, left: int) -> None:
    """J23: half of a type's documents may go where half is allowed; a release by name lifts the brake."""
    state = str(world.repository.parent / "braked")
    config = load_config({"REVERSER_STATE_DIR": state, "REVERSER_SWEEP_BRAKE": str(percent)})
    world.sweep(dict.fromkeys("abcd", "1"))
    world.runtime._edges = dataclasses.replace(world.runtime._edges, config=config)
    shutdown_write(world)
    world.sweep(dict.fromkeys("ab", "1"))
    shutdown_write(world)
    assert len([path for path in world.git.files() if path.endswith(".yaml")]) == left
    if left == 4:
        held = outcomes(world)[-1]
        assert held.kind is OutcomeKind.HELD
        world.store.release_hold(world.target.uid, held.id)
        world.sweep(
            dict.fromkeys("ab", "1"), wanted=world.store.read_marks(world.target.uid)[world.scope()].wanted
        )
        shutdown_write(world)
        assert len([path for path in world.git.files() if path.endswith(".yaml")]) == 2


def test_pauses_double_up_to_their_bound() -> None:
    """Z1, J18: 1 s to 60 s with a fifth of jitter, policy from 15 s to 5 min, folders from 10 s to 5 min; who
    asks for longer is heard.
    """
    assert [transient_delay(tried, jitter=0.5) for tried in (0, 1, 2, 5, 6, 1000)] == [1, 2, 4, 32, 60, 60]
    assert (transient_delay(0, jitter=0.0), transient_delay(0, jitter=1.0)) == (0.8, pytest.approx(1.2))
    assert transient_delay(0, jitter=0.5, asked=90.0) == 90
    assert transient_delay(9, jitter=0.5, asked=1.0) == 60
    assert [stalled_delay(tried) for tried in (0, 1, 4, 5, 1000)] == [15, 30, 240, 300, 300]
    assert [rescan_delay(tried) for tried in (0, 1, 4, 5, 1000)] == [10, 20, 160, 300, 300]


def test_an_idle_branch_is_not_looked_at_for_each_wake(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """J19: whatever wakes it, the remote of a branch with nothing pending is listed once in ten seconds."""
    looks: list[int] = []
    real = Attempt.prepare

    def counted(attempt: Attempt, units: Sequence[Unit]) -> tuple[Base, set[str]]:
        looks.append(len(units))
        return real(attempt, units)

    monkeypatch.setattr(Attempt, "prepare", counted)
    monkeypatch.setattr("gitwriter.rescan.REMOTE_CHECK_SECONDS", 3600.0)
    for _ in range(3):
        world.write()
    assert looks == [0]


def test_a_window_is_planned_on_the_whole_journal(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """J13: ids and entries come in pages of their own sizes; a window misses none of them."""
    monkeypatch.setattr("gitwriter.memory.IDS_AT_ONCE", 2)
    ids, entries = world.store.entry_ids, world.store.read_entries
    monkeypatch.setattr(Store, "entry_ids", lambda _, branch, after="": ids(branch, after, 2))
    monkeypatch.setattr(
        Store, "read_entries", lambda _, branch, after, texts: entries(branch, after, 1, texts=texts)
    )
    world.set_window("60s")
    for name in "abcdefg":
        world.event(name, "1")
    shutdown_write(world)
    assert world.subjects() == ["GitOps Reverser on gt: 7 resource(s)"]
    assert world.pending() == 0


def test_a_signing_key_that_is_missing_refuses_its_window_alone(world: World) -> None:
    """T16: nothing is committed unsigned; the scope is replayed after a minute, the branch goes on."""
    other = world.second_target("other")
    world.provider["spec"]["commit"] = {"signing": {"secretRef": {"name": "absent"}}}
    world.event("a", "1")
    other.event("b", "1")
    shutdown_write(world)
    assert (world.git.tip(), world.pending()) == ("", 0)
    assert [item.reason for item in outcomes(world)] == ["SecretNotFound", "SecretNotFound"]
    marks = world.store.read_marks(world.target.uid)[world.scope()]
    assert marks.needs_replay


@pytest.mark.parametrize("how", ["still refused", "gate closed"])
def test_a_rescan_frees_nothing_too_early(world: World, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """J14: the folder is as it was, or its target may not write; its scope stays parked."""
    monkeypatch.setattr("gitwriter.rescan.rescan_delay", lambda tries: 0.0)
    seed(world, "live/deploy.sh", "echo\n")
    world.event("a", "1")
    world.write()
    gate = world.store.read_gate(world.target.uid)
    assert gate is not None
    if how == "gate closed":
        world.store.write_gate(world.target.uid, dataclasses.replace(gate, open=False))
        delete_main(world)
    world.write()
    assert world.store.read_marks(world.target.uid)[world.scope()].parked_reason == "path-refused"
    verdict = world.store.read_path_verdict(world.target.uid)
    assert verdict is not None and not verdict.accepted


@pytest.mark.parametrize(
    ("files", "cure"),
    [
        (
            {
                "live/c.yaml": manifest("ConfigMap", "c", "shop", data={"v": "1"}),
                "live/kustomization.yaml": "resources: [c.yaml]\nreplicas: [{name: till, count: 2}]\n",
            },
            ("live/kustomization.yaml", "resources: [c.yaml]\n"),
        ),
        ({"live/.gittargetignore": "shop/\n"}, ("live/.gittargetignore", "depot/\n")),
    ],
    ids=["a build that fails", "a place that is hidden"],
)
def test_what_only_a_plan_finds_out_is_not_accepted_by_a_scan(
    world: World, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], cure: tuple[str, str]
) -> None:
    """N03, N05: a refused folder does not turn accepted and refused again, its types read anew each time,
    while nobody has touched it; it is free once somebody has, and tried all the same after some looks.
    """
    monkeypatch.setattr("gitwriter.rescan.rescan_delay", lambda tries: 0.0)
    for path, text in files.items():
        seed(world, path, text)

    def parked() -> str:
        return world.store.read_marks(world.target.uid)[world.scope()].parked_reason

    def refuse() -> None:
        world.event("c", str(time.monotonic_ns()))
        shutdown_write(world)
        restart(world)
        verdict = world.store.read_path_verdict(world.target.uid)
        assert verdict is not None and not verdict.accepted
        assert parked() == "path-refused"

    refuse()
    for _ in range(LOOKS_AT_THE_SAME):
        world.write()
        verdict = world.store.read_path_verdict(world.target.uid)
        assert verdict is not None and not verdict.accepted
        assert parked() == "path-refused"
    world.write()
    assert parked() == ""
    refuse()
    world.write()
    assert parked() == "path-refused"
    seed(world, *cure)
    world.write()
    verdict = world.store.read_path_verdict(world.target.uid)
    assert verdict is not None and verdict.accepted
    assert parked() == ""


def test_an_attempt_holds_a_bounded_part_in_memory(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once its files are more than the bound, the attempt pushes what it has; the rest is the next one's."""
    monkeypatch.setattr("gitwriter.building.ATTEMPT_BYTES", 1)
    hook(world, f"echo push >> {tmp_path}/log; exit 0")
    for value in "123":
        world.event("a", value)
    shutdown_write(world)
    assert (tmp_path / "log").read_text().split() == ["push"] * 3
    assert (len(world.subjects()), world.pending()) == (3, 0)


def test_a_replay_shows_what_it_changed(world: World) -> None:
    """History: of ten thousand objects of which one changed, that one is named."""
    world.sweep(dict.fromkeys("abc", "1"))
    shutdown_write(world)
    world.sweep({"a": "1", "b": "2", "c": "1"})
    shutdown_write(world)
    outcome = outcomes(world)[-1]
    assert [change.name for change in outcome.changes] == ["b"]
    assert outcome.changes_total == 1


def test_a_target_of_another_uid_is_another(world: World) -> None:
    """J22: re-created under its name while the window was open; what the old one saw is not the new one's."""
    world.set_window("60s")
    world.event("a", "1")
    world.cluster.objects[f"{PREFIX}/gittargets/gt"]["metadata"]["uid"] = "t2"
    shutdown_write(world)
    assert (world.git.tip(), world.pending()) == ("", 0)
    assert [item.kind for item in outcomes(world)] == [OutcomeKind.RETIRED]


def test_what_retires_together_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """J22: a long queue of a target that is gone ends by the hundreds, so no single step takes long."""
    monkeypatch.setattr("gitwriter.outcomes.RETIRED_AT_ONCE", 2)
    world.set_window("60s")
    for name in "abcde":
        world.event(name, "1")
    del world.cluster.objects[f"{PREFIX}/gittargets/gt"]
    shutdown_write(world)
    assert [item.changes_total for item in outcomes(world)] == [2, 2, 1]


def test_a_clock_that_was_put_back_ends_the_cooldown(world: World) -> None:
    """Q05: the last push lies an hour ahead by the clock of Redis; nothing waits for that hour, and the next
    cooldown is an ordinary one.
    """
    world.event("a", "1")
    world.write()
    ahead = world.store.time_ms() + 3_600_000
    world.redis.hset(keys.branch_part(world.branch, "record"), "last_push", ahead)
    world.event("a", "2")
    world.write()
    assert (len(world.subjects()), world.pending()) == (2, 0)
    assert world.store.read_branch(world.branch).last_push_ms < ahead
