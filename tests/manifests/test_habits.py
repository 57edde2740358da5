"""Siblings are counted along with the inventory: the same answers as from a fresh scan, at the cost of what
changed."""

from __future__ import annotations

import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gitwriter.manifests import Inventory, MemoryRepository, MemoryTree, Policy, plan_writes
from gitwriter.manifests.placement.inference import infer
from gitwriter.manifests.placement.templates import Subject

from .folder import codes, config_map, manifest, scan, text, written

FOLDERS = st.sampled_from(["", "a/", "shop/", "cms/shop/", "depot/x/"])
NAMES = st.sampled_from(["all", "one", "two", "configmap-one", "one-configmap", "configmaps-two", "kust"])
NAMESPACES = st.sampled_from([None, "shop", "depot"])
MEMBERS = st.tuples(st.sampled_from(["ConfigMap", "Deployment"]), st.sampled_from(["one", "two"]), NAMESPACES)
KUSTOMIZATIONS = st.sampled_from(
    ["resources: [one.yaml]\nnamespace: shop\n", "resources: [one.yaml, two.yml]\n", "resources: []\n"]
)


@st.composite
def steps(draw: Any) -> dict[str, bytes | None]:
    """Some files that appear, change or go."""
    files: dict[str, bytes | None] = {}
    for _number in range(draw(st.integers(1, 4))):
        path = draw(FOLDERS) + draw(NAMES) + draw(st.sampled_from([".yaml", ".yml"]))
        documents = draw(st.lists(MEMBERS, max_size=3))
        bodies = [manifest(kind, name, namespace) for kind, name, namespace in documents]
        files[path] = "---\n".join(bodies).encode() if bodies else None
    if draw(st.booleans()):
        files[draw(FOLDERS) + "kustomization.yaml"] = draw(KUSTOMIZATIONS).encode()
    if draw(st.integers(0, 5)) == 0:
        files[".gittargetignore"] = draw(st.sampled_from([b"a/\n", b"*.yml\n", b"#\n"]))
    return files


def subject(namespace: str) -> Subject:
    return Subject("", "v1", "configmaps", "ConfigMap", True, namespace, "new", sensitive=False)


def following(before: Inventory, known: dict[str, bytes | None], files: dict[str, bytes]) -> Inventory:
    """The inventory after a step. What an ignore file hid so far can only be read from the tree; a plan
    never changes an ignore file that is there.
    """
    if ".gittargetignore" not in known:
        return before.with_files(known)
    tree = MemoryTree(files)
    changed = [entry for entry in tree.entries() if entry.path in known]
    return before.updated(changed, tree.read, removed=[path for path, data in known.items() if data is None])


@settings(max_examples=150, deadline=None)
@given(st.lists(steps(), min_size=1, max_size=4))
def test_a_derived_inventory_infers_as_a_fresh_one(changes: list[dict[str, bytes | None]]) -> None:
    """Whatever was added, changed, moved under a kustomization or hidden, also when an older inventory is
    asked in between."""
    files: dict[str, bytes] = {}
    history: list[tuple[Inventory, dict[str, bytes]]] = [(scan({}), {})]
    for step in changes:
        known = {path: data for path, data in step.items() if data is not None or path in files}
        files = {path: data for path, data in {**files, **known}.items() if data is not None}
        history.append((following(history[-1][0], known, files), dict(files)))
        for inventory, content in (history[-1], history[0], history[len(history) // 2]):
            fresh = Inventory.scan(MemoryTree(content))
            for namespace in ("shop", "depot", "yard"):
                assert infer(inventory, subject(namespace)) == infer(fresh, subject(namespace))


def test_one_object_into_ten_thousand_costs_milliseconds() -> None:
    """After the first, a creation asks what changed and not what is there."""
    files = {
        f"ns{number % 20}/configmaps/cm-{number}.yaml": manifest(
            "ConfigMap", f"cm-{number}", f"ns{number % 20}"
        )
        for number in range(10_000)
    }
    tree = MemoryTree(text(files))
    inventory = Inventory.scan(tree)
    times = []
    for number in range(6):
        started = time.process_time()
        made = plan_writes(tree, [config_map(f"new-{number}", "ns3")], Policy(), inventory=inventory)
        times.append(time.process_time() - started)
        assert list(written(made)) == [f"ns3/configmaps/new-{number}.yaml"]
        inventory = made.after()
    assert min(times[2:]) < 0.05


def test_objects_of_a_base_outside_the_path_are_no_siblings() -> None:
    """A new object of a type that only the base holds finds its place in the overlay."""
    repository = {
        "base/kustomization.yaml": b"resources: [cm.yaml]\n",
        "base/cm.yaml": manifest("ConfigMap", "menu", "shop").encode(),
        "live/kustomization.yaml": b"resources:\n- ../base\n",
    }
    made = plan_writes(MemoryRepository(repository, "live"), [config_map("new", "shop", x="1")], Policy())
    assert codes(made) == ["created"]
    assert sorted(written(made)) == ["kustomization.yaml", "new.yaml"]
