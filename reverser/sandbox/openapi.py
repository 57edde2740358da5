"""OpenAPI documents: what kubectl asks before it applies, validates or explains.

kubectl reads version 3: the index, then the document of one group version. It looks for the paths' group,
version and kind, for the `fieldValidation` parameter (which lets the server validate), and for the schemas.
Built-in types get the fields, types and merge keys of the type table; the media type of strategic merge is
left out of the paths on purpose, because kubectl then computes patches from the very Go types it carries.
Custom resources get the schema of their definition, as on a real server.
"""

import copy
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reverser.sandbox.builtinfields import Field, json_fields, type_name
from reverser.sandbox.schema import CompiledCRD
from reverser.sandbox.types import ResourceType, group_versions

Document = dict[str, Any]

_INFO = {"title": "Kubernetes", "version": "v1.36.2"}
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_V3_REFS = "#/components/schemas/"
_V2_REFS = "#/definitions/"

# Go package names of the built-in groups, where they are not the group's first label.
_PACKAGES = {
    "": "io.k8s.api.core",
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration.k8s.io": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}


def schema_name(group: str, version: str, kind: str, *, custom: bool) -> str:
    """The name of a kind's schema: Go package style for built-ins, reversed domain for custom resources."""
    if custom:
        return ".".join([*reversed(group.split(".")), version, kind])
    package = _PACKAGES.get(group) or f"io.k8s.api.{group.partition('.')[0]}"
    return f"{package}.{version}.{kind}"


def _crds_by_group_kind(crds: Iterable[CompiledCRD]) -> dict[tuple[str, str], CompiledCRD]:
    return {(crd.group, crd.kind): crd for crd in crds}


def _prefix(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def openapi_v3_index(types: Sequence[ResourceType], crds: Sequence[CompiledCRD] = ()) -> Document:
    """The document at /openapi/v3: the address of each group version, with a hash of its content."""
    paths: dict[str, Any] = {}
    for group, versions in group_versions(types).items():
        for version in versions:
            content = openapi_v3_document(group, version, types, crds)
            digest = hashlib.sha512(json.dumps(content, sort_keys=True).encode()).hexdigest().upper()
            prefix = _prefix(group, version)
            paths[prefix] = {"serverRelativeURL": f"/openapi/v3/{prefix}?hash={digest}"}
    return {"paths": paths}


def openapi_v3_document(
    group: str, version: str, types: Sequence[ResourceType], crds: Sequence[CompiledCRD] = ()
) -> Document:
    """The OpenAPI v3 document of one group version."""
    chosen = [t for t in types if (t.group, t.version) == (group, version)]
    schemas = _schemas(chosen, _crds_by_group_kind(crds), _V3_REFS)
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": _paths(chosen, _crds_by_group_kind(crds), v3=True),
        "components": {"schemas": schemas},
    }


def openapi_v2_document(types: Sequence[ResourceType], crds: Sequence[CompiledCRD] = ()) -> Document:
    """The OpenAPI v2 document of everything, as JSON (kubectl reads it as protobuf only, and uses v3)."""
    known = _crds_by_group_kind(crds)
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": _paths(types, known, v3=False),
        "definitions": _schemas(types, known, _V2_REFS),
    }


# --- schemas ------------------------------------------------------------------------------------------


def _schemas(
    types: Iterable[ResourceType], crds: Mapping[tuple[str, str], CompiledCRD], refs: str
) -> dict[str, Any]:
    schemas: dict[str, Any] = {
        f"{_META}.ObjectMeta": _structure("meta/v1.ObjectMeta", refs),
        f"{_META}.ListMeta": {
            "type": "object",
            "description": "ListMeta describes metadata that lists have.",
            "properties": {name: {"type": "string"} for name in ("continue", "resourceVersion", "selfLink")}
            | {"remainingItemCount": {"type": "integer", "format": "int64"}},
        },
        f"{_META}.Status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    structures: dict[str, None] = {}
    _referenced("meta/v1.ObjectMeta", structures)
    for rtype in types:
        crd = crds.get((rtype.group, rtype.kind))
        go_type = None if crd else type_name(rtype.group, rtype.version, rtype.kind)
        if go_type is not None:
            _referenced(go_type, structures)
        name = schema_name(rtype.group, rtype.version, rtype.kind, custom=crd is not None)
        schema = _custom_schema(crd, rtype, refs) if crd else _builtin_schema(rtype, refs)
        schemas[name] = schema
        schemas[f"{name}List"] = _list_schema(rtype, name, refs)
    for go_type in structures:
        schemas.setdefault(definition_name(go_type), _structure(go_type, refs))
    return schemas


def _structure(go_type: str, refs: str) -> dict[str, Any]:
    return {"type": "object", "properties": _properties(go_type, refs)}


def _gvk(rtype: ResourceType, kind: str) -> list[dict[str, str]]:
    return [{"group": rtype.group, "kind": kind, "version": rtype.version}]


def _ref(refs: str, name: str, description: str = "") -> dict[str, Any]:
    words = {"description": description} if description else {}
    if refs == _V3_REFS:
        # A reference may not have siblings in OpenAPI v3.
        return {"allOf": [{"$ref": refs + name}], "default": {}, **words}
    return {"$ref": refs + name, **words}


def _type_meta(refs: str, meta: str) -> dict[str, Any]:
    return {
        "apiVersion": {"type": "string", "description": "The versioned schema of this representation."},
        "kind": {"type": "string", "description": "The REST resource this object represents."},
        "metadata": _ref(refs, f"{_META}.{meta}", "Standard object's metadata."),
    }


def _custom_schema(crd: CompiledCRD, rtype: ResourceType, refs: str) -> dict[str, Any]:
    schema: dict[str, Any] = copy.deepcopy(dict(crd.versions[rtype.version].schema))
    schema["type"] = "object"
    schema["properties"] = {**(schema.get("properties") or {}), **_type_meta(refs, "ObjectMeta")}
    schema["x-kubernetes-group-version-kind"] = _gvk(rtype, rtype.kind)
    return schema


def _list_schema(rtype: ResourceType, item: str, refs: str) -> dict[str, Any]:
    return {
        "type": "object",
        "description": f"{rtype.list_kind} is a list of {rtype.kind}",
        "required": ["items"],
        "properties": {
            **_type_meta(refs, "ListMeta"),
            "items": {"type": "array", "items": {"$ref": refs + item}},
        },
        "x-kubernetes-group-version-kind": _gvk(rtype, rtype.list_kind),
    }


def _builtin_schema(rtype: ResourceType, refs: str) -> dict[str, Any]:
    name = type_name(rtype.group, rtype.version, rtype.kind)
    schema: dict[str, Any] = _free()
    if name is not None:
        schema = {"type": "object", "properties": _properties(name, refs)}
    schema["description"] = f"{rtype.kind} of {rtype.group_version}."
    schema["properties"] = {**schema.get("properties", {}), **_type_meta(refs, "ObjectMeta")}
    schema["x-kubernetes-group-version-kind"] = _gvk(rtype, rtype.kind)
    return schema


def _free() -> dict[str, Any]:
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


_SCALARS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "number": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microTime": {"type": "string", "format": "date-time"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "intOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "stringsMessage": {"type": "array", "items": {"type": "string"}},
}


def definition_name(go_type: str) -> str:
    """The schema name of a type of the table: `core/v1.Pod` is `io.k8s.api.core.v1.Pod`."""
    prefix = "io.k8s.apimachinery.pkg.apis." if go_type.startswith("meta/") else "io.k8s.api."
    return prefix + go_type.replace("/", ".")


def _properties(go_type: str, refs: str) -> dict[str, Any]:
    return {name: _field_schema(field, refs) for name, field in json_fields(go_type).items()}


def _field_schema(field: Field, refs: str) -> dict[str, Any]:
    schema = _type_schema(field.type, refs)
    if field.strategy:
        schema["x-kubernetes-patch-strategy"] = field.strategy
    if field.merge_key:
        schema["x-kubernetes-patch-merge-key"] = field.merge_key
    return schema


def _type_schema(kind: str, refs: str) -> dict[str, Any]:
    if kind.startswith("[]"):
        return {"type": "array", "items": _type_schema(kind[2:], refs)}
    if kind.startswith("{}"):
        return {"type": "object", "additionalProperties": _type_schema(kind[2:], refs)}
    if kind.startswith("@"):
        return _ref(refs, definition_name(kind[1:]))
    return dict(_SCALARS.get(kind) or _free())


def _referenced(go_type: str, found: dict[str, None]) -> None:
    """Collect the structures a type is made of, itself excluded."""
    for field in json_fields(go_type).values():
        below = field.type.lstrip("[]{}")
        if below.startswith("@") and below[1:] not in found:
            found[below[1:]] = None
            _referenced(below[1:], found)


# --- paths --------------------------------------------------------------------------------------------

_COLLECTION_VERBS = {"list": "get", "create": "post", "deletecollection": "delete"}
_ITEM_VERBS = {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}
_PATCH_TYPES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")


def _paths(
    types: Iterable[ResourceType], crds: Mapping[tuple[str, str], CompiledCRD], *, v3: bool
) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for rtype in types:
        root = f"/{_prefix(rtype.group, rtype.version)}/"
        base = root + ("namespaces/{namespace}/" if rtype.namespaced else "") + rtype.resource
        custom = (rtype.group, rtype.kind) in crds
        name = schema_name(rtype.group, rtype.version, rtype.kind, custom=custom)
        collection = _operations(rtype, _COLLECTION_VERBS, name, v3=v3)
        if collection:
            paths[base] = collection | _parameters(rtype, item=False, v3=v3)
        item = _operations(rtype, _ITEM_VERBS, name, v3=v3)
        if item:
            paths[base + "/{name}"] = item | _parameters(rtype, item=True, v3=v3)
        if rtype.namespaced and "list" in rtype.verbs:
            everywhere = _operations(rtype, {"list": "get"}, name, v3=v3)
            everywhere["get"]["operationId"] += "ForAllNamespaces"
            paths[root + rtype.resource] = everywhere
    return paths


def _parameter(name: str, where: str, *, v3: bool) -> dict[str, Any]:
    base: dict[str, Any] = {"name": name, "in": where}
    if where == "path":
        base["required"] = True
    kind = {"type": "string", "uniqueItems": True}
    return {**base, "schema": kind} if v3 else {**base, **kind}


def _parameters(rtype: ResourceType, *, item: bool, v3: bool) -> dict[str, Any]:
    names = (["name"] if item else []) + (["namespace"] if rtype.namespaced else [])
    return {"parameters": [_parameter(name, "path", v3=v3) for name in names]} if names else {}


def _operations(rtype: ResourceType, verbs: Mapping[str, str], schema: str, *, v3: bool) -> dict[str, Any]:
    operations: dict[str, Any] = {}
    for verb, method in verbs.items():
        if verb not in rtype.verbs:
            continue
        action = {"get": "get" if verb == "get" else "list", "put": "put"}.get(method, method)
        returned = f"{schema}List" if verb == "list" else schema
        operation: dict[str, Any] = {
            "operationId": f"{verb}{rtype.group.title().replace('.', '')}{rtype.version.title()}{rtype.kind}",
            "responses": {"200": _response(returned, v3=v3)},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _gvk(rtype, rtype.kind)[0],
        }
        if method in ("post", "put", "patch"):
            operation["parameters"] = [_parameter(n, "query", v3=v3) for n in _WRITE_PARAMETERS]
            if method == "patch":
                operation["parameters"].append(_parameter("force", "query", v3=v3))
            body = {"schema": {"$ref": (_V3_REFS if v3 else _V2_REFS) + schema}}
            media = _PATCH_TYPES if method == "patch" else ("*/*",)
            if method == "patch":
                body = {"schema": {"type": "object"}}
            if v3:
                operation["requestBody"] = {"content": dict.fromkeys(media, body), "required": True}
            else:
                operation["consumes"] = list(media)
                operation["parameters"].append({"name": "body", "in": "body", "required": True, **body})
        operations[method] = operation
    return operations


def _response(schema: str, *, v3: bool) -> dict[str, Any]:
    if v3:
        content = {"application/json": {"schema": {"$ref": _V3_REFS + schema}}}
        return {"description": "OK", "content": content}
    return {"description": "OK", "schema": {"$ref": _V2_REFS + schema}}
