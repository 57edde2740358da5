"""Which objects a rule selects, while rules, types and the API surface change."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

import pytest

from reverser.errors import KubeConflict, KubeNotFound, KubeThrottled
from reverser.kube.paths import core_path, own_path
from tests import needs
from tests.e2e.beside import beside
from tests.e2e.workspace import CONFIGMAPS, LIVE_SECONDS, Workspace, until

SERVICES = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"]}


def summary(space: Workspace, target: str = "gt") -> str:
    """``ready/total`` of a target's streams."""
    found = space.get("gittargets", target).get("status", {}).get("streams", {})
    return str(found.get("summary", ""))


def shows_summary(space: Workspace, text: str, target: str = "gt", seconds: float = 30.0) -> None:
    """Wait for the summary of a target's streams."""
    until(lambda: summary(space, target) == text, f"streams of {target} are {text}", seconds)


def group_of(space: Workspace, name: str = "lab") -> str:
    """An API group that no other test uses."""
    return f"g{space.namespace.removeprefix('e2e-')}.{name}.test"


def custom_file(space: Workspace, group: str, name: str, plural: str = "gizmos", root: str = "live") -> str:
    """The canonical path of an object of a custom kind."""
    return f"{root}/{space.namespace}/{group}/{plural}/{name}.yaml"


def arrives(space: Workspace, path: str, holds: bytes = b"", seconds: float = LIVE_SECONDS) -> bytes:
    """Wait for a file."""

    def check() -> bytes | None:
        content = space.git.read(path)
        return content if content is not None and holds in content else None

    found: bytes = until(check, f"{path} holds {holds!r}", seconds)
    return found


def service(space: Workspace, name: str) -> None:
    """Create a Service."""
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"port": 80}]},
    }
    space.kube.create(space.path("services"), body)


@beside
def test_a_scope_mismatch_matches_nothing(space: Workspace) -> None:
    """C03: rules for the wrong scope are fine, watch 0 types and write nothing."""
    space.provider()
    space.target()
    space.configmap("menu")
    rbac = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"]}
    space.rule([rbac])
    names = [
        space.cluster_rule([{**CONFIGMAPS, "scope": "Cluster"}], "a"),
        space.cluster_rule([{**rbac, "scope": "Namespaced"}], "b"),
    ]

    def resolved(obj: dict[str, Any]) -> bool:
        found = obj.get("status", {}).get("conditions", [])
        return any(
            c["type"] == "ResourcesResolved"
            and c["status"] == "True"
            and c["message"].startswith("watching 0 resource type(s)")
            for c in found
        )

    until(lambda: resolved(space.get("watchrules", "wr")), "the WatchRule watches 0 types")
    for name in names:
        path = own_path("clusterwatchrules", name=name)
        until(lambda path=path: resolved(space.kube.get(path)), f"{name} watches 0 types")
    shows_summary(space, "0/0")
    space.quiet(3)
    assert space.git.tip() == ""


@beside
def test_a_wildcard_leaves_out_what_is_denied(space: Workspace) -> None:
    """C05, J03: ordinary types are mirrored, denied ones never are, heartbeats delay nobody and a Secret
    that cannot be written stops nothing.
    """
    space.provider()
    space.target()
    space.rule([{"apiGroups": ["*"], "resources": ["*"]}])
    meta = {"metadata": {"name": "thing"}}
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        **meta,
        "spec": {"leaseDurationSeconds": 5},
    }
    pod = {"containers": [{"name": "a", "image": "reg.lab.test/a:1"}], "restartPolicy": "Never"}
    job = {"template": {"spec": pod}}
    involved = {"involvedObject": {"kind": "ConfigMap", "name": "x", "namespace": space.namespace}}
    objects: list[tuple[str, str, str, dict[str, Any]]] = [
        ("", "v1", "secrets", {"kind": "Secret", "stringData": {"pin": "zq-MARKER-1"}}),
        ("", "v1", "pods", {"kind": "Pod", "spec": pod}),
        ("", "v1", "events", {"kind": "Event", **involved}),
        ("", "v1", "endpoints", {"kind": "Endpoints"}),
        (
            "discovery.k8s.io",
            "v1",
            "endpointslices",
            {"kind": "EndpointSlice", "addressType": "IPv4", "endpoints": []},
        ),
        ("apps", "v1", "controllerrevisions", {"kind": "ControllerRevision", "revision": 1}),
        ("batch", "v1", "jobs", {"kind": "Job", "spec": job}),
        (
            "batch",
            "v1",
            "cronjobs",
            {"kind": "CronJob", "spec": {"schedule": "1 1 * * *", "jobTemplate": {"spec": job}}},
        ),
        ("rbac.authorization.k8s.io", "v1", "roles", {"kind": "Role", "rules": []}),
    ]
    for group, version, resource, body in objects:
        full = {"apiVersion": f"{group}/{version}" if group else version, **meta, **body}
        space.kube.create(space.path(resource, group=group, version=version), full)
    leases = space.path("leases", group="coordination.k8s.io")
    space.kube.create(leases, lease)
    stop = threading.Event()

    def beat() -> None:
        count = 0
        while not stop.wait(0.3):
            count += 1
            space.kube.patch(f"{leases}/thing", {"spec": {"leaseTransitions": count}})

    heart = threading.Thread(target=beat)
    heart.start()
    try:
        space.configmap("thing")
        service(space, "thing")
        for resource in ("configmaps", "services", "batch/jobs", "batch/cronjobs"):
            space.in_git("thing", resource=resource)
        space.in_git("thing", resource="rbac.authorization.k8s.io/roles")
    finally:
        stop.set()
        heart.join()
    space.quiet(2)
    found = "\n".join(space.git.files())
    for word in ("pods", "events", "endpoints", "endpointslices", "leases", "controllerrevisions", "secrets"):
        assert f"/{word}/" not in found
    assert not space.git.contains(b"zq-MARKER-1")


@beside
def test_ambiguous_plurals(space: Workspace) -> None:
    """C06: a name in two groups selects nothing until a group is named or one definition goes."""
    lab, mill = group_of(space, "lab"), group_of(space, "mill")
    space.definition(lab)
    space.definition(mill)
    space.provider()
    for name in "abc":
        space.target(f"gt-{name}", path=name)
    space.rule([{"resources": ["gizmos"]}], "a", "gt-a")
    space.rule([{"apiGroups": [mill], "resources": ["gizmos"]}], "b", "gt-b")
    space.rule([{"apiGroups": [lab, mill], "resources": ["gizmos"]}], "c", "gt-c")
    space.custom(lab, "one", size=1)
    space.custom(mill, "two", size=2)
    arrives(space, custom_file(space, mill, "two", root="b"))
    arrives(space, custom_file(space, mill, "two", root="c"))
    arrives(space, custom_file(space, lab, "one", root="c"))
    shows_summary(space, "0/0", "gt-a")
    assert not space.git.files("a")
    assert [file for file in space.git.files("b") if "gizmos" in file] == [
        custom_file(space, mill, "two", root="b")
    ]


@beside
def test_versions_and_a_new_preferred_one(space: Workspace) -> None:
    """C08, C10: the preferred version is written, a named one where it is asked for; a version that becomes
    preferred changes one line of the file where a human put it.
    """
    group = group_of(space)
    definition = space.definition(group, versions=("v1alpha1",))
    space.provider()
    space.target()
    space.target("gt-old", path="old")
    space.rule([{"apiGroups": [group], "resources": ["gizmos"]}])
    space.rule([{"apiGroups": [group], "apiVersions": ["v1alpha1"], "resources": ["gizmos"]}], "o", "gt-old")
    space.custom(group, "g", version="v1alpha1", size=1)
    canonical = custom_file(space, group, "g")
    text = arrives(space, canonical, b"v1alpha1").decode()
    arrives(space, custom_file(space, group, "g", root="old"), b"v1alpha1")
    space.seed({canonical: None, "live/custom/g.yaml": f"# hand note\n{text}"})
    tip = space.git.tip()
    spec = space.kube.get(definition)["spec"]
    newer = {**spec["versions"][0], "name": "v1", "storage": False}
    space.kube.patch(definition, {"spec": {"versions": [newer, *spec["versions"]]}})
    content = arrives(space, "live/custom/g.yaml", f"apiVersion: {group}/v1\n".encode(), seconds=45)
    assert content == f"# hand note\n{text.replace('v1alpha1', 'v1')}".encode()
    assert space.git.read(canonical) is None
    touched = [commit for commit in space.git.log() if commit.sha != tip]
    assert len(touched) >= 1
    space.quiet(3)
    assert space.git.read(custom_file(space, group, "g", root="old")) == text.encode()


@beside
def test_a_definition_that_comes_after_its_rule(space: Workspace) -> None:
    """C11, C28: the stream opens by itself, scale subresource or not; the other one is not disturbed."""
    group = group_of(space)
    space.base(rules=[CONFIGMAPS, {"apiGroups": [group], "resources": ["gizmos"]}])
    shows_summary(space, "1/1")
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    space.definition(group, subresources={"status": {}, "scale": scale})
    space.custom(group, "one", size=1)
    space.custom(group, "two", size=1)
    space.configmap("meanwhile")
    arrives(space, custom_file(space, group, "one"))
    arrives(space, custom_file(space, group, "two"))
    space.in_git("meanwhile")
    shows_summary(space, "2/2")
    replayed = [s for s in space.subjects() if s.startswith("reconciled") and "configmaps" in s]
    assert not replayed, "its own subject, or that of the window it shares with the two, but no replay's"
    path = space.path("gizmos", group=group, name="one") + "/scale"
    body = {"spec": {"replicas": 4}}
    space.kube.patch(path, body)
    arrives(space, custom_file(space, group, "one"), b"size: 4")


@beside
def test_a_short_discovery_blink(space: Workspace) -> None:
    """C13: a type that is not served for a moment keeps its documents; then it goes on."""
    blink(space, 4.0)


@pytest.mark.slow
def test_a_long_discovery_blink(space: Workspace) -> None:
    """C13: as long as the removal grace has not passed."""
    blink(space, 25.0)


def blink(space: Workspace, seconds: float) -> None:
    """Twenty objects of a type that is not served for a while."""
    group = group_of(space)
    definition = space.definition(group, versions=("v1", "v2"))
    space.base(rules=[CONFIGMAPS, {"apiGroups": [group], "apiVersions": ["v1"], "resources": ["gizmos"]}])
    for number in range(20):
        space.custom(group, f"g{number}", size=1)
    until(lambda: len([f for f in space.git.files() if "gizmos" in f]) == 20, "20 gizmos are in Git")
    space.quiet(2)
    before = space.git.tip()
    served = space.kube.get(definition)["spec"]["versions"]
    space.kube.patch(definition, {"spec": {"versions": [{**v, "served": v["name"] != "v1"} for v in served]}})
    started = time.monotonic()
    space.configmap("x")
    space.in_git("x", seconds=15)
    while time.monotonic() - started < seconds:
        time.sleep(0.2)
    space.kube.patch(definition, {"spec": {"versions": served}})

    def touch() -> bool:
        try:
            space.kube.patch(space.path("gizmos", "g3", group), {"spec": {"size": 2}})
        except (KubeNotFound, KubeThrottled):
            return False
        return True

    until(touch, "the type is served again")
    arrives(space, custom_file(space, group, "g3"), b"size: 2", seconds=45)
    assert len([f for f in space.git.files() if "gizmos" in f]) == 20
    log = [c for c in space.git.log() if c.sha != before]
    commits = log[: [c.sha for c in space.git.log()].index(before)]
    assert len(commits) == 2, [c.subject for c in commits]


@beside
def test_a_broken_api_service(space: Workspace) -> None:
    """C15: a group without a backend stops neither what runs nor what is new, and nothing is deleted."""
    space.base(rules=[{"apiGroups": ["*"], "resources": ["configmaps"]}])
    space.configmap("a")
    space.in_git("a")
    if not space.broken_api_service(group_of(space, "broken")):
        needs.able("this API server is no aggregator")
    space.configmap("b")
    space.in_git("b")
    space.target("gt2", path="second")
    space.rule(name="wr2", target="gt2")
    space.wait_streams("gt2")
    space.in_git("a", root="second")
    space.configmap("c")
    space.in_git("c", root="second")
    space.in_git("c")
    assert not [s for s in space.subjects() if s.startswith("[DELETE]")]


@beside
def test_operations_are_honoured(space: Workspace) -> None:
    """C20, C21: only what the rule names is mirrored, live and by a replay."""
    space.seed({space.file(name): _manifest(space, name) for name in ("kept", "old")})
    space.configmap("old", {"v": "2"})
    space.base(window="0s", rules=[{**CONFIGMAPS, "operations": ["CREATE"]}])
    space.configmap("a")
    space.in_git("a")
    space.set("a", "2")
    space.delete("a")
    space.quiet(3)
    assert b'v: "1"' in (space.git.read(space.file("a")) or b"")
    assert space.subjects() == ["[CREATE] v1/configmaps/a", "human"]
    assert space.git.read(space.file("kept")) is not None
    assert space.git.read(space.file("old")) == _manifest(space, "old").encode()


def _manifest(space: Workspace, name: str, value: str = "1") -> str:
    return (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {space.namespace}\n"
        f'data:\n  v: "{value}"\n'
    )


@beside
def test_a_rule_that_goes_and_comes_back(space: Workspace) -> None:
    """C23, A21: nothing happens in between; afterwards deleted, changed and new objects are right."""
    space.base(rules=[CONFIGMAPS, SERVICES])
    for name in "ab":
        space.configmap(name)
        space.in_git(name)
    space.patch_own("watchrules", "wr", {"rules": [SERVICES]})
    shows_summary(space, "1/1")
    space.delete("a")
    space.set("b", "2")
    space.configmap("c")
    space.quiet(4)
    space.patch_own("watchrules", "wr", {"rules": [CONFIGMAPS, SERVICES]})
    space.gone_from_git("a")
    space.in_git("b", b'v: "2"')
    space.in_git("c")
    space.kube.delete(own_path("watchrules", namespace=space.namespace, name="wr"))
    shows_summary(space, "0/0")
    space.set("b", "3")
    space.quiet(3)


@beside
def test_other_streams_live_on_when_a_rule_changes(space: Workspace) -> None:
    """C25: while a type leaves the rule, every write of another one is still delivered live, in order."""
    space.base(window="0s", rules=[CONFIGMAPS, SERVICES])
    shows_summary(space, "2/2")
    for number in range(20):
        space.configmap(f"n{number}")
        if number == 7:
            space.patch_own("watchrules", "wr", {"rules": [CONFIGMAPS]})
        time.sleep(0.15)
    space.in_git("n19")
    until(lambda: len(space.subjects()) == 20, "20 commits")
    assert space.subjects() == [f"[CREATE] v1/configmaps/n{number}" for number in reversed(range(20))]
    shows_summary(space, "1/1")


@beside
def test_one_type_by_two_rules(space: Workspace) -> None:
    """C26: a namespaced rule beside a cluster-wide one is one document, one commit, and both are Ready."""
    space.base()
    space.cluster_rule([{**CONFIGMAPS, "scope": "Namespaced"}])
    name = f"cwr-{space.namespace}"

    def ready(path: str) -> bool:
        conditions = space.kube.get(path).get("status", {}).get("conditions", [])
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    until(lambda: ready(own_path("clusterwatchrules", name=name)), "the ClusterWatchRule is Ready")
    shows_summary(space, "1/1")
    space.wait_ready()
    space.configmap("menu")
    space.in_git("menu")
    assert ready(own_path("watchrules", namespace=space.namespace, name="wr"))
    assert len([f for f in space.git.files() if f.endswith(f"{space.namespace}/configmaps/menu.yaml")]) == 1
    assert len(space.history("menu")) == 1


@beside
def test_the_products_own_kinds(space: Workspace) -> None:
    """C30: its objects are mirrored like others, without status and without feeding back."""
    own = ["gitproviders", "gittargets", "watchrules", "commitrequests"]
    space.base(rules=[{"apiGroups": ["configbutler.ai"], "resources": own}, CONFIGMAPS])
    root = f"live/{space.namespace}/configbutler.ai"
    content = arrives(space, f"{root}/gittargets/gt.yaml")
    assert b"status" not in content
    space.wait_ready()
    space.patch_own("gitproviders", "gp", {"push": {"commitWindow": "2s"}})
    arrives(space, f"{root}/gitproviders/gp.yaml", b"2s")
    space.configmap("menu")
    space.in_git("menu")
    space.quiet()
    space.configmap("more")
    space.in_git("more")
    assert space.subjects()[0] == "[CREATE] v1/configmaps/more"


@beside
def test_namespaces_and_their_contents(space: Workspace) -> None:
    """D16: a deleted namespace leaves Git; objects that still exist in it stay."""
    pop = f"pop-{space.namespace}"
    space.provider()
    space.target()
    space.cluster_rule(
        [
            {"scope": "Cluster", "apiGroups": [""], "resources": ["namespaces"]},
            {**CONFIGMAPS, "scope": "Namespaced"},
        ]
    )
    space.wait_streams()
    space.kube.create(
        core_path("namespaces"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": pop}}
    )
    path = core_path("configmaps", namespace=pop)
    hold = {"name": "held", "finalizers": ["lab.test/hold"]}
    space.kube.create(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": hold})
    arrives(space, f"live/_cluster/namespaces/{pop}.yaml")
    arrives(space, f"live/{pop}/configmaps/held.yaml")
    space.kube.delete(core_path("namespaces", name=pop))
    until(lambda: space.git.read(f"live/_cluster/namespaces/{pop}.yaml") is None, "the namespace is gone")
    with contextlib.suppress(KubeConflict):
        space.kube.patch(f"{path}/held", {"metadata": {"finalizers": None}})

    def follows() -> bool:
        here = space.git.read(f"live/{pop}/configmaps/held.yaml") is not None
        return here is any(obj["metadata"]["name"] == "held" for obj in space.kube.list(path).items)

    until(follows, "the content is in Git exactly while it exists")
