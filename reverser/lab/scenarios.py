"""The changes whose traces are recorded, one short script each, in a namespace of its own.

Each is chosen for a fact that attribution rests on (``reverser.lab.facts``). A script only makes requests;
refusals are part of the scenario, so a refused request is no error here.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from reverser.errors import ReverserError
from reverser.kube.paths import resource_path
from reverser.kube.sync import Kube
from reverser.lab.capabilities import Capability, Type

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
DENIED = "denied-by-the-lab"
CONFIG_MAP = Type("", "v1", "configmaps", "ConfigMap")
DEPLOYMENT = Type("apps", "v1", "deployments", "Deployment")
GIZMO = Type("lab.configbutler.ai", "v2", "gizmos", "Gizmo")
OLDER = "v1"
"""The version of Gizmo that is served beside the one that is stored and watched."""
LONGEST_WAIT = 20.0
A_SECOND = 1.1
Obj = dict[str, Any]


class Actor:
    """Somebody in a namespace. Requests are impersonated with an administrator's group."""

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        user: str = "",
        extra: Mapping[str, str] | None = None,
        *,
        type: Type = CONFIG_MAP,
    ) -> None:
        self._kube = kube
        self.namespace = namespace
        self.type = type
        self.watched: list[Obj] = []
        """What watches of the script's own showed."""
        self._headers: dict[str, str] = {}
        if user:
            self._headers = {"Impersonate-User": user, "Impersonate-Group": "system:masters"}
            for key, value in (extra or {}).items():
                self._headers[f"Impersonate-Extra-{key.replace('/', '%2F')}"] = value

    def be(self, user: str, **claims: str) -> Actor:
        """Another user in the same namespace."""
        extra = {f"configbutler.ai/claims/{key.replace('_', '-')}": text for key, text in claims.items()}
        return Actor(self._kube, self.namespace, user, extra, type=self.type)

    def path(self, name: str = "", *, version: str = "") -> str:
        """The collection of the scenario's type, or an object in it."""
        kind = self.type
        return resource_path(
            kind.group, version or kind.version, kind.resource, namespace=self.namespace, name=name
        )

    def ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", **query: str
    ) -> Obj:
        """One request; empty when it is refused."""
        with contextlib.suppress(ReverserError):
            answer = self._kube.raw(
                method, path, query=query or None, body=body, headers=self._headers, content_type=kind
            )
            found: Obj = orjson.loads(answer)
            return found
        return {}

    def watch_from(self, version: str, path: str = "") -> None:
        """A short watch from a version, as it answers now."""
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "2"}
        answer = self._kube.raw("GET", path or self.path(), query=query)
        self.watched += [orjson.loads(line) for line in answer.splitlines() if line]

    def create(self, name: str, **meta: Any) -> Obj:
        """A ConfigMap."""
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, **meta},
            "data": {"k": "v1"},
        }
        return self.ask("POST", self.path(), body)

    def patch(self, name: str, body: Obj) -> Obj:
        """A merge patch of a ConfigMap."""
        return self.ask("PATCH", self.path(name), body, MERGE)

    def apply(self, name: str, value: str) -> Obj:
        """Server-side apply of a ConfigMap."""
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}}
        return self.ask("PATCH", self.path(name), body, APPLY, fieldManager="lab", force="true")

    def wait_for(self, name: str, true: Callable[[Obj], bool]) -> None:
        """Until an object is as it should be (empty: it is gone), or the longest wait is over."""
        end = time.monotonic() + LONGEST_WAIT
        while not true(self.ask("GET", self.path(name))) and time.monotonic() < end:
            time.sleep(0.1)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A script with a name, what it works on, and what it needs; ``definition`` is there for its time."""

    id: str
    title: str
    run: Callable[[Actor], None]
    type: Type = CONFIG_MAP
    needs: Capability | None = None
    definition: Mapping[str, Any] | None = None
    managers: bool = False
    """The watch shows the field managers too."""


def _create(lab: Actor) -> None:
    lab.be("alice").create("a")


def _generated(lab: Actor) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}}
    lab.be("alice").ask("POST", lab.path(), body)


def _update(lab: Actor) -> None:
    made = lab.be("alice").create("a")
    lab.be("bob").ask("PUT", lab.path("a"), {**made, "data": {"k": "v2"}})
    lab.be("carol", display_name="Carol C. Example", email="carol@example.com").patch(
        "a", {"data": {"k": "v3"}}
    )
    lab.be("system:serviceaccount:lab:robot").patch("a", {"data": {"k": "v4"}})


def _applied(lab: Actor) -> None:
    lab.be("alice").apply("a", "v1")
    lab.be("alice").apply("a", "v2")


def _no_op(lab: Actor) -> None:
    lab.be("alice").apply("a", "v1")
    lab.be("dave").apply("a", "v1")


def _managers(lab: Actor) -> None:
    """Every request that sets something has a second of its own."""

    def patch(manager: str, data: Obj) -> None:
        lab.be("alice").ask("PATCH", lab.path("a"), {"data": data}, MERGE, fieldManager=manager)

    body: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    made = {**body, "data": {"k": "v1", "l": "v1"}}
    lab.be("alice").ask("POST", lab.path(), made, fieldManager="one")
    for manager, data in (("one", {"k": "v2"}), ("two", {"m": "v1"})):
        time.sleep(A_SECOND)
        patch(manager, data)
    time.sleep(A_SECOND)
    patch("one", {"l": None})
    patch("three", {"k": "v2"})
    for wish in ({**body, "data": {"n": "v1"}}, body):
        lab.be("alice").ask("PATCH", lab.path("a"), wish, APPLY, fieldManager="four")
        time.sleep(A_SECOND)


def _no_op_put(lab: Actor) -> None:
    made = lab.be("alice").create("a")
    lab.be("dave").ask("PUT", lab.path("a"), made)


def _stale(lab: Actor) -> None:
    made = lab.be("alice").create("a")
    lab.be("alice").patch("a", {"data": {"k": "v2"}})
    lab.be("mallory").ask("PUT", lab.path("a"), {**made, "data": {"k": "v9"}})


def _dry_run(lab: Actor) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dry"}}
    lab.be("alice").ask("POST", lab.path(), body, dryRun="All")
    lab.be("alice").create("a")
    lab.be("alice").ask("PATCH", lab.path("a"), {"data": {"k": "v2"}}, MERGE, dryRun="All")


def _dry_deletion(lab: Actor) -> None:
    dry = {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}
    lab.be("alice").create("a", labels={"batch": "x"})
    lab.be("mallory").ask("DELETE", lab.path("a"), dry)
    lab.be("mallory").ask("DELETE", lab.path(), dry, labelSelector="batch=x")


def _rejected(lab: Actor) -> None:
    lab.be("alice").create(DENIED)


def _delete(lab: Actor) -> None:
    lab.be("alice").create("a")
    lab.be("bob").ask("DELETE", lab.path("a"))


def _held(lab: Actor) -> None:
    lab.be("alice").create("held", finalizers=["lab.example.com/hold"])
    lab.be("bob").ask("DELETE", lab.path("held"))
    lab.be("system:serviceaccount:lab:releaser").patch("held", {"metadata": {"finalizers": None}})


def _collection(lab: Actor) -> None:
    for name in ("a", "b", "c"):
        lab.be("alice").create(name, labels={"batch": "x"})
    lab.be("alice").create("keep")
    lab.be("bob").ask("DELETE", lab.path(), labelSelector="batch=x")


def _scale(lab: Actor) -> None:
    labels = {"app": "till"}
    pod = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "t", "image": "lab.example.com/t:1"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "till"}, "spec": spec}
    path = lab.path()
    lab.be("alice").ask("POST", path, body)
    lab.be("carol").ask("PATCH", f"{path}/till/scale", {"spec": {"replicas": 1}}, MERGE)
    lab.be("dora").ask("PATCH", f"{path}/till/status", {"status": {"observedGeneration": 1}}, MERGE)


def _expired(lab: Actor) -> None:
    lab.watch_from("1")


def _owned(lab: Actor, policy: str) -> None:
    """An owner and its child; somebody else deletes the owner."""
    owner = lab.be("alice").create("owner")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "blockOwnerDeletion": True}
    uid = (owner.get("metadata") or {}).get("uid")
    lab.be("alice").create("child", ownerReferences=[{**reference, "uid": uid}])
    lab.be("bob").ask("DELETE", lab.path("owner"), {"propagationPolicy": policy})
    lab.wait_for("owner", lambda found: not found)


def _cascade(lab: Actor) -> None:
    _owned(lab, "Background")
    lab.wait_for("child", lambda found: not found)


def _cascade_first(lab: Actor) -> None:
    _owned(lab, "Foreground")
    lab.wait_for("child", lambda found: not found)


def _orphaned(lab: Actor) -> None:
    _owned(lab, "Orphan")
    lab.wait_for("child", lambda found: "ownerReferences" not in (found.get("metadata") or {}))


def _two_versions(lab: Actor) -> None:
    older = lab.path(version=OLDER)
    before = lab.ask("GET", older)
    body = {"apiVersion": f"{GIZMO.group}/{OLDER}", "kind": GIZMO.kind, "metadata": {"name": "a"}}
    lab.be("alice").ask("POST", older, {**body, "spec": {"size": 1}})
    lab.be("bob").ask("PATCH", lab.path("a"), {"spec": {"size": 2}}, MERGE)
    lab.be("carol").ask("DELETE", lab.path("a", version=OLDER))
    lab.watch_from(str((before.get("metadata") or {}).get("resourceVersion", "")), older)


def _aggregated(lab: Actor) -> None:
    body = {"apiVersion": lab.type.api_version, "kind": lab.type.kind, "metadata": {"name": "a"}}
    lab.be("alice").ask("POST", lab.path(), body)
    lab.be("bob").ask("DELETE", lab.path("a"))
    lab.be("alice").ask("POST", lab.path(), body)
    lab.be("carol").ask("DELETE", lab.path())


def _definition() -> Obj:
    """Gizmo, served in two versions without conversion."""

    def version(name: str, *, stored: bool) -> Obj:
        schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": _SIZE}}}
        return {"name": name, "served": True, "storage": stored, "schema": {"openAPIV3Schema": schema}}

    names = {"plural": GIZMO.resource, "singular": "gizmo", "kind": GIZMO.kind}
    versions = [version(OLDER, stored=False), version(GIZMO.version, stored=True)]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{GIZMO.resource}.{GIZMO.group}"},
        "spec": {"group": GIZMO.group, "names": names, "scope": "Namespaced", "versions": versions},
    }


_SIZE = {"size": {"type": "integer"}}
_COLLECTED = Capability.GARBAGE_COLLECTION
SCENARIOS = (
    Scenario("create", "a creation", _create),
    Scenario("generate-name", "a creation with a generated name", _generated),
    Scenario("update", "an update, a patch with claims, a patch by a service account", _update),
    Scenario("apply", "server-side apply, twice", _applied),
    Scenario("no-op-apply", "the same server-side apply by somebody else", _no_op),
    Scenario("no-op-update", "an update to what is there already", _no_op_put),
    Scenario(
        "field-managers",
        "who sets, takes away, repeats, applies and gives up fields",
        _managers,
        managers=True,
    ),
    Scenario("stale-update", "an update from an old version", _stale),
    Scenario("dry-run", "a dry-run creation and patch", _dry_run),
    Scenario("dry-run-delete", "dry-run deletions, asked for in the body", _dry_deletion),
    Scenario("rejected", "a creation that a webhook refuses", _rejected),
    Scenario("delete", "a plain deletion", _delete),
    Scenario("delete-held", "a deletion with a finalizer that somebody else clears", _held),
    Scenario("delete-collection", "the deletion of a collection by label", _collection),
    Scenario("scale-status", "a scale and a status request on a Deployment", _scale, DEPLOYMENT),
    Scenario("expired", "a watch from a version that is no longer known", _expired),
    Scenario("cascade-background", "the deletion of an owner, its child later", _cascade, needs=_COLLECTED),
    Scenario(
        "cascade-foreground", "the deletion of an owner after its child", _cascade_first, needs=_COLLECTED
    ),
    Scenario("cascade-orphan", "the deletion of an owner that leaves its child", _orphaned, needs=_COLLECTED),
    Scenario(
        "two-versions", "writes in two versions of a type", _two_versions, GIZMO, definition=_definition()
    ),
    Scenario(
        "aggregated",
        "creations and deletions of an aggregated API",
        _aggregated,
        needs=Capability.AGGREGATED_API,
    ),
)
