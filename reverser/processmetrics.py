"""Gauges that several kinds of process show, each for itself or all the same."""

from __future__ import annotations

from reverser.instruments import Gauge

_BRANCH = ("provider_namespace", "provider_name", "branch")

QUEUE_DEPTH = Gauge(
    "gitopsreverser_branch_worker_queue_depth",
    "Journal entries that are not settled",
    _BRANCH,
    multiprocess_mode="livemostrecent",
)
OLDEST_UNPUSHED = Gauge(
    "gitopsreverser_branch_oldest_unpushed_seconds",
    "Age of the oldest journal entry that is not settled",
    _BRANCH,
    multiprocess_mode="livemostrecent",
)
REDIS_UP = Gauge(
    "gitopsreverser_redis_up",
    "Whether Redis answers this process",
    multiprocess_mode="livemin",
)
