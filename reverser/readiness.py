"""Named readiness checks, one list per process.

``/healthz`` only says that the process answers. ``/readyz`` runs the checks in order and names the first that
fails, so that a probe's log shows the reason. What a process waits for at its start is a gate: it is asked
again and again in the background, whether or not a probe asks, and stays open once it was found open. So a
probe is answered at once, and an outage that begins later does not take all pods out of a Service (requests
fail one by one and are retried by their senders).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

logger = logging.getLogger(__name__)

Check = Callable[[], str]
"""Returns an empty text when all is well, else what is wrong and what to do."""

RETRY_SECONDS = 1.0
FIRST_ANSWER_SECONDS = 3.0


@dataclass(slots=True)
class Readiness:
    """The checks of one process, in the order in which they were added."""

    _checks: dict[str, Check] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ending: bool = False

    def add(self, name: str, check: Check) -> None:
        """Add a check; a second one of the same name replaces the first."""
        with self._lock:
            self._checks[name] = check

    def end(self) -> None:
        """From now on the process is not ready: it was told to end. Takes no lock, so signal handlers may."""
        self._ending = True

    def failure(self) -> str:
        """``name: reason`` of the first failing check, or an empty text."""
        if self._ending:
            return "ending: the process was told to end and finishes what it has begun"
        with self._lock:
            checks = list(self._checks.items())
        for name, check in checks:
            reason = check()
            if reason:
                return f"{name}: {reason}"
        return ""


def gate(check: Check, *, retry_seconds: float = RETRY_SECONDS, go_on_seconds: float = 0.0) -> Check:
    """``check`` asked in the background until it has passed. The returned check tells what was found last,
    and nothing after that. With ``go_on_seconds`` it is asked at that interval for ever, for what else it
    notes.
    """
    opened, asked_once = threading.Event(), threading.Event()
    found = ["it was not asked yet"]

    def ask() -> None:
        while not opened.is_set() or go_on_seconds:
            try:
                reason = check()
            except Exception as error:
                logger.exception("a readiness check failed; this is a bug")
                reason = f"it cannot be checked ({type(error).__name__}), see the log"
            if not reason:
                opened.set()
            found[0] = reason
            asked_once.set()
            time.sleep(go_on_seconds if opened.is_set() else retry_seconds)

    threading.Thread(target=ask, name="gate", daemon=True).start()

    def told() -> str:
        asked_once.wait(FIRST_ANSWER_SECONDS)
        return "" if opened.is_set() else found[0]

    return told


PROCESS = Readiness()
"""The checks of this process."""
