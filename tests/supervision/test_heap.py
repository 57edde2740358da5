"""What is alive once a process is set up is left out of later collections."""

from __future__ import annotations

import gc
import subprocess
import sys

SCRIPT = """
import gc
from reverser.heap import settle_heap
kept = [[] for _ in range(1000)]
settle_heap()
assert gc.get_freeze_count() >= 1000, gc.get_freeze_count()
assert len(gc.get_objects()) < 1000, len(gc.get_objects())
assert gc.isenabled()
"""


def test_what_is_alive_is_not_collected_again() -> None:
    """In a process of its own, because it cannot be taken back for single objects."""
    assert gc.get_freeze_count() == 0
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=240)
