"""What the remote's policy refuses: tried seldom, holding its own folder alone, forgotten once it passes."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gitwriter.git.pushing import PushResult
from gitwriter.git.repository import BareRepository
from reverser.errors import RemoteRejected, RemoteUnavailable
from reverser.store.model import OutcomeKind

from .conftest import PREFIX, World
from .test_decisions import outcomes
from .test_writer import hook, restart, shutdown_write


@pytest.mark.parametrize(("first", "pushes", "left"), [("bad", 1 + 3, 7), ("good", 1 + 1 + 6, 6)])
def test_a_remote_that_refuses_everything_is_not_asked_for_each_window(
    world: World, tmp_path: Path, first: str, pushes: int, left: int
) -> None:
    """J18: three windows refused and none passed is the remote's answer; where one passed, each is tried."""
    log = tmp_path / "log"
    hook(
        world,
        f"echo push >> {log}\nread old new ref\n"
        "git diff-tree -r --name-only --root $old $new 2>/dev/null | grep -q bad && exit 1\n"
        "git ls-tree -r --name-only $new | grep -q bad && exit 1\nexit 0",
    )
    for number, name in enumerate([first, *["bad"] * 6]):
        world.second_target(f"folder{number}").event(name, "1")
    shutdown_write(world)
    assert len(log.read_text().splitlines()) == pushes
    assert world.pending() == left


def test_a_remote_that_refuses_for_days_leaves_no_pile_of_pushes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J15: what it has answered with a refusal cannot arrive any more; an hour later it is forgotten, and
    what it never answered is not.
    """
    hook(world, "exit 1")
    world.event("a", "1")

    def told() -> list[bool]:
        """Of each push that is remembered, whether its refusal was heard."""
        restart(world)
        shutdown_write(world)
        return [bool(intent.refused_ms) for intent in world.store.read_intents(world.branch)]

    assert [told(), told()] == [[True], [True, True]]
    push = BareRepository.push

    def unanswered(*args: Any, **more: Any) -> PushResult:
        with pytest.raises(RemoteRejected):
            push(*args, **more)
        raise RemoteUnavailable("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(BareRepository, "push", unanswered)
        assert told() == [True, True, False]
    with monkeypatch.context() as patch:
        patch.setattr(world.store, "note_refusal", partial(world.store.note_refusal, kept_s=0))
        assert told() == [False]
    (world.repository / "hooks" / "pre-receive").unlink()
    assert told() == []
    assert (world.pending(), len(world.git.log())) == (0, 1)


def test_a_refused_window_holds_what_follows_on_its_folder(world: World) -> None:
    """J17: the next window of the folder would be built without it, so it waits, too."""
    hook(world, "read old new ref\ngit ls-tree -r --name-only $new | grep -q bad && exit 1\nexit 0")
    world.event("bad", "1", author="alice")
    world.event("good", "1", author="bob")
    shutdown_write(world)
    assert (world.git.tip(), world.pending()) == ("", 2)


def test_an_offender_that_passes_clears_the_branch(world: World) -> None:
    """J18: health is told once nothing is refused any more, in the same run."""
    hook(world, "exit 1")
    world.event("a", "1")
    shutdown_write(world)
    memory = world.memory
    memory.offenders = dict.fromkeys(memory.offenders, 0.0)
    hook(world, "exit 0")
    world.write()
    health = world.store.read_branch_health(world.branch)
    assert health is not None and health.ok
    assert memory.refusals == 0


def test_offenders_that_pass_one_by_one_clear_the_branch(world: World) -> None:
    """J18: a remote that takes no two commits at once refuses nothing that is left."""
    hook(world, "exit 1")
    world.event("a", "1", author="alice")
    world.event("b", "1", author="bob")
    shutdown_write(world)
    memory = world.memory
    assert len(memory.offenders) == 1, "the second waits behind the first"
    memory.offenders = dict.fromkeys(memory.offenders, 0.0)
    zeros = "0" * 40
    hook(
        world,
        f'read old new ref; [ "$(git rev-list --count "$new" $([ $old = {zeros} ] || echo ^$old))" = 1 ]',
    )
    shutdown_write(world)
    assert (len(world.subjects()), world.pending(), memory.offenders) == (2, 0, {})
    health = world.store.read_branch_health(world.branch)
    assert health is not None and health.ok


@pytest.mark.parametrize("reason", ["RepositoryChanged", "Succeeded"])
def test_an_offender_that_is_retired_clears_the_branch(world: World, tmp_path: Path, reason: str) -> None:
    """J18, J22: what nobody will push any more is no reason to say that pushes are refused."""
    hook(world, "exit 1")
    world.event("a", "1")
    shutdown_write(world)
    memory = world.memory
    memory.offenders = dict.fromkeys(memory.offenders, 0.0)
    if reason == "RepositoryChanged":
        other = tmp_path / "other.git"
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(other)], check=True)
        world.cluster.objects[f"{PREFIX}/gitproviders/gp"]["spec"]["url"] = f"file://{other}"
        del world.cluster.objects[f"{PREFIX}/gittargets/gt"]
    else:
        hook(world, "exit 0")
        world.succeed("t2")
        world.sweep({"new": "1"})
    shutdown_write(world)
    assert world.pending() == 0
    retired = [item for item in outcomes(world) if item.reason == reason]
    assert [item.kind for item in retired] == [OutcomeKind.RETIRED]
    health = world.store.read_branch_health(world.branch)
    assert health is not None and health.ok


EACH_COMMIT = (
    "read old new ref\n"
    "for commit in $(git rev-list $new $(git for-each-ref --format='^%(objectname)')); do\n"
    'git grep -q FORBIDDEN $commit && { echo "secret in $commit" >&2; exit 1; }\ndone\nexit 0'
)
"""A remote that looks into every commit of a push."""


def again(world: World) -> None:
    """A run of the same process with every pause over."""
    memory = world.memory
    memory.offenders = dict.fromkeys(memory.offenders, 0.0)
    shutdown_write(world)


@pytest.mark.parametrize("between", [False, True])
def test_a_correction_goes_in_place_of_what_every_commit_is_scanned_for(world: World, between: bool) -> None:
    """Pain 92: a later fix on top would be refused with the commit below it. It goes without that, in order
    with what stands between; what else the refused commit held is replayed, and its end is on record."""
    hook(world, EACH_COMMIT)
    world.event("fine", "1")
    world.set_window("60s")
    shutdown_write(world)
    world.event("bad", "FORBIDDEN", author="alice")
    world.event("beside", "1", author="alice")
    shutdown_write(world)
    assert (len(world.subjects()), world.pending()) == (1, 2)
    if between:
        world.event("other", "1", author="bob")
    world.event("bad", "mended", author="carol")
    again(world)
    assert [commit.author.split()[0] for commit in world.git.log()][:-1] == ["carol", "bob"][: 1 + between]
    assert world.git.read("live/shop/configmaps/bad.yaml").endswith(b"v: mended\n")
    assert (world.pending(), world.memory.offenders) == (0, {})
    (given_up,) = [item for item in outcomes(world) if item.kind is OutcomeKind.REFUSED]
    assert (given_up.author and given_up.author.username, given_up.reason) == ("alice", "PushRejected")
    assert "secret in" in given_up.detail
    assert world.store.read_marks(world.target.uid)[world.scope()].needs_replay
    health = world.store.read_branch_health(world.branch)
    assert health is not None and health.ok
    world.sweep({"fine": "1", "bad": "mended", "beside": "1"} | ({"other": "1"} if between else {}))
    shutdown_write(world)
    assert world.git.read("live/shop/configmaps/beside.yaml").endswith(b'v: "1"\n')


@pytest.mark.parametrize("seen", ["deletion", "replay", "change after a refused replay"])
def test_whatever_takes_the_refused_state_back_lets_the_branch_go_on(world: World, seen: str) -> None:
    """Pain 92: also where nothing of the object is left to be pushed, and where replays show it."""
    hook(world, EACH_COMMIT)
    world.event("fine", "1")
    shutdown_write(world)
    if seen == "change after a refused replay":
        world.sweep({"fine": "1", "bad": "FORBIDDEN"})
    else:
        world.event("bad", "FORBIDDEN")
    shutdown_write(world)
    if seen == "deletion":
        world.event("bad", None)
    elif seen == "replay":
        world.sweep({"fine": "1", "bad": "mended"})
    else:
        world.event("bad", "mended")
    again(world)
    assert (world.pending(), world.memory.offenders) == (0, {})
    assert (b"mended" in (world.git.read("live/shop/configmaps/bad.yaml") or b"")) is (seen != "deletion")


def test_a_remote_that_refuses_everything_loses_no_window(world: World) -> None:
    """J18: what changes again and again while a branch is protected is kept, commit by commit; a replay is
    asked for once."""
    hook(world, "exit 1")
    for value in "123":
        world.event("a", value)
    shutdown_write(world)
    for _ in range(2):
        again(world)
        assert world.store.read_marks(world.target.uid)[world.scope()].wanted == 1
        assert world.pending() == 3
    hook(world, "exit 0")
    again(world)
    assert (len(world.subjects()), world.pending()) == (3, 0)
    assert not [item for item in outcomes(world) if item.kind is OutcomeKind.REFUSED]


def test_a_refusal_that_passes_by_itself_gives_nothing_up(world: World) -> None:
    """J18: a correction that waits already goes in place of nothing that may pass the next time."""
    hook(world, EACH_COMMIT)
    world.event("a", "FORBIDDEN")
    world.event("a", "2")
    shutdown_write(world)
    assert (world.subjects(), world.pending()) == ([], 2)
    hook(world, "exit 0")
    again(world)
    assert (len(world.subjects()), world.pending()) == (2, 0)


@pytest.mark.parametrize("mode", ["Always", "OnEvent"])
def test_a_deletion_that_no_replay_repeats_is_not_given_up(world: World, mode: str) -> None:
    """J18: where only live deletions delete, the refused window holds the only word of one."""
    world.cluster.objects[f"{PREFIX}/gittargets/gt"]["spec"]["prune"] = {"mode": mode}
    hook(world, EACH_COMMIT)
    world.event("old", "1")
    world.set_window("60s")
    shutdown_write(world)
    world.event("old", None)
    world.event("bad", "FORBIDDEN")
    shutdown_write(world)
    world.event("bad", "mended", author="carol")
    again(world)
    assert world.pending() == (0 if mode == "Always" else 3)
    hook(world, "exit 0")
    world.sweep({"bad": "mended"})
    again(world)
    assert world.pending() == 0
    assert world.git.read("live/shop/configmaps/old.yaml") is None
