"""Strict decoding of built-in objects: fields that do not exist, and values of the wrong type.

A real server decodes into Go structures. What has no field there is lost (or refused, as `fieldValidation`
says), and a value of another type is a decoding error. Kinds that are not in the table pass as they are.
"""

import base64
import binascii
from typing import Any

from reverser.sandbox.builtinfields import Field, json_fields, type_name

Json = Any

_GO_TYPES = {"intOrString": "intstr.IntOrString", "number": "float64", "bytes": "[]uint8", "time": "v1.Time"}


class DecodeError(ValueError):
    """A value of the wrong type; the message is the Go decoder's, after `cannot be handled as a Kind: `."""


def decode_builtin(
    group: str, version: str, kind: str, obj: dict[str, Json]
) -> tuple[dict[str, Json], list[str]]:
    """The object without unknown fields, and the paths of those.

    Raises DecodeError for a value of the wrong type.
    """
    name = type_name(group, version, kind)
    if name is None:
        return obj, []
    unknown: list[str] = []
    head = {key: obj[key] for key in ("apiVersion", "kind") if key in obj}
    body = {key: value for key, value in obj.items() if key not in head}
    return head | _object(name, body, "", unknown), unknown


def _object(name: str, value: dict[str, Json], path: str, unknown: list[str]) -> dict[str, Json]:
    fields = json_fields(name)
    result: dict[str, Json] = {}
    for key, item in value.items():
        here = f"{path}.{key}" if path else key
        field = fields.get(key)
        if field is None:
            unknown.append(here)
        elif item is None:
            result[key] = None
        else:
            decoded = _value(field.type, item, here, _Place(name, field, here), unknown)
            if not _left_out(field, decoded):
                result[key] = decoded
    return result


def _left_out(field: Field, value: Json) -> bool:
    """Whether the Go encoder leaves the field out: empty values of optional fields, except behind pointers.

    An empty structure is a value, an empty list or map is none.
    """
    if value or not field.optional:
        return False
    if isinstance(value, dict):
        return field.type.startswith("{}")
    return isinstance(value, list) or (not field.pointer and not field.type.startswith("@"))


class _Place:
    """Where a value stands, for the error text."""

    __slots__ = ("field", "owner", "path")

    def __init__(self, owner: str, field: Field, path: str) -> None:
        self.owner, self.field, self.path = owner, field, path

    def error(self, value: Json, kind: str) -> DecodeError:
        where = f"Go struct field {self.owner.rpartition('.')[2]}.{self.path} of type {kind}"
        return DecodeError(f"json: cannot unmarshal {_json_type(value)} into {where}")


def _json_type(value: Json) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, float):
        return f"number {value:g}"
    names = {int: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _go_type(kind: str) -> str:
    if kind.startswith("[]"):
        return f"[]{_go_type(kind[2:])}"
    if kind.startswith("{}"):
        return f"map[string]{_go_type(kind[2:])}"
    if kind.startswith("@"):
        package, _, name = kind[1:].rpartition(".")
        return f"{package.rpartition('/')[2]}.{name}"
    return _GO_TYPES.get(kind, kind)


def _value(kind: str, value: Json, path: str, place: _Place, unknown: list[str]) -> Json:
    if kind.startswith("[]"):
        if not isinstance(value, list):
            raise place.error(value, _go_type(kind))
        return [
            item if item is None else _value(kind[2:], item, f"{path}[{index}]", place, unknown)
            for index, item in enumerate(value)
        ]
    if kind.startswith("{}"):
        if not isinstance(value, dict):
            raise place.error(value, _go_type(kind))
        return {
            key: item if item is None else _value(kind[2:], item, f"{path}.{key}", place, unknown)
            for key, item in value.items()
        }
    if kind.startswith("@"):
        if not isinstance(value, dict):
            raise place.error(value, _go_type(kind))
        return _object(kind[1:], value, path, unknown)
    return _scalar(kind, value, place)


def _scalar(kind: str, value: Json, place: _Place) -> Json:
    if kind in ("string", "time", "microTime"):
        fits = isinstance(value, str)
    elif kind == "bool":
        fits = isinstance(value, bool)
    elif kind in ("int32", "int64"):
        fits = isinstance(value, int) and not isinstance(value, bool)
        bits = int(kind[3:]) - 1
        if fits and not -(2**bits) <= value < 2**bits:
            where = f"Go struct field {place.owner.rpartition('.')[2]}.{place.path} of type {kind}"
            raise DecodeError(f"json: cannot unmarshal number {value} into {where}")
    elif kind == "number":
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    elif kind == "intOrString":
        fits = isinstance(value, int | str) and not isinstance(value, bool)
    elif kind == "quantity":
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        fits = isinstance(value, str)
    elif kind == "bytes":
        fits = isinstance(value, str)
        if fits:
            _check_base64(value)
    else:
        fits = True
    if not fits:
        raise place.error(value, _go_type(kind))
    return value


def _check_base64(text: str) -> None:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        position = next((i for i, sign in enumerate(text) if sign not in alphabet), len(text))
        raise DecodeError(f"illegal base64 data at input byte {position}") from None
