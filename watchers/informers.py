"""Small caches of list and watch, for the project's own kinds and for change hints.

A cache is right as of some moment and catches up on its own; final decisions read uncached. It is meant for
few, small objects: a ``transform`` keeps only what is needed of each. A bug met by one of them stops neither
the others nor the cache, because nothing would tell that it is outdated from then on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from reverser.errors import KubeForbidden, KubeGone, KubeNotFound, ReverserError, TransientError
from reverser.kinds.model import API_GROUP
from reverser.kube.aio import AsyncKube
from reverser.kube.answers import status_error
from watchers.behind import is_behind
from watchers.facts import read_facts
from watchers.tasks import end
from watchers.timing import Timing

log = logging.getLogger(__name__)
T = TypeVar("T")

OnChange = Callable[[str, "T | None"], None]
"""Called with ``namespace/name`` (or the name) and the new value, None when the object is gone."""


class Informer(Generic[T]):
    """A cache of one collection. ``start`` it, then ``wait_synced`` before the first use of ``items``."""

    def __init__(
        self,
        kube: AsyncKube,
        path: str,
        transform: Callable[[dict[str, Any]], T],
        *,
        on_change: OnChange[T] | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._kube = kube
        self._path = path
        self._transform = transform
        self._listeners: list[OnChange[T]] = [on_change] if on_change is not None else []
        self._timing = timing or Timing()
        self._items: dict[str, tuple[str, T]] = {}
        self._synced = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def on_change(self, listener: OnChange[T]) -> None:
        """Adds a listener; it is called at once for every object that is known already."""
        self._listeners.append(listener)
        for key, (_, value) in self._items.items():
            listener(key, value)

    def start(self) -> None:
        """Begins to follow; needs a running event loop."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"informer {self._path}")

    async def stop(self) -> None:
        """Ends it and waits for the end."""
        if self._task is not None:
            await end((self._task,))

    @property
    def synced(self) -> bool:
        """Whether the first list is complete."""
        return self._synced.is_set()

    async def wait_synced(self, timeout: float | None = None) -> bool:
        """Waits for the first complete list, at most ``timeout`` seconds. False when it did not come."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._synced.wait()
        return self._synced.is_set()

    def items(self) -> list[T]:
        """All objects, in order of namespace and name."""
        return [self._items[key][1] for key in sorted(self._items)]

    def get(self, namespace: str, name: str) -> T | None:
        """One object, or None."""
        found = self._items.get(f"{namespace}/{name}" if namespace else name)
        return found[1] if found is not None else None

    async def _run(self) -> None:
        failures = 0
        version = ""
        while True:
            try:
                if not version or await is_behind(self._kube, self._path, version):
                    version = await self._list()
                version = await self._follow(version)
                failures = 0
            except KubeGone as error:
                version = ""
                failures += 1
                if failures > 1:
                    await asyncio.sleep(self._pause(error, failures - 1))
            except ReverserError as error:
                failures += 1
                if failures in {1, 5}:
                    log.warning("cache of %s: %s%s", self._path, error, self._advice(error))
                if not isinstance(error, TransientError | KubeForbidden | KubeNotFound):
                    version = ""
                await asyncio.sleep(self._pause(error, failures))
            except Exception:
                failures += 1
                log.exception("cache of %s: a bug; it is read anew", self._path)
                version = ""
                await asyncio.sleep(self._timing.backoff(failures))

    def _advice(self, error: ReverserError) -> str:
        if isinstance(error, KubeForbidden):
            return "; grant get, list and watch: manage.py rbac prints the roles"
        if isinstance(error, KubeNotFound) and self._path.startswith(f"/apis/{API_GROUP}/"):
            return "; its definition is not installed: apply deploy/crds"
        return ""

    def _pause(self, error: ReverserError, failures: int) -> float:
        wait = self._timing.backoff(failures)
        asked = error.retry_after if isinstance(error, TransientError) else None
        return max(wait, asked or 0.0)

    async def _list(self) -> str:
        """Reads everything page by page, so that only what ``transform`` keeps is held."""
        found: set[str] = set()
        version = ""
        async for page in self._kube.pages(self._path):
            for obj in page.items:
                found.add(_key(obj))
                self._put(_key(obj), obj)
            version = page.resource_version
        for key in self._items.keys() - found:
            self._drop(key)
        self._synced.set()
        return version

    async def _follow(self, version: str) -> str:
        """Applies events until the server closes the watch; returns the version to go on from."""
        query = {
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": self._timing.watch_timeout(),
        }
        stream = await self._kube.watch(
            self._path, query, silence=self._timing.watch_silence, timeout=self._timing.open_timeout
        )
        opened = asyncio.get_running_loop().time()
        async with stream:
            async for event in stream:
                if event.type == "ERROR":
                    raise status_error(f"watch of {self._path}", event.object)
                version = read_facts(event.object).resource_version or version
                if event.type == "DELETED":
                    self._drop(_key(event.object))
                elif event.type in {"ADDED", "MODIFIED"}:
                    self._put(_key(event.object), event.object)
        if asyncio.get_running_loop().time() - opened < self._timing.quick_close:
            await asyncio.sleep(self._timing.retry_first)
        return version

    def _put(self, key: str, obj: dict[str, Any]) -> None:
        facts = read_facts(obj)
        known = self._items.get(key)
        if known is not None and known[0] == facts.resource_version:
            return
        try:
            value = self._transform(obj)
        except Exception:
            log.exception("cache of %s: a bug met by %s; it stays as it was known", self._path, key)
            return
        self._items[key] = (facts.resource_version, value)
        self._tell(key, value)

    def _drop(self, key: str) -> None:
        if self._items.pop(key, None) is not None:
            self._tell(key, None)

    def _tell(self, key: str, value: T | None) -> None:
        for listener in self._listeners:
            try:
                listener(key, value)
            except Exception:
                log.exception("cache of %s: a bug of a listener met by %s", self._path, key)


def _key(obj: Mapping[str, Any]) -> str:
    facts = read_facts(obj)
    return f"{facts.namespace}/{facts.name}" if facts.namespace else facts.name


async def wait_all(informers: Iterable[Informer[Any]]) -> None:
    """Waits until every one of them is synced."""
    for informer in informers:
        await informer.wait_synced()
