"""The counter of audit facts, shared by two processes: web files them, watchers use them."""

from __future__ import annotations

from prometheus_client import Counter

FACTS = Counter(
    "gitopsreverser_attribution_fact_events",
    "Audit facts: written, deletecollection_expanded, matched, late, expired_unmatched",
    ["op"],
)
