"""Kubernetes Events: one for each transition that a person may want to know of.

An Event repeats what a condition says, so a lost one costs nothing: failures to write are logged and
forgotten. Only transitions make Events; a state that lasts is silent, and one that flaps is counted on one
Event (``event_flow``).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from reverser.controllers.conditions import FALSE, READY, RECONCILING, STALLED, TRUE, cap_message
from reverser.controllers.event_flow import EventFlow, Written
from reverser.errors import KubeForbidden, KubeNotFound, ReverserError
from reverser.kube.client import AsyncKube
from reverser.kube.paths import core_path

COMPONENT = "gitops-reverser"
_log = logging.getLogger(__name__)
_GATES = ("Validated", "EncryptionConfigured")
_BAD = {
    READY: FALSE,
    STALLED: TRUE,
    "PushSucceeding": FALSE,
    "DeletionsApplied": FALSE,
    "ObjectsWritten": FALSE,
    "RenderMatchesLive": FALSE,
    "PushPermitted": FALSE,
}


@dataclass(frozen=True, slots=True)
class Happening:
    """What an Event says. ``warning`` makes it a Warning."""

    reason: str
    message: str
    warning: bool = False


def transitions(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> Iterator[Happening]:
    """Happenings for the changes of Ready, Stalled and the conditions of ``_BAD``.

    A blocked object makes one Event, for Stalled; one that is no longer blocked makes one for Ready, or for
    Reconciling while it is not ready yet. A condition without a previous value makes an Event only when it is
    good news or a block.
    """
    old = {str(item.get("type")): item for item in before if isinstance(item, Mapping)}
    new = {str(item.get("type")): item for item in after}
    ready = new.get(READY, {}).get("status") == TRUE
    stuck = new.get(STALLED, {}).get("status") == TRUE
    for kind, bad in _BAD.items():
        item = new.get(kind)
        if item is None:
            continue
        was, now = old.get(kind, {}).get("status"), item["status"]
        reworded = kind == STALLED and now == TRUE and old.get(kind, {}).get("reason") != item["reason"]
        if was == now and not reworded:
            continue
        if kind == READY and now != TRUE and (was != TRUE or stuck):
            continue
        if kind == STALLED and now != TRUE:
            if was == TRUE and not ready:
                said = new.get(RECONCILING, item)
                yield Happening(str(said["reason"]), f"no longer stalled: {said['message']}")
            continue
        if kind not in (READY, STALLED) and bad not in (now, was):
            continue
        message = str(item["message"])
        if kind == STALLED and now == TRUE:
            message = _with_the_cause(message, new)
        yield Happening(str(item["reason"]), message, warning=now == bad and kind != READY)


def _with_the_cause(message: str, conditions: Mapping[str, Mapping[str, Any]]) -> str:
    """The message of a block, and what the gate behind it says: an Event is read without the conditions."""
    for gate in _GATES:
        words = str(conditions.get(gate, {}).get("message", ""))
        if conditions.get(gate, {}).get("status") == FALSE and words not in message:
            return f"{message}: {words}"
    return message


class Recorder:
    """Writes Events about objects, in the namespace of each (``default`` for a cluster-scoped one)."""

    def __init__(self, kube: AsyncKube, *, instance: str, flow: EventFlow | None = None) -> None:
        self._kube = kube
        self._instance = instance
        self._flow = flow or EventFlow()

    async def record(self, obj: Mapping[str, Any], happening: Happening) -> None:
        """Write one Event about ``obj``, or count the same one up; a failure is logged."""
        meta = obj.get("metadata") or {}
        namespace, name = str(meta.get("namespace") or "default"), str(meta.get("name") or "")
        uid, level = str(meta.get("uid") or ""), "Warning" if happening.warning else "Normal"
        message = cap_message(happening.message)
        if not self._flow.allow(uid):
            _log.info("an Event about %s/%s is left out after too many: %s", namespace, name, message)
            return
        what = (uid, level, happening.reason, message)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            known = self._flow.same(what)
            if known is not None and await self._count(namespace, known, now):
                self._flow.note(what, known.name, count=known.count + 1, first=known.first)
                return
            event = _event_name(name)
            body = {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": event, "namespace": namespace},
                "involvedObject": {
                    "apiVersion": obj.get("apiVersion"),
                    "kind": obj.get("kind"),
                    "name": name,
                    "uid": meta.get("uid"),
                    **({"namespace": meta["namespace"]} if meta.get("namespace") else {}),
                },
                "reason": happening.reason,
                "message": message,
                "type": level,
                "source": {"component": COMPONENT},
                "reportingComponent": COMPONENT,
                "reportingInstance": self._instance,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            }
            await self._kube.create(core_path("events", namespace=namespace), body, timeout=10.0)
            self._flow.note(what, event, count=1, first=now)
        except ReverserError as error:
            _log.warning("an Event about %s/%s was not written: %s", namespace, name, error)

    async def _count(self, namespace: str, known: Written, now: str) -> bool:
        """Raise the count of an Event; False when it is gone, or when only creating is permitted."""
        change = {"count": known.count + 1, "lastTimestamp": now}
        path = core_path("events", namespace=namespace, name=known.name)
        try:
            await self._kube.patch(path, change, timeout=10.0)
        except (KubeNotFound, KubeForbidden):
            return False
        return True


def _event_name(name: str) -> str:
    """A unique name for an Event about the object ``name``."""
    return f"{name[:230].rstrip('-.')}.{secrets.token_hex(8)}"
