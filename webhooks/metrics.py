"""Metrics of the two ingresses. Labels are types, verbs and fixed words, never names of objects."""

from __future__ import annotations

from reverser.instruments import Counter, Gauge, Histogram

_PREFIX = "gitopsreverser"

LISTS = Counter("audit_eventlists", "Audit requests by outcome", ["outcome"], namespace=_PREFIX)
LIST_EVENTS = Counter(
    "audit_eventlist_events", "Audit events by outcome of their request", ["outcome"], namespace=_PREFIX
)
LIST_SECONDS = Histogram(
    "audit_eventlist_duration_seconds",
    "Duration of an audit request",
    ["outcome"],
    namespace=_PREFIX,
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300),
)
EVENTS = Counter(
    "audit_events",
    "Audit events by what became of them",
    ["outcome", "category", "group", "version", "resource", "verb"],
    namespace=_PREFIX,
)
REFUSED = Counter("audit_requests_refused", "Audit requests refused unread", ["reason"], namespace=_PREFIX)
LAG = Histogram(
    "audit_lag_seconds",
    "From the end of a request at the API server to its audit event here",
    namespace=_PREFIX,
    buckets=(0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 30, 60),
)
INDEX_SIZE = Gauge(
    "attribution_fact_index_size",
    "Keys of audit facts in Redis",
    namespace=_PREFIX,
    multiprocess_mode="livemostrecent",
)
REVIEWS = Counter(
    "admission_reviews", "Admission reviews by what became of them", ["outcome"], namespace=_PREFIX
)
