"""A folder that turns foreign while everything runs: the next change says so, not only the next replay."""

from __future__ import annotations

import time

import pytest

from reverser.store.model import OutcomeKind
from tests.gitwriter.conftest import World
from tests.gitwriter.test_writer import seed, shutdown_write
from tests.manifests.folder import manifest

KUSTOMIZATION = "live/kustomization.yaml"


@pytest.mark.parametrize(
    ("file", "cure", "reason", "says"),
    [
        (
            ("live/run.sh", "x\n"),
            ("live/.gittargetignore", "run.sh\n"),
            "UnsupportedContent",
            "Git path refused at run.sh: ",
        ),
        (
            (KUSTOMIZATION, "resources: []\nnamePrefix: x-\nvars: [{name: v}]\n"),
            (KUSTOMIZATION, "resources: []\n"),
            "UnsupportedContent",
            "Git path refused at kustomization.yaml: unsupported in kustomization.yaml: namePrefix, vars; ",
        ),
        (
            (KUSTOMIZATION, "resources: [https://git.lab.test/base]\n"),
            (KUSTOMIZATION, "resources: []\n"),
            "UnsupportedContent",
            "Git path refused at kustomization.yaml: unsupported in kustomization.yaml: remote-base: ",
        ),
        (
            ("live/.gittargetignore", "shop/\n"),
            ("live/.gittargetignore", "depot/\n"),
            "IgnoreShadowsManagedPath",
            "Git path refused at shop/configmaps/b.yaml: .gittargetignore hides shop/configmaps/b.yaml, ",
        ),
    ],
)
def test_the_next_change_tells_of_it(
    world: World, file: tuple[str, str], cure: tuple[str, str], reason: str, says: str
) -> None:
    """N06, C17: the verdict of a live batch is the target's status, with the feature by name; nothing of the
    batch is written, and once a person has put the folder in order the next change is.
    """
    world.sweep({"a": "1"})
    world.write()
    verdict = world.store.read_path_verdict(world.target.uid)
    assert verdict is not None and verdict.accepted
    seed(world, *file)
    tip = world.git.tip()
    with world.store.subscribe(f"target:{world.target.uid}") as hints:
        world.event("b", "1")
        shutdown_write(world)
        deadline = time.monotonic() + 60
        hint = None
        while hint is None and time.monotonic() < deadline:
            hint = hints.get(0.1)
        assert hint is not None
    verdict = world.store.read_path_verdict(world.target.uid)
    assert verdict is not None
    assert (verdict.accepted, verdict.reason, world.git.tip()) == (False, reason, tip)
    assert verdict.issues[0].startswith(says)
    assert [item.kind for _id, item in world.store.read_outcomes("0-0", 10, 0)][-1] is OutcomeKind.REFUSED
    seed(world, *cure)
    world.event("b", "2")
    shutdown_write(world)
    verdict = world.store.read_path_verdict(world.target.uid)
    assert verdict is not None and verdict.accepted
    assert b'v: "2"' in (world.git.read("live/shop/configmaps/b.yaml") or b"")


def test_all_issues_of_a_live_batch_are_listed_up_to_twenty(world: World) -> None:
    """The condition shows the first and how many more there are; the others are in the store's verdict."""
    seed(world, "live/a.yaml", manifest("ConfigMap", "a", "shop") + "---\njust: data\n" * 25)
    world.event("b", "1")
    world.write()
    verdict = world.store.read_path_verdict(world.target.uid)
    assert verdict is not None
    assert (verdict.total_issues, len(verdict.issues)) == (25, 20)
    assert verdict.issues[0].startswith("Git path refused at a.yaml: ")
    assert verdict.issues[0].endswith(" (and 24 more issue(s))")
