"""The JSONPath subset that printer columns use: fields, indexes, `[*]` and equality filters.

Compiled paths are tuples of steps; evaluation never fails, a path that leads nowhere finds nothing.
"""

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

Json = Any

_STEP = re.compile(
    r"""\.\.(?P<deep>[\w-]+)
      | \.(?P<field>(?:\\.|[^.\[\\])+)
      | \[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
      | \[(?P<index>-?\d+)\]
      | (?P<all>\[\*\]|\.\*)
      | \[\?\(\s*@(?P<filter>(?:\.[\w\\./-]+)+)\s*(?P<op>==|!=)\s*(?P<literal>"[^"]*"|'[^']*'|[\w.-]+)\s*\)\]
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Step:
    """One step: `kind` is field, index, all, deep or filter."""

    kind: str
    key: str = ""
    index: int = 0
    below: tuple["Step", ...] = ()
    negated: bool = False
    literal: Json = None


@lru_cache(maxsize=4096)
def compile_path(path: str) -> tuple[Step, ...]:
    """Compile a path such as `.status.conditions[?(@.type=="Ready")].status`; ValueError where it is none."""
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    text = text.removeprefix("$")
    if text and text[0] not in ".[":
        text = f".{text}"
    steps, position = [], 0
    while position < len(text):
        found = _STEP.match(text, position)
        if found is None:
            raise ValueError(f"unrecognized path at {text[position:]!r}")
        steps.append(_step(found))
        position = found.end()
    return tuple(steps)


def _step(found: "re.Match[str]") -> Step:
    if found["all"]:
        return Step("all")
    if found["field"] == "*":
        return Step("all")
    if found["field"]:
        return Step("field", key=re.sub(r"\\(.)", r"\1", found["field"]))
    if found["deep"]:
        return Step("deep", key=found["deep"])
    if found["quote"]:
        return Step("field", key=found["quoted"])
    if found["index"]:
        return Step("index", index=int(found["index"]))
    return Step(
        "filter",
        below=compile_path(found["filter"]),
        negated=found["op"] == "!=",
        literal=_literal(found["literal"]),
    )


def _literal(text: str) -> Json:
    if text[0] in "\"'":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        return text


def find(path: str, value: Json) -> list[Json]:
    """Everything the path finds in `value`, in order."""
    found = [value]
    for step in compile_path(path):
        found = [item for parent in found for item in _apply(step, parent)]
    return found


def _apply(step: Step, value: Json) -> list[Json]:
    if step.kind == "field":
        return [value[step.key]] if isinstance(value, dict) and step.key in value else []
    if step.kind == "index":
        inside = isinstance(value, list) and -len(value) <= step.index < len(value)
        return [value[step.index]] if inside else []
    items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if step.kind == "all":
        return items
    if step.kind == "deep":
        own = [value[step.key]] if isinstance(value, dict) and step.key in value else []
        return own + [found for item in items for found in _apply(step, item)]
    return [item for item in items if (_first(step.below, item) == step.literal) is not step.negated]


def _first(steps: tuple[Step, ...], value: Json) -> Json:
    found = [value]
    for step in steps:
        found = [item for parent in found for item in _apply(step, parent)]
    return found[0] if found else None
