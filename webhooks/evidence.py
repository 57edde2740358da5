"""From an accepted audit event to the facts that it proves.

An event is split over four places that depend on the verb and on the server's answer, never on the type: the
reference of the request, the request body, the response body and the response status. Only the response to a
write says which version it made; only the details of the response to a deletion say which object was deleted.
Nothing else is read: bodies may hold Secrets, and nothing of them is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from reverser.store.attribution import REMOVALS, Fact
from reverser.store.model import group_resource
from webhooks.gate import request_is_known, verb_of, version_of
from webhooks.people import effective, impersonated
from webhooks.shapes import child, text

COLLECTION = "deletecollection"
CREATED = 201
MANAGER_BYTES = 128
UNOWNED = frozenset({"apiVersion", "kind", "metadata", "status"})
"""What an apply may name without owning a field by it; of the metadata, all but labels and annotations."""
UNCONDITIONAL = frozenset({"", "0"})
"""Versions that a request may name without asking for that version."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What an event is about; fields that the event does not tell are empty."""

    group: str
    version: str
    resource: str
    namespace: str
    name: str
    uid: str

    @property
    def group_resource(self) -> str:
        return group_resource(self.group, self.resource)


def subject_of(event: Mapping[str, Any]) -> Subject:
    """The object of an event. The reference takes precedence; bodies only fill gaps."""
    reference = child(event, "objectRef")
    request, response = child(event, "requestObject"), child(event, "responseObject")
    removal = verb_of(event) in REMOVALS
    metas = [child(response, "metadata"), child(request, "metadata")]
    if removal:
        metas.reverse()

    def known(field: str) -> str:
        found = (text(meta.get(field)) for meta in metas)
        return text(reference.get(field)) or next(filter(None, found), "")

    uid = known("uid") or (_deleted_uid(event) if removal else "")
    group, _, version = text(reference.get("apiVersion")).rpartition("/")
    return Subject(
        group=text(reference.get("apiGroup")) or group,
        version=version,
        resource=text(reference.get("resource")),
        namespace=known("namespace"),
        name=known("name"),
        uid=uid,
    )


def facts_of(event: Mapping[str, Any]) -> list[Fact]:
    """The facts of an event that passed the gate; none when author or object are unknown."""
    who = effective(event)
    subject = subject_of(event)
    verb = verb_of(event)
    if not who.username or not subject.resource or (verb in REMOVALS and not request_is_known(event)):
        return []
    common: dict[str, Any] = {
        "group_resource": subject.group_resource,
        "author": who.username,
        "display_name": who.display_name,
        "email": who.email,
        "verb": verb,
        "subresource": text(child(event, "objectRef").get("subresource")),
        "impersonator": text(child(event, "user").get("username")) if impersonated(event) else "",
        "audit_id": text(event.get("auditID")),
        "stage_timestamp": timestamp(event.get("stageTimestamp")),
        "received_timestamp": timestamp(event.get("requestReceivedTimestamp")),
    }
    if verb == COLLECTION:
        return [
            Fact(name=name, namespace=namespace, uid=uid, **common)
            for name, namespace, uid in _members(event, subject.namespace)
        ]
    version = _made_version(event, verb)
    sure = _surely_wrote(event, verb)
    if not subject.name or not (subject.uid or version):
        return []
    return [
        Fact(
            name=subject.name,
            namespace=subject.namespace,
            uid=subject.uid,
            resource_version=version,
            surely_wrote=sure,
            manager="" if sure else _manager(event),
            only_sets=verb == "patch" and _only_sets(event.get("requestObject")),
            **common,
        )
    ]


def _surely_wrote(event: Mapping[str, Any], verb: str) -> bool:
    """Whether the request cannot have been a no-op: it created the object, or it named the version that it
    changes and was answered with another one (an equal one does not pass the gate).
    """
    if verb in REMOVALS:
        return False
    created = verb == "create" or child(event, "responseStatus").get("code") == CREATED
    return created or version_of(event, "requestObject") not in UNCONDITIONAL


def _manager(event: Mapping[str, Any]) -> str:
    """The field manager as an API server takes it: from the query, else from the user agent; empty where the
    event has neither.
    """
    try:
        asked = parse_qs(text(event.get("requestURI")).partition("?")[2]).get("fieldManager", [""])[0]
    except ValueError:
        asked = ""
    program = "".join(filter(str.isprintable, text(event.get("userAgent")).partition("/")[0]))
    return asked or program.encode()[:MANAGER_BYTES].decode(errors="ignore")


def _only_sets(patch: object) -> bool:
    """Whether a patch can do nothing but give fields a value. Nulls, directives and lists may take something
    away, and so may an empty value, with which a server leaves a field out, and an apply of nothing but a
    name, with which a manager gives up all that it has applied.
    """
    if isinstance(patch, list):
        return all(isinstance(step, Mapping) and _step_only_sets(step) for step in patch)
    if isinstance(patch, Mapping) and "kind" in patch and not _sets_something(patch):
        return False
    waiting = [patch]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, Mapping):
            return False
        for name, value in part.items():
            if name.startswith("$") or not value or isinstance(value, list):
                return False
            if isinstance(value, Mapping):
                waiting.append(value)
    return True


def _sets_something(applied: Mapping[str, Any]) -> bool:
    meta = child(applied, "metadata")
    return bool(applied.keys() - UNOWNED or meta.keys() & {"labels", "annotations"})


def _step_only_sets(step: Mapping[str, Any]) -> bool:
    value = step.get("value")
    sets = step.get("op") in ("add", "replace") and bool(value) and not isinstance(value, Mapping | list)
    return sets or step.get("op") == "test"


def _made_version(event: Mapping[str, Any], verb: str) -> str:
    """The version that the request made: the response's, never a precondition."""
    made = version_of(event, "responseObject")
    if not made and verb == "create":
        return text(child(event, "objectRef").get("resourceVersion"))
    return made


def _deleted_uid(event: Mapping[str, Any]) -> str:
    """The uid of the deleted object, from the response's details or the request's precondition."""
    response = child(event, "responseObject")
    details = child(response, "details") if response.get("kind") == "Status" else {}
    return (
        text(details.get("uid"))
        or text(child(child(event, "responseStatus"), "details").get("uid"))
        or text(child(child(event, "requestObject"), "preconditions").get("uid"))
    )


def _members(event: Mapping[str, Any], namespace: str) -> Iterator[tuple[str, str, str]]:
    """Name, namespace and uid of what a collection request deleted, as far as its response lists them."""
    items = child(event, "responseObject").get("items")
    for item in items if isinstance(items, list) else ():
        meta = child(item, "metadata")
        name, uid = text(meta.get("name")), text(meta.get("uid"))
        if name and uid:
            yield name, text(meta.get("namespace")) or namespace, uid


def timestamp(value: object) -> str:
    """An event's time in UTC with nanoseconds, so that times compare as text; empty if malformed."""
    stamp = text(value)
    whole, _, fraction = stamp.removesuffix("Z").partition(".")
    shaped = len(whole) == 19 and whole[4] + whole[7] + whole[10] + whole[13] + whole[16] == "--T::"
    digits = whole[:4] + whole[5:7] + whole[8:10] + whole[11:13] + whole[14:16] + whole[17:] + fraction
    if not shaped or not stamp.endswith("Z") or not (digits.isascii() and digits.isdigit()):
        return ""
    return f"{whole}.{fraction[:9]:0<9}Z"
