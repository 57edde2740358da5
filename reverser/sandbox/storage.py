"""The objects, their one growing resourceVersion, and the history that watches read.

All calls come from one event loop, so a read followed by a write without an `await` between them is atomic.
Stored objects are never changed in place: a write puts a new object in the old one's place, which lets
history, lists and watches share them without copying. History is kept per resource and cut at a limit;
reading behind the cut is `Compacted`, which a client sees as 410.
"""

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Obj = dict[str, Any]
#: Group and plural name: all versions of one resource share their storage.
ResourceKey = tuple[str, str]
#: Namespace (empty for cluster-scoped objects) and name.
ObjectKey = tuple[str, str]


class EventType(enum.StrEnum):
    """What happened to an object, as a watch calls it."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Compacted(Exception):
    """The version asked for is older than the history kept."""


class TooLarge(Exception):
    """The version asked for does not exist yet."""


@dataclass(slots=True)
class Event:
    """One change: `obj` after it (DELETED: the last state at the deletion's version), `prev` before it."""

    rv: int
    type: EventType
    resource: ResourceKey
    key: ObjectKey
    obj: Obj
    prev: Obj | None
    #: The serialised line per form, filled by the watches, so that each is made once.
    encoded: dict[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Bucket:
    """The objects and the recent history of one resource."""

    objects: dict[ObjectKey, Obj] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    #: Number of events cut from the front of `events` so far: positions count from the beginning of time.
    cut: int = 0
    #: Versions at or below this one cannot be resumed from, except exactly this one.
    compacted: int = 0
    listeners: set[Callable[[], None]] = field(default_factory=set)

    @property
    def end(self) -> int:
        """The position behind the newest event."""
        return self.cut + len(self.events)


class Storage:
    """Objects by resource; `on_event` is called for each change before anybody else hears of it."""

    def __init__(self, *, history_limit: int = 20_000) -> None:
        self.rv = 0
        self.history_limit = history_limit
        self.on_event: list[Callable[[Event], None]] = []
        self._buckets: dict[ResourceKey, Bucket] = {}
        self._floor = 0

    def bucket(self, resource: ResourceKey) -> Bucket:
        """The bucket of a resource, created on first use."""
        found = self._buckets.get(resource)
        if found is None:
            found = self._buckets[resource] = Bucket(compacted=self._floor)
        return found

    def restore(self, rv: int, objects: Iterable[tuple[ResourceKey, ObjectKey, Obj]]) -> None:
        """Load what a state directory held. History starts here: older versions are compacted."""
        self.rv = self._floor = rv
        for resource, key, obj in objects:
            self.bucket(resource).objects[key] = obj

    def all_objects(self) -> Iterator[tuple[ResourceKey, ObjectKey, Obj]]:
        """Everything stored, in no particular order."""
        for resource, bucket in self._buckets.items():
            for key, obj in bucket.objects.items():
                yield resource, key, obj

    def resources(self) -> list[ResourceKey]:
        """The resources that have, or had, objects."""
        return list(self._buckets)

    def get(self, resource: ResourceKey, namespace: str, name: str) -> Obj | None:
        """The object, or None. The caller must not change it."""
        return self.bucket(resource).objects.get((namespace, name))

    def items(self, resource: ResourceKey, namespace: str | None) -> list[Obj]:
        """The objects of a namespace (None: of all), in the order of their keys."""
        return _sorted(self.bucket(resource).objects, namespace)

    def list_at(self, resource: ResourceKey, namespace: str | None, rv: int) -> list[Obj]:
        """The objects as they were at a version. Raises `Compacted` or `TooLarge`."""
        if rv > self.rv:
            raise TooLarge
        bucket = self.bucket(resource)
        if rv < bucket.compacted:
            raise Compacted
        objects = dict(bucket.objects)
        for event in reversed(bucket.events):
            if event.rv <= rv:
                break
            if event.prev is None:
                objects.pop(event.key, None)
            else:
                objects[event.key] = event.prev
        return _sorted(objects, namespace)

    def put(self, resource: ResourceKey, namespace: str, name: str, obj: Obj) -> Obj:
        """Store a new or changed object; returns it with its new resourceVersion. `obj` becomes the
        storage's.
        """
        key = (namespace, name)
        prev = self.bucket(resource).objects.get(key)
        obj = self._stamped(obj)
        self.bucket(resource).objects[key] = obj
        kind = EventType.ADDED if prev is None else EventType.MODIFIED
        self._publish(Event(self.rv, kind, resource, key, obj, prev))
        return obj

    def delete(self, resource: ResourceKey, namespace: str, name: str) -> Obj:
        """Remove an object that exists; returns its last state at the deletion's version."""
        key = (namespace, name)
        prev = self.bucket(resource).objects.pop(key)
        obj = self._stamped(prev)
        self._publish(Event(self.rv, EventType.DELETED, resource, key, obj, prev))
        return obj

    def compact(self) -> None:
        """Forget all history: every version but the current one is too old."""
        self._floor = self.rv
        for bucket in self._buckets.values():
            self._cut(bucket, len(bucket.events))
            bucket.compacted = self.rv

    def position_after(self, resource: ResourceKey, rv: int) -> int:
        """Where a watch that has seen everything up to `rv` goes on. Raises `Compacted`."""
        bucket = self.bucket(resource)
        if rv < bucket.compacted:
            raise Compacted
        low, high = 0, len(bucket.events)
        while low < high:
            middle = (low + high) // 2
            if bucket.events[middle].rv <= rv:
                low = middle + 1
            else:
                high = middle
        return bucket.cut + low

    def _stamped(self, obj: Obj) -> Obj:
        self.rv += 1
        return obj | {"metadata": obj["metadata"] | {"resourceVersion": str(self.rv)}}

    def _publish(self, event: Event) -> None:
        bucket = self.bucket(event.resource)
        bucket.events.append(event)
        if len(bucket.events) > self.history_limit + self.history_limit // 4 + 1:
            self._cut(bucket, len(bucket.events) - self.history_limit)
        for hook in self.on_event:
            hook(event)
        for wake in tuple(bucket.listeners):
            wake()

    @staticmethod
    def _cut(bucket: Bucket, count: int) -> None:
        if count:
            bucket.compacted = bucket.events[count - 1].rv
            del bucket.events[:count]
            bucket.cut += count


def _sorted(objects: dict[ObjectKey, Obj], namespace: str | None) -> list[Obj]:
    if namespace is None:
        return [objects[key] for key in sorted(objects)]
    return [objects[key] for key in sorted(k for k in objects if k[0] == namespace)]
