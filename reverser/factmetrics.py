"""The counter of audit facts: web files them, watchers use them, workers check them again."""

from __future__ import annotations

from reverser.instruments import Counter

FACTS = Counter(
    "gitopsreverser_attribution_fact_events",
    "Audit facts: written, deletecollection_expanded, matched, contradicted, late, expired_unmatched",
    ["op"],
)
