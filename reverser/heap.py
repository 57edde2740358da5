"""Keeping the garbage collector away from what lives as long as the process.

A full collection walks every object that is alive. After a start those are mostly modules, classes and
settings, a few hundred thousand that never go; walking them again and again held up all watches of a watcher,
and all callers of a listener, for tens of milliseconds each time.
"""

from __future__ import annotations

import gc


def settle_heap() -> None:
    """Call once a process has been set up: what is alive now is not looked at again."""
    gc.collect()
    gc.freeze()
