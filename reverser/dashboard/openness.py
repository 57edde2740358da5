"""Whether one of two versions of a file holds a secret in the clear. Pure.

Two rules. A Secret, wherever it is (in a document of its own, in a List, in JSON), is open when any of its
values is not ciphertext; a ``sops:`` key in it proves nothing. And a document of a kind that is sealed on
either side is open where it is not sealed: sealing other types than Secrets is a setting, and the commit that
first sealed an object has its plain text on the old side. What looks like a Secret and cannot be read counts
as open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAY_BE = re.compile(r"""["']?kind["']?\s*:\s*(?:!!str\s+)?["']?Secret(?:List)?\b""")
_KIND = re.compile(r"""^\s*["']?kind["']?\s*:\s*["']?([A-Za-z0-9]+)""", re.MULTILINE)
_SOPS = re.compile(r"""^["']?sops["']?\s*:|^\s{1,8}"sops"\s*:""", re.MULTILINE)
_DOCUMENT = re.compile(r"^---(?:\s.*)?$", re.MULTILINE)
_SEALED = "ENC["


def holds_open_secret(before: str, after: str) -> bool:
    """Whether either version must not be shown."""
    return _open(before) or _open(after) or _open_beside_sealed(before, after)


def _open(text: str) -> bool:
    if not _MAY_BE.search(text):
        return False
    try:
        return any(_has_clear_value(secret) for secret in _secrets(list(yaml.load_all(text, _LOADER))))
    except (yaml.YAMLError, ValueError, RecursionError):
        return True


def _secrets(root: Any) -> Iterator[dict[Any, Any]]:
    """Every mapping that is a Secret with values; a reference to one (kind and name) has none."""
    waiting, seen = [root], set()
    while waiting:
        value = waiting.pop()
        if not isinstance(value, dict | list) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict) and value.get("kind") == "SecretList":
            items = value.get("items")
            yield from (item for item in items if isinstance(item, dict)) if isinstance(items, list) else ()
        if isinstance(value, dict) and value.get("kind") == "Secret":
            yield value
        waiting.extend(value.values() if isinstance(value, dict) else value)


def _has_clear_value(secret: dict[Any, Any]) -> bool:
    for field in ("data", "stringData"):
        values = secret.get(field)
        if isinstance(values, dict):
            if any(
                not str(value).startswith(_SEALED) for value in values.values() if value not in ("", None)
            ):
                return True
        elif values and not str(values).startswith(_SEALED):
            return True
    return False


def _open_beside_sealed(before: str, after: str) -> bool:
    if not (_SOPS.search(before) or _SOPS.search(after)):
        return False
    sealed: set[str] = set()
    clear: set[str] = set()
    for part in (*_DOCUMENT.split(before), *_DOCUMENT.split(after)):
        (sealed if _SOPS.search(part) else clear).update(_KIND.findall(part)[:1])
    return bool(sealed & clear)
