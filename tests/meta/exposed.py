"""Every metric that any process of the product exposes, read from the modules that make them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("reverser", "webhooks", "watchers", "gitwriter")
_KINDS = {"Counter", "Gauge", "Histogram"}
PREFIX = "gitopsreverser_"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric as Prometheus sees it: counters end with ``_total``."""

    name: str
    kind: str
    labels: tuple[str, ...]
    variable: str
    module: Path
    mode: str = ""
    """How a gauge of several processes is one: its multiprocess_mode."""


@cache
def exposed_metrics() -> dict[str, Metric]:
    """All metrics by exposed name. The modules are read, not imported: no process imports all of them."""
    found: dict[str, Metric] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text()
            if "from reverser.instruments import" in text:
                for metric in _of_module(path, ast.parse(text)):
                    found[metric.name] = metric
    return found


def _of_module(path: Path, tree: ast.Module) -> list[Metric]:
    constants: dict[str, object] = {}
    found = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            variable = node.targets[0].id
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            variable = node.target.id
        else:
            continue
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _KINDS:
            found.append(_metric(path, variable, call, constants))
        else:
            try:
                constants[variable] = _value(call, constants)
            except ValueError:
                continue
    return found


def _metric(path: Path, variable: str, call: ast.Call, constants: dict[str, object]) -> Metric:
    assert isinstance(call.func, ast.Name)
    kind = call.func.id
    keywords = {item.arg: item.value for item in call.keywords}
    name = str(_value(call.args[0], constants))
    if "namespace" in keywords:
        name = f"{_value(keywords['namespace'], constants)}_{name}"
    if kind == "Counter" and not name.endswith("_total"):
        name += "_total"
    node = keywords.get("labelnames") or (call.args[2] if len(call.args) > 2 else None)
    labels = _value(node, constants) if node is not None else ()
    assert isinstance(labels, list | tuple)
    mode = str(_value(keywords["multiprocess_mode"], constants)) if "multiprocess_mode" in keywords else ""
    return Metric(name, kind, tuple(str(label) for label in labels), variable, path, mode)


def _value(node: ast.expr, constants: dict[str, object]) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in constants:
        return constants[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        values: list[object] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                inner = _value(item.value, constants)
                assert isinstance(inner, list | tuple)
                values.extend(inner)
            else:
                values.append(_value(item, constants))
        return values
    raise ValueError(f"not a constant: {ast.dump(node)}")
