r"""Characters that JSON writes as two escapes.

A JSON manifest may hold ``\ud83d\ude00`` for one character. Kubernetes' reader takes a document that begins
with a brace for JSON and understands it; YAML parsers refuse the pair. Here each pair is written as YAML has
it, in as many characters, so that every position in the text stays what it was: an escaped line break, which
stands for nothing, fills up the two that are left.
"""

from __future__ import annotations

import re

_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)


def is_concerned(body: bytes) -> bool:
    """True for a body that may be JSON with such a pair."""
    return (b"\\ud" in body or b"\\uD" in body) and body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"


def readable(text: str) -> str:
    """The text with its pairs in YAML's spelling, of the same length; text that is no JSON as it is."""
    if ("\\ud" not in text and "\\uD" not in text) or text.lstrip("\ufeff \t\r\n")[:1] != "{":
        return text
    return _PAIR.sub(_as_yaml, text)


def _as_yaml(match: re.Match[str]) -> str:
    high, low = int(match[2], 16), int(match[3], 16)
    return f"{match[1]}\\\n\\U{0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF):08X}"
