"""Placeholders that another tool fills in after the build.

A GitOps engine may replace `${REGION}` when it applies a file. The live value then differs from Git on
purpose, and writing it back would remove the placeholder. Where a string in Git holds a placeholder that the
live value no longer shows, the object is left alone and the place is named; where the live value shows the
placeholder too, it is plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .fields import MISSING, load_mapping, without
from .loading import YamlError

_TOKEN = re.compile(r"\$\{[A-Za-z_][^{}]*\}")


@dataclass(frozen=True, slots=True)
class Divergence:
    """A placeholder that live does not show: where (dotted, list items by name) and which."""

    field: str
    token: str


def divergences(rendered: Any, live: Any, field: str = "") -> Iterator[Divergence]:
    """Every placeholder of a rendered object whose string is another, or missing, in the live one."""
    if isinstance(rendered, str):
        if live == rendered:
            return
        for token in _TOKEN.findall(rendered):
            if not isinstance(live, str) or token not in live:
                yield Divergence(field, token)
    elif isinstance(rendered, Mapping):
        other = live if isinstance(live, Mapping) else {}
        for key, value in rendered.items():
            yield from divergences(value, other.get(key, MISSING), f"{field}.{key}" if field else str(key))
    elif isinstance(rendered, list):
        items = live if isinstance(live, list) else []
        named = {item["name"]: item for item in items if isinstance(item, Mapping) and "name" in item}
        for index, value in enumerate(rendered):
            name = value.get("name") if isinstance(value, Mapping) else None
            if isinstance(name, str):
                yield from divergences(value, named.get(name, MISSING), f"{field}[{name}]")
            else:
                yield from divergences(
                    value, items[index] if index < len(items) else MISSING, f"{field}[{index}]"
                )


def describe(found: list[Divergence], path: str) -> str:
    """A sentence that names the first placeholder and says how many more there are."""
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return (
        f"{path}: {found[0].field} holds {found[0].token}{more}, not shown live; something fills it "
        "in after Git, so the object is left alone. Set the value in the file, or ignore the field"
    )


def document_problem(data: bytes, index: int, live: Any, kept: Sequence[str], path: str) -> str:
    """A sentence about the placeholders of one document that live does not show, or empty."""
    if b"${" not in data:
        return ""
    try:
        source = without(load_mapping(data, index), kept)
    except (YamlError, TypeError):
        return ""
    found = list(divergences(source, live))
    return describe(found, path) if found else ""
