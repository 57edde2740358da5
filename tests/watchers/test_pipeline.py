"""From a cluster to the journal: the whole watcher on the sandbox API server and a real Valkey."""

from __future__ import annotations

from .conftest import Bench, Cluster, eventually

CM = [{"resources": ["configmaps"]}]


async def test_what_exists_and_what_changes_is_in_the_journal(bench: Bench, cluster: Cluster) -> None:
    """D03, D01: existing objects are one sweep; live changes are events in order; deletes are DELETE."""
    for index in range(6):
        cluster.create(f"old{index}", v="1")
    uid = cluster.target()
    cluster.rule("wr", "gt", CM)
    await bench.open(uid)
    await bench.start()
    await bench.streaming(uid, 1)
    cluster.create("a", v="1")
    for value in ("2", "3"):
        cluster.patch("a", {"data": {"v": value}})
    cluster.delete("old0")
    await bench.mirrored(uid)
    events = await bench.journal().events("a")
    assert [str(event.operation) for event in events] == ["CREATE", "UPDATE", "UPDATE"]
    sweeps = await bench.journal().sweeps()
    assert [sweep.count for sweep in sweeps] == [6]


async def test_a_restart_resumes_from_the_cursor(bench: Bench, cluster: Cluster) -> None:
    """E01: a quiet restart appends nothing; what happened meanwhile arrives as events."""
    cluster.create("a", v="1")
    uid = cluster.target()
    cluster.rule("wr", "gt", CM)
    await bench.open(uid)
    first = await bench.start()
    await bench.streaming(uid, 1)
    await first.stop()
    before = len(await bench.journal().read())
    cluster.create("b", v="1")
    cluster.delete("a")
    await bench.start()
    await bench.mirrored(uid)
    names = [(event.object.name, str(event.operation)) for event in await bench.journal().events()]
    assert names == [("b", "CREATE"), ("a", "DELETE")]
    assert len(await bench.journal().read()) == before + 2


async def test_a_closed_gate_stops_the_streams(bench: Bench, cluster: Cluster) -> None:
    """J21: nothing streams before the gate opens; when it closes the streams stop and are not shown."""
    uid = cluster.target()
    cluster.rule("wr", "gt", CM)
    watcher = await bench.start()

    async def held() -> bool:
        return uid in watcher.runtime.held

    await eventually(held, "the target is held")
    assert await bench.store.read_streams(uid) == {}
    await bench.open(uid)
    await bench.streaming(uid, 1)
    from reverser.store.model import Gate

    await bench.store.write_gate(uid, Gate(False, 2, None, "", "Validated"))
    await bench.streaming(uid, 0)
