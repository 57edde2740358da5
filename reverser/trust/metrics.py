"""Metrics of sealing. No labels: they would reveal what is sealed."""

from __future__ import annotations

from reverser.instruments import Counter

_PREFIX = "gitopsreverser"

ATTEMPTS = Counter("secret_encryption_attempts", "Documents given to sops", namespace=_PREFIX)
SUCCESS = Counter("secret_encryption_success", "Documents that sops sealed", namespace=_PREFIX)
FAILURES = Counter("secret_encryption_failures", "Documents that could not be sealed", namespace=_PREFIX)
CACHE_HITS = Counter(
    "secret_encryption_cache_hits", "Documents sealed before, for the same recipients", namespace=_PREFIX
)
MARKER_SKIPS = Counter(
    "secret_encryption_marker_skips", "Documents left alone because their digest is Git's", namespace=_PREFIX
)
