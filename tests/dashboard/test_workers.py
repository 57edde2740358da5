"""Workers show while they live, whether they write or not; one that is gone does not."""

from __future__ import annotations

from django.test import Client

from reverser import dispatch
from reverser.dashboard.overview import build
from reverser.dashboard.readings import READING, branches_by_worker, read_all
from reverser.store import Store
from reverser.store.model import LeaseKind
from tests.dashboard import world


def test_idle_and_writing(viewer: Client, web: Store) -> None:
    """A worker's report and the lease of its writer are shown as one."""
    row = world.target()
    web.open_journal(world.key(row))
    dispatch.report(web, threads=4)
    assert [(name, list(branches)) for name, branches in branches_by_worker(read_all(web))] == [
        (dispatch.worker_name(), [])
    ]

    web.acquire_lease(LeaseKind.BRANCH, world.key(row).id, "token", 60_000, dispatch.worker_name())
    (found,) = branches_by_worker(read_all(web))

    assert (found[0], [branch.key for branch in found[1]]) == (dispatch.worker_name(), [world.key(row)])
    READING.clear()
    assert dispatch.worker_name().encode() in viewer.get("/admin/").content


def test_no_worker_is_a_problem(web: Store) -> None:
    """The overview says so before a change has waited long."""
    assert any("No worker is running" in problem for problem in build(read_all(web)).problems)

    dispatch.report(web, threads=4)

    assert not any("worker" in problem for problem in build(read_all(web)).problems)


def test_named_as_its_leases(web: Store) -> None:
    """The writer of this process holds its leases under the same name."""
    from gitwriter.runtime import WriterRuntime
    from reverser.wiring import config, kube

    runtime = WriterRuntime(store=web, kube=kube(), config=config())

    assert runtime._holder == dispatch.worker_name()


def test_when_the_writer_goes_on(web: Store) -> None:
    """A branch that is due says when, one with nothing to do does not."""
    row = world.target()
    web.open_journal(world.key(row))
    assert read_all(web).branches[world.key(row).id].due_ms == 0

    web.wake_branch(world.key(row))

    assert 0 < read_all(web).branches[world.key(row).id].due_ms <= web.time_ms()
