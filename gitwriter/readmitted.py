"""What follows when a refused folder is accepted again (J14), whoever finds out: a scan made for that, or the
next window that is written.

A refusal writes its verdict before it parks anything, so an accepted verdict that follows an accepted one has
nothing to wake, and the marks of all types need not be read for each window.
"""

from __future__ import annotations

from gitwriter.outcomes import PATH_REFUSED
from reverser.store import Store
from reverser.store.model import PathVerdict


def write_verdict(store: Store, uid: str, verdict: PathVerdict) -> None:
    """Write what was found out about a target's folder; what waited for its acceptance is read again first:
    a process that dies in between leaves the folder refused, and it is looked at again.
    """
    if verdict.accepted:
        before = store.read_path_verdict(uid)
        if before is not None and not before.accepted:
            _replay_refused(store, uid)
    store.write_path_verdict(uid, verdict)


def _replay_refused(store: Store, uid: str) -> None:
    """Let what was refused be read again, and all other types of the target too: whoever corrects a folder
    may have taken a file of any of them out of it.
    """
    known = store.read_marks(uid)
    refused = [scope for scope, marks in known.items() if marks.parked_reason == PATH_REFUSED]
    if not refused:
        return
    store.raise_wanted(
        [scope for scope in store.read_streams(uid) if scope not in known or not known[scope].needs_replay]
    )
    for scope in refused:
        store.unpark(scope)
