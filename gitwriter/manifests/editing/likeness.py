"""How much two values have in common: what tells a changed item from another item."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from .wrapped import common_ends

_WORD = re.compile(r"\w+")


def token_of(value: Any) -> Any:
    """A hashable stand-in that equal values share."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return (value,)
    if isinstance(value, int | float):
        return ("number", value)
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def likeness(old: Any, new: Any) -> float:
    """How much two values have in common, from 0 to 1."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        if not old or not new:
            return 1.0 if old == new else 0.0
        shared = sum(likeness(value, new[key]) for key, value in old.items() if key in new)
        return shared / max(len(old), len(new))
    if isinstance(old, list) and isinstance(new, list):
        if not old or not new:
            return 1.0 if old == new else 0.0
        both = Counter(map(token_of, old)) & Counter(map(token_of, new))
        return both.total() / max(len(old), len(new))
    if isinstance(old, str) and isinstance(new, str):
        return _text_likeness(old, new)
    return 1.0 if old == new else 0.0


def _text_likeness(old: str, new: str) -> float:
    """The share of the text that whole words at both ends have in common: ``--port=80`` is like
    ``--port=81``."""
    if old == new:
        return 1.0
    words = _WORD.findall(old), _WORD.findall(new)
    head, tail = common_ends(*words)
    shared = sum(map(len, words[0][:head])) + sum(map(len, words[0][len(words[0]) - tail :]))
    return shared / max(len(old), len(new))
