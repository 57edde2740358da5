"""Properties of planning: a second run is empty, nothing outside is touched, order and history do not
matter.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitwriter.manifests import Inventory, MemoryTree, Outcome, Policy, check, plan_writes
from gitwriter.manifests.editing import equal_as_kubernetes
from gitwriter.manifests.loading import load_document
from gitwriter.manifests.splitting import split_documents

from .folder import after, config_map, delete, manifest, sealed_secret, sweep, text, upsert

NAMES = st.sampled_from(["a", "b", "menu", "kustomization", "a.sops", "x.yaml", "c0"])
NAMESPACES = st.sampled_from(["shop", "depot", "configmaps"])
VALUES = st.text(alphabet=st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), max_size=12)


@st.composite
def changes(draw: st.DrawFn) -> list[Any]:
    """A batch of upserts, deletes and sweeps of a few types."""
    found: list[Any] = []
    for _number in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["ConfigMap", "Service", "Secret", "ClusterRole", "delete"]))
        name, namespace = draw(NAMES), draw(NAMESPACES)
        if kind == "ConfigMap":
            found.append(config_map(name, namespace, k=draw(VALUES)))
        elif kind == "Secret":
            found.append(sealed_secret(name, namespace, token=f"ENC[{draw(st.integers(0, 3))}]"))
        elif kind == "delete":
            found.append(delete("ConfigMap", name, namespace))
        elif kind == "ClusterRole":
            found.append(upsert("ClusterRole", f"system:{name}", rules=[{"verbs": [draw(VALUES)]}]))
        else:
            found.append(upsert("Service", name, namespace, spec={"type": draw(VALUES)}))
    return found


@st.composite
def folders(draw: st.DrawFn) -> dict[str, str]:
    """A small accepted folder: singles, bundles, comments, perhaps a kustomization."""
    documents = draw(
        st.lists(
            st.tuples(st.sampled_from(["ConfigMap", "Service"]), NAMES, NAMESPACES), max_size=6, unique=True
        )
    )
    files: dict[str, str] = {}
    for number, (kind, name, namespace) in enumerate(documents):
        path = draw(st.sampled_from([f"x/{number}.yaml", f"{namespace}/{number}.yml", "all.yaml"]))
        body = f"# {number}\n" + manifest(kind, name, namespace, data={"k": "old"})
        files[path] = f"{files[path]}---\n{body}" if path in files else body
    return files


POLICIES = st.sampled_from(
    [
        Policy(),
        Policy(inference=False),
        Policy(by_type={"v1/configmaps": "{namespace}/cms.yaml"}),
        Policy(default="{kind}/{namespaceOrCluster}/{name}{sensitiveSuffix}"),
    ]
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(folders(), changes(), POLICIES, st.randoms())
def test_second_run_is_empty(files: dict, batch: list, policy: Policy, random: Any) -> None:
    """Convergence: the result passes the gate, holds the wanted objects, and the same batch changes
    nothing more.
    """
    tree = MemoryTree(text(files))
    made = plan_writes(tree, batch, policy)
    assert not made.refused
    committed = after(files, made)
    inventory = Inventory.scan(MemoryTree(committed))
    assert check(inventory) == ()
    assert all(not path.startswith(("/", "..")) and "/../" not in path for path in committed)
    again = plan_writes(MemoryTree(committed), batch, policy)
    assert dict(again.files) == {}
    kept = plan_writes(MemoryTree(committed), batch, policy, inventory=made.after())
    assert dict(kept.files) == {}
    written = {result.path for result in made.results if result.outcome is not Outcome.UNCHANGED}
    untouched = set(files) - written
    assert all(committed[path] == text(files)[path] for path in untouched)
    for change in {change.key: change for change in batch}.values():
        if getattr(change, "body", None) is None:
            continue
        refs = [
            ref
            for ref in inventory.lookup(change.group, change.kind, change.name)
            if inventory.effective_namespace(ref) == change.key.namespace
        ]
        assert len(refs) == 1
        data = committed[refs[0].path]
        body = split_documents(data)[refs[0].fact.index].body(data)
        assert equal_as_kubernetes(load_document(body).value, change.body)
    shuffled = list({change.key: change for change in batch}.values())
    random.shuffle(shuffled)
    assert dict(plan_writes(tree, shuffled, policy).files) == dict(made.files)


@settings(max_examples=60, deadline=None)
@given(folders(), changes(), changes())
def test_kept_inventory_equals_a_fresh_scan(files: dict, first: list, second: list) -> None:
    """An inventory carried from plan to plan gives the same plans as reading the tree again."""
    made = plan_writes(MemoryTree(text(files)), first, Policy())
    committed = after(files, made)
    carried = plan_writes(MemoryTree(committed), second, Policy(), inventory=made.after())
    fresh = plan_writes(MemoryTree(committed), second, Policy())
    assert dict(carried.files) == dict(fresh.files)
    assert [result.code for result in carried.results] == [result.code for result in fresh.results]


@settings(max_examples=60, deadline=None)
@given(folders(), st.sets(st.tuples(NAMESPACES, NAMES)), st.one_of(st.none(), NAMESPACES))
def test_sweep_leaves_exactly_what_is_present_or_out_of_scope(
    files: dict, present: set, scope: str | None
) -> None:
    """After a sweep every document of the type in scope is present, and every other document is still
    there.
    """
    before = Inventory.scan(MemoryTree(text(files)))
    made = plan_writes(MemoryTree(text(files)), [sweep("ConfigMap", sorted(present), scope)], Policy())
    left = Inventory.scan(MemoryTree(after(files, made)))

    def identities(inventory: Inventory) -> set:
        return {(ref.fact.kind, ref.fact.namespace, ref.fact.name) for ref in inventory.documents()}

    doomed = {
        (kind, namespace, name)
        for kind, namespace, name in identities(before)
        if kind == "ConfigMap" and scope in (None, namespace) and (namespace, name) not in present
    }
    assert identities(left) == identities(before) - doomed
    assert made.swept == len(doomed)
