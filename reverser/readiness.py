"""Named readiness checks, one list per process.

``/healthz`` only says that the process answers. ``/readyz`` runs the checks in order and names the first that
fails, so that a probe's log shows the reason. The Redis check latches: once Redis has answered, a short
outage must not remove all pods from a Service (requests fail one by one and are retried by their senders).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

Check = Callable[[], str]
"""Returns an empty text when all is well, else what is wrong and what to do."""


@dataclass(slots=True)
class Readiness:
    """The checks of one process, in the order in which they were added."""

    _checks: dict[str, Check] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str, check: Check) -> None:
        """Add a check; a second one of the same name replaces the first."""
        with self._lock:
            self._checks[name] = check

    def failure(self) -> str:
        """``name: reason`` of the first failing check, or an empty text."""
        with self._lock:
            checks = list(self._checks.items())
        for name, check in checks:
            reason = check()
            if reason:
                return f"{name}: {reason}"
        return ""


def latched(check: Check) -> Check:
    """A check that is not run again once it has passed."""
    passed = threading.Event()

    def asked() -> str:
        if passed.is_set():
            return ""
        reason = check()
        if not reason:
            passed.set()
        return reason

    return asked


PROCESS = Readiness()
"""The checks of this process."""
