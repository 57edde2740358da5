"""What a control plane does by itself: establishing and removing custom resources, namespaces and their end.

There are no controllers here, as on a bare API server: Deployments do not roll out, owner references do not
cascade, and a deleted namespace stays `Terminating` unless the sandbox is told to finish namespaces.
"""

from collections.abc import Callable
from typing import Any

from reverser.sandbox import managed, objects
from reverser.sandbox.mergekeys import merge_schema
from reverser.sandbox.registry import Registry, Resource
from reverser.sandbox.status import forbidden, not_found
from reverser.sandbox.storage import ResourceKey, Storage

Obj = dict[str, Any]

CRDS: ResourceKey = ("apiextensions.k8s.io", "customresourcedefinitions")
NAMESPACES: ResourceKey = ("", "namespaces")
_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_KEPT = frozenset({"default", "kube-system", "kube-public"})
_SERVER = "kube-apiserver"


class Lifecycle:
    """Reacts to writes on CustomResourceDefinitions and Namespaces; `close_watches` ends streams of
    resources.
    """

    def __init__(self, storage: Storage, registry: Registry, *, finish_namespaces: bool = False) -> None:
        self._storage = storage
        self._registry = registry
        self._finish_namespaces = finish_namespaces
        self.close_watches: Callable[[list[Resource]], None] = lambda resources: None

    # --- namespaces ---

    def check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        """Refuse a create where the namespace is missing (404) or ending (403)."""
        found = self._storage.get(NAMESPACES, "", namespace)
        if found is None:
            raise not_found("", "namespaces", namespace)
        if found["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise forbidden(resource.rtype.group, resource.rtype.resource, name, why, [cause])

    def end_namespace(self, live: Obj) -> Obj:
        """Mark a namespace for deletion; returns its new state. Raises 403 for the system's own."""
        name = live["metadata"]["name"]
        if name in _KEPT:
            raise forbidden("", "namespaces", name, "this namespace may not be deleted")
        if live["metadata"].get("deletionTimestamp"):
            return live
        metadata = live["metadata"] | {"deletionTimestamp": objects.now()}
        ended = live | {"metadata": metadata, "status": (live.get("status") or {}) | {"phase": "Terminating"}}
        return self._storage.put(NAMESPACES, "", name, _reordered(ended))

    def finish_namespace(self, name: str) -> None:
        """Delete what an ending namespace holds, then the namespace, where the sandbox does that at all."""
        if not self._finish_namespaces:
            return
        found = self._storage.get(NAMESPACES, "", name)
        if found is None or not found["metadata"].get("deletionTimestamp"):
            return
        for key in self._storage.resources():
            for obj in self._storage.items(key, name):
                self._remove_content(key, obj)
        if any(self._storage.items(key, name) for key in self._storage.resources()):
            return
        if self._storage.get(NAMESPACES, "", name) is not None:
            self._storage.delete(NAMESPACES, "", name)

    def _remove_content(self, key: ResourceKey, obj: Obj) -> None:
        metadata = obj["metadata"]
        if not metadata.get("finalizers"):
            self._storage.delete(key, metadata.get("namespace", ""), metadata["name"])
        elif not metadata.get("deletionTimestamp"):
            marked = metadata | {"deletionTimestamp": objects.now(), "deletionGracePeriodSeconds": 0}
            self._storage.put(
                key, metadata.get("namespace", ""), metadata["name"], _reordered(obj | {"metadata": marked})
            )

    # --- custom resource definitions ---

    def restore(self) -> None:
        """Serve the CustomResourceDefinitions that a state directory held."""
        for crd in self._storage.items(CRDS, None):
            if _condition(crd, "Established") == "True":
                self._registry.install(crd)

    def after_write(self, key: ResourceKey, old: Obj | None, new: Obj) -> None:
        """Called behind every stored create and update."""
        if key != CRDS or new["metadata"].get("deletionTimestamp"):
            return
        if old is None:
            self._establish(new)
        elif old.get("spec") != new.get("spec"):
            before = self._resources(old)
            self._registry.install(new)
            self.close_watches(before)

    def after_delete(self, key: ResourceKey, namespace: str) -> None:
        """Called behind every stored delete: an ending CRD or namespace may have been waiting for it."""
        if namespace:
            self.finish_namespace(namespace)
        if self._storage.bucket(key).objects:
            return
        for crd in self._storage.items(CRDS, None):
            spec = crd["spec"]
            if (spec["group"], spec["names"]["plural"]) == key and crd["metadata"].get("deletionTimestamp"):
                self._forget(crd)

    def end_crd(self, live: Obj) -> Obj:
        """Mark a CustomResourceDefinition for deletion; returns that state. `finish_crd` does the rest."""
        if live["metadata"].get("deletionTimestamp"):
            return live
        finalizers = [*(live["metadata"].get("finalizers") or []), _CLEANUP]
        marked = live["metadata"] | {"deletionTimestamp": objects.now(), "finalizers": finalizers}
        message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        pending = _with_conditions(
            live | {"metadata": marked}, ("Terminating", "True", "InstanceDeletionPending", message)
        )
        return self._storage.put(CRDS, "", live["metadata"]["name"], _reordered(pending))

    def finish_crd(self, name: str) -> None:
        """Delete the instances, close their watches, then delete the definition."""
        crd = self._storage.get(CRDS, "", name)
        if crd is None:
            return
        progress = (
            "Terminating",
            "True",
            "InstanceDeletionInProgress",
            "CustomResource deletion is in progress",
        )
        crd = self._write_status(crd, progress)
        key = (crd["spec"]["group"], crd["spec"]["names"]["plural"])
        for obj in self._storage.items(key, None):
            self._remove_content(key, obj)
        if not self._storage.bucket(key).objects:
            self._forget(crd)

    def _forget(self, crd: Obj) -> None:
        resources = self._resources(crd)
        self._registry.remove(crd["metadata"]["name"])
        self.close_watches(resources)
        self._storage.delete(CRDS, "", crd["metadata"]["name"])

    def _establish(self, crd: Obj) -> None:
        names = crd["spec"]["names"]
        crd = crd | {"status": (crd.get("status") or {}) | {"acceptedNames": names}}
        accepted = "the initial names have been accepted"
        crd = self._write_status(
            crd,
            ("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
            ("Established", "False", "Installing", accepted),
        )
        crd = self._write_status(crd, ("Established", "True", "InitialNamesAccepted", accepted))
        self._registry.install(crd)

    def _write_status(self, crd: Obj, *conditions: tuple[str, str, str, str]) -> Obj:
        live = self._storage.get(CRDS, "", crd["metadata"]["name"])
        new = _with_conditions(crd, *conditions)
        entries = managed.track(
            live,
            new,
            manager=_SERVER,
            api_version=f"{CRDS[0]}/v1",
            subresource="status",
            time=objects.now(),
            schema=merge_schema(CRDS[0], "CustomResourceDefinition"),
        )
        new = new | {"metadata": new["metadata"] | {"managedFields": entries}}
        return self._storage.put(CRDS, "", crd["metadata"]["name"], new)

    def _resources(self, crd: Obj) -> list[Resource]:
        spec = crd["spec"]
        found = (
            self._registry.find(spec["group"], v["name"], spec["names"]["plural"]) for v in spec["versions"]
        )
        return [resource for resource in found if resource is not None]


def _with_conditions(crd: Obj, *conditions: tuple[str, str, str, str]) -> Obj:
    status = crd.get("status") or {}
    listed = [dict(c) for c in status.get("conditions") or []]
    for kind, state, reason, message in conditions:
        entry = {
            "type": kind,
            "status": state,
            "lastTransitionTime": objects.now(),
            "reason": reason,
            "message": message,
        }
        listed = [entry if c["type"] == kind else c for c in listed]
        if all(c["type"] != kind for c in listed):
            listed.append(entry)
    return crd | {"status": {"conditions": listed} | {k: v for k, v in status.items() if k != "conditions"}}


def _condition(crd: Obj, kind: str) -> str:
    conditions = (crd.get("status") or {}).get("conditions") or []
    return next((c["status"] for c in conditions if c["type"] == kind), "")


def _reordered(obj: Obj) -> Obj:
    return obj | {"metadata": objects.ordered_metadata(obj["metadata"])}
