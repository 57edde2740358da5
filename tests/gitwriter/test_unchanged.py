"""What a replay does not compare again: it must be told from what would have come of the comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from gitwriter.git.repository import BareRepository
from gitwriter.manifests import IgnoreField, Inventory, MemoryTree, Policy, WritePlan, plan_writes
from gitwriter.unchanged import Comparison, Unchanged
from gitwriter.units import sweep_work
from reverser.kinds.model import PruneMode
from reverser.store.model import Presence, Scope, StagedObject, SweepEntry, TargetRef, TypeRef
from tests.gitwriter.conftest import World

CONFIGMAPS = TypeRef("", "v1", "configmaps", "ConfigMap", True)
NAMES = ("a", "b", "c")
KUSTOMIZATION = b"namespace: shop\nresources: [shop/configmaps/a.yaml]\n"
IGNORED = (IgnoreField("", "ConfigMap", None, ("/data/v",)),)


def body(name: str, value: str, *, more: bool = False) -> bytes:
    """A sanitized ConfigMap; ``more`` has a value that is a known default."""
    data: dict[str, Any] = {"v": value, **({"default": "on"} if more else {})}
    metadata = {"name": name, "namespace": "shop"}
    return orjson.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def replay(
    files: dict[str, bytes], objects: dict[str, bytes], policy: Policy, memory: Unchanged | None
) -> WritePlan:
    """Plan one replay of all objects, with or without a memory of earlier comparisons."""
    tree = MemoryTree(files)
    inventory = Inventory.scan(tree)
    staged = [
        StagedObject("shop", name, Presence.FULL, content, optional=("/data/default",))
        for name, content in objects.items()
    ]
    sweep = SweepEntry(
        target=TargetRef("u", "shop", "gt"),
        scope=Scope("u", "configmaps", "shop"),
        type=CONFIGMAPS,
        resource_version="9",
        replay_id="r",
        count=len(staged),
        wanted=0,
        fingerprint="f",
    )
    comparison = Comparison(memory, inventory, policy) if memory is not None else None
    known = comparison.known_blob if comparison is not None else None
    work = sweep_work(
        sweep, [staged], prune=PruneMode.ALWAYS, digests=lambda _fields: {}, generation=0, known_blob=known
    )
    plan = plan_writes(tree, work.changes, policy, inventory=inventory)
    if comparison is not None and not plan.refused:
        comparison.remember(plan.results, plan.after())
    return plan


def facts(plan: WritePlan) -> dict[str, Any]:
    """What a plan decides."""
    results = {
        (getattr(result.change, "name", "sweep"), result.outcome, result.path, result.code)
        for result in plan.results
    }
    return {"files": dict(plan.files), "results": results, "issues": plan.issues, "swept": plan.swept}


values = st.sampled_from(["1", "2"])
objects = st.dictionaries(st.sampled_from(NAMES), st.tuples(values, st.booleans()), max_size=3)
human = st.sampled_from(["nothing", "comment", "value", "namespace", "alias", "remove", "bundle"])
rounds = st.lists(st.tuples(human, objects, st.booleans(), st.booleans()), min_size=2, max_size=6)


def touch(files: dict[str, bytes], what: str) -> None:
    """What a person does to the folder between two replays."""
    path = next((path for path in sorted(files) if path.endswith("a.yaml")), "")
    if not path:
        return
    if what == "comment":
        files[path] = b"# by hand\n" + files[path]
    elif what == "value":
        files[path] = files[path].replace(b'v: "1"', b'v: "7"')
    elif what == "namespace":
        files[path] = files[path].replace(b"  namespace: shop\n", b"")
    elif what == "alias":
        files[path] = files[path].replace(b"data:\n", b"data:\n  x: &x y\n  y: *x\n")
    elif what == "bundle":
        files[path] += b"---\n" + files[path].replace(b"name: a", b"name: z")
    elif what == "remove":
        del files[path]


@settings(max_examples=60, deadline=None)
@given(rounds)
def test_replays_with_a_memory_decide_as_those_without(given_rounds: list[Any]) -> None:
    """E01, C01: whatever people and the cluster do between replays, remembering changes no decision."""
    files: dict[str, bytes] = {}
    memory = Unchanged()
    for what, live, ignores, forgets in given_rounds:
        touch(files, what)
        policy = Policy(ignore_fields=IGNORED if ignores else ())
        staged = {name: body(name, value, more=more) for name, (value, more) in live.items()}
        expected = replay(files, staged, policy, None)
        assert facts(replay(files, staged, policy, memory)) == facts(expected)
        for path, content in expected.files.items():
            if content is None:
                del files[path]
            else:
                files[path] = content
        if not forgets:
            memory = Unchanged()


def test_what_a_kustomization_touches_is_always_compared() -> None:
    """Other files have a say in such a document, so nothing is remembered of it."""
    memory = Unchanged()
    objects = {"a": body("a", "1"), "b": body("b", "1")}
    files = {
        path: data for path, data in replay({}, objects, Policy(), None).files.items() if data is not None
    }
    replay({**files, "kustomization.yaml": KUSTOMIZATION}, objects, Policy(), memory)
    assert len(memory) == 1


def test_a_known_object_is_not_read(tmp_path: Path) -> None:
    """Once compared, an unchanged object costs no file, also after a restart; a changed one does."""
    objects = {name: body(name, "1") for name in NAMES}
    memory = Unchanged()
    files = dict(replay({}, objects, Policy(), memory).files)
    kept = {path: data for path, data in files.items() if data is not None}
    real, read = MemoryTree.read, []

    def spy(tree: MemoryTree, blob: str) -> bytes:
        read.append(blob)
        return real(tree, blob)

    inventory = Inventory.scan(MemoryTree(kept))
    with patch.object(MemoryTree, "read", spy), patch.object(Inventory, "scan", return_value=inventory):
        assert not replay(kept, objects, Policy(), memory).files
        assert not read
        assert list(replay(kept, {**objects, "a": body("a", "2")}, Policy(), memory).files)
        assert len(set(read)) == 1
    memory.save(tmp_path / "unchanged")
    assert b"shop" not in (tmp_path / "unchanged").read_bytes()
    assert len(Unchanged.load(tmp_path / "unchanged")) == len(memory) == len(NAMES) + 1


def test_a_damaged_file_is_an_empty_memory(tmp_path: Path) -> None:
    """Damage, another release's file or none at all only cost time."""
    path = tmp_path / "unchanged"
    assert len(Unchanged.load(path)) == 0
    memory = Unchanged(capacity=1)
    memory.note("b1", 0, b"x" * 16)
    memory.note("b2", 0, b"y" * 16)
    assert len(memory) == 1
    memory.save(path)
    whole = path.read_bytes()
    assert Unchanged.load(path).holds("b2", 0, b"y" * 16)
    with patch("gitwriter.manifests.remembered.codeprint", return_value="another"):
        assert len(Unchanged.load(path)) == 0
    for content in (b"", b"{}", b"[]", whole[:-5], whole.replace(b"7979", b"zzzz")):
        path.write_bytes(content)
        assert len(Unchanged.load(path)) == 0


def test_a_worker_that_was_restarted_reads_no_manifest(world: World) -> None:
    """Facts and comparisons survive a restart: an unchanged replay then reads no blob and makes no commit."""
    objects = {f"cm-{number}": "x" for number in range(5)}
    world.sweep(objects)
    world.write()
    world.runtime.begin_shutdown()
    world.runtime.drain(seconds=5)
    tip = world.git.tip()
    world.runtime = world.new_runtime()
    world.runtime.begin_shutdown()  # no cooldown
    world.sweep(objects)
    asked: list[str] = []
    real = BareRepository.read_blobs

    def spy(repository: BareRepository, oids: Any) -> dict[str, bytes]:
        wanted = list(oids)
        asked.extend(wanted)
        return real(repository, wanted)

    with patch.object(BareRepository, "read_blobs", spy):
        world.write()
    assert world.pending() == 0
    assert world.git.tip() == tip
    assert len(asked) <= 1  # the ignore rules
