"""The branch lease of a running writer: renewed in the background, checked before every step that matters."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from reverser.errors import LostRace, StoreUnavailable
from reverser.store import Store
from reverser.store.model import BranchKey, Fence, LeaseKind

logger = logging.getLogger(__name__)

LEASE_MS = 12_000
RENEW_SECONDS = 3.0


class BranchLease:
    """Held by one writer thread. ``check`` raises LostRace as soon as the lease may be another's."""

    def __init__(self, store: Store, branch: BranchKey, fence: Fence) -> None:
        self.branch = branch
        self.fence = fence
        self._store = store
        self._renewed = time.monotonic()
        self._lost = threading.Event()
        self._stop = threading.Event()

    def check(self) -> None:
        """Ask Redis whether the lease is still this writer's, and extend it. Raises LostRace."""
        if self._lost.is_set() or not self._renew():
            self._lost.set()
            raise LostRace(f"the lease of branch {self.branch} is another writer's now")

    def _renew(self) -> bool:
        if not self._store.renew_lease(LeaseKind.BRANCH, self.branch.id, self.fence, LEASE_MS):
            return False
        self._renewed = time.monotonic()
        return True

    def _keep(self) -> None:
        while not self._stop.wait(RENEW_SECONDS):
            try:
                held = self._renew()
            except StoreUnavailable:
                held = (time.monotonic() - self._renewed) * 1000 < LEASE_MS
            if not held:
                self._lost.set()
                return

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Renew in the background while the block runs."""
        keeper = threading.Thread(target=self._keep, name=f"lease {self.branch}", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            self._stop.set()
            keeper.join(timeout=RENEW_SECONDS)


def take_lease(store: Store, branch: BranchKey, holder: str) -> BranchLease | None:
    """The branch's lease, or None while another writer holds it."""
    fence = store.acquire_lease(LeaseKind.BRANCH, branch.id, secrets.token_hex(8), LEASE_MS, holder)
    return None if fence is None else BranchLease(store, branch, fence)
