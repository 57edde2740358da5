"""What sealing counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from reverser.errors import ConfigInvalid
from reverser.trust import metrics
from reverser.trust.sealing import Sealer
from tests.trust.test_sealing import A, plain, secret


def counts() -> dict[str, float]:
    """The counters as they stand."""
    counters = (metrics.ATTEMPTS, metrics.SUCCESS, metrics.FAILURES, metrics.CACHE_HITS)
    return {c._name.rpartition("_encryption_")[2]: c._value.get() for c in counters}


def risen(before: dict[str, float]) -> dict[str, float]:
    """By how much each counter rose."""
    return {name: value - before[name] for name, value in counts().items()}


def test_each_document_is_counted_once() -> None:
    """A document is an attempt that succeeds; the same one again is a hit and no attempt."""
    before = counts()
    sealer = Sealer()
    for _ in range(2):
        sealer.seal(plain(secret(a=b"x")), [A])
    assert risen(before) == {"attempts": 1, "success": 1, "failures": 0, "cache_hits": 1}


def test_a_failure_is_counted_and_has_a_reason(tmp_path: Path) -> None:
    """Without sops the reason is `SopsMissing`, and the attempt counts as failed."""
    before = counts()
    with pytest.raises(ConfigInvalid) as raised:
        Sealer(binary=tmp_path / "absent").seal(plain(secret(a=b"x")), [A])
    assert raised.value.reason == "SopsMissing"
    assert risen(before) == {"attempts": 1, "success": 0, "failures": 1, "cache_hits": 0}
