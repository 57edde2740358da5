"""The fields of the built-in API types: names, types, protobuf numbers and merge keys.

The facts are those of the Go types kubectl is built from, kept in `builtin_fields.json` with one type a line:
`[name, protobuf number, type, flags, patch strategy, merge key]`. They serve decoding (what a field may hold,
which fields exist), the protobuf form of objects, and OpenAPI.

Types are written `string`, `bool`, `int32`, `int64`, `number`, `bytes`, `quantity`, `intOrString`, `time`,
`microTime`, `raw`, `fieldsV1`, `stringsMessage`, `@package.Type`, `[]` before an item's and `{}` before a map
value's type.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("builtin_fields.json")
_META_KINDS = frozenset({"DeleteOptions", "Status"})


@dataclass(frozen=True, slots=True)
class Field:
    """One field; `optional` fields are left out when empty, `pointer` fields know null from empty."""

    name: str
    number: int
    type: str
    inline: bool
    optional: bool
    pointer: bool
    strategy: str = ""
    merge_key: str = ""


@cache
def _types() -> Mapping[str, tuple[Field, ...]]:
    raw = json.loads(_FILE.read_text(encoding="utf-8"))
    return {
        name: tuple(
            Field(field, number, kind, "i" in flags, "o" in flags, "p" in flags, *merge)
            for field, number, kind, flags, *merge in fields
        )
        for name, fields in raw.items()
    }


def type_name(group: str, version: str, kind: str) -> str | None:
    """The name of a kind's type, None where the kind is not in the table."""
    if kind in _META_KINDS:
        return f"meta/v1.{kind}"
    package = group.partition(".")[0] or "core"
    name = f"{package}/{version}.{kind}"
    return name if name in _types() else None


def wire_fields(name: str) -> tuple[Field, ...]:
    """The fields of a type as protobuf has them: inlined structures are fields of their own."""
    return _types()[name]


@cache
def json_fields(name: str) -> Mapping[str, Field]:
    """The fields of a type as JSON has them, by name: inlined structures are dissolved."""
    found: dict[str, Field] = {}
    for field in _types()[name]:
        if field.inline:
            found.update(json_fields(field.type.removeprefix("@")))
        else:
            found[field.name] = field
    return found
