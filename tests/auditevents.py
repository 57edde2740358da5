"""Audit events as an API server sends them, in short form."""

from __future__ import annotations

from typing import Any

from reverser.store.model import TypeRef
from watchers.hooks import EventFacts

CONFIGMAPS = TypeRef("", "v1", "configmaps", "ConfigMap", True)
DEPLOYMENTS = TypeRef("apps", "v1", "deployments", "Deployment", True)
Obj = dict[str, Any]


def audit(
    verb: str,
    user: str,
    *,
    name: str = "a",
    uid: str = "u1",
    rv: str = "101",
    request_rv: str = "",
    resource: str = "configmaps",
    group: str = "",
    code: int = 200,
    received: str = "2026-01-01T10:00:00.000000Z",
    stage: str = "2026-01-01T10:00:00.010000Z",
    **fields: Any,
) -> Obj:
    """A ResponseComplete event of a write whose answer is the object."""
    request: Obj = {"metadata": {"name": name}}
    if request_rv:
        request["metadata"] |= {"resourceVersion": request_rv, "uid": uid}
    reference = {"resource": resource, "namespace": "shop", "name": name, "apiVersion": "v1"}
    if group:
        reference["apiGroup"] = group
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": f"{verb}-{user}-{name}-{rv}",
        "stage": "ResponseComplete",
        "requestURI": f"/api/v1/namespaces/shop/{resource}/{name}?fieldManager=kubectl",
        "verb": verb,
        "user": {"username": user, "groups": ["system:authenticated"]},
        "objectRef": reference,
        "responseStatus": {"metadata": {}, "code": code},
        "requestObject": request,
        "responseObject": {
            "metadata": {"name": name, "namespace": "shop", "uid": uid, "resourceVersion": rv}
        },
        "requestReceivedTimestamp": received,
        "stageTimestamp": stage,
        **fields,
    }


def deletion(user: str, *, name: str = "a", uid: str = "u1", **fields: Any) -> Obj:
    """A plain delete: the answer is a Status whose details alone carry the uid."""
    details = {"name": name, "kind": "configmaps", "uid": uid}
    status = {"metadata": {}, "status": "Success", "details": details}
    event = audit("delete", user, name=name, **fields)
    return event | {
        "requestObject": {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/__internal"},
        "responseObject": {"kind": "Status", "apiVersion": "v1", **status},
        "responseStatus": {**status, "code": 200},
    }


def collection(user: str, *members: tuple[str, str], **fields: Any) -> Obj:
    """A deletecollection that lists (name, uid) of what it deleted."""
    items = [
        {"metadata": {"name": name, "namespace": "shop", "uid": uid, "resourceVersion": "7"}}
        for name, uid in members
    ]
    event = audit("deletecollection", user, **fields)
    del event["objectRef"]["name"]
    return event | {
        "requestObject": None,
        "responseObject": {"kind": "ConfigMapList", "metadata": {"resourceVersion": "9"}, "items": items},
    }


def seen(
    *,
    uid: str = "u1",
    rv: str = "101",
    name: str = "a",
    removal: bool = False,
    kind: TypeRef = CONFIGMAPS,
    deadline: float = 0.0,
) -> EventFacts:
    """A live event as the watcher asks about it."""
    return EventFacts(kind, "shop", name, uid, rv, removal, deadline)


def event_list(*items: Any) -> Obj:
    """The envelope."""
    return {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": list(items)}
