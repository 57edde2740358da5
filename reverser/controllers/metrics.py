"""Metrics of the controllers. Labels are kinds and fixed words, never names of objects or namespaces.

Adding one: a row here, a place that records it, a line in the metrics page.
"""

from __future__ import annotations

from reverser.instruments import Counter, Gauge, Histogram

_PREFIX = "gitopsreverser"

LEADING = Gauge(
    "controllers_leading",
    "1 in the process that runs the controllers",
    namespace=_PREFIX,
    multiprocess_mode="livesum",
)
PASSES = Counter(
    "controller_passes",
    "Looks at a custom resource, by how they ended (done, retry, refused, bug)",
    ["resource", "outcome"],
    namespace=_PREFIX,
)
STATUS_WRITES = Counter(
    "controller_status_writes", "Statuses that changed and were written", ["resource"], namespace=_PREFIX
)
AUTHOR_LOOKUPS = Counter(
    "command_author_lookup",
    "Look-ups of who asked for a CommitRequest (hit, miss)",
    ["result"],
    namespace=_PREFIX,
)
AUTHOR_LAG = Histogram(
    "command_author_lookup_lag_seconds",
    "Time from the admission of a CommitRequest to the look-up of its author",
    namespace=_PREFIX,
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 30, 300),
)
