"""What metrics are made of. Every module that counts takes these, never the library's own names: with them
comes the file that several processes share without one of them dying of a full disk.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram, values

from reverser.sharedvalues import ValuesFile

# The library has no other seam; it looks the name up when the first value is made.
values.MmapedDict = ValuesFile  # type: ignore[attr-defined, assignment]

__all__ = ["Counter", "Gauge", "Histogram"]
