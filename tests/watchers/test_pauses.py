"""How long a shard waits between tries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from reverser.errors import KubeNotFound, TransientError
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
