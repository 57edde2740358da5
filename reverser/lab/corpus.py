"""Recordings as files, one per scenario, and what differs between two sets of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

CORPUS = Path(__file__).resolve().parent / "corpus"
Obj = dict[str, Any]


def write(traces: Mapping[str, Obj], folder: Path) -> None:
    """One YAML file per scenario; scenarios that are not in ``traces`` keep their file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, trace in traces.items():
        (folder / f"{name}.yaml").write_text(render(trace), encoding="utf-8")


def read(folder: Path) -> dict[str, Obj]:
    """The scenarios of a folder."""
    return {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in sorted(folder.glob("*.yaml"))}


def render(trace: Obj, *, sort: bool = False) -> str:
    """The text of one scenario. ``sort``: without the order of fields, which says nothing."""
    text: str = yaml.safe_dump(trace, sort_keys=sort, allow_unicode=True, width=110)
    return text


def differences(before: Mapping[str, Obj], after: Mapping[str, Obj]) -> Iterator[str]:
    """What changed, scenario by scenario: first in words, then line by line. What only one of the two servers
    could run is no change."""
    left_out = {name for name, _ in one_sided(before, after)}
    for name in sorted((before.keys() | after.keys()) - left_out):
        if name not in after:
            yield f"{name}: not recorded"
        elif name not in before:
            yield f"{name}: new"
        elif before[name] != after[name]:
            yield from (f"{name}: {change}" for change in _named(before[name], after[name]))
            lines = difflib.unified_diff(
                render(before[name], sort=True).splitlines(),
                render(after[name], sort=True).splitlines(),
                "before",
                "after",
                "",
                "",
                2,
                "",
            )
            yield from (f"    {line}" for line in lines)


def one_sided(before: Mapping[str, Obj], after: Mapping[str, Obj]) -> Iterator[tuple[str, str]]:
    """Scenarios that one of the two servers could not run, each with what that server lacks."""
    for name in sorted(before.keys() & after.keys()):
        lacks = {str(traces[name].get("skipped", "")) for traces in (before, after)}
        if len(lacks) == 2:
            yield name, max(lacks)


def _named(before: Obj, after: Obj) -> Iterator[str]:
    for source, label in (("watch", _watch_label), ("audit", _audit_label), ("admission", _admission_label)):
        old, new = ([label(item) for item in trace.get(source) or []] for trace in (before, after))
        if old == new:
            if before.get(source) != after.get(source):
                yield f"{source}: the same events with other bodies"
        elif sorted(old) == sorted(new):
            yield f"{source}: the same events in another order: {', '.join(new)}"
        else:
            yield f"{source}: {', '.join(old) or 'nothing'} became {', '.join(new) or 'nothing'}"
    listed, formerly = _fan_out(after), _fan_out(before)
    if listed != formerly:
        yield f"deletecollection lists {listed} object(s), formerly {formerly}"


def _fan_out(trace: Obj) -> int:
    found = 0
    for event in trace.get("audit") or []:
        if event.get("verb") == "deletecollection":
            found += len((event.get("responseObject") or {}).get("items") or [])
    return found


def _watch_label(event: Obj) -> str:
    return f"{event.get('type')} {(event['object'].get('metadata') or {}).get('name', '')}".strip()


def _audit_label(event: Obj) -> str:
    reference = event.get("objectRef") or {}
    part = f"/{reference['subresource']}" if reference.get("subresource") else ""
    code = (event.get("responseStatus") or {}).get("code", "")
    return f"{event.get('verb')}{part} {reference.get('name', '')} {code}".replace("  ", " ")


def _admission_label(review: Obj) -> str:
    return f"{review.get('operation')} {review.get('name', '')}".strip()
