"""Deleting one object, or a collection of them.

An object with finalizers is only marked (MODIFIED), one without goes at once (DELETED). The answer differs
accordingly: the object in the first case, a `Status` in the second.
"""

from typing import Any

from reverser.sandbox import objects
from reverser.sandbox.admission import Admission, Review
from reverser.sandbox.call import Call, parse_body
from reverser.sandbox.lifecycle import CRDS, NAMESPACES, Lifecycle
from reverser.sandbox.selectors import field_selector, label_selector
from reverser.sandbox.status import bad_request, conflict, not_found, success
from reverser.sandbox.storage import Storage

Obj = dict[str, Any]


class Deleter:
    """Carries out deletes."""

    def __init__(self, storage: Storage, admission: Admission, lifecycle: Lifecycle) -> None:
        self._storage = storage
        self._admission = admission
        self._lifecycle = lifecycle

    async def delete(self, call: Call) -> Obj:
        """Delete the object of the URL; returns the body to answer with."""
        resource, rtype, name = call.resource, call.resource.rtype, call.info.name
        options = _options(call)
        live = self._storage.get(resource.key, call.namespace, name)
        if live is None:
            raise not_found(rtype.group, rtype.resource, name)
        _check_preconditions(call, options, live)
        await self._admit(call, live, name, options)
        current = self._storage.get(resource.key, call.namespace, name)
        if current is None:
            raise not_found(rtype.group, rtype.resource, name)
        _check_preconditions(call, options, current)
        uid = current["metadata"]["uid"]
        if options.get("dryRun"):
            return success(rtype.group, rtype.resource, name, uid)
        held = self._remove(call, current)
        if held is None:
            return success(rtype.group, rtype.resource, name, uid)
        return resource.view(held)

    async def collection(self, call: Call) -> Obj:
        """Delete every object that the selectors choose; returns the list of what there was."""
        resource, rtype = call.resource, call.resource.rtype
        options = _options(call)
        tests = [
            test
            for test in (
                label_selector(call.query.get("labelSelector", "")),
                field_selector(
                    call.query.get("fieldSelector", ""),
                    rtype.group,
                    rtype.kind,
                    custom=resource.crd is not None,
                ),
            )
            if test is not None
        ]
        namespace = call.namespace if call.namespace else None
        version = str(self._storage.rv)
        chosen = [o for o in self._storage.items(resource.key, namespace) if all(test(o) for test in tests)]
        for obj in chosen:
            metadata = obj["metadata"]
            await self._admit(call, obj, "", options)
            current = self._storage.get(resource.key, metadata.get("namespace", ""), metadata["name"])
            if current is not None and not options.get("dryRun"):
                self._remove(call, current)
        return {
            "kind": rtype.list_kind,
            "apiVersion": rtype.group_version,
            "metadata": {"resourceVersion": version},
            "items": [list_item(call, obj) for obj in chosen],
        }

    def _remove(self, call: Call, live: Obj) -> Obj | None:
        """Take an object away; returns its new state where something holds it, None where it is gone."""
        resource, metadata = call.resource, live["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        if resource.key == NAMESPACES:
            ended = self._lifecycle.end_namespace(live)
            self._lifecycle.finish_namespace(name)
            return ended
        if resource.key == CRDS:
            ended = self._lifecycle.end_crd(live)
            self._lifecycle.finish_crd(name)
            return ended
        if not metadata.get("finalizers"):
            self._storage.delete(resource.key, namespace, name)
            self._lifecycle.after_delete(resource.key, namespace)
            return None
        if metadata.get("deletionTimestamp"):
            return live
        marked = metadata | {"deletionTimestamp": objects.now(), "deletionGracePeriodSeconds": 0}
        if "generation" in marked:
            marked["generation"] += 1
        new = objects.ordered(resource, resource.view(live) | {"metadata": marked})
        return self._storage.put(resource.key, namespace, name, resource.stored(new))

    async def _admit(self, call: Call, live: Obj, name: str, options: Obj) -> None:
        if not self._admission.concerns(call.resource):
            return
        shown = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        shown |= {key: value for key, value in options.items() if key not in shown}
        outcome = await self._admission.validate(
            Review(
                operation="DELETE",
                resource=call.resource,
                subresource="",
                namespace=call.namespace,
                name=name,
                user=call.user,
                obj=None,
                old=call.resource.view(live),
                dry_run=bool(options.get("dryRun")),
                options=shown,
            )
        )
        call.draft.annotations |= outcome.annotations
        call.warnings += outcome.warnings


def list_item(call: Call, obj: Obj) -> Obj:
    """An object inside a list: built-in types leave out kind and apiVersion there."""
    shown = call.resource.view(obj)
    if call.resource.crd is not None:
        return shown
    return {key: value for key, value in shown.items() if key not in ("kind", "apiVersion")}


def _options(call: Call) -> Obj:
    options: Obj = {}
    if call.body.strip():
        try:
            parsed = parse_body(call.body, call.content_type)
        except ValueError as error:
            raise bad_request(str(error)) from error
        if not isinstance(parsed, dict):
            raise bad_request("the delete options must be an object")
        options = {key: value for key, value in parsed.items() if key not in ("kind", "apiVersion")}
        call.draft.request_object = {
            "kind": "DeleteOptions",
            "apiVersion": "meta.k8s.io/__internal",
        } | options
    if call.dry_run:
        options["dryRun"] = ["All"]
    for name in ("propagationPolicy", "gracePeriodSeconds"):
        if call.query.get(name) and name not in options:
            value = call.query[name]
            options[name] = int(value) if value.isdigit() else value
    return options


def _check_preconditions(call: Call, options: Obj, live: Obj) -> None:
    wanted, rtype, metadata = options.get("preconditions") or {}, call.resource.rtype, live["metadata"]
    for field, label, guess in (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ):
        if wanted.get(field) and wanted[field] != metadata[field]:
            why = (
                f"the {label} in the precondition ({wanted[field]}) does not match the {label} in record "
                f"({metadata[field]}). The object might have been {guess}"
            )
            raise conflict(rtype.group, rtype.kind, call.info.name, why)
