"""The project's own text: product code, tests and documentation, read once."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("reverser", "webhooks", "watchers", "gitwriter")


@cache
def code() -> dict[Path, str]:
    """Every module of the product."""
    return {path: path.read_text() for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))}


@cache
def suite() -> str:
    """Every test, except those of this folder: naming a thing here is no test of it."""
    here = Path(__file__).parent
    paths = (path for path in sorted((ROOT / "tests").rglob("*.py")) if here not in path.parents)
    return "\n".join(path.read_text() for path in paths)


@cache
def suite_words() -> frozenset[str]:
    """Every word of the tests, flags included."""
    return frozenset(re.findall(r"(?:--)?[A-Za-z][\w-]*", suite())) | frozenset(re.findall(r"\w+", suite()))


@cache
def words(path: Path) -> frozenset[str]:
    """Every word of one module of the product."""
    return frozenset(re.findall(r"\w+", code()[path]))


@cache
def page(name: str) -> str:
    """One page of the documentation."""
    return (ROOT / "docs" / name).read_text()


def commands() -> list[str]:
    """The names of the management commands."""
    folder = ROOT / "reverser" / "management" / "commands"
    return sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")


@cache
def reasons() -> dict[str, str]:
    """Every condition reason that the controllers can write, with the module that does.

    They are the literals handed to what builds conditions, and those that the tables of decisions hold.
    """
    builders = {"condition": 2, "done": 0, "progressing": 0, "blocked": 0}
    found: dict[str, str] = {}
    for path, text in code().items():
        if path.parent.name != "controllers":
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            values = [keyword.value for keyword in node.keywords if keyword.arg in {"reason", "ready_reason"}]
            if name in builders and len(node.args) > builders[name]:
                values.append(node.args[builders[name]])
            for value in values:
                for literal in ast.walk(value):
                    if isinstance(literal, ast.Constant) and isinstance(literal.value, str) and literal.value:
                        found[literal.value] = path.name
    return found


@cache
def error_reasons() -> dict[str, str]:
    """Reasons that errors carry: literals given as ``reason`` or as first argument of a stalled error."""
    found: dict[str, str] = {}
    stalled = {"StalledError"}
    for path, text in code().items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                named = [k.value for k in node.keywords if k.arg == "reason"]
                first = node.args[:1] if node.func.id in stalled else []
                if node.func.id.endswith(("Error", "Invalid", "Missing", "Malformed", "Rejected")):
                    for value in (*named, *first):
                        if isinstance(value, ast.Constant) and isinstance(value.value, str):
                            found[value.value] = path.name
    return found
