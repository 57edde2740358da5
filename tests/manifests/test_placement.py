"""Where new objects go: declared, beside their siblings, into the one kustomization, or to the canonical
path.
"""

from __future__ import annotations

import random

import pytest

from gitwriter.manifests import Policy, validate_placement

from .folder import after, codes, config_map, delete, manifest, plan, sealed_secret, upsert, written


def cm(name: str, namespace: str = "shop") -> str:
    return manifest("ConfigMap", name, namespace)


def placed(files: dict, *changes, **policy) -> list[str]:
    return list(written(plan(files, *changes, policy=Policy(**policy))))


def test_declared_templates() -> None:
    """O01: templates per type and by default; empty segments collapse."""
    policy = {
        "by_type": {
            "v1/configmaps": "cfg/{namespace}/{name}.yaml",
            "apps/v1/deployments": "{kind}/{scope}/{groupPath}/{version}/{name}.yml",
        },
        "default": "rest/{namespaceOrCluster}/{groupPath}/{version}/{resource}/{name}{sensitiveSuffix}",
    }
    changes = [
        config_map("menu"),
        upsert("Deployment", "till", "shop"),
        upsert("Service", "till", "shop"),
        upsert("ClusterRole", "admin"),
        sealed_secret("db"),
    ]
    assert placed({}, *changes, **policy) == [
        "Deployment/namespaced/apps/v1/till.yml",
        "cfg/shop/menu.yaml",
        "rest/_cluster/rbac.authorization.k8s.io/v1/clusterroles/admin.yaml",
        "rest/shop/v1/secrets/db.sops.yaml",
        "rest/shop/v1/services/till.yaml",
    ]


def test_values_are_escaped() -> None:
    """A value never leaves its segment: the slash of an apiVersion is encoded, an empty namespace drops
    its segment.
    """
    role = upsert("ClusterRole", "admin")
    assert placed({}, role, default="{namespace}/{apiVersion}/{resource}-{name}.yaml") == [
        "rbac.authorization.k8s.io%2Fv1/clusterroles-admin.yaml"
    ]
    assert placed({}, upsert("ClusterRole", "a\\b")) == [
        "_cluster/rbac.authorization.k8s.io/clusterroles/a%5Cb.yaml"
    ]


def test_policy_changes_move_nothing() -> None:
    """O03: a mirrored object stays; a new or re-created one goes to the declared path."""
    files = {"shop/configmaps/menu.yaml": cm("menu")}
    policy = {"by_type": {"v1/configmaps": "cfg/{name}.yaml"}}
    assert placed(files, config_map("menu", a="b"), **policy) == ["shop/configmaps/menu.yaml"]
    assert placed(files, config_map("new"), **policy) == ["cfg/new.yaml"]
    gone = after(files, plan(files, delete("ConfigMap", "menu", "shop")))
    assert placed(gone, config_map("menu"), **policy) == ["cfg/menu.yaml"]


def bundle(*names: str, namespace: str = "shop") -> str:
    return "---\n".join(cm(name, namespace) for name in names)


def test_bundle_by_sibling_majority() -> None:
    """O05: the heavier habit wins; a tie goes to the files of their own."""
    singles = {"x/d.yaml": cm("d"), "x/e.yaml": cm("e")}
    three = {"all.yaml": bundle("a", "b", "c").rstrip("\n"), **singles}
    made = plan(three, config_map("new"))
    assert (made.files["all.yaml"] or b"").startswith(three["all.yaml"].encode() + b"\n---\napiVersion: v1\n")
    assert placed({"all.yaml": bundle("a", "b"), **singles}, config_map("new")) == ["x/new.yaml"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"all.yaml": bundle("a", "b")}, "all.yaml"),
        ({"x/cm-a.yaml": cm("a")}, "x/new.yaml"),
        ({"zeta/a.yaml": cm("a"), "alpha/b.yaml": cm("b")}, "alpha/new.yaml"),
        ({"zeta/a.yaml": cm("a"), "zeta/c.yaml": cm("c"), "alpha/b.yaml": cm("b")}, "zeta/new.yaml"),
        ({"depot/configmaps.yaml": bundle("a", "b", "c", namespace="depot")}, "shop/configmaps/new.yaml"),
        ({"all.yaml": cm("a", "depot") + "---\n" + cm("b", "yard")}, "all.yaml"),
        ({"depot/a.yaml": cm("a", "depot"), "yard/b.yaml": cm("b", "yard")}, "shop/new.yaml"),
        ({"k/depot/a.yaml": cm("a", "depot"), "k/yard/b.yaml": cm("b", "yard")}, "k/shop/new.yaml"),
        ({"depot/a.yaml": cm("a", "depot")}, "shop/new.yaml"),
        ({"cms/a.yaml": cm("a", "depot")}, "cms/new.yaml"),
        ({"depot/configmaps/a.yaml": cm("a", "depot")}, "shop/configmaps/new.yaml"),
        ({"k/depot/cm/a.yaml": cm("a", "depot"), "k/yard/cm/b.yaml": cm("b", "yard")}, "k/shop/cm/new.yaml"),
        ({"p/a.yaml": cm("a", "depot"), "q/b.yaml": cm("b", "yard")}, "shop/configmaps/new.yaml"),
        ({"x/configmap-a.yaml": cm("a"), "x/configmap-b.yaml": cm("b")}, "x/configmap-new.yaml"),
        ({"x/cm-a.yaml": cm("a"), "x/cm-b.yaml": cm("b")}, "x/cm-new.yaml"),
        ({"x/cm-a.yaml": cm("a"), "x/b.yaml": cm("b")}, "x/new.yaml"),
        ({"x/live.a.cm.yml": cm("a"), "x/live.b.cm.yml": cm("b")}, "x/live.new.cm.yml"),
        ({"x/ConfigMap_a.yaml": cm("a")}, "x/ConfigMap_new.yaml"),
        ({"x/a.configmap.yaml": cm("a")}, "x/new.configmap.yaml"),
        ({"x/a/cm.yaml": cm("a"), "x/b/cm.yaml": cm("b")}, "x/new/cm.yaml"),
        ({"x/a/a.yml": cm("a"), "x/b/b.yml": cm("b")}, "x/new/new.yml"),
        ({"x/a/cm.yaml": cm("a"), "y/b/cm.yaml": cm("b"), "y/c/map.yaml": cm("c")}, "y/new/new.yaml"),
        ({"x/a/cm.yaml": cm("a")}, "x/a/new.yaml"),
        ({"x/a/cm.yaml": cm("a"), "x/b/cm.yaml": cm("c")}, "x/a/new.yaml"),
        ({"a/cm.yaml": cm("a", "a"), "b/cm.yaml": cm("b", "b")}, "shop/cm.yaml"),
        ({"x/a-configmap.yaml": cm("a")}, "x/new-configmap.yaml"),
        ({"x/configmaps-a.yml": cm("a")}, "x/configmaps-new.yml"),
        ({"x/app.yaml": cm("a") + "---\n" + manifest("Service", "a", "shop")}, "shop/configmaps/new.yaml"),
        ({"x/new.yaml": manifest("Service", "new", "shop"), "x/a.yaml": cm("a")}, "x/new-configmaps.yaml"),
        ({"all.yaml": bundle("a", "b") + "---\n" + cm("c") + "x: !t 1\n"}, "shop/configmaps/new.yaml"),
    ],
)
def test_inference(files: dict, expected: str) -> None:
    """O05, O06, O11: siblings show the place; a name pattern or a folder for each object only if all follow
    it, and unless it is the kind's own name, only if there are several; unsafe files are no destination.
    """
    assert placed(files, config_map("new")) == [expected]


def test_a_folder_for_each_object_that_is_built_by_itself_is_not_made() -> None:
    """A new folder without a kustomization would be built by nobody; one that a build above lists is."""
    apps = {f"apps/{name}/deploy.yaml": manifest("Deployment", name) for name in ("a", "b")}
    built = {
        f"apps/{n}/kustomization.yaml": "namespace: shop\nresources: [deploy.yaml]\n" for n in ("a", "b")
    }
    live = upsert("Deployment", "new", "shop", spec={"replicas": 1})
    assert placed({**apps, **built}, live) == ["apps/a/kustomization.yaml", "apps/a/new.yaml"]
    above = "namespace: shop\nresources: [a/deploy.yaml, b/deploy.yaml]\n"
    files = {**apps, "apps/kustomization.yaml": above}
    assert placed(files, live) == ["apps/kustomization.yaml", "apps/new/deploy.yaml"]


def test_inference_is_switchable() -> None:
    """Without inference the canonical path is used."""
    assert placed({"x/a.yaml": cm("a")}, config_map("new"), inference=False) == ["shop/configmaps/new.yaml"]


def test_order_independence() -> None:
    """O08: the same objects in any order give the same bytes, sorted by identity; a second batch appends."""
    policy = Policy(by_type={"v1/configmaps": "{namespace}/cms.yaml"})
    changes = [config_map(f"c{number}", k="v") for number in range(8)]
    results = []
    for seed in range(20):
        random.Random(seed).shuffle(changes)
        results.append(written(plan({}, *changes, policy=policy)))
    assert all(result == results[0] for result in results)
    body = results[0]["shop/cms.yaml"] or ""
    assert [body.index(f"name: c{number}\n") for number in range(8)] == sorted(
        body.index(f"name: c{number}\n") for number in range(8)
    )
    second = written(plan({"shop/cms.yaml": body}, config_map("a"), policy=policy))["shop/cms.yaml"] or ""
    assert second.startswith(body + "---\n")


def test_sensitivity_walls() -> None:
    """O10: a new Secret goes beside encrypted ones, never into a bundle; a plain object never into an
    encrypted file.
    """
    vault = sealed_secret("db").sealed
    assert vault is not None
    files = {"all.yaml": bundle("a", "b"), "vault/db.sops.yaml": vault}
    assert placed(files, sealed_secret("tok"), config_map("new")) == ["all.yaml", "vault/tok.sops.yaml"]
    assert placed({"all.yaml": bundle("a", "b")}, sealed_secret("tok")) == ["shop/secrets/tok.sops.yaml"]
    onto = {"by_type": {"v1/configmaps": "vault/db.sops.yaml"}}
    made = plan(files, config_map("new"), policy=Policy(**onto))
    assert codes(made) in (["plaintext_onto_encrypted"], ["created"])
    assert made.files.get("vault/db.sops.yaml") is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (config_map("kustomization"), "shop/configmaps/%6Bustomization.yaml"),
        (config_map("a.yaml"), "shop/configmaps/a.yaml.yaml"),
        (config_map("a.b-c.d"), "shop/configmaps/a.b-c.d.yaml"),
        (config_map("1.2.3"), "shop/configmaps/1.2.3.yaml"),
        (config_map("readme.md"), "shop/configmaps/readme.md.yaml"),
        (config_map("a.sops"), "shop/configmaps/a%2Esops.yaml"),
        (config_map("configmaps", "configmaps"), "configmaps/configmaps/configmaps.yaml"),
        (config_map("x", "cluster"), "cluster/configmaps/x.yaml"),
        (
            upsert("ClusterRole", "system:node"),
            "_cluster/rbac.authorization.k8s.io/clusterroles/system:node.yaml",
        ),
        (upsert("ClusterRole", ".sops"), "_cluster/rbac.authorization.k8s.io/clusterroles/%2Esops.yaml"),
    ],
)
def test_names(change, expected: str) -> None:
    """O13, P01, P03, P06: every name gets a file that the next scan accepts and recognises; a second run
    is empty.
    """
    made = plan({}, change)
    assert list(written(made)) == [expected]
    assert dict(plan(after({}, made), change).files) == {}


def test_names_that_differ_in_case() -> None:
    """P05: names that differ only in case are two files."""
    assert len(placed({}, upsert("ClusterRole", "UPPER"), upsert("ClusterRole", "upper"))) == 2


def test_long_names_do_not_collide() -> None:
    """Two 253-character names that begin alike get different files, each short enough for a file system."""
    names = ["a" * 250 + suffix for suffix in ("b-x", "b-y")]
    paths = placed({}, *(config_map(name) for name in names))
    assert len(set(paths)) == 2
    assert all(len(part.encode()) <= 255 for path in paths for part in path.split("/"))


@pytest.mark.parametrize(
    "template", ["../../x.yaml", "/etc/x.yaml", ".git/x.yaml", "a/../../b.yaml", "x.json"]
)
def test_paths_never_leave_the_target(template: str) -> None:
    """A path that is not inside the target is skipped, whatever the policy says."""
    made = plan({}, config_map("x"), policy=Policy(default=template))
    assert all(not path.startswith(("..", "/", ".git/")) for path in made.files)


def test_a_file_in_the_way_is_a_skip() -> None:
    """A path below a file, or at a folder, cannot be written."""
    files = {"a.yaml": cm("a"), "d.yaml/x.yaml": cm("b")}
    for template in ("a.yaml/{name}.yaml", "d.yaml"):
        made = plan(files, config_map("x"), policy=Policy(default=template))
        assert codes(made) == ["invalid_path"]
        assert made.placement_skipped == 1


@pytest.mark.parametrize(
    ("by_type", "default", "problem"),
    [
        ({"deployments": "{name}.yaml"}, None, "the key must be"),
        ({"apps/v1/deployments ": "{name}.yaml"}, None, "the key must be"),
        ({"v1/configmaps": " "}, None, "empty"),
        ({"v1/configmaps": "../{name}.yaml"}, None, ".."),
        ({"v1/configmaps": "/{name}.yaml"}, None, "leading /"),
        ({"v1/configmaps": "a\\{name}.yaml"}, None, "backslash"),
        ({"v1/configmaps": "{name}.txt"}, None, "must end in"),
        ({"v1/configmaps": "{ns}/{name}.yaml"}, None, "{ns}"),
        ({"v1/secrets": "secrets/{namespace}.sops.yaml"}, None, 'byType["v1/secrets"]'),
        ({}, "all.yaml", "placement.default"),
        ({}, "{namespace}/{version}/{resource}/{name}.yaml", "placement.default"),
        ({"v1/secrets": "{namespace}/{name}.yaml"}, "all.yaml", "lab.test/gizmos"),
    ],
)
def test_bad_policies_are_named(by_type: dict, default: str | None, problem: str) -> None:
    """Every fault of a declared policy is found when it is declared, and its entry is named."""
    problems = validate_placement(by_type, default, ["lab.test/gizmos"])
    assert any(problem in text for text in problems), problems


@pytest.mark.parametrize(
    ("by_type", "default"),
    [
        ({}, None),
        ({"v1/configmaps": "{namespace}/configmaps.yaml"}, ""),
        ({"v1/secrets": "{namespace}/s/{name}{sensitiveSuffix}"}, "all.yaml"),
        ({}, "{namespaceOrCluster}/{groupPath}/{resource}/{name}.yaml"),
        ({}, "{namespaceOrCluster}/{group}/{resource}/{name}.yaml"),
        ({}, "{namespace}/{apiVersion}/{kind}/{name}{sensitiveSuffix}"),
    ],
)
def test_good_policies(by_type: dict, default: str | None) -> None:
    """Bundles are fine where sensitive types have their own entry, or where every object has its own path."""
    assert validate_placement(by_type, default, []) == []
