"""From changes to files: what is written, what is left alone, and that nothing else ever changes."""

from __future__ import annotations

import itertools

import pytest

from gitwriter.manifests import FieldPatch, IgnoreField, Limits, MemoryTree, Outcome, Policy, plan_writes

from .folder import (
    BOOTSTRAP,
    after,
    codes,
    config_map,
    delete,
    manifest,
    plan,
    sealed_secret,
    sweep,
    text,
    upsert,
    written,
)

CM = manifest("ConfigMap", "menu", "shop", data={"soup": "leek # green"}).replace("# green", "# fresh")


def test_first_object_and_the_bootstrap_files() -> None:
    """B15: the first real change brings the object at its canonical path, README and ignore file, nothing
    else.
    """
    made = plan({}, config_map("menu", soup="leek"))
    assert set(made.files) == {"README.md", ".gittargetignore", "shop/configmaps/menu.yaml"}
    assert made.files["shop/configmaps/menu.yaml"] == (
        b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: menu\n  namespace: shop\ndata:\n  soup: leek\n"
    )
    ignore = made.files[".gittargetignore"]
    assert ignore is not None
    assert all(line.startswith(b"#") for line in ignore.splitlines() if line.strip())
    assert [result.outcome for result in made.results] == [Outcome.CREATED]


def test_sops_rules_come_with_recipients() -> None:
    """B15: with encryption the rules file lists the sorted recipients."""
    policy = Policy(recipients=("age1b", "age1a"), encryption_enabled=True)
    made = plan({}, config_map("menu"), policy=policy)
    rules = made.files[".sops.yaml"]
    assert rules is not None
    assert rules.index(b"age1a") < rules.index(b"age1b")
    assert b"encrypted_regex: '^(data|stringData)$'" in rules


def test_bootstrap_never_overwrites_and_never_comes_alone() -> None:
    """B15, B16: files of people stay; deleting what is not in Git makes no commit; a missing file returns
    later.
    """
    policy = Policy(recipients=("age1a",), encryption_enabled=True)
    files = {"README.md": "ours", ".sops.yaml": "creation_rules: []\n"}
    assert dict(plan(files, delete("ConfigMap", "x", "shop"), policy=policy).files) == {}
    made = plan(files, config_map("b"), policy=policy)
    assert set(made.files) == {".gittargetignore", "shop/configmaps/b.yaml"}


def test_edit_in_place_wherever_the_file_lies() -> None:
    """O03: a found document is edited where it is, whatever the policy says; only its line changes."""
    policy = Policy(by_type={"v1/configmaps": "cfg/{name}.yaml"})
    made = plan({"deep/er/x.yml": CM}, config_map("menu", soup="kale"), policy=policy)
    assert written(made) == {"deep/er/x.yml": CM.replace("leek", "kale")}
    assert codes(made) == ["updated"]


def test_equal_objects_change_nothing() -> None:
    """No change, no files, not even bootstrap."""
    made = plan({"a.yaml": CM}, config_map("menu", soup="leek"))
    assert dict(made.files) == {}
    assert codes(made) == ["unchanged"]


def test_version_in_git_differs() -> None:
    """L20: a document of another version is edited in place, its apiVersion line included; no second file."""
    head = "apiVersion: autoscaling/v1 # old\nkind: HorizontalPodAutoscaler\n"
    file = head + "metadata: {name: web, namespace: shop}\n"
    made = plan({"h.yaml": file}, upsert("HorizontalPodAutoscaler", "web", "shop"))
    assert written(made) == {"h.yaml": file.replace("v1 #", "v2 #")}


def test_deletes_and_the_last_document() -> None:
    """L08: only the document and its separator go; the file goes with its last document; twice is a no-op."""
    a, b, c = (manifest("ConfigMap", name, "shop") for name in "abc")
    bundle = {"all.yaml": f"{a}---\n{b}---\n{c}"}
    assert written(plan(bundle, delete("ConfigMap", "b", "shop"))) == {"all.yaml": f"{a}---\n{c}"}
    assert written(plan(bundle, delete("ConfigMap", "a", "shop"))) == {"all.yaml": f"{b}---\n{c}"}
    everything = [delete("ConfigMap", name, "shop") for name in "abc"]
    assert written(plan(bundle, *everything)) == {"all.yaml": None}
    assert codes(plan({}, *everything)) == ["already-absent"] * 3


def test_several_actions_on_one_file() -> None:
    """Edit, delete and append in one batch: each hits its own document."""
    a, b, c = (manifest("ConfigMap", name, "shop", data={"k": "1"}) for name in "abc")
    made = plan(
        {"all.yaml": f"{a}---\n{b}---\n{c}"},
        delete("ConfigMap", "a", "shop"),
        config_map("c", k="2"),
        config_map("d", k="3"),
    )
    rendered = 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: d\n  namespace: shop\ndata:\n  k: "3"\n'
    edited = c.replace("k: 1", 'k: "2"')
    assert written(made) == {"all.yaml": f"{b}---\n{edited}---\n{rendered}"}


def test_last_change_of_an_object_wins() -> None:
    """Delete and re-create in one batch ends with the new content; create and delete ends with nothing."""
    made = plan({"a.yaml": CM}, delete("ConfigMap", "menu", "shop"), config_map("menu", soup="kale"))
    assert written(made) == {"a.yaml": CM.replace("leek", "kale")}
    assert dict(plan({}, config_map("x"), delete("ConfigMap", "x", "shop")).files) == {}


def test_operations_are_honoured() -> None:
    """create=False edits only what exists; update=False rewrites nothing."""
    assert codes(plan({}, upsert("ConfigMap", "x", "shop", create=False))) == ["create-not-selected"]
    changed = upsert("ConfigMap", "menu", "shop", data={"soup": "kale"}, update=False)
    assert codes(plan({"a.yaml": CM}, changed)) == ["update-not-selected"]
    same = upsert("ConfigMap", "menu", "shop", data={"soup": "leek"}, update=False)
    assert codes(plan({"a.yaml": CM}, same)) == ["unchanged"]


def test_sweep_deletes_what_a_replay_did_not_see() -> None:
    """A sweep deletes its type in its scope, and nothing else."""
    files = {
        "a.yaml": manifest("ConfigMap", "a", "shop"),
        "b.yaml": manifest("ConfigMap", "b", "depot"),
        "c.yaml": manifest("ConfigMap", "c", "shop"),
        "none.yaml": manifest("ConfigMap", "none"),
        "svc.yaml": manifest("Service", "a", "shop"),
    }
    made = plan(files, sweep("ConfigMap", [("shop", "c")], scope="shop"))
    assert written(made) == {"a.yaml": None}
    assert made.swept == 1
    assert written(plan(files, sweep("ConfigMap", [("shop", "c")]))) == {"a.yaml": None, "b.yaml": None}


def test_sweep_spares_what_the_batch_wrote() -> None:
    """Upserts come first; a document that this batch wrote is not swept by it."""
    made = plan({"a.yaml": CM}, sweep("ConfigMap"), config_map("menu", soup="kale"))
    assert written(made) == {"a.yaml": CM.replace("leek", "kale")}


def test_held_sweep() -> None:
    """J23: the brake holds the deletions of a sweep and applies the upserts."""
    made = plan(
        {"a.yaml": CM},
        config_map("new"),
        sweep("ConfigMap", [("shop", "new")]),
        policy=Policy(hold_sweep_deletes=True),
    )
    assert list(written(made)) == ["new.yaml"]
    assert (made.swept, made.held) == (0, 1)


def test_namespace_that_nobody_tells() -> None:
    """A document without namespace is neither edited nor swept, and no copy is written beside it."""
    files = {"cm.yaml": manifest("ConfigMap", "menu")}
    made = plan(files, config_map("menu", soup="x"), delete("ConfigMap", "menu", "shop"), sweep("ConfigMap"))
    assert dict(made.files) == {}
    assert "namespace-undeclared" in codes(made)


def test_cluster_scoped_document_with_a_namespace() -> None:
    """A cluster-scoped kind is found although its file names a namespace."""
    made = plan({"r.yaml": manifest("ClusterRole", "admin", "shop")}, delete("ClusterRole", "admin"))
    assert written(made) == {"r.yaml": None}


def test_anchored_document_is_not_copied() -> None:
    """L13: what cannot be edited safely is skipped visibly, and no second copy appears."""
    file = CM + "x: !mine 1\n"
    made = plan({"a.yaml": file}, config_map("menu", soup="kale"))
    assert set(written(made)) <= {"a.yaml"}
    assert codes(made) in (["not-editable"], ["updated"])


def test_sealed_objects_are_written_whole_and_alone() -> None:
    """J01, J08, J13: encrypted text goes whole to its own file, also over a plain one at an old path."""
    secret = sealed_secret("db")
    made = plan({}, secret)
    assert made.files["shop/secrets/db.sops.yaml"] == secret.sealed
    plain = {"old/safe.yaml": manifest("Secret", "db", "shop", data={"k": "seeded"})}
    assert plan(plain, secret).files["old/safe.yaml"] == secret.sealed
    assert secret.sealed is not None
    same = {"x.sops.yaml": secret.sealed}
    assert codes(plan(same, secret)) == ["unchanged"]


def test_sealed_digest_only() -> None:
    """J06: without its text a sealed object is kept while the blob is the known one, else asked for again."""
    sealed = sealed_secret("db").sealed
    assert sealed is not None
    tree = MemoryTree({"db.sops.yaml": sealed})
    blob = tree.entries()[0].blob
    for known, code in ((blob, "unchanged"), ("0" * 40, "reseal-needed")):
        change = upsert("Secret", "db", "shop", sensitive=True, unchanged_blob=known)
        assert codes(plan_writes(tree, [change], Policy())) == [code]


def test_sealed_file_with_several_documents() -> None:
    """J15: updates are skipped and counted; deleting one removes only its document."""
    one, two = sealed_secret("one").sealed, sealed_secret("two").sealed
    assert one is not None
    assert two is not None
    files = {"s.sops.yaml": one + b"---\n" + two}
    made = plan(files, sealed_secret("one", token="ENC[new]"))
    assert codes(made) == ["multi_document_target"]
    assert made.placement_skipped == 1
    assert written(plan(files, delete("Secret", "one", "shop"))) == {"s.sops.yaml": two.decode()}


def test_plain_object_onto_an_encrypted_document() -> None:
    """X2: a document with a sops key is never patched with plain values."""
    sealed = sealed_secret("db").sealed
    assert sealed is not None
    config = sealed.replace(b"Secret", b"ConfigMap")
    made = plan({"db.yaml": config}, upsert("ConfigMap", "db", "shop", data={"k": "clear"}))
    assert codes(made) == ["encrypted-document"]
    assert dict(made.files) == {}


def test_sensitive_values_are_never_written_in_clear() -> None:
    """N1: a Secret that comes as a plain object, or with text that is not encrypted, is written nowhere."""
    plain = upsert("Secret", "db", "shop", data={"k": "zq-MARKER"})
    clear = upsert("Secret", "db", "shop", sensitive=True, sealed=manifest("Secret", "db", "shop").encode())
    gizmo = upsert("Gizmo", "g", "shop", spec={"k": "zq-MARKER"})
    policy = Policy(sensitive_types=frozenset({"secrets", "lab.test/gizmos"}))
    by_kind = Policy(sensitive_types=frozenset({"secrets", "lab.test/gizmo"}))
    for change, named in ((plain, policy), (clear, policy), (gizmo, policy), (gizmo, by_kind)):
        made = plan({}, change, policy=named)
        assert codes(made) == ["sensitive-in-clear"]
        assert dict(made.files) == {}


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_placement_can_never_unseal(order: tuple[int, ...]) -> None:
    """J20: whatever the order, Secrets go to their own files, plain objects share one, other sensitive
    ones are skipped.
    """
    policy = Policy(
        default="{namespace}/all.yaml",
        by_type={"v1/secrets": "{namespace}/s/{name}{sensitiveSuffix}"},
        sensitive_types=frozenset({"secrets", "lab.test/gizmos"}),
    )
    changes = [config_map("cm"), sealed_secret("db"), sealed_secret("giz", kind="Gizmo")]
    made = plan({}, *(changes[index] for index in order), policy=policy)
    assert set(written(made)) == {"shop/all.yaml", "shop/s/db.sops.yaml"}
    assert made.placement_skipped == 1


def test_field_patch() -> None:
    """A field patch touches its fields only; without a parent it invents nothing."""
    deploy = manifest("Deployment", "till", "shop", spec={"replicas": 2, "paused": "true # why"})
    change = FieldPatch("apps", "deployments", "Deployment", True, "shop", "till", {"/spec/replicas": 5})
    assert written(plan({"d.yaml": deploy}, change)) == {
        "d.yaml": deploy.replace("replicas: 2", "replicas: 5")
    }
    assert codes(plan({}, change)) == ["subresource_patch_no_parent"]
    sealed = sealed_secret("till").sealed
    assert sealed is not None
    patch = FieldPatch("", "secrets", "Secret", True, "shop", "till", {"/data/k": "x"})
    assert codes(plan({"x.sops.yaml": sealed}, patch)) == ["subresource_patch_unsafe"]
    for assignments in ({}, {"spec": 1}, {"/spec": {}, "/spec/replicas": 1}):
        change = FieldPatch("apps", "deployments", "Deployment", True, "shop", "till", assignments)
        assert codes(plan({"d.yaml": deploy}, change)) == ["subresource_patch_unsafe"]


def test_ignored_fields_stay_as_git_has_them() -> None:
    """Ignored fields are not compared, not written to existing documents and left out of new ones."""
    policy = Policy(ignore_fields=(IgnoreField("apps", "Deployment", None, ("/spec/replicas",)),))
    live = upsert("Deployment", "till", "shop", spec={"replicas": 9, "paused": True})
    file = manifest("Deployment", "till", "shop", spec={"replicas": 2, "paused": "true"})
    assert dict(plan({"d.yaml": file}, live, policy=policy).files) == {}
    made = plan({}, live, policy=policy)
    assert "replicas" not in (written(made)["shop/apps/deployments/till.yaml"] or "")


def test_finalizers_and_owners_of_people_stay() -> None:
    """Finalizers and owner references in a file are never touched."""
    file = CM.replace("  namespace: shop\n", "  namespace: shop\n  finalizers: [a/b]\n")
    assert dict(plan({"a.yaml": file}, config_map("menu", soup="leek")).files) == {}


def test_optional_defaults_are_not_added() -> None:
    """A known server default is mirrored into a new document and not added to one that lacks it."""
    live = upsert(
        "Deployment", "till", "shop", spec={"replicas": 2, "paused": False}, optional=("/spec/paused",)
    )
    file = manifest("Deployment", "till", "shop", spec={"replicas": 2})
    assert dict(plan({"d.yaml": file}, live).files) == {}
    assert "paused: false" in (written(plan({}, live))["shop/apps/deployments/till.yaml"] or "")


def test_hidden_path_refuses_the_batch() -> None:
    """N4: a path that the ignore rules hide is never written; the batch is refused and the path named."""
    made = plan(
        {".gittargetignore": "shop/\n", "a.yaml": CM}, config_map("new"), policy=Policy(inference=False)
    )
    assert made.refused
    assert made.issues[0].kind.value == "ignore-shadows-managed"
    assert "shop/configmaps/new.yaml" in made.issues[0].message


def test_limits_skip_instead_of_locking_the_path() -> None:
    """A new object that would push the path over a limit is skipped, so the next scan still accepts it."""
    files = {f"x/{n}.yaml": manifest("ConfigMap", f"c{n}", "shop") for n in range(3)}
    made = plan(files, config_map("menu"), limits=Limits(files=3))
    assert dict(made.files) == {}
    made = plan({"a.yaml": CM}, config_map("menu", soup="x" * 500), limits=Limits(file_bytes=300))
    assert codes(made) == ["limit-exceeded"]


def test_one_bad_object_does_not_hold_up_the_others() -> None:
    """An object whose file could not be read back is skipped; the rest of the batch is written."""
    deep: dict = {}
    for _level in range(150):
        deep = {"x": deep}
    made = plan({}, upsert("Gizmo", "deep", "shop", spec=deep), config_map("ok"))
    assert list(written(made)) == ["shop/configmaps/ok.yaml"]
    assert "unreadable-result" in codes(made)


def test_inventory_is_reused() -> None:
    """The inventory after a plan equals a fresh scan, so the next plan need not read the tree."""
    files = text({"a.yaml": CM, "b.yaml": manifest("ConfigMap", "b", "shop")})
    first = plan(files, config_map("menu", soup="kale"), config_map("c"), delete("ConfigMap", "b", "shop"))
    committed = after(files, first)
    second = plan_writes(
        MemoryTree(committed),
        [config_map("c"), config_map("menu", soup="oat")],
        Policy(),
        inventory=first.after(),
    )
    fresh = plan(committed, config_map("c"), config_map("menu", soup="oat"))
    assert dict(second.files) == dict(fresh.files)
    assert set(first.after().files) == set(committed)
    assert set(committed) >= BOOTSTRAP - {".sops.yaml"}
