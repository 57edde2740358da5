"""What follows when a refused folder is accepted again (J14), whoever finds out: a scan made for that, or the
next window that is written.

To be done before the verdict is written: a process that dies in between leaves the folder refused, and it is
looked at again.
"""

from __future__ import annotations

from gitwriter.outcomes import PATH_REFUSED
from reverser.store import Store


def replay_refused(store: Store, uid: str) -> bool:
    """Let what was refused be read again, and all other types of the target too: whoever corrects a folder
    may have taken a file of any of them out of it. False where nothing waited for the folder.
    """
    known = store.read_marks(uid)
    refused = [scope for scope, marks in known.items() if marks.parked_reason == PATH_REFUSED]
    if not refused:
        return False
    store.raise_wanted(
        [scope for scope in store.read_streams(uid) if scope not in known or not known[scope].needs_replay]
    )
    for scope in refused:
        store.unpark(scope)
    return True
