"""The forms an answer can take: the objects themselves, their metadata only, or a Table for people.

A client says in `Accept` which form it understands; kubectl asks for Tables, metadata informers for
PartialObjectMetadata.
"""

import enum
from typing import Any

import orjson

from reverser.sandbox.registry import Resource
from reverser.sandbox.status import ApiError
from reverser.sandbox.tables import render_table

Obj = dict[str, Any]
_META = "meta.k8s.io/v1"


class Form(enum.Enum):
    """How objects are shown."""

    OBJECT = "object"
    METADATA = "metadata"
    TABLE = "table"


def negotiated(accept: str) -> Form:
    """The first form in an Accept header that can be served. Raises 406 where there is none."""
    if not accept:
        return Form.OBJECT
    for part in accept.split(","):
        media, *parameters = [p.strip() for p in part.split(";")]
        if media not in ("application/json", "*/*", "application/*"):
            continue
        values = dict(p.partition("=")[::2] for p in parameters)
        kind, group, version = values.get("as"), values.get("g"), values.get("v")
        if kind is None:
            return Form.OBJECT
        if group != "meta.k8s.io" or version != "v1":
            continue
        if kind == "Table":
            return Form.TABLE
        if kind in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return Form.METADATA
    raise ApiError(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/yaml",
    )


def metadata_only(obj: Obj) -> Obj:
    """A PartialObjectMetadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": obj["metadata"]}


def one(resource: Resource, form: Form, obj: Obj, include: str) -> Obj:
    """A single object in a form; `include` is the `includeObject` parameter of Tables."""
    if form is Form.METADATA:
        return metadata_only(obj)
    if form is Form.TABLE:
        version = obj["metadata"].get("resourceVersion", "")
        return table(resource, [obj], {"resourceVersion": version}, include)
    return obj


def table(resource: Resource, items: list[Obj], list_meta: Obj, include: str) -> Obj:
    """A Table of objects, whose rows carry what `includeObject` asks for (default: the metadata)."""
    rendered = render_table(resource.columns(), items, list_meta=list_meta)
    for row, obj in zip(rendered["rows"], items, strict=True):
        if include == "None":
            row.pop("object", None)
        elif include == "Object":
            row["object"] = obj
        else:
            row["object"] = metadata_only(obj)
    return rendered


def many(resource: Resource, form: Form, items: list[Obj], list_meta: Obj, include: str) -> Obj:
    """A list in a form."""
    rtype = resource.rtype
    if form is Form.TABLE:
        return table(resource, items, list_meta, include)
    if form is Form.METADATA:
        return {
            "kind": "PartialObjectMetadataList",
            "apiVersion": _META,
            "metadata": list_meta,
            "items": [metadata_only(obj) for obj in items],
        }
    if resource.crd is None:
        items = [{k: v for k, v in obj.items() if k not in ("kind", "apiVersion")} for obj in items]
    return {
        "kind": rtype.list_kind,
        "apiVersion": rtype.group_version,
        "metadata": list_meta,
        "items": items,
    }


def dumps(value: Any) -> bytes:
    """JSON, compact, with a newline as a real server ends its bodies."""
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
