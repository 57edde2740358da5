"""Documents that a target's prune mode keeps in Git although their objects are gone.

The writer notes them before it pushes: that an object is gone is true whether or not the push arrives, a
repeated attempt notes the same again, and a push that was recognised only later needs no memory of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reverser.store import keys
from reverser.store.calls import Call
from reverser.store.codec import dumps, scope_values
from reverser.store.model import BranchKey, Fence, Kept, KeptNews, Scope


def note_kept(branch: BranchKey, fence: Fence, target_uid: str, news: Sequence[KeptNews]) -> Call[int | None]:
    """Take up what a unit says of kept documents; answers how many were not known. None: the fence is lost.

    Hints ``target:<uid>`` where a count or mode changed.
    """
    order = [
        {
            "scope": keys.scope_field(item.scope),
            "mode": item.mode,
            "replay": item.replay,
            "kept": item.kept,
            "back": item.back,
        }
        for item in news
    ]

    def decode(reply: Any) -> int | None:
        return None if int(reply) < 0 else int(reply)

    return Call(
        script="note_kept",
        keys=(
            keys.branch_lease(branch),
            keys.target_part(target_uid, "kept"),
            keys.target_part(target_uid, "kept-objects"),
        ),
        args=(fence.token, fence.number, keys.hint(f"target:{target_uid}"), dumps(order)),
        decode=decode,
    )


def read_kept(target_uid: str) -> Call[dict[Scope, Kept]]:
    """The counts by scope, of scopes that are no longer watched too; empty before the first count."""
    return Call(
        command=("HGETALL", keys.target_part(target_uid, "kept")),
        decode=lambda reply: scope_values(target_uid, reply, Kept),
    )
