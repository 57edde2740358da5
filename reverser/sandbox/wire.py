"""Objects in the protobuf form of Kubernetes, decoded to plain values.

Typed clients, `kubectl create deployment` among them, send protobuf and do not fall back to JSON. Only
decoding is needed: the same clients accept JSON answers.
"""

import base64
import datetime
import json
import struct
from collections.abc import Iterator
from typing import Any

from reverser.sandbox.builtinfields import Field, type_name, wire_fields

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"

Value = int | bytes


class WireError(ValueError):
    """A body that is no protobuf object of a known type."""


def decode_object(body: bytes) -> dict[str, Any]:
    """The object in a protobuf body, with its apiVersion and kind. Raises WireError."""
    if not body.startswith(_MAGIC):
        raise WireError(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    try:
        envelope = dict(_entries(body[len(_MAGIC) :]))
        meta = dict(_entries(_bytes(envelope.get(1, b""))))
        api_version, kind = (_bytes(meta.get(number, b"")).decode() for number in (1, 2))
        group, _, version = api_version.rpartition("/")
        name = type_name(group, version, kind)
        if name is None:
            raise WireError(f'no kind "{kind}" is registered for version "{api_version}"')
        raw = _bytes(envelope.get(2, b""))
        return {"apiVersion": api_version, "kind": kind, **_message(name, raw)}
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise WireError(f"unable to decode the protobuf message: {error}") from error


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _entries(data: bytes) -> Iterator[tuple[int, Value]]:
    """Field number and raw value of each entry: numbers as int, everything else as bytes."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, wire_type = key >> 3, key & 7
        if wire_type == 0:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire_type == 2:
            size, position = _varint(data, position)
        elif wire_type in (1, 5):
            size = 8 if wire_type == 1 else 4
        else:
            raise WireError(f"unexpected protobuf wire type {wire_type}")
        if position + size > len(data):
            raise WireError("unexpected end of the protobuf message")
        yield number, data[position : position + size]
        position += size


def _bytes(value: Value) -> bytes:
    if isinstance(value, int):
        raise WireError("expected bytes in the protobuf message")
    return value


def _integer(value: Value) -> int:
    if isinstance(value, bytes):
        return int.from_bytes(value, "little", signed=True)
    return value - (1 << 64) if value >= 1 << 63 else value


def _message(name: str, data: bytes) -> dict[str, Any]:
    fields = {field.number: field for field in wire_fields(name)}
    found: dict[str, Any] = {}
    for number, value in _entries(data):
        field = fields.get(number)
        if field is None:
            continue
        if field.inline:
            found.update(_message(field.type.removeprefix("@"), _bytes(value)))
        elif field.type.startswith("[]"):
            found.setdefault(field.name, []).append(_single(field.type[2:], value))
        elif field.type.startswith("{}"):
            entry = dict(_entries(_bytes(value)))
            key = _bytes(entry.get(1, b"")).decode()
            found.setdefault(field.name, {})[key] = _single(field.type[2:], entry.get(2, b""))
        else:
            found[field.name] = _single(field.type, value)
    return {key: value for key, value in found.items() if not _omitted(name, key, value, fields)}


def _omitted(name: str, key: str, value: Any, fields: dict[int, Field]) -> bool:
    """Whether JSON leaves the value out; the Go encoder writes every field that is no pointer."""
    if value is None:
        return True
    field = next((field for field in fields.values() if field.name == key), None)
    if field is None or field.pointer:
        return False
    return (field.optional or field.type.startswith("@")) and value in ("", 0, False, {}, [])


def _single(kind: str, value: Value) -> Any:
    if kind.startswith("@"):
        return _message(kind[1:], _bytes(value))
    if kind == "string":
        return _bytes(value).decode()
    if kind == "bool":
        return bool(value)
    if kind in ("int32", "int64"):
        return _integer(value)
    if kind == "number":
        data = _bytes(value)
        return struct.unpack("<d" if len(data) == 8 else "<f", data)[0]
    if kind == "bytes":
        return base64.b64encode(_bytes(value)).decode()
    parts = list(_entries(_bytes(value)))
    if kind == "stringsMessage":
        return [_bytes(item).decode() for number, item in parts if number == 1]
    return _special(kind, dict(parts))


def _special(kind: str, parts: dict[int, Value]) -> Any:
    if kind == "quantity":
        return _bytes(parts.get(1, b"0")).decode()
    if kind == "intOrString":
        return _bytes(parts.get(3, b"")).decode() if parts.get(1) else _integer(parts.get(2, 0))
    if kind in ("raw", "fieldsV1"):
        text = _bytes(parts.get(1, b""))
        return json.loads(text) if text else None
    if kind in ("time", "microTime"):
        if not parts:
            return None
        moment = datetime.datetime.fromtimestamp(_integer(parts.get(1, 0)), datetime.UTC)
        fraction = f".{_integer(parts.get(2, 0)) // 1000:06d}" if kind == "microTime" else ""
        return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"
    raise WireError(f"cannot decode a field of type {kind}")
