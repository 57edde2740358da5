"""Validation of a custom resource against its compiled schema, in the words and order of the API server.

Three passes, as on the server: value validations, list-type invariants, CEL rules. On update a value that
did not change is not held against the caller (ratcheting), apart from transition rules, which compare.
"""

import base64
import binascii
import ipaddress
import json
import re
import urllib.parse
from collections.abc import Iterator
from typing import Any, Final

from reverser.sandbox import causes as c
from reverser.sandbox.causes import Cause
from reverser.sandbox.celrules import Rule, parse_duration, parse_timestamp, to_cel
from reverser.sandbox.structural import Node

Json = Any


class _Absent:
    """Marks "there is no old value to compare with"; null is a value of its own."""


ABSENT: Final = _Absent()
_BLOCKING = frozenset(
    {
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
        "FieldValueNotSupported",
    }
)
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to "
    "complete validation"
)


def check(node: Node, value: Json, old: Json = ABSENT) -> list[Cause]:
    """Every complaint about `value`; `old` is the stored object on update."""
    found = list(_values(node, value, old, ""))
    found.extend(_list_types(node, value, ""))
    if node.has_rules:
        if any(cause.reason in _BLOCKING for cause in found):
            found.append(c.invalid(c.WHOLE, None, _NOT_CHECKED))
        else:
            found.extend(_rules(node, value, old, ""))
    return found


def type_name(value: Json) -> str:
    """The JSON type of a value as OpenAPI names it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def correlate(node: Node, value: Json, old: Json) -> Json:
    """The old counterpart of a MAP list's item, ABSENT where there is none."""
    if node.list_type != "map" or not isinstance(old, list) or not isinstance(value, dict):
        return ABSENT
    identity = _identity(node, value)
    return next(
        (item for item in old if isinstance(item, dict) and _identity(node, item) == identity), ABSENT
    )


def _identity(node: Node, item: dict[str, Json]) -> list[Json]:
    keys = node.items.properties if node.items else {}
    return [
        item.get(key, keys[key].default if key in keys and keys[key].has_default else None)
        for key in node.list_keys
    ]


# --- value validations --------------------------------------------------------------------------------


def _values(node: Node, value: Json, old: Json, path: str) -> Iterator[Cause]:
    if old is not ABSENT and type_name(old) == type_name(value) and old == value:
        return
    if value is None and node.nullable:
        return
    wrong_type = _wrong_type(node, value, path)
    if wrong_type is not None:
        yield wrong_type
        yield from _enum(node.raw, value, path)
        return
    yield from _scalar(node, value, path)
    if isinstance(value, list):
        yield from _array(node, value, old, path)
    elif isinstance(value, dict):
        yield from _object(node, value, old, path)
    yield from _combinations(node, value, path)


def _wrong_type(node: Node, value: Json, path: str) -> Cause | None:
    given = type_name(value)
    allowed = "integer,string" if node.int_or_string else node.type
    if not allowed or given in allowed.split(",") or (allowed == "number" and given == "integer"):
        return None
    return c.type_invalid(path or c.WHOLE, given, f'{path} in body must be of type {allowed}: "{given}"')


def _scalar(node: Node, value: Json, path: str) -> Iterator[Cause]:
    raw = node.raw
    body = f"{path} in body"
    if isinstance(value, str):
        if "maxLength" in raw and len(value) > raw["maxLength"]:
            yield c.too_long(path, raw["maxLength"])
        if "minLength" in raw and len(value) < raw["minLength"]:
            yield c.invalid(path, value, f"{body} should be at least {raw['minLength']} chars long")
        if node.pattern is not None and not node.pattern.search(value):
            yield c.invalid(path, value, f"{body} should match '{raw['pattern']}'")
        if raw.get("format") and not valid_format(raw["format"], value):
            yield c.type_invalid(path, value, f"{body} must be of type {raw['format']}: {c.go_value(value)}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number(raw, value, path)
    yield from _enum(raw, value, path)


def _enum(raw: Any, value: Json, path: str) -> Iterator[Cause]:
    if "enum" in raw and not any(
        type_name(value) == type_name(item) and value == item for item in raw["enum"]
    ):
        yield c.not_supported(path, value, raw["enum"])


def _number(raw: Any, value: int | float, path: str) -> Iterator[Cause]:
    body = f"{path} in body"
    limit = raw.get("minimum")
    if limit is not None and (value < limit or (raw.get("exclusiveMinimum") and value == limit)):
        words = "greater than" if raw.get("exclusiveMinimum") else "greater than or equal to"
        yield c.invalid(path, value, f"{body} should be {words} {limit:g}")
    limit = raw.get("maximum")
    if limit is not None and (value > limit or (raw.get("exclusiveMaximum") and value == limit)):
        words = "less than" if raw.get("exclusiveMaximum") else "less than or equal to"
        yield c.invalid(path, value, f"{body} should be {words} {limit:g}")
    factor = raw.get("multipleOf")
    if factor and value % factor != 0:
        yield c.invalid(path, value, f"{body} should be a multiple of {factor:g}")
    bits = {"int32": 31, "int64": 63}.get(raw.get("format"))
    if bits is not None and not -(2**bits) <= value < 2**bits:
        yield c.invalid(path, value, f"{body} should be a valid {raw['format']} number")


def _array(node: Node, value: list[Json], old: Json, path: str) -> Iterator[Cause]:
    raw = node.raw
    if node.items is not None:
        for index, item in enumerate(value):
            yield from _values(node.items, item, correlate(node, item, old), f"{path}[{index}]")
    if "maxItems" in raw and len(value) > raw["maxItems"]:
        yield c.too_many(path, len(value), raw["maxItems"])
    if "minItems" in raw and len(value) < raw["minItems"]:
        yield c.invalid(path, len(value), f"{path} in body should have at least {raw['minItems']} items")


def _object(node: Node, value: dict[str, Json], old: Json, path: str) -> Iterator[Cause]:
    raw = node.raw
    if "minProperties" in raw and len(value) < raw["minProperties"]:
        yield c.invalid(
            path, len(value), f"{path} in body should have at least {raw['minProperties']} properties"
        )
    if "maxProperties" in raw and len(value) > raw["maxProperties"]:
        yield c.too_many(path, len(value), raw["maxProperties"])
    for key in sorted(value):
        child = node.child(key)
        if child is not None:
            before = old.get(key, ABSENT) if isinstance(old, dict) else ABSENT
            yield from _values(child, value[key], before, _join(path, key))
    for key in raw.get("required") or ():
        if key not in value:
            yield c.required(_join(path, key))


def _combinations(node: Node, value: Json, path: str) -> Iterator[Cause]:
    name = path

    def holds(sub: Node) -> bool:
        return not any(_values(sub, value, ABSENT, path))

    for sub in node.all_of:
        yield from _values(sub, value, ABSENT, path)
    if node.any_of and not any(holds(sub) for sub in node.any_of):
        yield c.invalid(c.WHOLE, "", f'"{name}" must validate at least one schema (anyOf)')
    if node.one_of:
        matching = sum(holds(sub) for sub in node.one_of)
        if matching != 1:
            tail = f"Found {matching} valid alternatives" if matching else "Found none valid"
            yield c.invalid(c.WHOLE, "", f'"{name}" must validate one and only one schema (oneOf). {tail}')
    if node.negated is not None and holds(node.negated):
        yield c.invalid(c.WHOLE, "", f'"{name}" must not validate the schema (not)')


# --- formats ------------------------------------------------------------------------------------------

_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_HOSTNAME = re.compile(
    r"(?i)(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*"
)
_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)*")


def valid_format(name: str, text: str) -> bool:
    """Whether a string has the named format; a format nobody knows holds for every string."""
    if name == "date-time":
        return "T" in text.upper() and parse_timestamp(text) is not None
    if name == "date":
        return len(text) == 10 and parse_timestamp(text) is not None
    if name == "duration":
        return parse_duration(text) is not None
    if name == "byte":
        try:
            base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return False
        return True
    if name in ("ipv4", "ipv6", "cidr"):
        try:
            if name == "cidr":
                ipaddress.ip_interface(text)
                return "/" in text
            return ipaddress.ip_address(text).version == int(name[-1])
        except ValueError:
            return False
    if name == "uri":
        return bool(urllib.parse.urlsplit(text).scheme) or text.startswith("/")
    pattern = {"uuid": _UUID, "hostname": _HOSTNAME, "email": _EMAIL}.get(name)
    return pattern is None or pattern.fullmatch(text) is not None


# --- list types ---------------------------------------------------------------------------------------


def _list_types(node: Node, value: Json, path: str) -> Iterator[Cause]:
    if isinstance(value, dict):
        for key in sorted(value):
            child = node.child(key)
            if child is not None:
                yield from _list_types(child, value[key], _join(path, key))
    elif isinstance(value, list) and node.items is not None:
        if node.list_type in ("map", "set"):
            seen: set[str] = set()
            for index, item in enumerate(value):
                identity, shown = item, item
                if node.list_type == "map" and isinstance(item, dict):
                    identity = _identity(node, item)
                    shown = {key: item[key] for key in node.list_keys if key in item}
                text = json.dumps(identity, sort_keys=True)
                if text in seen:
                    yield c.duplicate(f"{path}[{index}]", shown)
                seen.add(text)
        for index, item in enumerate(value):
            yield from _list_types(node.items, item, f"{path}[{index}]")


# --- CEL ----------------------------------------------------------------------------------------------


def _rules(node: Node, value: Json, old: Json, path: str) -> Iterator[Cause]:
    if not node.has_rules or value is None:
        return
    if node.rules:
        self_value = to_cel(value, node.raw)
        old_value = None if old is ABSENT else to_cel(old, node.raw)
        for rule in node.rules:
            if rule.transition and old is ABSENT and not rule.optional_old_self:
                continue
            if not rule.transition and old is not ABSENT and old == value:
                continue
            holds, message = rule.holds(self_value, old_value)
            if not holds:
                yield _broken(rule, value, path, message)
    if isinstance(value, dict):
        for key in sorted(value):
            child = node.child(key)
            if child is not None:
                before = old.get(key, ABSENT) if isinstance(old, dict) else ABSENT
                yield from _rules(child, value[key], before, _join(path, key))
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            yield from _rules(node.items, item, correlate(node, item, old), f"{path}[{index}]")


def _broken(rule: Rule, value: Json, path: str, message: str) -> Cause:
    field = (path + rule.field_path).lstrip(".") or c.WHOLE
    shown = type_name(value) if isinstance(value, dict | list) else value
    if rule.reason == "FieldValueRequired":
        return c.required(field, message)
    if rule.reason == "FieldValueForbidden":
        return c.forbidden(field, message)
    if rule.reason == "FieldValueDuplicate":
        return c.duplicate(field, shown)
    return c.invalid(field, shown, message)
