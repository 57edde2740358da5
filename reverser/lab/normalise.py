"""Recorded documents with everything that differs from run to run replaced by what stays: relations.

The same value is the same placeholder within a scenario; resourceVersions are numbered by their order. So two
recordings of one behaviour are equal texts, and a difference between two servers is a difference to read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_TOO_OLD = re.compile(r"(too old resource version: )\d+ \(\d+\)")
_DROPPED = frozenset(
    {"managedFields", "sourceIPs", "userAgent", "level", "stage", "selfLink", "authenticationMetadata"}
)
_RECORDER = {"username": "<recorder>"}
_OF_A_REQUEST = ("authorization.k8s.io/", "apiserver.latency.k8s.io/")
_UIDS = frozenset({"uid", "auditID"})


def normalise(records: Mapping[str, Any], namespace: str, *, managers: bool = False) -> dict[str, Any]:
    """The records of one scenario in a form that compares. ``records`` is not changed.

    ``managers``: watch events have a list of the object's field managers, with numbered seconds.
    """
    versions = sorted({int(text) for text in _versions(records)})
    names: dict[str, str] = {namespace: "<namespace>"}
    ranks = {str(version): f"<rv:{number}>" for number, version in enumerate(versions, 1)}
    result = _walk(records, names, ranks, "")
    assert isinstance(result, dict)
    if managers:
        result["watch"] = _with_managers(result["watch"], records["watch"])
    result["audit"] = [_anonymous(event) for event in result.get("audit") or []]
    return result


def _anonymous(event: dict[str, Any]) -> dict[str, Any]:
    """Whose credentials the lab had says nothing about the server; whom it acted as stays."""
    return {**event, "user": dict(_RECORDER)} if "impersonatedUser" in event else event


def _with_managers(events: list[Any], raw: list[Any]) -> list[Any]:
    listed = [event["object"]["metadata"].get("managedFields") or [] for event in raw]
    seconds = sorted({entry["time"] for entries in listed for entry in entries if "time" in entry})
    numbers = {second: f"<second:{number}>" for number, second in enumerate(seconds, 1)}
    return [
        event
        | {
            "managers": [
                {"manager": entry["manager"], "operation": entry["operation"], "time": numbers[entry["time"]]}
                for entry in entries
                if "time" in entry
            ]
        }
        if entries
        else event
        for event, entries in zip(events, listed, strict=True)
    ]


def _versions(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "resourceVersion" and isinstance(inner, str) and inner.isdigit():
                yield inner
            elif key not in _DROPPED:
                yield from _versions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _versions(inner)


def _walk(value: Any, names: dict[str, str], ranks: Mapping[str, str], field: str) -> Any:
    if isinstance(value, Mapping):
        generated = isinstance(value.get("generateName"), str) and isinstance(value.get("name"), str)
        if generated:
            names.setdefault(value["name"], f"{value['generateName']}<generated>")
        found = {
            key: _walk(inner, names, ranks, key)
            for key, inner in value.items()
            if key not in _DROPPED and not (key == "annotations" and _about_the_request(inner))
        }
        return {key: inner for key, inner in found.items() if inner is not None}
    if isinstance(value, list):
        return [_walk(inner, names, ranks, field) for inner in value]
    return _text(value, names, ranks, field) if isinstance(value, str) else value


def _text(value: str, names: dict[str, str], ranks: Mapping[str, str], field: str) -> str:
    if field == "resourceVersion":
        return ranks.get(value, value)
    if field in _UIDS:
        number = sum(1 for known in names.values() if known.startswith(f"<{field}:")) + 1
        return names.setdefault(value, f"<{field}:{number}>") if value else value
    value = _TOO_OLD.sub(r"\1<asked> (<current>)", _TIME.sub("<time>", value))
    for known, placeholder in names.items():
        if len(known) > 4 and known in value:
            value = value.replace(known, placeholder)
    return value


def _about_the_request(value: Any) -> bool:
    """Whether annotations tell only who let it pass and how long it took."""
    return isinstance(value, Mapping) and all(str(key).startswith(_OF_A_REQUEST) for key in value)
