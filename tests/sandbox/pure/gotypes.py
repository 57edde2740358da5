"""Reads the Kubernetes API types out of the kubectl executable.

A Go program carries its types with the tags of their fields (`json:"…" protobuf:"…" patchMergeKey:"…"`).
Walking them gives the very facts this kubectl works with; `builtin_fields.json` is made so:

    python -m tests.sandbox.pure.gotypes .venv/bin/kubectl > reverser/sandbox/builtin_fields.json
"""

import json
import re
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from reverser.sandbox.types import BUILTIN_TYPES

_POINTER, _MAP, _SLICE, _STRUCT, _STRING, _BOOL = 22, 21, 23, 25, 24, 1
_SCALARS = {
    2: "int64",
    6: "int64",
    3: "int32",
    4: "int32",
    5: "int32",
    8: "int32",
    13: "number",
    14: "number",
}
_SPECIAL = {
    "api/resource.Quantity": "quantity",
    "util/intstr.IntOrString": "intOrString",
    "meta/v1.Time": "time",
    "meta/v1.MicroTime": "microTime",
    "meta/v1.FieldsV1": "fieldsV1",
    "meta/v1.TypeMeta": "typeMeta",
    "runtime.RawExtension": "raw",
}
_EXTRA_ROOTS = (
    "meta/v1.DeleteOptions",
    "autoscaling/v1.Scale",
    "policy/v1.Eviction",
    "authentication/v1.TokenRequest",
    "meta/v1.Status",
)


class GoTypes:
    """The type information of a 64-bit little-endian ELF executable built by Go."""

    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes()
        if self._data[:5] != b"\x7fELF\x02":
            raise ValueError(f"{path} is no 64-bit ELF executable")
        self._segments = list(self._program_headers())
        sections = self._sections()
        self._base = sections[".rodata"][0]
        _, offset, size = sections[".typelink"]
        self._links = struct.unpack_from(f"<{size // 4}i", self._data, offset)

    def _program_headers(self) -> Iterator[tuple[int, int, int]]:
        start = struct.unpack_from("<Q", self._data, 0x20)[0]
        size, count = struct.unpack_from("<HH", self._data, 0x36)
        for index in range(count):
            kind, _, offset, address, _, length = struct.unpack_from(
                "<IIQQQQ", self._data, start + index * size
            )
            if kind == 1:
                yield address, offset, length

    def _sections(self) -> dict[str, tuple[int, int, int]]:
        start = struct.unpack_from("<Q", self._data, 0x28)[0]
        size, count, names = struct.unpack_from("<HHH", self._data, 0x3A)
        headers = [struct.unpack_from("<IIQQQQ", self._data, start + i * size) for i in range(count)]
        strings = headers[names][4]
        found = {}
        for name, _, _, address, offset, length in headers:
            end = self._data.index(b"\0", strings + name)
            found[self._data[strings + name : end].decode()] = (address, offset, length)
        return found

    def _at(self, address: int) -> int:
        for start, offset, length in self._segments:
            if start <= address < start + length:
                return offset + address - start
        raise ValueError(f"address {address:#x} is not in the file")

    def _pointer(self, address: int) -> int:
        return int(struct.unpack_from("<Q", self._data, self._at(address))[0])

    def _varint(self, position: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = self._data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position
            shift += 7

    def _name(self, address: int) -> tuple[str, str]:
        """A name and its tag."""
        position = self._at(address)
        flags = self._data[position]
        length, position = self._varint(position + 1)
        text, position = self._data[position : position + length].decode(), position + length
        if not flags & 2:
            return text, ""
        length, position = self._varint(position)
        return text, self._data[position : position + length].decode()

    def kind(self, address: int) -> int:
        """The reflect.Kind of a type."""
        return self._data[self._at(address) + 23] & 31

    def element(self, address: int) -> int:
        """What a pointer points to, a slice holds or a map has as values."""
        return self._pointer(address + (56 if self.kind(address) == _MAP else 48))

    def name(self, address: int) -> str:
        """Package (shortened as the table has it) and name of a structure; empty for an anonymous one."""
        position = self._at(address)
        if not self._data[position + 20] & 1:
            return ""
        short = self.text(address).rpartition(".")[2]
        package = self._name(self._base + struct.unpack_from("<i", self._data, position + 80)[0])[0]
        for prefix, replacement in (
            ("k8s.io/apimachinery/pkg/apis/meta/", "meta/"),
            ("k8s.io/apimachinery/pkg/", ""),
            ("k8s.io/api/", ""),
        ):
            if package.startswith(prefix):
                return f"{package.replace(prefix, replacement, 1)}.{short}"
        return f"{package}.{short}"

    def text(self, address: int) -> str:
        """A type as Go prints it, such as `v1.Container`."""
        return self._name(self._base + struct.unpack_from("<i", self._data, self._at(address) + 40)[0])[0]

    def structures(self) -> dict[str, int]:
        """Every structure that something points to, by name."""
        found = {}
        for link in self._links:
            if self.kind(self._base + link) == _POINTER:
                target = self.element(self._base + link)
                if self.kind(target) == _STRUCT:
                    found[self.name(target)] = target
        return found

    def fields(self, address: int) -> Iterator[tuple[str, str, int]]:
        """Name, tag and type of each field of a structure."""
        first, count = struct.unpack_from("<QQ", self._data, self._at(address + 56))
        for index in range(count):
            name, kind = struct.unpack_from("<QQ", self._data, self._at(first) + 24 * index)
            yield *self._name(name), kind


def _written(types: GoTypes, address: int, seen: dict[str, int]) -> str:
    kind = types.kind(address)
    if kind == _POINTER:
        return _written(types, types.element(address), seen)
    if kind == _SLICE:
        if types.kind(types.element(address)) == 8:
            return "bytes"
        if types.text(address).endswith("ExtraValue"):
            return "stringsMessage"
        return "[]" + _written(types, types.element(address), seen)
    if kind == _MAP:
        return "{}" + _written(types, types.element(address), seen)
    if kind in (_STRING, _BOOL):
        return "string" if kind == _STRING else "bool"
    if kind == _STRUCT:
        name = types.name(address)
        if name in _SPECIAL:
            return _SPECIAL[name]
        seen.setdefault(name, address)
        return f"@{name}"
    return _SCALARS[kind]


def _field(types: GoTypes, name: str, tag: str, address: int, seen: dict[str, int]) -> list[Any] | None:
    tags = dict(re.findall(r'(\w+):"([^"]*)"', tag))
    json_name, *options = tags.get("json", name).split(",")
    written = _written(types, address, seen)
    if json_name == "-" or written == "typeMeta":
        return None
    flags = "p" if types.kind(address) == _POINTER else ""
    flags += "" if json_name else "i"
    flags += "o" if {"omitempty", "omitzero"} & set(options) else ""
    field = [json_name or name, int(tags["protobuf"].split(",")[1]), written, flags]
    if "patchStrategy" in tags or "patchMergeKey" in tags:
        field += [tags.get("patchStrategy", ""), tags.get("patchMergeKey", "")]
    return field


def table(kubectl: Path) -> dict[str, list[list[Any]]]:
    """The table of every type that the built-in kinds are made of."""
    types = GoTypes(kubectl)
    known = types.structures()
    seen = {name: known[name] for name in _roots() if name in known}
    done: dict[str, list[list[Any]]] = {}
    while waiting := [name for name in seen if name not in done]:
        for name in waiting:
            rows = [_field(types, *field, seen) for field in types.fields(seen[name])]
            done[name] = [row for row in rows if row is not None]
    return done


def _roots() -> Iterable[str]:
    for rtype in BUILTIN_TYPES:
        yield f"{rtype.group.partition('.')[0] or 'core'}/{rtype.version}.{rtype.kind}"
    yield from _EXTRA_ROOTS


if __name__ == "__main__":
    found = table(Path(sys.argv[1]))
    lines = (f"{json.dumps(n)}:{json.dumps(found[n], separators=(',', ':'))}" for n in sorted(found))
    print("{\n" + ",\n".join(lines) + "\n}")
