"""The state of targets and requests as database rows, for the admin and REST.

Reconcilers only hand over what they know; a thread that may wait for SQL writes it. Only the latest state of
each object is kept in between, so an unavailable database costs neither memory nor time, and the rows are
right again one ``flush`` after it is back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from reverser.controllers.conditions import READY, RECONCILING, STALLED
from reverser.kinds.model import CommitRequest, GitTarget, Submitter

Values = dict[str, Any]


class Projection:
    """What is still to be written, by UID. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._targets: dict[str, Values] = {}
        self._requests: dict[str, Values] = {}
        self._living: frozenset[str] | None = None
        self._marked: frozenset[str] | None = None

    def target(self, target: GitTarget, status: Mapping[str, Any], *, url: str) -> None:
        """The status of a GitTarget as it was written."""
        conditions = [item for item in status.get("conditions") or () if isinstance(item, Mapping)]
        by_type = {str(item.get("type")): item for item in conditions}
        ready = by_type.get(READY, {})
        streams = status.get("streams") or {}
        values = {
            "namespace": target.meta.namespace,
            "name": target.meta.name,
            "provider": target.provider,
            "url": url[:2048],
            "branch": target.branch,
            "path": target.path,
            "ready": ready.get("status", "Unknown"),
            "reconciling": by_type.get(RECONCILING, {}).get("status", "Unknown"),
            "stalled": by_type.get(STALLED, {}).get("status", "Unknown"),
            "reason": str(ready.get("reason", ""))[:80],
            "message": ready.get("message", ""),
            "conditions": conditions,
            "streams_ready": streams.get("ready", 0),
            "streams_total": streams.get("total", 0),
            "last_push_at": moment(str(status.get("lastPushTime") or "")),
            "retention": status.get("retention"),
            "removed_at": None,
        }
        with self._lock:
            self._targets[target.meta.uid] = values

    def living(self, uids: Iterable[str]) -> None:
        """All targets that exist; rows of others are marked as removed."""
        with self._lock:
            self._living = frozenset(uids)

    def request(
        self, request: CommitRequest, *, target_uid: str, submitter: Submitter | None, failure: str = ""
    ) -> None:
        """A CommitRequest as far as it is known; ``failure`` is an end for which there is no outcome."""
        who = request.submitter or submitter
        values: Values = {
            "namespace": request.meta.namespace,
            "name": request.meta.name,
            "target_name": request.target_name,
            "message": request.message,
            "requested_at": moment(request.meta.creation_timestamp),
        }
        if target_uid:
            values["target_uid"] = target_uid
        if who is not None:
            values["submitter"] = who.username[:512]
        if failure:
            values |= {"outcome": "failed", "detail": failure, "finished_at": datetime.now(UTC)}
        with self._lock:
            self._requests[request.meta.uid] = values

    def flush(self) -> int:
        """Write everything that waits; returns the number of rows. A DatabaseError is passed on, and nothing
        is lost."""
        from reverser.history.models import SaveRequest, TargetState

        with self._lock:
            targets, self._targets = self._targets, {}
            requests, self._requests = self._requests, {}
            living = self._living
        written = 0
        try:
            for uid in list(targets):
                TargetState.objects.update_or_create(uid=uid, defaults=targets[uid])
                del targets[uid]
                written += 1
            for uid in list(requests):
                SaveRequest.objects.update_or_create(uid=uid, defaults=requests[uid])
                del requests[uid]
                written += 1
            if living is not None and living != self._marked:
                gone = TargetState.objects.filter(removed_at=None).exclude(uid__in=living)
                written += gone.update(removed_at=datetime.now(UTC))
                self._marked = living
        finally:
            with self._lock:
                self._targets = {**targets, **self._targets}
                self._requests = {**requests, **self._requests}
        return written


def moment(text: str) -> datetime | None:
    """An RFC 3339 time to the second; None when there is none."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
