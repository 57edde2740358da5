"""CEL rules of structural schemas (`x-kubernetes-validations`): compiled once, evaluated per object.

`self` and `oldSelf` are bound to values converted along the schema, because CEL is strict about types: a
`number` is a double even when it was written `1`, a date-time string is a timestamp. A rule that mentions
`oldSelf` is a transition rule and holds on updates only.
"""

import base64
import binascii
import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import cel

from reverser.sandbox.cellib import FUNCTIONS, KNOWN_FUNCTIONS

Schema = Mapping[str, Any]


class RuleError(Exception):
    """A rule that does not compile; the message says what and where."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled entry of `x-kubernetes-validations`."""

    source: str
    message: str
    message_expression: "cel.Program | None"
    reason: str
    field_path: str
    transition: bool
    optional_old_self: bool
    program: "cel.Program"

    def holds(self, self_value: Any, old_value: Any = None) -> tuple[bool, str]:
        """Whether the rule holds, and if not the message to show. Values are those of `to_cel`."""
        context = cel.Context({"self": self_value, "oldSelf": old_value}, dict(FUNCTIONS))
        try:
            result = self.program.execute(context)
        except _EVALUATION_ERRORS as error:
            return False, f"rule evaluation error: {error}: failed rule: {self.source}"
        if result is True:
            return True, ""
        if self.message_expression is not None:
            try:
                text = self.message_expression.execute(context)
            except _EVALUATION_ERRORS:
                text = ""
            if isinstance(text, str) and text.strip() and "\n" not in text:
                return False, text
        return False, self.message or f"failed rule: {self.source}"


# What the library raises: lookups as KeyError, arithmetic, overloads as TypeError, the rest as RuntimeError.
_EVALUATION_ERRORS = (RuntimeError, ValueError, TypeError, KeyError, IndexError, ArithmeticError)

_LITERAL = re.compile(
    r"""(?P<literal>[rRbB]{0,2}(?:'''.*?'''|\"\"\".*?\"\"\"|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))"""
    r"|(?P<size>\bsize(?=\s*\())",
    re.DOTALL,
)


def _compile(source: str) -> "cel.Program":
    # The library counts bytes in size(string); Kubernetes counts characters.
    text = _LITERAL.sub(lambda found: found["literal"] or "runeSize", source)
    try:
        program = cel.compile(text)
    except ValueError as error:
        raise RuleError(f"compilation failed: {error}") from error
    unknown = [name for name in program.functions() if name[0].isalpha() and name not in KNOWN_FUNCTIONS]
    if unknown:
        raise RuleError(f"compilation failed: undeclared reference to '{unknown[0]}' (in container '')")
    return program


def compile_rule(raw: Mapping[str, Any]) -> Rule:
    """Compile one `x-kubernetes-validations` entry; raises RuleError."""
    source = str(raw.get("rule", ""))
    if not source.strip():
        raise RuleError("rule is not specified")
    program = _compile(source)
    expression = raw.get("messageExpression")
    return Rule(
        source=source.strip(),
        message=str(raw.get("message", "")).strip(),
        message_expression=_compile(expression) if expression else None,
        reason=str(raw.get("reason") or "FieldValueInvalid"),
        field_path=str(raw.get("fieldPath", "")),
        transition="oldSelf" in program.variables(),
        optional_old_self=bool(raw.get("optionalOldSelf")),
        program=program,
    )


# --- values -------------------------------------------------------------------------------------------

_RESERVED_WORDS = """
true false null in as break const continue else for function if import let loop package namespace return var
void while
"""
_RESERVED = frozenset(_RESERVED_WORDS.split())
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def escape_property(name: str) -> str:
    """The name by which CEL reaches a property whose name is no CEL identifier."""
    if name in _RESERVED:
        return f"__{name}__"
    return re.sub(r"__|[./-]", lambda found: _ESCAPES[found[0]], name)


def to_cel(value: Any, schema: Schema) -> Any:
    """A JSON value as CEL sees it under `schema`; a value that does not fit its format stays a string."""
    if isinstance(value, dict):
        properties: Mapping[str, Any] = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        return {
            escape_property(key) if key in properties else key: to_cel(
                item, properties.get(key) or (extra if isinstance(extra, dict) else {})
            )
            for key, item in value.items()
        }
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [to_cel(item, items) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    if schema.get("type") == "number" and isinstance(value, int):
        return float(value)
    if isinstance(value, str):
        return _formatted(value, schema.get("format"))
    return value


def _formatted(text: str, kind: Any) -> Any:
    if kind in ("date-time", "date"):
        return parse_timestamp(text) or text
    if kind == "duration":
        found = parse_duration(text)
        return text if found is None else found
    if kind == "byte":
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return text
    return text


def parse_timestamp(text: str) -> datetime.datetime | None:
    """An RFC 3339 date-time (or date) as an aware datetime, None where it is none."""
    if not re.fullmatch(r"\d{4}-\d\d-\d\d([Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d))?", text):
        return None
    try:
        found = datetime.datetime.fromisoformat(text.upper().replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> datetime.timedelta | None:
    """A Go duration such as `1h30m` or `-1.5s`, None where it is none."""
    body = text[1:] if text[:1] in "+-" else text
    if body == "0":
        return datetime.timedelta()
    parts = re.findall(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)", body)
    if not parts or "".join(number + unit for number, unit in parts) != body:
        return None
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    try:
        return datetime.timedelta(seconds=-seconds if text.startswith("-") else seconds)
    except OverflowError:
        return None
