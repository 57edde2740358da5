"""The metrics that dashboards and alerts of others may rely on: name, kind and labels are a contract."""

from __future__ import annotations

import pytest

from tests.meta.exposed import PREFIX, exposed_metrics

TYPE = ("group", "version", "resource")
TARGET = ("gittarget_namespace", "gittarget_name")
BRANCH = ("provider_namespace", "provider_name", "branch")
RESULT = ("result", *TYPE)

CONTRACT: dict[str, tuple[str, tuple[str, ...]]] = {
    "audit_eventlists_total": ("Counter", ("outcome",)),
    "audit_eventlist_events_total": ("Counter", ("outcome",)),
    "audit_eventlist_duration_seconds": ("Histogram", ("outcome",)),
    "audit_events_total": ("Counter", ("outcome", "category", *TYPE, "verb")),
    "audit_lag_seconds": ("Histogram", ()),
    "audit_requests_refused_total": ("Counter", ("reason",)),
    "admission_reviews_total": ("Counter", ("outcome",)),
    "attribution_resolutions_total": ("Counter", RESULT),
    "attribution_resolution_wait_seconds": ("Histogram", RESULT),
    "attribution_fact_events_total": ("Counter", ("op",)),
    "attribution_fact_index_size": ("Gauge", ()),
    "command_author_lookup_total": ("Counter", ("result",)),
    "command_author_lookup_lag_seconds": ("Histogram", ()),
    "commits_total": ("Counter", (*BRANCH, "author_kind")),
    "windows_total": ("Counter", (*BRANCH, "reason")),
    "branch_worker_queue_depth": ("Gauge", BRANCH),
    "branch_oldest_unpushed_seconds": ("Gauge", BRANCH),
    "git_operations_total": ("Counter", ()),
    "git_push_attempts_total": ("Counter", (*BRANCH, "result")),
    "git_push_conflicts_total": ("Counter", BRANCH),
    "git_push_duration_seconds": ("Histogram", BRANCH),
    "objects_written_total": ("Counter", ()),
    "resync_sweep_deletes_total": ("Counter", TYPE),
    "prune_retained_documents_total": ("Counter", ("mode", *TARGET)),
    "resync_background_failures_total": ("Counter", TARGET),
    "target_reconcile_completed_total": ("Counter", (*TARGET, "trigger")),
    "watched_types": ("Gauge", TARGET),
    "watch_active": ("Gauge", (*TYPE, "scope")),
    "watch_cursor_age_seconds": ("Gauge", (*TYPE, "scope")),
    "watch_events_total": ("Counter", (*TYPE, "scope", "type", "outcome")),
    "watch_events_filtered_total": ("Counter", (*TYPE, "reason")),
    "watch_event_queue_seconds": ("Histogram", TYPE),
    "watch_restarts_total": ("Counter", (*TYPE, "scope", "reason")),
    "watch_recovery_total": ("Counter", (*TYPE, "mode")),
    "watch_replay_seconds": ("Histogram", (*TYPE, "scope")),
    "watch_replay_objects": ("Histogram", (*TYPE, "scope")),
    "watch_set_changes_total": ("Counter", (*TARGET, "op")),
    "terminating_objects": ("Gauge", TYPE),
    "api_catalog_resources": ("Gauge", ("state",)),
    "api_catalog_group_versions": ("Gauge", ("state",)),
    "api_catalog_refresh_total": ("Counter", ("outcome",)),
    "api_catalog_refresh_duration_seconds": ("Histogram", ()),
    "api_catalog_generation": ("Gauge", ()),
    "secret_encryption_attempts_total": ("Counter", ()),
    "secret_encryption_success_total": ("Counter", ()),
    "secret_encryption_failures_total": ("Counter", ()),
    "secret_encryption_cache_hits_total": ("Counter", ()),
    "secret_encryption_marker_skips_total": ("Counter", ()),
    "redis_up": ("Gauge", ()),
}


@pytest.mark.parametrize("name", list(CONTRACT))
def test_the_metric_is_as_promised(name: str) -> None:
    """It is exposed under this name, of this kind, with exactly these labels."""
    found = exposed_metrics()[PREFIX + name]
    assert (found.kind, found.labels) == CONTRACT[name]
