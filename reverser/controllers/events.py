"""Kubernetes Events: one for each transition that a person may want to hear of.

An Event repeats what a condition says, so a lost one costs nothing: failures to write are logged and
forgotten. Only transitions make Events; a state that lasts is silent.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from reverser.controllers.conditions import FALSE, READY, STALLED, TRUE, cap_message
from reverser.errors import ReverserError
from reverser.kube.client import AsyncKube
from reverser.kube.paths import core_path

COMPONENT = "gitops-reverser"
_log = logging.getLogger(__name__)
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

    A blocked object speaks once, through Stalled; Ready speaks when it becomes True, or stops being so
    without a block. What was never said is no transition unless it is good news or a block.
    """
    old = {str(item.get("type")): item for item in before if isinstance(item, Mapping)}
    new = {str(item.get("type")): item for item in after}
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
            continue
        if kind not in (READY, STALLED) and bad not in (now, was):
            continue
        yield Happening(str(item["reason"]), str(item["message"]), warning=now == bad and kind != READY)


class Recorder:
    """Writes Events about objects."""

    def __init__(self, kube: AsyncKube, *, instance: str) -> None:
        self._kube = kube
        self._instance = instance

    async def record(self, obj: Mapping[str, Any], happening: Happening) -> None:
        """Write one Event about ``obj``; a failure is logged."""
        meta = obj.get("metadata") or {}
        namespace = str(meta.get("namespace") or "default")
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        name = str(meta.get("name") or "")
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name[:230]}.{secrets.token_hex(8)}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": obj.get("apiVersion"),
                "kind": obj.get("kind"),
                "name": name,
                "uid": meta.get("uid"),
                **({"namespace": meta["namespace"]} if meta.get("namespace") else {}),
            },
            "reason": happening.reason,
            "message": cap_message(happening.message),
            "type": "Warning" if happening.warning else "Normal",
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._instance,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._kube.create(core_path("events", namespace=namespace), body, timeout=10.0)
        except ReverserError as error:
            _log.warning("an Event about %s/%s was not written: %s", namespace, name, error)
