"""Nothing that the project offers is without a test, a use and a line of documentation."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reverser.config import SETTINGS, flag_name, variable_name
from tests.meta.exposed import PREFIX, Metric, exposed_metrics
from tests.meta.sources import ROOT, code, commands, error_reasons, page, reasons, suite, suite_words, words

BUILD = runpy.run_path(str(ROOT / "docs" / "build_configuration.py"))


@pytest.mark.parametrize("name", commands())
def test_commands(name: str) -> None:
    """Each command is documented on the operations page and named by a test."""
    assert re.search(rf"`manage\.py {name}\b|, `{name}`", page("operations.md")), "docs/operations.md"
    assert re.search(rf'"{name}"|manage\.py {name}\b|commands\.{name}\b', suite()), "no test names it"


@pytest.mark.parametrize("name", list(SETTINGS))
def test_settings(name: str) -> None:
    """Each setting is read somewhere, stands in the reference, and is named by a test."""
    assert f"`{variable_name(name)}`" in page("configuration.md")
    assert any(name in words(path) for path in code() if path.name != "config.py"), "never read"
    assert {name, variable_name(name), flag_name(name)} & suite_words(), "no test names it"


def fields() -> Iterator[tuple[str, str]]:
    """Every field of every spec, by the page of its kind."""
    for path in sorted((ROOT / "deploy" / "crds").glob("*.yaml")):
        crd: dict[str, Any] = yaml.safe_load(path.read_text())
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for field, _schema, _required in BUILD["fields"](schema, ""):
            yield crd["spec"]["names"]["singular"], field


@pytest.mark.parametrize(("kind", "field"), list(fields()))
def test_fields(kind: str, field: str) -> None:
    """Each field of a spec is told on its kind's page and in the reference, and named by a test."""
    leaf = field.rsplit(".", 1)[-1].removesuffix("[]")
    assert f"`{field}`" in page("configuration.md")
    pages = page(f"kinds/{kind}.md") + (page("kinds/watchrule.md") if kind == "clusterwatchrule" else "")
    assert re.search(rf"\b{leaf}\b", pages), f"docs/kinds/{kind}.md"
    assert leaf in suite_words(), "no test names it"


@pytest.mark.parametrize("reason", sorted({**reasons(), **error_reasons()}))
def test_reasons(reason: str) -> None:
    """Each reason that a condition can have is in the runbook, and a test expects it."""
    assert re.search(rf"`{reason}`", page("operations.md")), "docs/operations.md"
    assert reason in suite_words(), "no test expects it"


@pytest.mark.parametrize("metric", list(exposed_metrics().values()), ids=lambda metric: str(metric.name))
def test_metrics(metric: Metric) -> None:
    """Each metric has one module that makes it, a place that records it, and a line on the operations page;
    no label can hold a person's, an object's or a secret's name.
    """
    assert metric.name.startswith(PREFIX)
    assert f"`{metric.name.removeprefix(PREFIX)}`" in page("operations.md"), "docs/operations.md"
    elsewhere = [path for path in code() if path != metric.module and metric.variable in words(path)]
    assert elsewhere, "nothing records it"
    assert not {"name", "namespace", "user", "username", "author", "email"} & set(metric.labels)


def test_migrations_are_complete(tmp_path: Path) -> None:
    """The models are what the migrations make; an upgrade needs nothing else."""
    done = subprocess.run(
        [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"],
        cwd=ROOT,
        env={**os.environ, "REVERSER_STATE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_metrics_have_one_maker() -> None:
    """No two modules make a metric of one name: a process that imports both would not start."""
    makers: dict[str, set[Path]] = {}
    for path, text in code().items():
        for name in re.findall(r"^\w+ = (?:Counter|Gauge|Histogram)\(\s*\"(\w+)\"", text, re.MULTILINE):
            makers.setdefault(name.removeprefix(PREFIX).removesuffix("_total"), set()).add(path)
    assert {name: paths for name, paths in makers.items() if len(paths) > 1} == {}
