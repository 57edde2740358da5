"""Names that are legal in Kubernetes and awkward elsewhere: every object has its file, every change arrives,
and no deletion is lost, neither one that is watched nor one that was made while nobody watched.
"""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from reverser.errors import KubeConflict, KubeNotFound, KubeThrottled
from reverser.kube.paths import core_path, resource_path
from tests.e2e.operator import Operator
from tests.e2e.workspace import Workspace, until

LONG = ".".join(["a" * 63] * 3 + ["a" * 61])
TWIN = LONG[:-1] + "b"
OBJECTS = ("null", "123", "1.5", "kustomization", "a.sops", "a.yaml", "con", LONG, TWIN)
ROLES = ("system:{}:bar", "Upper:{}.X", "..{}", "{} spaced", '{}"quoted', "{}*?", "#{}")
KINDS = (("allowlists", "AllowList"), ("x", "X"), ("items", "Item"), ("p" * 63, "K" * 59))
"""Plural and kind."""
Key = tuple[str, str, str]
"""Kind, namespace, name."""


def documents(space: Workspace) -> dict[Key, list[str]]:
    """What Git holds below ``live``, with its files."""
    found: dict[Key, list[str]] = {}
    for path in space.git.files("live"):
        document = yaml.safe_load(space.git.read(path) or b"")
        if not isinstance(document, dict):
            continue
        meta = document["metadata"]
        found.setdefault((document["kind"], meta.get("namespace", ""), meta["name"]), []).append(path)
    return found


def make(space: Workspace, path: str, body: Mapping[str, object]) -> None:
    """Create, once the type is served."""

    def made() -> bool:
        try:
            space.kube.create(path, body)
        except (KubeNotFound, KubeThrottled):
            return False
        except KubeConflict:
            pass
        return True

    until(made, f"{path} is served", 60)


def test_awkward_names(space: Workspace, operator: Operator) -> None:
    """P01, pains 57 and 60: numbers, words that YAML reads as something else, 253 characters, colons, kinds
    that end in List; created, changed, deleted live and deleted while nothing runs.
    """
    mark = space.namespace.rpartition("-")[2]
    group = f"{mark}.lab.test"
    number = str(int(mark, 16))
    space.kube.create(core_path("namespaces"), {"metadata": {"name": number}})
    space.extra.append(core_path("namespaces", name=number))
    paths: dict[Key, str] = {}
    for plural, kind in KINDS:
        space.extra.append(
            f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}",
        )
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
        names = {"plural": plural, "kind": kind, "singular": kind.lower()}
        space.kube.create(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{plural}.{group}"},
                "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions},
            },
        )
        for name in ("a", "1", "list", LONG):
            body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": name}, "spec": {"a": 1}}
            make(space, resource_path(group, "v1", plural, namespace=number), body)
            paths[(kind, number, name)] = resource_path(group, "v1", plural, namespace=number, name=name)
    for name in OBJECTS:
        labels = {"Upper-Case_1.x": "UPPER", "n": "123", "b": "true", "e": ""}
        make(
            space,
            core_path("configmaps", namespace=number),
            {"metadata": {"name": name, "labels": labels}, "data": {"v": "1"}},
        )
        paths[("ConfigMap", number, name)] = core_path("configmaps", namespace=number, name=name)
    roles = "rbac.authorization.k8s.io"
    for template in ROLES:
        name = template.format(mark)
        make(space, resource_path(roles, "v1", "clusterroles"), {"metadata": {"name": name}, "rules": []})
        paths[("ClusterRole", "", name)] = resource_path(roles, "v1", "clusterroles", name=name)
    space.extra += [path for key, path in paths.items() if key[0] == "ClusterRole"]
    space.provider()
    space.target()
    space.cluster_rule(
        [
            {"scope": "Namespaced", "apiGroups": ["", group], "resources": ["*"]},
            {"scope": "Cluster", "apiGroups": [roles], "resources": ["clusterroles"]},
        ]
    )
    until(lambda: paths.keys() <= documents(space).keys(), "every object has its file", 120)
    found = documents(space)
    files = [path for key in paths for path in found[key]]
    assert len(files) == len(set(files)) == len(paths), "each has one file of its own"
    assert max(len(part.encode()) for path in files for part in path.split("/")) <= 255
    assert f"live/_cluster/{roles}/clusterroles/system:{mark}:bar.yaml" in files
    for path in paths.values():
        space.kube.patch(path, {"metadata": {"labels": {"touched": "yes"}}})
    until(
        lambda: all(b'touched: "yes"' in (space.git.read(path) or b"") for path in files),
        "every change arrives",
        90,
    )
    ordered = sorted(paths)
    for key in ordered[::2]:
        space.kube.delete(paths[key])
    until(lambda: documents(space).keys().isdisjoint(ordered[::2]), "watched deletions arrive", 90)
    operator.kill()
    for key in ordered[1::2]:
        space.kube.delete(paths[key])
    operator.start()
    until(lambda: documents(space).keys().isdisjoint(ordered), "the others do, too", 90)
    assert space.git.problems() == ""
