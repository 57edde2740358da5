"""The functions Kubernetes adds to CEL (strings, lists, regex, URLs, quantities), as plain Python callables.

Functions are called with the receiver as first argument. A quantity is a float here: rules compare
quantities, they do not print them.
"""

import itertools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
_SUFFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = "KMGTPE"


def quantity_value(text: Any) -> float | None:
    """A resource quantity (`500m`, `1Gi`, `1e3`) as a number, None where it is none."""
    found = _QUANTITY.fullmatch(str(text))
    if not found:
        return None
    number, suffix = float(found[1]), found[2] or ""
    if suffix.endswith("i"):
        return number * float(1024 ** (_BINARY.index(suffix[0]) + 1))
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        return number * 10.0 ** int(suffix[1:])
    return number * _SUFFIXES.get(suffix, 1.0)


def _quantity(text: str) -> float:
    value = quantity_value(text)
    if value is None:
        raise ValueError("quantities must match the regular expression of resource quantities")
    return value


def _is_url(text: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://|/", text) is not None and not re.search(
        r"[\s\x00-\x1f]", text
    )


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise ValueError(f"index out of range: {start}")
    return text[start:stop]


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise ValueError(f"index out of range: {index}")
    return text[index : index + 1]


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    parts = text.split(separator) if separator else list(text)
    if limit < 0 or len(parts) <= limit:
        return parts
    return [*parts[: limit - 1], separator.join(parts[limit - 1 :])]


def _index_of(value: Any, wanted: Any, start: int = 0) -> int:
    if isinstance(value, list):
        return value.index(wanted) if wanted in value else -1
    return int(value.find(wanted, start))


def _last_index_of(value: Any, wanted: Any) -> int:
    if isinstance(value, list):
        return len(value) - 1 - value[::-1].index(wanted) if wanted in value else -1
    return int(value.rfind(wanted))


def _find(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found[0] if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match[0] for match in re.finditer(pattern, text)]
    return found if limit < 0 else found[:limit]


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "runeSize": len,
    "charAt": _char_at,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "join": lambda items, separator="": separator.join(items),
    "lowerAscii": lambda text: re.sub("[A-Z]+", lambda found: found[0].lower(), text),
    "upperAscii": lambda text: re.sub("[a-z]+", lambda found: found[0].upper(), text),
    "replace": lambda text, old, new, limit=-1: text.replace(old, new, limit),
    "split": _split,
    "substring": _substring,
    "trim": str.strip,
    "reverse": lambda value: value[::-1],
    "find": _find,
    "findAll": _find_all,
    "isSorted": lambda items: all(a <= b for a, b in itertools.pairwise(items)),
    "sum": lambda items: math.fsum(items) if any(isinstance(i, float) for i in items) else sum(items),
    "isURL": _is_url,
    "isQuantity": lambda text: quantity_value(text) is not None,
    "quantity": _quantity,
    "isGreaterThan": lambda a, b: a > b,
    "isLessThan": lambda a, b: a < b,
    "compareTo": lambda a, b: (a > b) - (a < b),
    "asApproximateFloat": float,
    "asInteger": int,
    "isInteger": lambda value: float(value).is_integer(),
}

_BUILTIN_NAMES = """
all exists exists_one existsOne map filter has size matches startsWith endsWith contains int uint double
string bool bytes type dyn duration timestamp min max getFullYear getMonth getDate getDayOfMonth getDayOfYear
getDayOfWeek getHours getMinutes getSeconds getMilliseconds optional none of ofNonZeroValue value hasValue or
orValue
"""
#: The functions and macros a rule may name; operators have names that start with a sign.
KNOWN_FUNCTIONS = frozenset(FUNCTIONS) | frozenset(_BUILTIN_NAMES.split())
