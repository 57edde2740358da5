"""An API service that stays broken for ten minutes: on a virtual clock, and with a grace that is shorter.

``tests/e2e/test_broken_service.py`` is the same with real processes and real Git.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from reverser.kube.paths import resource_path
from reverser.store.model import Operation, Scope
from watchers.discovery import Scan
from watchers.lifecycle import Lives, advance
from watchers.registry import REMOVAL_GRACE, Registry, Verdict, judge

from .conftest import FAST, Bench, Cluster, eventually
from .test_types import CM, DEP, facts

DEPLOYMENTS = resource_path("apps", "v1", "deployments", namespace="shop")
FAILING = facts(CM, failed=(DEP.group_version,))
BACK = facts(CM, DEP)


def test_ten_minutes_of_a_failing_group() -> None:
    """A1: every tick of ten minutes finds the group failing: its type is retained all the time, the others
    never change, and one word each tells of the beginning and the end.
    """
    registry, lives, told = judge(Registry(), BACK, 0.0), Lives(), []
    for tick in range(1, 21):
        before, registry = registry, judge(registry, FAILING, 30.0 * tick)
        lives, news = advance(lives, before, registry, 30.0 * tick, settle=5.0)
        told += [(str(word), record.group_resource) for word, record in news]
        verdicts = {record.group_resource: record.verdict for record in registry.live}
        assert verdicts == {"configmaps": Verdict.FOLLOWABLE, "apps/deployments": Verdict.RETAINED}
    assert 10 * REMOVAL_GRACE <= 600.0
    healed = judge(registry, BACK, 630.0)
    told += [(str(w), r.group_resource) for w, r in advance(lives, registry, healed, 630.0, settle=5.0)[1]]
    assert told == [
        ("TypeWobbling", "apps/deployments"),
        ("TypeActivated", "configmaps"),
        ("TypeRecovered", "apps/deployments"),
    ]


@pytest.mark.parametrize("empty", [False, True])
def test_a_server_that_starts_while_the_group_is_broken(empty: bool) -> None:
    """A group that the server does not even name for a moment is missing from then on; it comes back to life
    with its first sighting, and nothing in between was a deletion.
    """
    nameless: Scan = facts() if empty else facts(CM)
    registry = judge(judge(Registry(), BACK, 0.0), nameless, 10.0)
    assert [record.group_resource for record in registry.live] == ["configmaps", "apps/deployments"]
    registry = judge(registry, FAILING, 20.0)
    assert len(registry.live) == 2
    registry = judge(registry, BACK, 40.0)
    assert {record.verdict for record in registry.live} == {Verdict.FOLLOWABLE}


async def test_a_group_that_stays_broken_longer_than_the_grace(
    bench: Bench, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A1, C15: for many times the grace a group fails in discovery and in use: the other type goes on,
    nothing of the group is taken for deleted, and its stream goes on by itself when it heals.
    """
    monkeypatch.setattr("watchers.registry.REMOVAL_GRACE", 0.2)
    uid = cluster.target()
    cluster.rule("wr", "gt", [{"resources": ["configmaps", "deployments"]}])
    await bench.open(uid)
    watcher = await bench.start(timing=replace(FAST, discovery=0.1))
    await bench.streaming(uid, 2)
    name = f"{DEPLOYMENTS}/stays"
    cluster.kube.create(DEPLOYMENTS, deployment("stays"))
    await eventually(lambda: there(bench, uid, 1), "the deployment is in the journal")
    scope = Scope(uid, "apps/deployments", "shop")
    before = await bench.store.read_cursor(scope)
    cluster.server.faults.fail_group("apps", "v1")
    cluster.server.faults.drop_watches("deployments", clean=False)
    for tick in range(10):
        await asyncio.sleep(0.2)
        cluster.create(f"cm{tick}", v="1")

    async def others() -> bool:
        return (
            len([e for e in await bench.journal().events() if e.object.type.resource == "configmaps"]) == 10
        )

    await eventually(others, "the other type goes on")
    assert await there(bench, uid, 1)
    retained = watcher.runtime.registry.by_resource["deployments"]
    assert [record.verdict for record in retained] == [Verdict.RETAINED]
    cluster.server.faults.clear()
    cluster.kube.patch(name, {"spec": {"replicas": 7}})
    cluster.kube.create(DEPLOYMENTS, deployment("new"))
    await eventually(lambda: there(bench, uid, 2), "it goes on")
    await bench.streaming(uid, 2)
    after = await bench.store.read_cursor(scope)
    assert before is not None
    assert after is not None
    assert after.append_id.session == before.append_id.session, "the watch was kept, and resumed"
    assert not [e for e in await bench.journal().events() if e.operation is Operation.DELETE]


async def there(bench: Bench, uid: str, count: int) -> bool:
    tree = (await bench.journal().tree()).get(uid, {})
    return len([key for key in tree if key[0] == "apps/deployments"]) == count


def deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
