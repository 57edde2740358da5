"""What attribution takes for granted about API servers, each with the scenario that proves it.

``check`` reads the traces of that scenario; it is run on the committed corpus and on every new recording.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement, where it is used, and how a scenario proves it."""

    statement: str
    used_in: str
    scenario: str
    check: Callable[[Obj], bool]


def _audit(trace: Obj, verb: str) -> list[Obj]:
    return [event for event in trace["audit"] if event["verb"] == verb]


def _seen(trace: Obj, kind: str) -> list[Obj]:
    return [event["object"] for event in trace["watch"] if event["type"] == kind]


def _version(obj: Any) -> str:
    return str(((obj or {}).get("metadata") or {}).get("resourceVersion", ""))


def _create_joins(trace: Obj) -> bool:
    (event,), (added,) = _audit(trace, "create"), _seen(trace, "ADDED")
    made = event["responseObject"]["metadata"]
    return made["uid"] == added["metadata"]["uid"] and _version(event["responseObject"]) == _version(added)


def _reference_lacks_uid(trace: Obj) -> bool:
    (event,) = _audit(trace, "create")
    return "uid" not in event["objectRef"] and "resourceVersion" not in event["objectRef"]


def _generated(trace: Obj) -> bool:
    (event,) = _audit(trace, "create")
    return not event["objectRef"].get("name") and bool(event["responseObject"]["metadata"]["name"])


def _writes_join(trace: Obj) -> bool:
    made = [_version(event["responseObject"]) for event in trace["audit"]]
    seen = [_version(obj) for kind in ("ADDED", "MODIFIED") for obj in _seen(trace, kind)]
    return made == seen


def _precondition_in_reference(trace: Obj) -> bool:
    (event,) = _audit(trace, "update")
    return bool(event["objectRef"]["resourceVersion"] == _version(event["requestObject"])) and (
        event["objectRef"]["resourceVersion"] != _version(event["responseObject"])
    )


def _impersonation(trace: Obj) -> bool:
    event = _audit(trace, "patch")[0]
    claims = event["impersonatedUser"].get("extra") or {}
    return "configbutler.ai/claims/email" in claims and event["impersonatedUser"]["username"] == "carol"


def _applies_are_patches(trace: Obj) -> bool:
    operations = [review["operation"] for review in trace["admission"]]
    return len(_audit(trace, "patch")) == 2 and operations == ["CREATE", "UPDATE"]


def _no_op_repeats_version(trace: Obj) -> bool:
    first, second = _audit(trace, "patch")
    same = _version(first["responseObject"]) == _version(second["responseObject"])
    return same and len(_seen(trace, "ADDED")) == 1 and not _seen(trace, "MODIFIED")


def _no_op_update_shows(trace: Obj) -> bool:
    (event,) = _audit(trace, "update")
    return _version(event["requestObject"]) == _version(event["responseObject"]) and not _seen(
        trace, "MODIFIED"
    )


def _timed_managers(trace: Obj) -> bool:
    found = [
        {entry["manager"]: int(entry["time"].strip("<second:>")) for entry in event["managers"]}
        for event in trace["watch"]
        if event["type"] != "BOOKMARK"
    ]
    set_or_taken = [{"one": 1}, {"one": 2}, {"one": 2, "two": 3}, {"one": 2, "two": 3}]
    return found == [*set_or_taken, {"one": 2, "two": 3, "four": 4}, {"one": 2, "two": 3}]


def _conflict(trace: Obj) -> bool:
    (event,) = _audit(trace, "update")
    return event["responseStatus"]["code"] == 409 and len(_seen(trace, "MODIFIED")) == 1


def _dry_run(trace: Obj) -> bool:
    asked = [event for event in trace["audit"] if "dryRun=All" in event["requestURI"]]
    return len(asked) == 2 and [obj["metadata"]["name"] for obj in _seen(trace, "ADDED")] == ["a"]


def _dry_deletion(trace: Obj) -> bool:
    (made,) = _seen(trace, "ADDED")
    one, many = _audit(trace, "delete") + _audit(trace, "deletecollection")
    told = [event["requestObject"]["dryRun"] for event in (one, many)]
    silent = all("dryRun" not in event["requestURI"] for event in (one, many))
    same = one["responseObject"]["details"]["uid"] == made["metadata"]["uid"]
    return told == [["All"], ["All"]] and silent and same and not _seen(trace, "DELETED")


def _rejected(trace: Obj) -> bool:
    (event,) = _audit(trace, "create")
    return event["responseStatus"]["code"] == 403 and not _seen(trace, "ADDED")


def _plain_delete(trace: Obj) -> bool:
    (event,), (gone,) = _audit(trace, "delete"), _seen(trace, "DELETED")
    answer = event["responseObject"]
    details = bool(answer["kind"] == "Status" and answer["details"]["uid"] == gone["metadata"]["uid"])
    return details and not _version(answer) and "uid" not in event["objectRef"]


def _held_delete(trace: Obj) -> bool:
    (asked,), (cleared,), (gone,) = _audit(trace, "delete"), _audit(trace, "patch"), _seen(trace, "DELETED")
    marked = _seen(trace, "MODIFIED")[0]
    versions = {_version(asked["responseObject"]), _version(cleared["responseObject"])}
    return "deletionTimestamp" in marked["metadata"] and _version(gone) not in versions


def _collection(trace: Obj) -> bool:
    (event,) = _audit(trace, "deletecollection")
    items = event["responseObject"]["items"]
    gone = _seen(trace, "DELETED")
    listed = {item["metadata"]["uid"]: _version(item) for item in items}
    return (
        not event["objectRef"].get("name")
        and listed.keys() == {obj["metadata"]["uid"] for obj in gone}
        and not set(listed.values()) & {_version(obj) for obj in gone}
        and [review["operation"] for review in trace["admission"]].count("DELETE") == len(items)
    )


def _scale(trace: Obj) -> bool:
    (event,) = (e for e in _audit(trace, "patch") if e["objectRef"].get("subresource") == "scale")
    answer = event["responseObject"]
    first = _seen(trace, "MODIFIED")[0]
    return bool(
        answer["kind"] == "Scale"
        and answer["metadata"]["uid"] == first["metadata"]["uid"]
        and _version(answer) == _version(first)
    )


def _replay_marker(trace: Obj) -> bool:
    first = trace["watch"][0]
    annotations = first["object"]["metadata"].get("annotations") or {}
    return first["type"] == "BOOKMARK" and annotations.get("k8s.io/initial-events-end") == "true"


def _actor(event: Obj) -> str:
    return str((event.get("impersonatedUser") or event["user"])["username"])


def _collector(event: Obj) -> bool:
    return _actor(event).endswith(":generic-garbage-collector")


def _deletions(trace: Obj) -> dict[str, Obj]:
    return {event["objectRef"]["name"]: event for event in _audit(trace, "delete")}


def _cascade(trace: Obj) -> bool:
    found = _deletions(trace)
    return _actor(found["owner"]) == "bob" and _collector(found["child"])


def _foreground(trace: Obj) -> bool:
    marked = next(obj for obj in _seen(trace, "MODIFIED") if obj["metadata"]["name"] == "owner")
    answer = _deletions(trace)["owner"]["responseObject"]
    return bool(
        _cascade(trace)
        and "deletionTimestamp" in marked["metadata"]
        and answer["metadata"]["uid"] == marked["metadata"]["uid"]
    )


def _orphan(trace: Obj) -> bool:
    freed = [event for event in _audit(trace, "patch") if event["objectRef"]["name"] == "child"]
    by_collector = [_collector(event) for event in freed]
    return bool(freed) and all(by_collector) and "child" not in _deletions(trace)


def _versions_of_a_type(trace: Obj) -> bool:
    views: dict[str, list[tuple[str, str]]] = {"v1": [], "v2": []}
    for event in trace["watch"]:
        if event["type"] != "BOOKMARK":
            obj = event["object"]
            views[obj["apiVersion"].rpartition("/")[2]].append((obj["metadata"]["uid"], _version(obj)))
    asked = [event for event in trace["audit"] if event["verb"] in {"create", "patch", "delete"}]
    audited = [event["objectRef"]["apiVersion"] for event in asked]
    admitted = [review["resource"]["version"] for review in trace["admission"]]
    answered = [_version(event["responseObject"]) for event in asked[:2]]
    return (
        audited == admitted == ["v1", "v2", "v1"]
        and views["v1"] == views["v2"]
        and answered == [version for _, version in views["v2"]][:2]
    )


def _bodiless(trace: Obj) -> bool:
    bodies = [event.keys() & {"requestObject", "responseObject"} for event in trace["audit"]]
    return len(bodies) == 4 and not any(bodies)


def _expired(trace: Obj) -> bool:
    (error,) = (event["object"] for event in trace["watch"] if event["type"] == "ERROR")
    return bool(error["code"] == 410 and error["reason"] == "Expired")


FACTS = (
    Fact(
        "a creation's answer has the uid and version that the watch shows",
        "webhooks/evidence.py",
        "create",
        _create_joins,
    ),
    Fact(
        "a creation's reference has neither uid nor version",
        "webhooks/evidence.py",
        "create",
        _reference_lacks_uid,
    ),
    Fact("a replay ends with a marked bookmark", "watchers/session.py", "create", _replay_marker),
    Fact("a generated name is in the answer alone", "webhooks/evidence.py", "generate-name", _generated),
    Fact(
        "each write's answer has the version of its own watch event",
        "watchers/evidence.py",
        "update",
        _writes_join,
    ),
    Fact(
        "an update's reference has the old version",
        "webhooks/evidence.py",
        "update",
        _precondition_in_reference,
    ),
    Fact("an impersonated user's claims are beside its name", "webhooks/people.py", "update", _impersonation),
    Fact(
        "server-side apply is a patch to audit, CREATE or UPDATE to admission",
        "webhooks/gate.py",
        "apply",
        _applies_are_patches,
    ),
    Fact(
        "an apply that changes nothing answers with somebody else's version",
        "watchers/evidence.py",
        "no-op-apply",
        _no_op_repeats_version,
    ),
    Fact(
        "an update that changes nothing repeats its own version",
        "webhooks/gate.py",
        "no-op-update",
        _no_op_update_shows,
    ),
    Fact(
        "who sets a field is timed in managedFields; who takes away, repeats or gives up everything is not",
        "watchers/evidence.py",
        "field-managers",
        _timed_managers,
    ),
    Fact("a conflict is audited and never watched", "webhooks/gate.py", "stale-update", _conflict),
    Fact("a dry run is audited and never watched", "webhooks/gate.py", "dry-run", _dry_run),
    Fact(
        "a dry run of a deletion is told by the request's body, and answered like a deletion",
        "webhooks/gate.py",
        "dry-run-delete",
        _dry_deletion,
    ),
    Fact("a refused request is audited and never watched", "webhooks/gate.py", "rejected", _rejected),
    Fact(
        "a plain deletion's uid is in the details of its answer alone",
        "webhooks/evidence.py",
        "delete",
        _plain_delete,
    ),
    Fact(
        "with a finalizer, the end has a version that no audit event shows",
        "watchers/evidence.py",
        "delete-held",
        _held_delete,
    ),
    Fact(
        "a collection's deletion is one nameless event that lists its members",
        "webhooks/evidence.py",
        "delete-collection",
        _collection,
    ),
    Fact(
        "a scale request answers with its parent's uid and new version",
        "webhooks/evidence.py",
        "scale-status",
        _scale,
    ),
    Fact(
        "a watch from a version that is gone ends with the error 410, Expired",
        "watchers/session.py",
        "expired",
        _expired,
    ),
    Fact(
        "the child of a deleted owner is deleted by the garbage collector, in its own name",
        "watchers/evidence.py",
        "cascade-background",
        _cascade,
    ),
    Fact(
        "an owner that waits for its child is marked at once, by who deleted it",
        "watchers/evidence.py",
        "cascade-foreground",
        _foreground,
    ),
    Fact(
        "a child that is left is changed by the garbage collector, and never deleted",
        "watchers/evidence.py",
        "cascade-orphan",
        _orphan,
    ),
    Fact(
        "audit and admission show the version of the request, the watch its own; uid and version agree",
        "webhooks/evidence.py",
        "two-versions",
        _versions_of_a_type,
    ),
    Fact(
        "an aggregated API is audited without bodies, so nothing of it can be joined",
        "webhooks/evidence.py",
        "aggregated",
        _bodiless,
    ),
)


def broken(traces: dict[str, Obj]) -> list[Fact]:
    """The facts that these traces contradict; those whose scenario was not recorded are left out."""
    return [fact for fact in FACTS if not unproved(fact, traces) and not _holds(fact, traces[fact.scenario])]


def unproved(fact: Fact, traces: dict[str, Obj]) -> bool:
    """Whether the scenario of a fact was not recorded, or could not be run there."""
    return "skipped" in traces.get(fact.scenario, {"skipped": ""})


def _holds(fact: Fact, trace: Obj) -> bool:
    try:
        return fact.check(trace)
    except (KeyError, IndexError, TypeError, ValueError):
        return False
