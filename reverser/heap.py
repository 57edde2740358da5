"""Excluding long-lived objects from garbage collection.

A full collection walks every live object. After start-up those are mostly modules, classes and settings, a
few hundred thousand that are never freed; each walk held up all watches of a watcher, and all callers of a
listener, for tens of milliseconds.
"""

from __future__ import annotations

import gc


def settle_heap() -> None:
    """Call once a process has been set up: what is alive now is not collected again."""
    gc.collect()
    gc.freeze()
