"""Alerts and dashboard: they ask for metrics that exist, with labels that they have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from tests.deploy.render import DEPLOY, ROOT
from tests.meta.exposed import exposed_metrics

RULES = yaml.safe_load((DEPLOY / "monitoring" / "prometheusrule.yaml").read_text())
ALERTS = [rule for group in RULES["spec"]["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((DEPLOY / "monitoring" / "dashboard.json").read_text())
_WORDS = {"by", "on", "and", "or", "unless", "vector", "le"}


def expressions() -> Iterator[tuple[str, str]]:
    """Every query, by where it stands."""
    for alert in ALERTS:
        yield alert["alert"], alert["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


@pytest.mark.parametrize(("place", "query"), list(expressions()))
def test_queries_name_metrics_and_labels_that_exist(place: str, query: str) -> None:
    """Each metric of a query is exposed, and each label it is matched or grouped by is one of its own."""
    known = exposed_metrics()
    names = set(re.findall(r"gitopsreverser_\w+", query))
    assert names, place
    labels: set[str] = set()
    for name in names:
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        metric = known.get(base) or known.get(name)
        assert metric is not None, f"{place}: {name} is not exposed"
        labels |= set(metric.labels)
    grouped = {w.strip() for part in re.findall(r"by \(([^)]*)\)", query) for w in part.split(",")}
    matched = set(re.findall(r'(\w+)(?:=~|!~|!=|=)"', query))
    assert (grouped | matched) - _WORDS <= labels, place


def test_each_alert_leads_to_the_runbook() -> None:
    """Every alert names a heading of the operations page."""
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").strip().lower()).replace(" ", "-")
        for line in (ROOT / "docs" / "operations.md").read_text().splitlines()
        if line.startswith("#")
    }
    for alert in ALERTS:
        page, _, anchor = alert["annotations"]["runbook"].partition("#")
        assert page == "docs/operations.md"
        assert anchor in headings, alert["alert"]
        assert alert["labels"]["severity"] in {"critical", "warning", "info"}


def test_panels_do_not_overlap() -> None:
    """Every panel has a place of its own and a unique id."""
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
