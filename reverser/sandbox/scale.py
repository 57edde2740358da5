"""The scale subresource: a view of three fields of its parent, written back through the parent."""

from collections.abc import Mapping
from typing import Any

import orjson

from reverser.sandbox import objects
from reverser.sandbox.call import Call, parse_body
from reverser.sandbox.patches import PatchError, json_patch, merge_patch, strategic_merge_patch
from reverser.sandbox.reads import Reader
from reverser.sandbox.schema import ScalePaths
from reverser.sandbox.status import ApiError, bad_request, unsupported_media
from reverser.sandbox.writes import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Writer

Obj = dict[str, Any]


def scale_of(paths: ScalePaths, parent: Obj) -> Obj:
    """The `autoscaling/v1` Scale of an object."""
    metadata = parent["metadata"]
    wanted = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Obj = {"replicas": objects.nested(parent, paths.status) or 0}
    selector = objects.nested(parent, paths.selector) if paths.selector else None
    if isinstance(selector, str):
        status["selector"] = selector
    elif isinstance(selector, dict):
        status["selector"] = _selector_text(selector)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in wanted if key in metadata},
        "spec": _spec(objects.nested(parent, paths.spec)),
        "status": status,
    }


async def write(call: Call, reader: Reader, writer: Writer) -> Obj:
    """PUT or PATCH of a Scale; returns the new one."""
    paths = call.resource.scale
    if paths is None:
        raise bad_request(f"{call.resource.rtype.kind} has no scale subresource")
    scale = scale_of(paths, reader.get(call))
    try:
        sent = parse_body(call.body, call.content_type)
    except ValueError as error:
        raise bad_request(f"error decoding the Scale: {error}") from error
    call.draft.request_object = sent
    if call.info.verb == "patch":
        wanted, named = _patched(call, scale, sent)
    elif isinstance(sent, dict):
        wanted, named = sent, bool((sent.get("metadata") or {}).get("resourceVersion"))
        call.draft.uid = (sent.get("metadata") or {}).get("uid", "")
        call.draft.resource_version = (sent.get("metadata") or {}).get("resourceVersion", "")
    else:
        raise bad_request("the Scale must be an object")
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request("spec.replicas must be an integer")
    patch: Obj = objects.with_nested({}, paths.spec, replicas)
    if named:
        patch["metadata"] = {"resourceVersion": wanted["metadata"]["resourceVersion"]}
    inner = Call(
        info=call.info,
        resource=call.resource,
        user=call.user,
        query=_without_apply(call.query),
        content_type=MERGE_PATCH,
        body=orjson.dumps(patch),
        manager=call.manager,
    )
    _, parent = await writer.patch(inner)
    call.draft.annotations |= inner.draft.annotations
    call.warnings += inner.warnings
    return scale_of(paths, parent)


def _without_apply(query: Mapping[str, str]) -> Mapping[str, str]:
    return {key: value for key, value in query.items() if key != "force"}


def _patched(call: Call, scale: Obj, patch: Any) -> tuple[Obj, bool]:
    try:
        if call.content_type == JSON_PATCH:
            result = json_patch(scale, patch)
        elif call.content_type in (MERGE_PATCH, APPLY_PATCH):
            result = merge_patch(scale, patch)
        elif call.content_type == STRATEGIC_PATCH:
            result = strategic_merge_patch(("autoscaling", "Scale"), scale, patch)
        else:
            raise unsupported_media([JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH])
    except PatchError as error:
        raise ApiError(error.code, error.reason, error.message) from error
    named = isinstance(patch, dict) and bool((patch.get("metadata") or {}).get("resourceVersion"))
    return result, named


def _spec(replicas: Any) -> Obj:
    return {"replicas": replicas} if replicas else {}


def _selector_text(selector: Obj) -> str:
    labels = selector.get("matchLabels", selector if "matchExpressions" not in selector else {})
    parts = [f"{key}={labels[key]}" for key in sorted(labels)]
    for expression in selector.get("matchExpressions") or []:
        key, operator, values = expression["key"], expression["operator"], expression.get("values") or []
        listed = ",".join(sorted(values))
        parts.append(
            {
                "In": f"{key} in ({listed})",
                "NotIn": f"{key} notin ({listed})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[operator]
        )
    return ",".join(parts)
