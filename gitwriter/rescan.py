"""Looks at the remote that no change asked for: refused folders (J14) and rewritten histories (J19)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from gitwriter.attempt import Attempt
from gitwriter.backoff import rescan_delay
from gitwriter.memory import BranchMemory
from gitwriter.readmitted import write_verdict
from reverser.errors import LostRace, StalledError, TransientError
from reverser.store import Store

logger = logging.getLogger(__name__)

REMOTE_CHECK_SECONDS = 10.0
LOOKS_AT_THE_SAME = 4
"""Looks at an unchanged folder, five minutes with their pauses, before what was refused is tried again: a
build may have been too slow that once, or the target has another setting."""

OpenAttempt = Callable[[], AbstractContextManager[Attempt | None]]
"""Opens the clone of the branch for an attempt; None where its provider is gone."""


class Rescanner:
    """The looks at one branch, at intervals that its process remembers."""

    def __init__(self, store: Store, memory: BranchMemory, open_attempt: OpenAttempt) -> None:
        self._store = store
        self._memory = memory
        self._branch = memory.branch
        self._open_attempt = open_attempt

    def check_remote(self) -> None:
        """Whether the remote's history was rewritten while nothing was pending. A remote that cannot be
        reached is looked at another time. Raises LostRace."""
        if time.monotonic() < self._memory.check_at:
            return
        self._memory.check_at = time.monotonic() + REMOTE_CHECK_SECONDS
        try:
            with self._open_attempt() as attempt:
                if attempt is not None:
                    attempt.prepare([])
        except LostRace:
            raise
        except (StalledError, TransientError) as error:
            logger.info(
                "the remote could not be checked", extra={"branch": str(self._branch), "detail": str(error)}
            )

    def rescan(self, now: int) -> int | None:
        """Scan refused folders again where it is time (with back-off). Returns when to come back for those
        that stay refused (Redis clock, ms), None without any.
        """
        refused = {
            uid: gate.path
            for uid, gate in self._store.read_gates().items()
            if gate.branch == self._branch and gate.open and self._is_refused(uid)
        }
        memory = self._memory
        memory.rescans = {uid: count for uid, count in memory.rescans.items() if uid in refused}
        if not refused:
            memory.rescan_at = 0.0
            return None
        left = memory.rescan_at - time.monotonic() if memory.rescan_at else rescan_delay(0)
        if not memory.rescan_at:
            memory.rescan_at = time.monotonic() + left
        if left > 0:
            return now + int(left * 1000)
        try:
            self._look_again(refused)
        except (TransientError, StalledError) as error:
            logger.info("a refused folder could not be scanned again", extra={"detail": str(error)})
        tries = max((memory.rescans.get(uid, 0) for uid in refused), default=0)
        delay = rescan_delay(tries)
        memory.rescan_at = time.monotonic() + delay
        return now + int(delay * 1000)

    def _is_refused(self, uid: str) -> bool:
        verdict = self._store.read_path_verdict(uid)
        return verdict is not None and not verdict.accepted

    def _look_again(self, refused: Mapping[str, str]) -> None:
        with self._open_attempt() as attempt:
            if attempt is None:
                return
            base, _settled = attempt.prepare([])
            for uid, path in refused.items():
                looks = self._memory.rescans.get(uid, 0)
                before = self._store.read_path_verdict(uid) if looks < LOOKS_AT_THE_SAME else None
                verdict = attempt.rescan(path, base, before=before)
                write_verdict(self._store, uid, verdict)
                self._memory.rescans[uid] = looks + 1
                if verdict.accepted:
                    logger.info("a refused folder is accepted now", extra={"target": uid, "path": path})
                    self._memory.rescans.pop(uid)
