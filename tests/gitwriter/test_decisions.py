"""What a writer must not do, and what it owes when something else happened meanwhile."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from gitwriter import writer
from gitwriter.base import Base, arrived
from gitwriter.building import Builder
from reverser.store import keys
from reverser.store.codec import dumps
from reverser.store.model import Intent, IntentWindow, LeaseKind, Outcome, OutcomeKind
from reverser.supervision.gitview import GitView

from .conftest import PREFIX, World
from .test_writer import hook, restart, seed, shutdown_write


def outcomes(world: World) -> list[Outcome]:
    return [item for _id, item in world.store.read_outcomes("0-0", 50, 0)]


def manifests(world: World) -> list[str]:
    return [path for path in world.git.files() if path.endswith(".yaml")]


def after_build(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """``act`` happens between the commit and its push."""
    real = Builder.build

    def build(builder: Builder, *arguments: Any) -> None:
        real(builder, *arguments)
        act()

    monkeypatch.setattr(Builder, "build", build)


def test_a_lease_that_is_lost_before_the_push_stops_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """J15: the commit was made under a lease that is another's now; nothing is announced or pushed."""
    world.event("a", "1")

    def lose() -> None:
        world.expire_lease()
        assert world.store.acquire_lease(LeaseKind.BRANCH, world.branch.id, "other", 600_000, "other")

    after_build(monkeypatch, lose)
    world.write()
    assert world.git.tip() == ""
    assert world.store.read_intents(world.branch) == []
    assert world.pending() == 1


def test_a_window_that_vanished_before_the_push_is_not_pushed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J15: a Redis that went back knows no such window; what cannot be announced is not pushed."""
    world.event("a", "1")
    boundaries = keys.branch_part(world.branch, "boundaries")
    with monkeypatch.context() as patch:
        after_build(patch, lambda: world.redis.delete(boundaries))
        patch.setattr(writer, "RACE_ATTEMPTS", 1)
        world.write()
    assert world.git.tip() == ""


def test_an_intent_on_the_tip_that_still_stands_is_told_without_git() -> None:
    """J15, J18: a remote that refuses for weeks leaves an intent for each try; while its tip stays, none of
    them is searched for in the history.
    """

    class Untouched:
        def contains(self, *_arguments: Any, **_more: Any) -> bool:
            raise AssertionError("the history was searched")

    base = Base(tip="a" * 40, start="a" * 40)
    refused, landed = (Intent("i", "a" * 40, "b" * 40, ()), Intent("i", "9" * 40, "a" * 40, ()))
    found = [
        arrived(Untouched(), None, intent, branch="main", base=base)  # type: ignore[arg-type]
        for intent in (refused, landed)
    ]
    assert found == [False, True]


def test_folders_inside_each_other_see_what_the_other_did(world: World) -> None:
    """J17: a folder is read again once a commit of the same attempt changed something inside it."""
    inner = world.second_target("inner", path="live/sub")
    inner.event("a", "1")
    world.event("b", "1")
    shutdown_write(world)
    seen = "b.yaml goes beside the a.yaml that it sees there"
    assert manifests(world) == [f"live/sub/shop/configmaps/{name}.yaml" for name in "ab"], seen
    assert (outcomes(world)[-1].kind, outcomes(world)[-1].target) == (OutcomeKind.PUSHED, world.target)
    assert world.pending() == 0


@pytest.mark.parametrize("lost", ["all of it", "one object"])
def test_a_replay_without_all_its_objects_sweeps_nothing(world: World, lost: str) -> None:
    """J5: it is settled as void and asked for again; no delete is invented."""
    world.sweep({"a": "1", "b": "1"})
    world.write()
    tip = world.git.tip()
    world.sweep({"a": "1", "b": "1"})
    (staging,) = world.redis.scan_iter(f"{keys.STAGING_PREFIX}*")
    if lost == "all of it":
        world.redis.delete(staging)
    else:
        world.redis.hdel(staging, next(field for field in world.redis.hkeys(staging) if field != b"size"))
    shutdown_write(world)
    assert world.git.tip() == tip
    assert outcomes(world)[-1].kind is OutcomeKind.VOID
    assert world.store.read_marks(world.target.uid)[world.scope()].needs_replay
    assert world.pending() == 0


def test_windows_of_a_provider_that_is_gone_are_retired(world: World) -> None:
    """J22: a finalized window has nowhere to go; it is settled under its name."""
    hook(world, "exit 1")
    world.event("a", "1")
    world.write()
    del world.cluster.objects[f"{PREFIX}/gitproviders/gp"]
    restart(world)
    shutdown_write(world)
    assert world.pending() == 0
    assert (outcomes(world)[-1].kind, outcomes(world)[-1].reason) == (OutcomeKind.RETIRED, "ProviderGone")


@pytest.mark.parametrize("target", ["gone", "there"])
def test_what_a_target_left_for_another_repository_is_not_written_into_this_one(
    world: World, tmp_path: Path, target: str
) -> None:
    """J22: the provider was made anew for another repository. What a target that is gone had waiting is
    settled under its name; one that is there brings its changes along. An equivalent URL is the same place.
    """
    hook(world, "exit 1")
    world.event("a", "1")
    world.write()
    provider = world.cluster.objects[f"{PREFIX}/gitproviders/gp"]
    other = tmp_path / "other.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(other)], check=True)
    url = provider["spec"]["url"]
    if target == "gone":
        del world.cluster.objects[f"{PREFIX}/gittargets/gt"]
    provider["spec"]["url"] = f"{url}/./"
    restart(world)
    shutdown_write(world)
    assert world.pending() == 1, "refused, and kept"
    provider["spec"]["url"] = f"file://{other}"
    restart(world)
    shutdown_write(world)
    assert world.pending() == 0
    written = GitView(other, "main").tip() != ""
    assert written == (target == "there")
    last = outcomes(world)[-1]
    assert (last.kind, last.reason) == (
        (OutcomeKind.PUSHED, "") if written else (OutcomeKind.RETIRED, "RepositoryChanged")
    )


def test_a_successor_retires_what_waited_on_its_folder(world: World) -> None:
    """J17: its first replay says all there is; the predecessor's window is never written."""
    hook(world, "exit 1")
    world.event("old", "1")
    world.write()
    hook(world, "exit 0")
    world.succeed("t2")
    world.sweep({"new": "1"})
    restart(world)
    shutdown_write(world)
    assert manifests(world) == ["live/shop/configmaps/new.yaml"]
    assert [item.reason for item in outcomes(world) if item.kind is OutcomeKind.RETIRED] == ["Succeeded"]
    assert len(world.subjects()) == 1
    assert world.pending() == 0


def test_an_idle_branch_that_is_woken_notices_a_rewrite(world: World) -> None:
    """J19: nothing is pending, and still its types replay after a force-push."""
    world.event("a", "1")
    world.write()
    seed(world, "other.txt", "x", orphan=True)
    restart(world)
    shutdown_write(world)
    assert world.store.read_marks(world.target.uid)[world.scope()].needs_replay
    assert world.store.read_base(world.branch) == world.git.tip()


def test_a_late_push_that_is_found_asks_for_a_replay(world: World) -> None:
    """J15: its windows were settled otherwise, so the tree is put right, once."""
    world.event("a", "1")
    world.write()
    stray = Intent("i1", "", world.git.tip(), (IntentWindow("w-gone", (), world.git.tip()),))
    strays = keys.branch_part(world.branch, "strays")
    world.redis.hset(strays, stray.id, b"1 " + dumps(stray))
    assert world.store.read_strays(world.branch) == [stray]
    world.event("b", "1")
    restart(world)
    shutdown_write(world)
    assert world.store.read_strays(world.branch) == []
    assert world.store.read_marks(world.target.uid)[world.scope()].wanted == 1
