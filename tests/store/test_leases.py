"""Leases and fences on a real Valkey."""

from __future__ import annotations

import time

from reverser.store import Store, keys
from reverser.store.model import Fence, LeaseKind

KIND = LeaseKind.TARGET


def _wait_until_free(store: Store, ident: str, token: str) -> Fence:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        fence = store.acquire_lease(KIND, ident, token, 60_000, token)
        if fence:
            return fence
        time.sleep(0.02)
    raise AssertionError("the lease did not run out")


def test_one_holder_at_a_time(store: Store):
    """A held lease is refused to others and shown under its holder's name."""
    fence = store.acquire_lease(KIND, "t", "one", 60_000, "pod-1")
    assert fence == Fence("one", 1)
    assert store.acquire_lease(KIND, "t", "two", 60_000, "pod-2") is None
    assert store.lease_holders(KIND) == {"t": "pod-1"}
    assert store.verify_fence(KIND, "t", fence)


def test_asking_again_with_the_same_token_is_the_same_lease(store: Store):
    """A timed-out acquire can be repeated."""
    first = store.acquire_lease(KIND, "t", "one", 60_000, "pod-1")
    assert store.acquire_lease(KIND, "t", "one", 60_000, "pod-1") == first


def test_numbers_rise_and_a_late_holder_is_refused(store: Store):
    """After the lease ran out the successor has a higher number and the old pair does nothing."""
    old = store.acquire_lease(KIND, "t", "one", 30, "pod-1")
    new = _wait_until_free(store, "t", "two")
    assert new.number == old.number + 1
    assert not store.renew_lease(KIND, "t", old, 60_000)
    assert not store.release_lease(KIND, "t", old)
    assert not store.verify_fence(KIND, "t", old)
    assert store.renew_lease(KIND, "t", new, 60_000)


def test_after_a_flush_the_same_number_is_another_fence(store: Store):
    """Numbers start again, tokens do not: the pair decides."""
    old = store.acquire_lease(KIND, "t", "one", 60_000, "pod-1")
    store.client.flushall()
    new = store.acquire_lease(KIND, "t", "two", 60_000, "pod-2")
    assert old.number == new.number
    assert not store.verify_fence(KIND, "t", old)


def test_release_frees_at_once(store: Store):
    """The next holder need not wait, and nobody is shown meanwhile."""
    fence = store.acquire_lease(KIND, "t", "one", 60_000, "pod-1")
    assert store.release_lease(KIND, "t", fence)
    assert store.lease_holders(KIND) == {}
    assert store.acquire_lease(KIND, "t", "two", 60_000, "pod-2") is not None


def test_an_expired_lease_is_not_shown(store: Store):
    """Only the living are listed."""
    store.acquire_lease(KIND, "t", "one", 60_000, "pod-1")
    store.acquire_lease(KIND, "a:b", "one", 60_000, "pod-1")
    store.client.delete("gitops-reverser:lease:v1:target:t")
    assert store.lease_holders(KIND) == {"a:b": "pod-1"}
    assert store.lease_holders(LeaseKind.BRANCH) == {}


def test_several_are_renewed_at_once(store: Store):
    """Those that ran out or are another's are named; the others are extended, each on its own."""
    held = {name: store.acquire_lease(KIND, name, f"token-{name}", 5_000, "me") for name in "abc"}
    store.client.delete(keys.lease(KIND, "b"))
    fences = {name: fence for name, fence in held.items() if fence is not None}
    fences["c"] = Fence("another", fences["c"].number)
    assert store.renew_leases(KIND, fences, 60_000) == ["b", "c"]
    left = [store.client.pttl(keys.lease(KIND, name)) for name in "ac"]
    assert left[0] > 50_000
    assert 0 < left[1] <= 5_000
