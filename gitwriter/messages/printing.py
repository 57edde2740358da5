"""Values as Go's fmt prints them: print, println, and the printf verbs of the subset.

Template authors know Go's output, so ``%v`` of a map is ``map[a:1 b:2]`` in key order, strings are counted
in characters for a width, and a verb that does not fit its value says so in Go's own ``%!d(string=x)`` way
instead of failing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_WIDTH = 1000
_DIRECTIVE = re.compile(r"%([-0+# ]*)([0-9]*)(\.[0-9]*)?(.?)", re.DOTALL)
_ESCAPES = {"\a": "a", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v", "\\": "\\", '"': '"'}


@dataclass(frozen=True, slots=True)
class Record:
    """A value with named fields. ``joined`` prints the non-empty fields joined by ``/`` (an object's
    reference); otherwise it prints as a Go struct."""

    fields: Mapping[str, Value]
    joined: bool = False

    def text(self) -> str:
        """The printed form of a joined record."""
        return "/".join(str(value) for value in self.fields.values() if value)


Value = str | int | bool | Record | Sequence["Value"] | Mapping[str, "Value"] | None


class FormatProblem(ValueError):
    """A printf directive outside the subset."""


def show(value: Value) -> str:
    """A value as ``{{.}}`` or ``%v`` prints it."""
    if value is None:
        return "<no value>"
    return _apply(value, verb="v", pad=_Padding())


def sprint(values: Sequence[Value]) -> str:
    """Go's Sprint: a blank between two values when neither is a string."""
    out = ""
    for number, value in enumerate(values):
        if number and not isinstance(value, str) and not isinstance(values[number - 1], str):
            out += " "
        out += _shown(value)
    return out


def sprintln(values: Sequence[Value]) -> str:
    """Go's Sprintln: blanks between all values, and a line break."""
    return " ".join(_shown(value) for value in values) + "\n"


def _shown(value: Value) -> str:
    return "<nil>" if value is None else show(value)


def check_format(text: str) -> None:
    """Raises FormatProblem for a verb, flag or width outside the subset."""
    for match in _DIRECTIVE.finditer(text):
        flags, width, precision, verb = match.groups()
        if verb == "%" and not flags and not width and precision is None:
            continue
        if verb not in ("s", "d", "v", "q") or precision is not None or set(flags) - {"-", "0"}:
            raise FormatProblem(
                f"printf directive {match[0]!r} is not supported (%s %d %v %q %% with width, -, 0)"
            )
        if width and int(width) > MAX_WIDTH:
            raise FormatProblem(f"printf width {width} is larger than {MAX_WIDTH}")


def sprintf(text: str, values: Sequence[Value]) -> str:
    """Go's Sprintf for the subset. Raises FormatProblem."""
    check_format(text)
    used = 0

    def one(match: re.Match[str]) -> str:
        nonlocal used
        flags, width, _, verb = match.groups()
        if verb == "%":
            return "%"
        if used >= len(values):
            return f"%!{verb}(MISSING)"
        value = values[used]
        used += 1
        left = "-" in flags
        return _apply(value, verb=verb, pad=_Padding(int(width or 0), left, "0" in flags and not left))

    out = _DIRECTIVE.sub(one, text)
    if used < len(values):
        out += "%!(EXTRA " + ", ".join(_typed(value) for value in values[used:]) + ")"
    return out


@dataclass(frozen=True, slots=True)
class _Padding:
    width: int = 0
    left: bool = False
    zero: bool = False

    def text(self, value: str) -> str:
        if self.left:
            return value.ljust(self.width)
        return value.rjust(self.width, "0" if self.zero else " ")

    def number(self, value: int) -> str:
        if self.zero:
            return f"{value:0{self.width}d}" if self.width else str(value)
        return self.text(str(value))


def _apply(value: Value, *, verb: str, pad: _Padding) -> str:
    if value is None:
        return pad.text("<nil>") if verb == "v" else f"%!{verb}(<nil>)"
    if isinstance(value, Record):
        return _record(value, verb, pad)
    if isinstance(value, bool):
        return pad.text("true" if value else "false") if verb == "v" else f"%!{verb}({_typed(value)})"
    if isinstance(value, int):
        if verb in ("d", "v"):
            return pad.number(value)
        return pad.text(_quoted_rune(value)) if verb == "q" else f"%!{verb}({_typed(value)})"
    if isinstance(value, str):
        if verb == "d":
            return f"%!d({_typed(value)})"
        return pad.text(quote(value) if verb == "q" else value)
    if isinstance(value, Mapping):
        pairs = (
            f"{_apply(key, verb=verb, pad=pad)}:{_apply(item, verb=verb, pad=pad)}"
            for key, item in sorted(value.items())
        )
        return f"map[{' '.join(pairs)}]"
    return "[" + " ".join(_apply(item, verb=verb, pad=pad) for item in value) + "]"


def _record(value: Record, verb: str, pad: _Padding) -> str:
    if value.joined and verb != "d":
        return _apply(value.text(), verb=verb, pad=pad)
    return "{" + " ".join(_apply(item, verb=verb, pad=pad) for item in value.fields.values()) + "}"


def _typed(value: Value) -> str:
    """``type=value``, as Go's complaints show it."""
    if value is None:
        return "<nil>"
    names = {bool: "bool", int: "int", str: "string"}
    return f"{names.get(type(value), 'value')}={show(value)}"


def quote(text: str) -> str:
    """A Go string literal."""
    return '"' + "".join(_escaped(char, '"') for char in text) + '"'


def _quoted_rune(code: int) -> str:
    char = chr(code) if 0 <= code <= 0x10FFFF and not 0xD800 <= code < 0xE000 else "\ufffd"
    return "'" + _escaped(char, "'") + "'"


def _escaped(char: str, delimiter: str) -> str:
    if char == delimiter:
        return "\\" + char
    if char in _ESCAPES and char != '"':
        return "\\" + _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
