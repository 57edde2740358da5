"""How long a shard waits between tries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from reverser.errors import KubeForbidden, KubeNotFound, KubeThrottled, TransientError
from reverser.store.model import Scope, TypeRef
from watchers.shard import Shard
from watchers.shardstate import ShardState
from watchers.timing import Timing

GIZMOS = TypeRef("lab.test", "v1", "gizmos", "Gizmo", True)


def shard() -> Shard:
    spec = SimpleNamespace(type=GIZMOS, scope=Scope("u", "lab.test/gizmos", "shop"))
    state = SimpleNamespace(
        timing=Timing(), spec=spec, show=lambda *words: None, on_missing=lambda: None, must_replay=False
    )
    return Shard(cast(ShardState, state), name="shop/gt lab.test/gizmos shop")


async def test_what_has_just_come_back_is_tried_again_soon() -> None:
    """C13: a type that is served again may answer "initializing" at first; a long absence does not count."""
    one = shard()
    missing, busy = KubeNotFound("404"), TransientError("storage is (re)initializing")
    long = [one._failed(missing) for _ in range(8)]
    assert long[-1] > 20
    one.wake()
    assert [one._failed(busy) < pause for pause in (1.5, 3)] == [True, True]


async def test_pauses_grow_until_something_changes() -> None:
    """A server that stays away is asked ever more rarely, at most every half minute or so."""
    one = shard()
    pauses = [one._failed(TransientError("no route")) for _ in range(10)]
    assert pauses[0] < 1.5
    assert 20 < pauses[-1] < 40


async def test_a_missing_right_is_asked_for_rarely() -> None:
    """C31: never sooner than after half a minute, whatever failed before, and it is shown at once."""
    shown: list[str] = []
    one = shard()
    one.state.show = lambda state, reason, message: shown.append(reason)
    pauses = [one._failed(KubeForbidden("no")) for _ in range(9)]
    assert min(pauses) >= 30
    assert 200 < pauses[-1] <= 375
    assert shown == ["WatchNotPermitted"] * 9
    one._failed(TransientError("no route"))
    assert one._failed(KubeForbidden("no")) < 40


async def test_a_server_that_asks_for_time_gets_it() -> None:
    """Pain 77: Retry-After is a least pause, not another back-off."""
    one = shard()
    assert one._failed(KubeThrottled("busy", retry_after=50.0)) == 50
    assert 1 < one._failed(KubeThrottled("busy", retry_after=0.0)) < 3


async def test_a_server_that_asks_for_time_is_shown_only_when_that_lasts() -> None:
    """A start of the API server is answered with 429 and 504 for some seconds and is nobody's fault; three
    other failures are shown at once, and so is a server that goes on asking for time.
    """
    shown: list[str] = []
    one = shard()
    one.state.show = lambda state, reason, message: shown.append(message)
    for _ in range(9):
        one._failed(KubeThrottled("starting", retry_after=1.0))
    assert shown == []
    one._first_failure -= one.state.timing.blocked_after
    one._failed(KubeThrottled("busy for long", retry_after=1.0))
    one._recovered()
    for number in range(3):
        one._failed(TransientError(f"no route {number}"))
    assert shown == ["busy for long", "no route 2"]


async def test_a_server_that_closes_at_once() -> None:
    """Pain 65: a few quick closes in a row end in a replay, with growing pauses on the way; a watch that
    lived begins the count anew.
    """
    one = shard()
    assert one._closed(quick=False) == 0
    assert all(one._closed(quick=True) > 0 for _ in range(4))
    assert one._closed(quick=False) == 0
    first, *more = (one._closed(quick=True) for _ in range(4))
    assert more[-1] > 2 * first
    assert not one.state.must_replay
    one._closed(quick=True)
    assert one.state.must_replay


@pytest.mark.parametrize(("wanted", "again"), [(2, False), (3, False), (4, True)])
async def test_a_replay_that_serves_a_wish_is_not_interrupted_for_it(wanted: int, again: bool) -> None:
    """J14: the wish stays until the sweep is appended and is looked at every few seconds; a long replay would
    never end.
    """
    one = shard()
    one.state.replaying = 3
    one.request_replay(wanted)
    assert (one.state.must_replay, one._wake.is_set()) == (again, again)
