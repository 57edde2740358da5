"""Label and field selectors, parsed once per request into predicates."""

import re
from collections.abc import Callable
from typing import Any

from reverser.sandbox.status import ApiError, bad_request

Obj = dict[str, Any]
Predicate = Callable[[Obj], bool]

_SET = re.compile(r"^\s*([^\s!=,()]+)\s+(in|notin)\s*\(([^)]*)\)\s*$")
_EQUAL = re.compile(r"^\s*([^\s!=,()]+)\s*(==|=|!=)\s*([^\s!=,()]*)\s*$")
_EXISTS = re.compile(r"^\s*(!?)\s*([^\s!=,()]+)\s*$")
_COMPARE = re.compile(r"^\s*([^\s!=,()<>]+)\s*([<>])\s*(-?\d+)\s*$")

#: Field selectors beyond `metadata.name` and `metadata.namespace`, by group and kind.
_FIELDS: dict[tuple[str, str], frozenset[str]] = {
    ("", "Pod"): frozenset(
        {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
         "status.phase", "status.podIP", "status.nominatedNodeName", "spec.hostNetwork"}
    ),
    ("", "Secret"): frozenset({"type"}),
    ("", "Namespace"): frozenset({"status.phase"}),
    ("", "Node"): frozenset({"spec.unschedulable"}),
    ("", "Event"): frozenset(
        {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
         "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
         "reason", "reportingComponent", "source", "type"}
    ),
    ("", "ReplicationController"): frozenset({"status.replicas"}),
    ("", "Service"): frozenset({"spec.clusterIP", "spec.type"}),
    ("batch", "Job"): frozenset({"status.successful"}),
    ("apps", "ReplicaSet"): frozenset({"status.replicas"}),
    ("certificates.k8s.io", "CertificateSigningRequest"): frozenset({"spec.signerName"}),
}  # fmt: skip


def label_selector(text: str) -> Predicate | None:
    """A predicate on objects, or None where the selector is empty. Raises 400."""
    tests = [_label_test(part) for part in _split(text) if part.strip()]
    if not tests:
        return None

    def matches(obj: Obj) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(test(labels) for test in tests)

    return matches


def label_selector_object(selector: Obj | None) -> Callable[[dict[str, str]], bool]:
    """`matchLabels` and `matchExpressions` as a predicate on labels; an empty selector matches all."""
    wanted = (selector or {}).get("matchLabels") or {}
    expressions = (selector or {}).get("matchExpressions") or []

    def matches(labels: dict[str, str]) -> bool:
        if any(labels.get(key) != value for key, value in wanted.items()):
            return False
        for expression in expressions:
            key, operator, values = expression["key"], expression["operator"], expression.get("values") or []
            present = key in labels
            held = {
                "In": present and labels[key] in values if present else False,
                "NotIn": not present or labels[key] not in values,
                "Exists": present,
                "DoesNotExist": not present,
            }.get(operator, False)
            if not held:
                return False
        return True

    return matches


def _unknown_field(path: str, *, custom: bool) -> str:
    """Types with fields of their own, and custom resources, say it in other words than all others."""
    if custom:
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def field_selector(text: str, group: str, kind: str, *, custom: bool = False) -> Predicate | None:
    """A predicate on objects, or None where the selector is empty. Raises 400 for unknown fields."""
    tests: list[tuple[tuple[str, ...], str, bool]] = []
    for part in text.split(","):
        if not part.strip():
            continue
        found = _EQUAL.match(part)
        if found is None:
            raise bad_request(f'Unable to find "{kind}" that match field selector "{text}": invalid selector')
        path, operator, value = found.groups()
        if path not in ("metadata.name", "metadata.namespace") and path not in _FIELDS.get(
            (group, kind), frozenset()
        ):
            raise bad_request(_unknown_field(path, custom=custom or (group, kind) in _FIELDS))
        tests.append((tuple(path.split(".")), value, operator != "!="))
    if not tests:
        return None

    def matches(obj: Obj) -> bool:
        return all((_field(obj, path) == value) is wanted for path, value, wanted in tests)

    return matches


def _field(obj: Any, path: tuple[str, ...]) -> str:
    for part in path:
        obj = obj.get(part) if isinstance(obj, dict) else None
    if obj is None:
        return ""
    if isinstance(obj, bool):
        return "true" if obj else "false"
    return str(obj)


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]


def _label_test(part: str) -> Callable[[dict[str, str]], bool]:
    if found := _SET.match(part):
        key, operator, listed = found.groups()
        values = frozenset(v.strip() for v in listed.split(","))
        if operator == "in":
            return lambda labels: key in labels and labels[key] in values
        return lambda labels: key not in labels or labels[key] not in values
    if found := _EQUAL.match(part):
        key, operator, value = found.groups()
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _COMPARE.match(part):
        key, operator, number = found.group(1), found.group(2), int(found.group(3))

        def compare(labels: dict[str, str]) -> bool:
            text = labels.get(key, "")
            if not re.fullmatch(r"-?\d+", text):
                return False
            return int(text) > number if operator == ">" else int(text) < number

        return compare
    if found := _EXISTS.match(part):
        negated, key = bool(found.group(1)), found.group(2)
        return lambda labels: (key in labels) is not negated
    raise _unparsable(part)


def _unparsable(part: str) -> ApiError:
    return bad_request(f"unable to parse requirement: couldn't parse the selector string {part!r}")
