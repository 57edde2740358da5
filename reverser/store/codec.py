"""Values to bytes and back.

orjson writes our frozen dataclasses as they are; reading rebuilds them from their type hints, so a new
field with a default needs no code here and an older value in Redis still reads. Bodies never pass
through JSON: they are fields of their own, byte for byte.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum
from functools import cache, lru_cache, partial
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import orjson

from reverser.errors import NewerVersion
from reverser.store import keys
from reverser.store.model import (
    AttachEntry,
    Author,
    Entry,
    EventEntry,
    RetireEntry,
    Scope,
    StagedObject,
    Stored,
    SweepEntry,
    TargetRef,
    TypeRef,
    UnsealedEntry,
    digest_field,
)

T = TypeVar("T")

_KINDS: dict[str, type[Entry]] = {
    "event": EventEntry,
    "sweep": SweepEntry,
    "attach": AttachEntry,
    "retire": RetireEntry,
    "unsealed": UnsealedEntry,
}
_REPEATED = frozenset({TargetRef, Scope, TypeRef, Author})
_NAMES = {cls: name for name, cls in _KINDS.items()}

OVERHEAD = 64
"""Bytes counted for an entry beside its text: stream id, field names, bookkeeping."""


def dumps(value: object) -> bytes:
    """JSON of a dataclass or of plain values.

    Git's names need not be UTF-8; what is none shows as a question mark.
    """
    try:
        return orjson.dumps(value, default=_plain)
    except TypeError:
        return orjson.dumps(_readable(value), default=_plain)


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _readable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_readable(key): _readable(part) for key, part in value.items()}
    if isinstance(value, Sequence | frozenset) and not isinstance(value, bytes):
        return [_readable(part) for part in (sorted(value) if isinstance(value, frozenset) else value)]
    return value


def _plain(value: object) -> object:
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} does not go into the store")


def _bare(value: object) -> bytes:
    """JSON of a value whose body travels beside it."""
    return orjson.dumps(value, default=lambda part: None if isinstance(part, bytes) else _plain(part))


def loads(cls: type[T], text: bytes | str) -> T:
    """The ``cls`` that ``dumps`` wrote. Raises NewerVersion for a state or kind that is not known here."""
    return cast(T, _reader(cast(Hashable, cls))(orjson.loads(text)))


@lru_cache(maxsize=1024)
def _kept_once(value: Hashable) -> Hashable:
    """One instance per value: what thousands of waiting entries have in common is in memory once."""
    return value


def _same(data: Any) -> Any:
    return data


@cache
def _reader(hint: Hashable) -> Callable[[Any], Any]:
    origin = get_origin(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        hints = get_type_hints(hint)
        names = {f.name for f in dataclasses.fields(hint)}
        readers = {name: _reader(hints[name]) for name in names}
        repeated = hint in _REPEATED
        converted = [(name, read) for name, read in readers.items() if read is not _same]

        def build(data: Any) -> Any:
            if not data.keys() <= names:  # a newer writer knows more
                data = {name: value for name, value in data.items() if name in names}
            for name, read in converted:
                if name in data:
                    data[name] = read(data[name])
            value: Any = hint(**data)
            return _kept_once(value) if repeated else value

        return build
    if origin in (Union, types.UnionType):
        inner = [arg for arg in get_args(hint) if arg is not type(None)]
        read = _reader(inner[0])
        return read if read is _same else lambda data: None if data is None else read(data)
    if origin is tuple:
        args = get_args(hint)
        if len(args) == 2 and args[1] is Ellipsis:
            item = _reader(args[0])
            return lambda data: tuple(item(x) for x in data)
        items = [_reader(arg) for arg in args]
        return lambda data: tuple(read(x) for read, x in zip(items, data, strict=True))
    if origin is frozenset:
        member = _reader(get_args(hint)[0])
        return lambda data: frozenset(member(x) for x in data)
    if origin is Mapping:
        value = _reader(get_args(hint)[1])
        return lambda data: {key: value(x) for key, x in data.items()}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return partial(_member, hint)
    return _same


def _member(cls: type[Enum], data: Any) -> Enum:
    try:
        return cls(data)
    except ValueError as error:
        raise _newer(f"{data!r} as {cls.__name__}") from error


def _newer(what: str) -> NewerVersion:
    return NewerVersion(
        f"Redis holds {what}, which a newer version of this program has written; nothing is lost, it waits "
        "until that version runs again"
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Packed:
    """An entry as its stream fields: kind, object, JSON, body and size in bytes."""

    kind: str
    object: str
    meta: bytes
    body: bytes
    size: int

    def args(self) -> tuple[str | bytes | int, ...]:
        """In the order in which the scripts read them."""
        return (self.kind, self.object, self.meta, self.body, self.size)


def pack(entry: Entry) -> Packed:
    """An entry as the append scripts take it."""
    body = entry.body if isinstance(entry, EventEntry) else b""
    ref = digest_field(entry.object) if isinstance(entry, EventEntry | UnsealedEntry) else ""
    meta = _bare(entry)
    return Packed(_NAMES[type(entry)], ref, meta, body, len(meta) + len(body) + OVERHEAD)


def unpack(ident: bytes, fields: Sequence[bytes]) -> Stored:
    """A stream entry (flat field list) as a value. Raises NewerVersion for a kind that is not known here:
    what stands behind it may depend on it, so nobody may pass it.
    """
    data = dict(zip(fields[::2], fields[1::2], strict=True))
    kind = data[b"k"].decode()
    cls = _KINDS.get(kind)
    if cls is None:
        raise _newer(f"a journal entry of kind {kind!r}")
    values = orjson.loads(data[b"m"])
    if cls is EventEntry:
        values["body"] = data[b"b"]
    elif cls is SweepEntry:
        values.update(first=data[b"f"] == b"1", count=int(data[b"c"]), released_hold=data[b"h"].decode())
    entry = _reader(cast(Hashable, cls))(values)
    text = int(data.get(b"t", len(data.get(b"b", b""))))
    return Stored(ident.decode(), entry, int(data[b"n"]), text)


def staged_field(namespace: str, name: str) -> str:
    """The hash field of a staged object."""
    return f"{namespace}|{name}"


def pack_staged(item: StagedObject) -> tuple[str, bytes]:
    """A staged object as a hash field and its value: one line of JSON, then the body."""
    return staged_field(item.namespace, item.name), _bare(item) + b"\n" + item.body


def unpack_staged(value: bytes) -> StagedObject:
    """The inverse of ``pack_staged``."""
    meta, _, body = value.partition(b"\n")
    return cast(StagedObject, _reader(StagedObject)({**orjson.loads(meta), "body": body}))


def hash_items(reply: Any) -> dict[str, bytes]:
    """HGETALL as text keys, whatever protocol version the client speaks."""
    if isinstance(reply, dict):
        return {key.decode(): value for key, value in reply.items()}
    flat = list(reply)
    return {key.decode(): value for key, value in zip(flat[::2], flat[1::2], strict=True)}


def scope_values(target_uid: str, reply: Any, cls: type[T]) -> dict[Any, T]:
    """A hash by scope field as a mapping by Scope."""
    return {
        keys.scope_of_field(target_uid, key): loads(cls, value) for key, value in hash_items(reply).items()
    }
