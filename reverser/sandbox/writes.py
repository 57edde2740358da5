"""Create, update and patch, in the order a real server takes their steps.

Decode, default, (namespace) lifecycle, prepare, validate, ask webhooks, store. Between reading an object and
storing its successor lies at most the call of the webhooks; if the object changed meanwhile, a write that
named a version fails with 409 and any other starts over, so no update is lost and none is merged with a state
it did not see.
"""

from typing import Any

from reverser.sandbox import managed, objects
from reverser.sandbox.admission import Admission, Review
from reverser.sandbox.apply import apply_patch
from reverser.sandbox.call import (
    Call,
    check_kind,
    check_metadata_types,
    check_place,
    decode_object,
    decoded_builtin,
    go_type,
    parse_body,
    undecodable,
    unknown_fields,
    without_nulls,
)
from reverser.sandbox.causes import Cause
from reverser.sandbox.defaults import apply_defaults
from reverser.sandbox.lifecycle import CRDS, Lifecycle
from reverser.sandbox.mergekeys import MergeNode, merge_schema
from reverser.sandbox.patches import PatchError, json_patch, merge_patch, strategic_merge_patch
from reverser.sandbox.registry import Resource
from reverser.sandbox.services import SequentialAllocator
from reverser.sandbox.status import (
    ApiError,
    already_exists,
    bad_request,
    conflict,
    internal,
    invalid,
    not_found,
    unsupported_media,
)
from reverser.sandbox.storage import Event, EventType, Storage
from reverser.sandbox.validate import validate_builtin

Obj = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_ATTEMPTS = 5
#: Metadata that a client cannot change: taken from the stored object at every update.
_SERVER_OWNED = (
    "namespace",
    "name",
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
)


class Writer:
    """Carries out writes on one object."""

    def __init__(self, storage: Storage, admission: Admission, lifecycle: Lifecycle) -> None:
        self._storage = storage
        self._admission = admission
        self._lifecycle = lifecycle
        self._allocator = SequentialAllocator()
        storage.on_event.append(self._freed)

    def restore(self) -> None:
        """Learn which addresses the stored Services hold."""
        for service in self._storage.items(("", "services"), None):
            self._allocator.reserve(service)

    def _freed(self, event: Event) -> None:
        if event.resource == ("", "services") and event.type is EventType.DELETED:
            self._allocator.release(event.obj)

    async def create(self, call: Call, obj: Obj | None = None) -> Obj:
        """Store a new object (by default the one in the body); returns it as the request's version shows
        it.
        """
        resource = call.resource
        if obj is None:
            obj = decode_object(call)
            obj = self._decoded(call, obj, None)
        call.draft.name = obj["metadata"].get("name", "")
        check_place(call, obj)
        rtype, metadata = resource.rtype, obj["metadata"]
        if rtype.namespaced:
            self._lifecycle.check_namespace(resource, call.namespace, metadata.get("name", ""))
        if metadata.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        obj = self._new(call, obj)
        self._validate(resource, obj, None)
        metadata = obj["metadata"]
        name = metadata["name"]
        await self._admit(call, "CREATE", name, obj, None)
        if self._storage.get(resource.key, call.namespace, name) is not None:
            raise already_exists(rtype.group, rtype.resource, name)
        if call.dry_run:
            return obj
        if rtype.namespaced:
            self._lifecycle.check_namespace(resource, call.namespace, name)
        # The version takes its place among the metadata before the storage gives it its value.
        placed = objects.ordered(resource, obj | {"metadata": obj["metadata"] | {"resourceVersion": ""}})
        stored = self._storage.put(resource.key, call.namespace, name, resource.stored(placed))
        self._lifecycle.after_write(resource.key, None, stored)
        return resource.view(stored)

    async def update(self, call: Call) -> Obj:
        """Replace an object, or its status, by the one in the body."""
        resource, rtype = call.resource, call.resource.rtype
        desired = decode_object(call)
        name = call.info.name
        for _ in range(_ATTEMPTS):
            stored = self._storage.get(resource.key, call.namespace, name)
            decoded = self._decoded(call, desired, stored)
            call.draft.uid = decoded["metadata"].get("uid", "")
            call.draft.resource_version = decoded["metadata"].get("resourceVersion", "")
            if stored is None:
                raise not_found(rtype.group, rtype.resource, name)
            check_place(call, decoded)
            self._check_version(call, stored, decoded)
            done = await self._replace(call, stored, decoded)
            if done is not None:
                return done
            if decoded["metadata"].get("resourceVersion"):
                raise conflict(rtype.group, rtype.resource, name)
        raise conflict(rtype.group, rtype.resource, name)

    async def patch(self, call: Call) -> tuple[int, Obj]:
        """Apply the patch in the body; returns 201 and the object where server-side apply created it, else
        200.
        """
        resource, rtype, name = call.resource, call.resource.rtype, call.info.name
        accepted = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
        if resource.crd is None:
            accepted.insert(2, STRATEGIC_PATCH)
        if call.content_type not in accepted:
            if resource.crd is None:
                raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
            raise unsupported_media(accepted)
        try:
            patch = parse_body(call.body, call.content_type)
        except ValueError as error:
            said = str(error).removeprefix("json parse error: ")
            raise bad_request(f"error decoding patch: {said}") from error
        if call.content_type in (MERGE_PATCH, STRATEGIC_PATCH) and not isinstance(patch, dict):
            raise bad_request(
                f"error decoding patch: json: cannot unmarshal {go_type(patch)} into Go value of type "
                "map[string]interface {}"
            )
        call.draft.request_object = patch
        for _ in range(_ATTEMPTS):
            stored = self._storage.get(resource.key, call.namespace, name)
            if stored is None and (call.content_type != APPLY_PATCH or call.info.subresource):
                raise not_found(rtype.group, rtype.resource, name)
            if stored is None:
                return 201, await self._apply_new(call, patch)
            live = resource.view(stored)
            entries: list[Obj] | None = None
            if call.content_type == APPLY_PATCH:
                patched, entries = self._applied(call, live, patch)
            else:
                patched = self.patched(call, live, patch)
                if resource.crd is None:
                    patched = without_nulls(patched)
            patched = decoded_builtin(call, patched, patched=True)
            self._check_identity(call, stored, patched)
            self._check_version(call, stored, patched, needed=False)
            desired = self._default(resource, patched, live)
            if resource.crd is not None:
                unknown_fields(call, patched, desired, patched=True)
            done = await self._replace(call, stored, desired, entries)
            if done is not None:
                return 200, done
        raise conflict(rtype.group, rtype.resource, name)

    @staticmethod
    def patched(call: Call, live: Obj, patch: Any) -> Obj:
        """The object after a JSON, merge or strategic patch. Raises ApiError where it does not apply."""
        rtype = call.resource.rtype
        try:
            if call.content_type == JSON_PATCH:
                result = json_patch(live, patch)
            elif call.content_type == MERGE_PATCH:
                result = merge_patch(live, patch)
            else:
                result = strategic_merge_patch((rtype.group, rtype.kind), live, patch)
        except PatchError as error:
            details: Obj | None = {} if error.code == 422 else None
            raise ApiError(error.code, error.reason, error.message, details=details) from error
        if not isinstance(result, dict):
            said = f"json: cannot unmarshal {go_type(result)} into Go value of type map[string]interface {{}}"
            raise undecodable(call, result, said, patched=True)
        check_metadata_types(call, result, patched=True)
        if result.get("metadata") is None:
            result["metadata"] = {}
        return result

    def _applied(self, call: Call, live: Obj | None, patch: Any) -> tuple[Obj, list[Obj]]:
        rtype = call.resource.rtype
        if not call.query.get("fieldManager"):
            cause = Cause("fieldManager", "FieldValueRequired", "Required value: is required for apply patch")
            raise invalid("meta.k8s.io", "PatchOptions", "", [cause])
        if not isinstance(patch, dict):
            raise bad_request("the apply configuration must be an object")
        if patch.get("kind") != rtype.kind or patch.get("apiVersion") != rtype.group_version:
            raise bad_request(
                f"the apply configuration is of {patch.get('apiVersion')}, Kind={patch.get('kind')}, "
                f"expected {rtype.group_version}, Kind={rtype.kind}"
            )
        metadata = patch.get("metadata")
        patch = patch | {"metadata": dict(metadata) if isinstance(metadata, dict) else {}}
        check_place(call, patch)
        if (patch["metadata"]).get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        return apply_patch(
            live,
            patch,
            manager=call.query["fieldManager"],
            force=call.query.get("force") in ("true", "1"),
            api_version=rtype.group_version,
            subresource=call.info.subresource,
            time=objects.now(),
            schema=self._schema(call.resource),
        )

    async def _apply_new(self, call: Call, patch: Any) -> Obj:
        applied, entries = self._applied(call, None, patch)
        obj = self._default(call.resource, applied, None)
        obj["metadata"].pop("resourceVersion", None)
        obj["metadata"]["managedFields"] = entries
        return await self.create(call, obj)

    async def _replace(
        self, call: Call, stored: Obj, desired: Obj, entries: list[Obj] | None = None
    ) -> Obj | None:
        """Put `desired` in the place of `stored`; None where the stored object changed meanwhile."""
        resource, name = call.resource, call.info.name
        live = resource.view(stored)
        new = self._prepared(call, live, desired)
        self._validate(resource, new, live)
        if new != live or entries is not None:
            new = self._tracked(call, live, new, entries)
        await self._admit(call, "UPDATE", name, new, live)
        if self._storage.get(resource.key, call.namespace, name) is not stored:
            return None
        if new == live:
            return live
        if call.dry_run:
            return objects.ordered(resource, new)
        new = objects.ordered(resource, new)
        if self._is_over(resource, new):
            self._storage.delete(resource.key, call.namespace, name)
            self._lifecycle.after_delete(resource.key, call.namespace)
            return new
        written = self._storage.put(resource.key, call.namespace, name, resource.stored(new))
        self._lifecycle.after_write(resource.key, stored, written)
        return resource.view(written)

    @staticmethod
    def _is_over(resource: Resource, new: Obj) -> bool:
        if not new["metadata"].get("deletionTimestamp") or new["metadata"].get("finalizers"):
            return False
        return resource.key != ("", "namespaces") or not (new.get("spec") or {}).get("finalizers")

    def _decoded(self, call: Call, obj: Obj, stored: Obj | None) -> Obj:
        """Default (and for custom resources prune) a decoded object, and show it to the audit log."""
        resource = call.resource
        live = resource.view(stored) if stored is not None else None
        decoded = self._default(resource, obj, live)
        if resource.crd is not None:
            unknown_fields(call, obj, decoded)
        shown = decoded
        if resource.rtype.kind == "Namespace" and not (obj.get("spec") or {}).get("finalizers"):
            shown = decoded | {"spec": {k: v for k, v in decoded["spec"].items() if k != "finalizers"}}
        call.draft.request_object = shown | {"metadata": dict(decoded["metadata"])}
        return decoded

    def _default(self, resource: Resource, obj: Obj, live: Obj | None) -> Obj:
        rtype = resource.rtype
        if resource.crd is None:
            return apply_defaults(rtype.group, rtype.version, rtype.kind, obj, old=live)
        crd = resource.crd
        pruned = crd.default(rtype.version, crd.prune(rtype.version, obj))
        return pruned | {"metadata": dict(pruned["metadata"])}

    def _new(self, call: Call, obj: Obj) -> Obj:
        """Everything the server sets on an object it creates."""
        resource, rtype = call.resource, call.resource.rtype
        metadata = {
            k: v
            for k, v in obj["metadata"].items()
            if k not in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")
        }
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = objects.generated_name(metadata["generateName"])
        metadata["uid"] = objects.new_uid()
        metadata["creationTimestamp"] = objects.now()
        if objects.counts_generation(resource):
            metadata["generation"] = 1
        obj = obj | {"metadata": metadata}
        if resource.has_status and rtype.kind != "CustomResourceDefinition":
            obj = {key: value for key, value in obj.items() if key != "status"}
        if resource.crd is None:
            allocator = None if call.dry_run else self._allocator
            try:
                obj = apply_defaults(rtype.group, rtype.version, rtype.kind, obj, allocator=allocator)
            except LookupError as error:
                raise internal(f"failed to allocate: {error}") from error
        entries = metadata.get("managedFields")
        if not (call.content_type == APPLY_PATCH and entries):
            entries = managed.track(
                None,
                obj,
                manager=call.manager,
                api_version=rtype.group_version,
                subresource="",
                time=metadata["creationTimestamp"],
                schema=self._schema(resource),
            )
        return objects.ordered(resource, _with_owners(obj, entries))

    def _prepared(self, call: Call, live: Obj, desired: Obj) -> Obj:
        """The successor of `live`: what the client may change from `desired`, everything else as it was."""
        resource, subresource = call.resource, call.info.subresource
        if subresource == "status":
            new = {key: value for key, value in live.items() if key != "status"}
            if "status" in desired:
                new["status"] = desired["status"]
            return new
        metadata = {k: v for k, v in desired["metadata"].items() if k not in _SERVER_OWNED}
        old = live["metadata"]
        metadata |= {key: old[key] for key in _SERVER_OWNED if key in old}
        metadata["resourceVersion"] = old["resourceVersion"]
        if not metadata.get("finalizers", True):
            del metadata["finalizers"]
        new = desired | {"metadata": metadata}
        if subresource == "finalize":
            return live | {"spec": desired.get("spec") or {}}
        if resource.rtype.kind == "Namespace":
            new["spec"] = live.get("spec") or {}
        if resource.has_status and subresource != "approval":
            new.pop("status", None)
            if "status" in live:
                new["status"] = live["status"]
        if resource.key == CRDS:
            new["status"] = _with_stored_version(new)
        if "generation" in metadata and objects.spec_changed(resource, live, new):
            metadata["generation"] += 1
        self._check_finalizers(resource, old, metadata)
        return new

    @staticmethod
    def _check_finalizers(resource: Resource, old: Obj, new: Obj) -> None:
        if not old.get("deletionTimestamp"):
            return
        added = [f for f in new.get("finalizers") or [] if f not in (old.get("finalizers") or [])]
        if added:
            shown = ", ".join(f'"{f}"' for f in added)
            text = (
                "Forbidden: no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{shown}}}"
            )
            cause = Cause("metadata.finalizers", "FieldValueForbidden", text)
            raise invalid(resource.rtype.group, resource.rtype.kind, old["name"], [cause])

    def _tracked(self, call: Call, live: Obj, new: Obj, entries: list[Obj] | None) -> Obj:
        if entries is None and call.info.subresource == "scale" and call.resource.crd is not None:
            # Nobody comes to own what the scale subresource of a custom resource writes.
            entries = live["metadata"].get("managedFields") or []
        if entries is None:
            entries = managed.track(
                live,
                new,
                manager=call.manager,
                api_version=call.resource.group_version,
                subresource=call.info.subresource,
                time=objects.now(),
                schema=self._schema(call.resource),
            )
        return _with_owners(new, entries)

    def _validate(self, resource: Resource, obj: Obj, old: Obj | None) -> None:
        rtype = resource.rtype
        causes = validate_builtin(rtype.group, rtype.kind, obj, old)
        if resource.crd is not None:
            causes += resource.crd.validate(rtype.version, obj, old)
        if causes:
            raise invalid(rtype.group, rtype.kind, obj["metadata"].get("name", ""), causes)

    async def _admit(self, call: Call, operation: str, name: str, obj: Obj | None, old: Obj | None) -> None:
        if not self._admission.concerns(call.resource):
            return
        options = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions"}[operation]
        outcome = await self._admission.validate(
            Review(
                operation=operation,
                resource=call.resource,
                subresource=call.info.subresource,
                namespace=call.namespace,
                name=name,
                user=call.user,
                obj=obj,
                old=old,
                dry_run=call.dry_run,
                options=call.options(options),
            )
        )
        call.draft.annotations |= outcome.annotations
        call.warnings += outcome.warnings

    @staticmethod
    def _check_version(call: Call, stored: Obj, desired: Obj, *, needed: bool = True) -> None:
        rtype, name = call.resource.rtype, call.info.name
        given, live = desired["metadata"], stored["metadata"]
        if given.get("uid") and given["uid"] != live["uid"]:
            at = "/".join(part for part in (rtype.resource, call.namespace, name) if part)
            why = (
                f"StorageError: invalid object, Code: 4, Key: /registry/{at}, ResourceVersion: 0, "
                f"AdditionalErrorMsg: Precondition failed: UID in precondition: {given['uid']}, "
                f"UID in object meta: {live['uid']}"
            )
            raise conflict(rtype.group, rtype.resource, name, why)
        version = given.get("resourceVersion")
        if not version:
            if needed and objects.must_name_version(call.resource):
                cause = Cause(
                    "metadata.resourceVersion",
                    "FieldValueInvalid",
                    "Invalid value: 0: must be specified for an update",
                )
                raise invalid(rtype.group, rtype.resource, name, [cause])
        elif version != live["resourceVersion"]:
            raise conflict(rtype.group, rtype.resource, name)

    @staticmethod
    def _check_identity(call: Call, stored: Obj, patched: Obj) -> None:
        """A patch cannot make another object, or another kind of object, of what it is applied to."""
        rtype, name, metadata = call.resource.rtype, call.info.name, patched["metadata"]
        check_kind(call, patched)
        if not metadata.get("name"):
            raise bad_request(
                f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
            )
        check_place(call, patched)
        given = metadata.get("uid") or stored["metadata"]["uid"]
        if given != stored["metadata"]["uid"]:
            text = f'Invalid value: "{given}": field is immutable'
            raise invalid(rtype.group, rtype.kind, name, [Cause("metadata.uid", "FieldValueInvalid", text)])

    @staticmethod
    def _schema(resource: Resource) -> MergeNode:
        if resource.crd is not None:
            return resource.crd.merge_schema(resource.rtype.version)
        return merge_schema(resource.rtype.group, resource.rtype.kind)


def _with_owners(obj: Obj, entries: list[Obj]) -> Obj:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return obj | {"metadata": metadata | ({"managedFields": entries} if entries else {})}


def _with_stored_version(crd: Obj) -> Obj:
    status = crd.get("status") or {}
    storage = next((v["name"] for v in crd["spec"].get("versions") or [] if v.get("storage")), "")
    stored = status.get("storedVersions") or []
    if storage and storage not in stored:
        stored = [*stored, storage]
    return status | {"storedVersions": stored}
