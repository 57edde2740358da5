"""The changes whose traces are recorded, one short script each, in a namespace of its own.

Each is chosen for a fact that attribution rests on (``reverser.lab.facts``). A script only makes requests;
refusals are part of the scenario, so a refused request is no error here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from reverser.errors import ReverserError
from reverser.kube.paths import resource_path
from reverser.kube.sync import Kube

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
DENIED = "denied-by-the-lab"
Obj = dict[str, Any]


class Actor:
    """Somebody in a namespace. Requests are impersonated with an administrator's group."""

    def __init__(
        self, kube: Kube, namespace: str, user: str = "", extra: Mapping[str, str] | None = None
    ) -> None:
        self._kube = kube
        self.namespace = namespace
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
        return Actor(self._kube, self.namespace, user, extra)

    def path(self, name: str = "", resource: str = "configmaps", group: str = "") -> str:
        """A collection, or an object in it."""
        return resource_path(group, "v1", resource, namespace=self.namespace, name=name)

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

    def watch_from(self, version: str) -> None:
        """A short watch from a version, as it answers now."""
        answer = self._kube.raw(
            "GET", self.path(), query={"watch": "true", "resourceVersion": version, "timeoutSeconds": "2"}
        )
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


@dataclass(frozen=True, slots=True)
class Scenario:
    """A script with a name; ``resource`` is what is watched meanwhile."""

    id: str
    title: str
    run: Callable[[Actor], None]
    group: str = ""
    resource: str = "configmaps"


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
    path = lab.path(resource="deployments", group="apps")
    lab.be("alice").ask("POST", path, body)
    lab.be("carol").ask("PATCH", f"{path}/till/scale", {"spec": {"replicas": 1}}, MERGE)
    lab.be("dora").ask("PATCH", f"{path}/till/status", {"status": {"observedGeneration": 1}}, MERGE)


def _expired(lab: Actor) -> None:
    lab.watch_from("1")


SCENARIOS = (
    Scenario("create", "a creation", _create),
    Scenario("generate-name", "a creation with a generated name", _generated),
    Scenario("update", "an update, a patch with claims, a patch by a service account", _update),
    Scenario("apply", "server-side apply, twice", _applied),
    Scenario("no-op-apply", "the same server-side apply by somebody else", _no_op),
    Scenario("no-op-update", "an update to what is there already", _no_op_put),
    Scenario("stale-update", "an update from an old version", _stale),
    Scenario("dry-run", "a dry-run creation and patch", _dry_run),
    Scenario("rejected", "a creation that a webhook refuses", _rejected),
    Scenario("delete", "a plain deletion", _delete),
    Scenario("delete-held", "a deletion with a finalizer that somebody else clears", _held),
    Scenario("delete-collection", "the deletion of a collection by label", _collection),
    Scenario("scale-status", "a scale and a status request on a Deployment", _scale, "apps", "deployments"),
    Scenario("expired", "a watch from a version that is no longer known", _expired),
)
