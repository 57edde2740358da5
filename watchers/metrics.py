"""Metrics of ingestion. Labels are types and fixed words, never names of objects or namespaces.

Adding one: a row here, a place that records it, a line in the metrics page.
"""

from __future__ import annotations

from reverser.instruments import Counter, Gauge, Histogram
from reverser.store.model import TypeRef
from watchers.table import ShardSpec

_TYPE = ["group", "version", "resource"]
_PREFIX = "gitopsreverser"

CATALOG_RESOURCES = Gauge(
    "api_catalog_resources",
    "Served types by what the watch policy says",
    ["state"],
    namespace=_PREFIX,
    multiprocess_mode="livemax",
)
CATALOG_GROUP_VERSIONS = Gauge(
    "api_catalog_group_versions",
    "Group versions by how discovery went",
    ["state"],
    namespace=_PREFIX,
    multiprocess_mode="livemax",
)
CATALOG_GENERATION = Gauge(
    "api_catalog_generation",
    "Revision of the type registry",
    namespace=_PREFIX,
    multiprocess_mode="livemax",
)
CATALOG_REFRESH = Counter("api_catalog_refresh", "Discovery refreshes", ["outcome"], namespace=_PREFIX)
CATALOG_SECONDS = Histogram(
    "api_catalog_refresh_duration_seconds", "Duration of a discovery refresh", namespace=_PREFIX
)
CATALOG_TRANSITIONS = Counter(
    "api_catalog_transitions", "What happened to served types", ["transition"], namespace=_PREFIX
)
WATCHED_TYPES = Gauge(
    "watched_types",
    "Types a target watches",
    ["gittarget_namespace", "gittarget_name"],
    namespace=_PREFIX,
    multiprocess_mode="livesum",
)
RECONCILED = Counter(
    "target_reconcile_completed",
    "Shards brought up to date, by resumed cursor or by replay",
    ["gittarget_namespace", "gittarget_name", "trigger"],
    namespace=_PREFIX,
)
EVENTS = Counter("watch_events", "Watch events read", [*_TYPE, "scope", "type", "outcome"], namespace=_PREFIX)
FILTERED = Counter(
    "watch_events_filtered", "Watch events that changed nothing in Git", [*_TYPE, "reason"], namespace=_PREFIX
)
RESTARTS = Counter("watch_restarts", "Watches opened again", [*_TYPE, "scope", "reason"], namespace=_PREFIX)
RECOVERY = Counter("watch_recovery", "How a watch got its start", [*_TYPE, "mode"], namespace=_PREFIX)
REPLAY_SECONDS = Histogram(
    "watch_replay_seconds",
    "From opening a replay to its sweep in the journal",
    [*_TYPE, "scope"],
    namespace=_PREFIX,
)
REPLAY_OBJECTS = Histogram(
    "watch_replay_objects",
    "Objects of a replay",
    [*_TYPE, "scope"],
    namespace=_PREFIX,
    buckets=(0, 1, 10, 100, 1000, 10_000, 100_000),
)
QUEUE_SECONDS = Histogram(
    "watch_event_queue_seconds",
    "From reading an event to its entry in the journal, the oldest of each batch",
    _TYPE,
    namespace=_PREFIX,
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 3, 5, 10, 30, 60),
)
CURSOR_AGE = Gauge(
    "watch_cursor_age_seconds",
    "Time since the stored cursor of a watch last moved, the oldest of its type",
    [*_TYPE, "scope"],
    namespace=_PREFIX,
    multiprocess_mode="livemax",
)
TERMINATING = Gauge(
    "terminating_objects",
    "Objects that left Git and are still terminating",
    _TYPE,
    namespace=_PREFIX,
    multiprocess_mode="livesum",
)
ACTIVE = Gauge(
    "watch_active", "Open watches", [*_TYPE, "scope"], namespace=_PREFIX, multiprocess_mode="livesum"
)
SET_CHANGES = Counter(
    "watch_set_changes",
    "Shards opened and closed",
    ["gittarget_namespace", "gittarget_name", "op"],
    namespace=_PREFIX,
)
RESOLUTIONS = Counter(
    "attribution_resolutions", "Live events by what named their author", ["result", *_TYPE], namespace=_PREFIX
)
RESOLUTION_WAIT = Histogram(
    "attribution_resolution_wait_seconds",
    "How long an event waited for its author",
    ["result", *_TYPE],
    namespace=_PREFIX,
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10),
)
HELD_TARGETS = Gauge(
    "watch_targets_held",
    "Targets leased to this watcher",
    namespace=_PREFIX,
    multiprocess_mode="livesum",
)


def type_labels(kind: TypeRef) -> tuple[str, str, str]:
    """Group, version, resource."""
    return (kind.group, kind.version, kind.resource)


def scope_label(spec: ShardSpec) -> str:
    """``namespace`` or ``cluster``."""
    return "cluster" if spec.scope.namespace is None else "namespace"
