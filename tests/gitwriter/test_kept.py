"""What a prune mode keeps in Git is counted, whatever happens to the writer."""

from __future__ import annotations

import pytest

from gitwriter import metrics
from reverser.errors import RemoteUnavailable
from reverser.store import Store
from reverser.store.model import OutcomeKind
from tests.gitwriter.conftest import PREFIX, World
from tests.gitwriter.test_writer import seed, shutdown_write
from tests.manifests.folder import manifest


def prune(world: World, mode: str) -> None:
    """Set the target's prune mode."""
    world.cluster.objects[f"{PREFIX}/gittargets/gt"]["spec"]["prune"] = {"mode": mode}


def kept(world: World) -> tuple[str, int] | None:
    """Mode and count of the one scope."""
    found = world.store.read_kept(world.target.uid).get(world.scope())
    return (found.mode, found.documents) if found is not None else None


def files(world: World) -> set[str]:
    """The names of the target's ConfigMaps in Git."""
    folder = "live/shop/configmaps/"
    return {path.removeprefix(folder) for path in world.git.files() if path.startswith(folder)}


def test_what_a_replay_does_not_sweep(world: World) -> None:
    """OnEvent: the file stays, is counted, and its object's return takes it off the count."""
    world.sweep({"a": "1", "b": "1", "c": "1"})
    world.write()
    assert kept(world) == ("Always", 0)
    prune(world, "OnEvent")
    world.sweep({"a": "2"})
    shutdown_write(world)
    assert (files(world), kept(world)) == ({"a.yaml", "b.yaml", "c.yaml"}, ("OnEvent", 2))
    world.event("b", "3")
    shutdown_write(world)
    assert kept(world) == ("OnEvent", 1)
    world.event("b", None)
    shutdown_write(world)
    assert (files(world), kept(world)) == ({"a.yaml", "c.yaml"}, ("OnEvent", 1))
    prune(world, "Always")
    world.sweep({"a": "2"})
    shutdown_write(world)
    assert (files(world), kept(world)) == ({"a.yaml"}, ("Always", 0))
    assert world.store.read_skipped(world.target.uid).objects == ()


def test_a_deletion_that_was_seen_and_not_mirrored(world: World) -> None:
    """Never: no commit for it, the history says why; what Git never held is not counted."""
    prune(world, "Never")
    world.event("a", "1")
    world.write()
    tip = world.git.tip()
    counted = metrics.KEPT.labels("Never", "shop", "gt")._value.get()
    world.event("a", None)
    world.event("ghost", None)
    shutdown_write(world)
    assert (world.git.tip(), kept(world)) == (tip, ("Never", 1))
    assert metrics.KEPT.labels("Never", "shop", "gt")._value.get() == counted + 1
    outcomes = [item for _id, item in world.store.read_outcomes("0-0", 10, 0)]
    changes = {change.name: change for item in outcomes[1:] for change in item.changes}
    assert (changes["a"].operation, changes["a"].reason) == ("DELETE", "kept-by-prune-mode")
    assert {item.kind for item in outcomes[1:]} == {OutcomeKind.NO_CHANGE}
    assert world.store.read_skipped(world.target.uid).objects == ()
    world.event("a", "1")
    shutdown_write(world)
    assert kept(world) == ("Never", 0)


def test_documents_that_stood_there_before(world: World) -> None:
    """A folder with objects that the cluster never had: the first replay counts them."""
    seed(world, "live/hand.yaml", manifest("ConfigMap", "hand", "shop"))
    seed(world, "live/depot.yaml", manifest("ConfigMap", "hand", "depot"))
    prune(world, "Never")
    world.sweep({"a": "1"})
    world.write()
    assert kept(world) == ("Never", 1)


@pytest.mark.parametrize("step", ["before the push", "after the push"])
def test_a_writer_that_dies_counts_nothing_twice_and_forgets_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """J15: the window is attempted again, or recognised as arrived, by another process."""
    prune(world, "Never")
    world.sweep({"a": "1", "b": "1"})
    world.write()
    world.set_window("60s")
    world.event("a", None)
    world.event("b", "2")

    def dies(*_args: object, **_more: object) -> None:
        raise RemoteUnavailable("killed here")

    with monkeypatch.context() as broken:
        if step == "before the push":
            broken.setattr("gitwriter.git.repository.BareRepository.push", dies)
        else:
            broken.setattr(Store, "settle", dies)
        shutdown_write(world)
    assert world.pending() == 2
    world.expire_lease()
    world.runtime = world.new_runtime()
    shutdown_write(world)
    assert (world.pending(), kept(world)) == (0, ("Never", 1))
    assert files(world) == {"a.yaml", "b.yaml"}
    assert b'v: "2"' in (world.git.read("live/shop/configmaps/b.yaml") or b"")
