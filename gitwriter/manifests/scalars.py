"""Scalars as Kubernetes' own reader sees them, and strings that no reader takes for another type.

Kubernetes reads manifests with a YAML 1.1 dialect of its own: ``yes`` and ``on`` are booleans, ``0644`` is
octal, a date stays a string, ``12:30:45`` is no number. Python's loaders disagree on each of these, so a file
mode or a country code would change its meaning on the way through. Reading follows Kubernetes alone. Writing
is stricter: a string is written plain only where the Kubernetes reader, a YAML 1.1 reader and a YAML 1.2
reader all take it for a string.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from functools import lru_cache

STR_TAG = "tag:yaml.org,2002:str"
INT_TAG = "tag:yaml.org,2002:int"
FLOAT_TAG = "tag:yaml.org,2002:float"
BOOL_TAG = "tag:yaml.org,2002:bool"
NULL_TAG = "tag:yaml.org,2002:null"
BINARY_TAG = "tag:yaml.org,2002:binary"
MERGE_TAG = "tag:yaml.org,2002:merge"
TIMESTAMP_TAG = "tag:yaml.org,2002:timestamp"

Scalar = str | int | float | bool | None

INT64_MIN, INT64_MAX, UINT64_MAX = -(2**63), 2**63 - 1, 2**64 - 1

_TRUE_WORDS = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE_WORDS = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(_TRUE_WORDS, True),
    **dict.fromkeys(_FALSE_WORDS, False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
BOOLEAN_WORDS = frozenset((*_TRUE_WORDS, *_FALSE_WORDS)) - {"true", "false"}
_NOT_A_STRING_FIRST = frozenset("+-.0123456789yYnNtTfFoO~")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_DOT_FLOAT = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+)?\Z")
_DECIMAL = re.compile(r"([-+]?)([1-9][0-9]*|0)\Z")
_SIGNED_BINARY = re.compile(r"(-?)0b([-+][01]+)\Z")
_PREFIXED = re.compile(r"([-+]?)0([xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+|[0-7]+)\Z")


def _parse_int(text: str) -> int | None:
    if match := _DECIMAL.match(text):
        return int(text) if len(text) < 40 else None
    if match := _SIGNED_BINARY.match(text):
        return -int(match[2], 2) if match[1] else int(match[2], 2)
    if not (match := _PREFIXED.match(text)) or len(text) > 80:
        return None
    digits = match[2]
    base = {"x": 16, "o": 8, "b": 2}.get(digits[0].lower(), 8)
    value = int(digits if digits[0].isdigit() else digits[1:], base)
    return -value if match[1] == "-" else value


def _parse_float(text: str) -> float | None:
    value = float(text)
    return None if math.isinf(value) else value


@lru_cache(maxsize=16384)
def resolve_plain(text: str) -> Scalar:
    """Value of an untagged plain scalar as Kubernetes reads it (bool, int, float, None or the text
    itself)."""
    if text and text[0] not in _NOT_A_STRING_FIRST:
        return text
    if text in _WORDS:
        return _WORDS[text]
    first = text[0]
    if first.isalpha() or first == "~":
        return text
    if first == ".":
        number = _parse_float(text.replace("_", "")) if _DOT_FLOAT.match(text) else None
        return text if number is None else number
    plain = text.replace("_", "")
    integer = _parse_int(plain)
    if integer is not None and INT64_MIN <= integer <= UINT64_MAX:
        return integer
    if _FLOAT.match(plain):
        number = _parse_float(plain)
        return text if number is None else number
    return text


def resolve_tagged(text: str, tag: str) -> Scalar:
    """Value of a scalar that carries an explicit core tag; raises ValueError where the text does not fit
    the tag."""
    if tag in (STR_TAG, TIMESTAMP_TAG, "!"):
        return text
    if tag == BINARY_TAG:
        try:
            return base64.b64decode(text, validate=False).decode("utf-8", "surrogateescape")
        except (binascii.Error, ValueError) as error:
            raise ValueError("!!binary value is not base64") from error
    value = resolve_plain(text)
    fits = {
        INT_TAG: isinstance(value, int) and not isinstance(value, bool),
        FLOAT_TAG: isinstance(value, int | float) and not isinstance(value, bool),
        BOOL_TAG: isinstance(value, bool),
        NULL_TAG: value is None,
    }.get(tag)
    if fits is None:
        return text
    if not fits:
        raise ValueError(f"value does not fit its tag {tag.rsplit(':', 1)[-1]}")
    return value


def key_text(value: Scalar) -> str:
    """A mapping key as the JSON object key that Kubernetes makes of it; raises ValueError for a null key."""
    if isinstance(value, str):
        return value
    if value is None:
        raise ValueError("a mapping key is null")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)


# What any of the three readers may take for something other than a string.
_SUSPECT_WORD = re.compile(r"(?:y|n|yes|no|on|off|true|false|null|nan|inf|infinity|~|=|<<)\Z", re.IGNORECASE)
_SUSPECT_NUMBER = re.compile(
    r"""[-+]?(?:
        \.?[0-9][0-9_,]*(?:[:.][0-9_]*)*(?:[eE][-+]?[0-9_]*)?   # ints, floats, base 60, versions such as 1.10
      | 0[xXoObB][0-9a-fA-F_]*
      | _[0-9_]*
      | \.(?:inf|nan)
      | \.[0-9_]+(?:[eE][-+]?[0-9]*)?
    )\Z""",
    re.IGNORECASE | re.VERBOSE,
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:\Z|[Tt \t])")
_DOTTED_TEXT = re.compile(r"[0-9]+(?:\.[0-9]+){2,}\Z")


@lru_cache(maxsize=16384)
def reads_as_string(text: str) -> bool:
    """True when every reader (Kubernetes, YAML 1.1, YAML 1.2) takes the plain text for a string."""
    if not text or not isinstance(resolve_plain(text), str):
        return False
    if _SUSPECT_WORD.match(text) or _DATE.match(text):
        return False
    if _SUSPECT_NUMBER.match(text):
        return bool(_DOTTED_TEXT.match(text))
    return True


_UNPRINTABLE = re.compile("[^\\x20-\\x7e\\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_BREAKS = re.compile("[\u2028\u2029]")


def is_printable(text: str) -> bool:
    """True when the text holds only characters that need no escape: no control, no exotic line break, no
    BOM."""
    return not _UNPRINTABLE.search(text) and not _BREAKS.search(text)


_PLAIN_FIRST_BAD = frozenset("!&*{}[],#|>@`\"'%")
_FLOW_BAD = re.compile(r"[\[\]{},?]|:(?![^\s])")
_FLOW_DASH = re.compile(r"-[^\s,\[\]{}]")


def plain_syntax_ok(text: str, *, flow: bool) -> bool:
    """True when the text can stand as a one-line plain scalar with every YAML reader, whatever its type."""
    if not text or text != text.strip() or not is_printable(text):
        return False
    first = text[0]
    if first in _PLAIN_FIRST_BAD or text.startswith(("---", "...")):
        return False
    if first in "-?:" and (len(text) == 1 or text[1] in " \t" or (flow and not _FLOW_DASH.match(text))):
        return False
    if ": " in text or " #" in text or "\t" in text or text[-1] == ":":
        return False
    return not (flow and _FLOW_BAD.search(text))


def plain_is_safe(text: str, *, flow: bool) -> bool:
    """True when a string may be written without quotes next to other plain text."""
    return plain_syntax_ok(text, flow=flow) and reads_as_string(text)


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\x08": "\\b", "\x0c": "\\f"}
_NEEDS_ESCAPE = re.compile(
    '["\\\\]|[^\\x20-\\x7e\\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]'
)


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    if char in _ESCAPES:
        return _ESCAPES[char]
    return f"\\u{ord(char):04x}"


def escape_double(text: str) -> str:
    """The inside of a double-quoted scalar: one line, awkward characters escaped as JSON does it too."""
    return _NEEDS_ESCAPE.sub(_escape, text)


def double_quoted(text: str) -> str:
    """The text as a one-line double-quoted scalar."""
    return f'"{_NEEDS_ESCAPE.sub(_escape, text)}"'


def single_quoted(text: str) -> str | None:
    """The text as a one-line single-quoted scalar, or None where that style cannot hold it."""
    if not is_printable(text):
        return None
    return "'" + text.replace("'", "''") + "'"


def number_text(value: int | float) -> str:
    """A number in a spelling that every reader takes for the same number (integral floats get ``.0``)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if math.isnan(value) or math.isinf(value):
        raise ValueError("NaN and infinity cannot be written in a Kubernetes manifest")
    text = repr(value)
    mantissa, mark, exponent = text.partition("e")
    if not mark:
        return text
    # YAML 1.1 readers want a dot in the mantissa and a sign in the exponent.
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}e{exponent if exponent[0] in '+-' else '+' + exponent}"
