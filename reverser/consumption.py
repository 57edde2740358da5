"""When this process last consumed a message: noted by the task that proves it, read by the watchdog (J11)."""

from __future__ import annotations

import time


class Consumption:
    """When this worker last proved that it consumes messages."""

    def __init__(self) -> None:
        self._seen = time.monotonic()

    def note(self) -> None:
        """A message was consumed just now."""
        self._seen = time.monotonic()

    def silence(self) -> float:
        """Seconds since a message was consumed."""
        return time.monotonic() - self._seen


CONSUMPTION = Consumption()
