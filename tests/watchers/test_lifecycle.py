"""What is told of the lives of types, and when."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY

from reverser.kube.aio import AsyncKube
from watchers.catalog import Catalog
from watchers.discovery import Scan
from watchers.lifecycle import Lives, Transition, advance
from watchers.registry import Registry, Verdict, judge

from .conftest import CRD_PATH, FAST, Cluster, eventually
from .test_definitions import definition
from .test_types import CM, POD, facts, served

GIZ = served("gizmos", "Gizmo", "lab.test")
TWIN = served("gizmoids", "Gizmo", "lab.test")
NAMES = (("lab.test", "v1"),)
BACK = facts(CM, GIZ)
GONE = facts(CM, scanned=NAMES)
FAILING = facts(CM, failed=NAMES)
REFUSED = facts(CM, GIZ, TWIN)
ALIVE, WOBBLES, HEALS, LEAVES, DENIED = (
    "TypeActivated",
    "TypeWobbling",
    "TypeRecovered",
    "TypeRemoved",
    "TypeRefused",
)

STORIES: list[tuple[str, list[tuple[float, Scan | None]], list[tuple[float, str]]]] = [
    ("settled without a gap", [(0, BACK), (4.9, None), (5, None), (9, None)], [(5, ALIVE)]),
    ("told at the first look after the window", [(0, BACK), (30, BACK), (60, BACK)], [(30, ALIVE)]),
    (
        "a gap begins the window anew",
        [(0, BACK), (3, GONE), (4, BACK), (6, None), (8.9, None), (9, None)],
        [(3, WOBBLES), (4, HEALS), (9, ALIVE)],
    ),
    (
        "a gap that is longer than the window",
        [(0, BACK), (2, FAILING), (40, FAILING), (41, BACK), (45, None), (46, None)],
        [(2, WOBBLES), (41, HEALS), (46, ALIVE)],
    ),
    (
        "activated once in a life",
        [(0, BACK), (5, None), (30, GONE), (60, BACK), (70, None)],
        [(5, ALIVE), (30, WOBBLES), (60, HEALS)],
    ),
    (
        "removed, and a new life",
        [(0, BACK), (5, None), (30, GONE), (90, GONE), (100, BACK), (105, None)],
        [(5, ALIVE), (30, WOBBLES), (90, LEAVES), (105, ALIVE)],
    ),
    (
        "removed before it was settled",
        [(0, BACK), (1, GONE), (61, GONE), (99, None)],
        [(1, WOBBLES), (61, LEAVES)],
    ),
    (
        "refused, and followable again",
        [(0, BACK), (5, None), (10, REFUSED), (20, BACK), (24, None), (25, None)],
        [(5, ALIVE), (10, DENIED), (25, ALIVE)],
    ),
    ("refused while it wobbles", [(0, BACK), (1, FAILING), (2, REFUSED)], [(1, WOBBLES), (2, DENIED)]),
    ("new and refused", [(0, facts(CM)), (1, REFUSED), (2, facts(CM)), (99, facts(CM))], []),
    ("an empty scan is no news", [(0, BACK), (5, None), (9, facts()), (70, facts())], [(5, ALIVE)]),
]


@pytest.mark.parametrize(("steps", "told"), [story[1:] for story in STORIES], ids=[s[0] for s in STORIES])
def test_lives(steps: list[tuple[float, Scan | None]], told: list[tuple[float, str]]) -> None:
    """T12: five words, each at its moment; None is a look at the clock without a new scan."""
    registry, lives, heard = Registry(), Lives(), []
    for now, found in steps:
        before = registry
        registry = judge(registry, found, now) if found is not None else registry
        lives, news = advance(lives, before, registry, now, settle=5.0)
        heard += [(now, str(word)) for word, record in news if record.resource.resource.startswith("giz")]
    assert heard == told


def test_the_next_moment() -> None:
    """Whoever waits knows when the first of the settling types is settled."""
    first = judge(Registry(), facts(CM, POD), 10.0)
    lives, _ = advance(Lives(), Registry(), first, 10.0, settle=5.0)
    second = judge(first, facts(CM, POD, GIZ), 12.0)
    lives, _ = advance(lives, first, second, 12.0, settle=5.0)
    assert lives.next_settled(5.0) == 15.0
    lives, news = advance(lives, second, second, 15.0, settle=5.0)
    assert [(word, record.group_resource) for word, record in news] == [(Transition.ACTIVATED, "configmaps")]
    assert lives.next_settled(5.0) == 17.0
    lives, _ = advance(lives, second, second, 17.0, settle=5.0)
    assert lives.next_settled(5.0) is None


def counted(word: str) -> float:
    value = REGISTRY.get_sample_value(
        "gitopsreverser_api_catalog_transitions_total", {"transition": f"Type{word}"}
    )
    return value or 0.0


async def test_all_five_words_in_logs_and_numbers(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T12, D9: a definition that comes, blinks, goes for good, and one whose kind becomes ambiguous."""
    caplog.set_level(logging.INFO, logger="watchers.catalog")
    monkeypatch.setattr("watchers.registry.REMOVAL_GRACE", 0.5)
    words = ("Activated", "Wobbling", "Recovered", "Removed", "Refused")
    before = {word: counted(word) for word in words}
    kube = await AsyncKube.connect(cluster.kubeconfig)
    timing = replace(FAST, settle=0.3, discovery=0.1)
    catalog = Catalog(kube, timing=timing, on_change=lambda: None)
    running = asyncio.create_task(catalog.run())

    async def heard(word: str) -> None:
        async def check() -> bool:
            return any(f"Type{word} gizmos.k8s.io/gizmos" in line for line in caplog.messages)

        await eventually(check, f"gizmos {word}; {caplog.messages}")

    async def known() -> bool:
        return catalog.registry.ready

    faults = cluster.server.faults
    try:
        await eventually(known, "the catalog is ready")
        cluster.kube.create(CRD_PATH, definition())
        await heard("Activated")
        faults.fail_group("gizmos.k8s.io", "v1")
        await heard("Wobbling")
        faults.clear()
        await heard("Recovered")
        cluster.kube.delete(f"{CRD_PATH}/gizmos.gizmos.k8s.io")
        await heard("Removed")
        activated = counted("Activated")
        assert not any("configmaps" in line for line in caplog.messages), "the first catalog is one line"
        monkeypatch.setattr("watchers.registry.is_denied", lambda group, name: name == "services")
        await eventually(lambda: refused(catalog, "services"), "services are refused")
        assert any("TypeRefused services" in line for line in caplog.messages)
    finally:
        running.cancel()
        await asyncio.wait((running,))
        await kube.close()
    grown = {word: counted(word) - before[word] for word in words}
    assert all(grown.values()), grown
    assert activated - before["Activated"] > 1, "types of the first catalog are counted"


async def refused(catalog: Catalog, resource: str) -> bool:
    return all(r.verdict is Verdict.REFUSED for r in catalog.registry.by_resource[resource])
