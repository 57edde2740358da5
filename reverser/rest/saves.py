"""Saving on request: a CommitRequest is made in the cluster, in the caller's own name, and followed.

The admin, REST and ``manage.py save`` all come through here. The request is an ordinary object of the
cluster, so admission records who really asked, and RBAC, policies and quotas apply.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from reverser.controllers.decide_request import is_terminal
from reverser.errors import KubeConflict, KubeInvalid
from reverser.kinds.model import API_GROUP, API_VERSION, CommitRequest
from reverser.kinds.parse import MAX_CLOSE_DELAY, MAX_MESSAGE, parse_commit_request
from reverser.kube.paths import own_path
from reverser.kube.requests import Impersonation, decode_object
from reverser.kube.sync import Kube

ATTEMPTS = 3
POLL_SECONDS = 0.5
DEADLINE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for."""

    namespace: str
    target: str
    message: str = ""
    close_delay_seconds: int | None = None

    def manifest(self) -> dict[str, Any]:
        """The object, with a name of its own."""
        spec: dict[str, Any] = {"targetRef": {"name": self.target}}
        if self.message:
            spec["message"] = self.message
        if self.close_delay_seconds is not None:
            spec["closeDelaySeconds"] = self.close_delay_seconds
        stem = self.target[:200].rstrip("-.")
        return {
            "apiVersion": f"{API_GROUP}/{API_VERSION}",
            "kind": "CommitRequest",
            "metadata": {"name": f"{stem}-{secrets.token_hex(4)}", "namespace": self.namespace},
            "spec": spec,
        }


def message_problem(message: str) -> str:
    """What is wrong with a commit message, or nothing; the CRD says the same."""
    if len(message) > MAX_MESSAGE:
        return f"at most {MAX_MESSAGE} characters"
    if any((ord(char) < 32 and char != "\n") or ord(char) == 127 for char in message):
        return "no control characters but the line feed"
    return ""


def delay_problem(seconds: int) -> str:
    """What is wrong with a delay, or nothing."""
    return "" if 0 <= seconds <= MAX_CLOSE_DELAY else f"0 to {MAX_CLOSE_DELAY} seconds"


def create(kube: Kube, wish: Wish, *, acting_as: Impersonation | None) -> dict[str, Any]:
    """Create the CommitRequest and return it.

    ``acting_as`` None means the client's own identity. Raises the error tree's classes: KubeForbidden,
    KubeInvalid with causes, KubeNotFound for a namespace that is not there.
    """
    path = own_path("commitrequests", namespace=wish.namespace)
    for attempt in range(ATTEMPTS):
        try:
            answer = kube.raw(
                "POST", path, body=wish.manifest(), acting_as=acting_as, timeout=DEADLINE_SECONDS
            )
            return decode_object(answer)
        except KubeConflict as error:
            if not error.exists or attempt + 1 == ATTEMPTS:
                raise
    raise KubeInvalid("no free name was found for the CommitRequest; try again")


def follow(
    kube: Kube,
    namespace: str,
    name: str,
    *,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """The object when it is finished, or as it is after ``seconds``. Raises KubeNotFound where it is gone."""
    path = own_path("commitrequests", namespace=namespace, name=name)
    ends = clock() + seconds
    while True:
        found = kube.get(path, timeout=DEADLINE_SECONDS)
        if is_terminal(parse_commit_request(found)) or clock() >= ends:
            return found
        sleep(max(0.0, min(POLL_SECONDS, ends - clock())))


@dataclass(frozen=True, slots=True)
class Result:
    """How a request stands, for people and programs."""

    request: CommitRequest
    finished: bool
    succeeded: bool
    reason: str
    message: str


def result_of(found: Mapping[str, Any]) -> Result:
    """Read an object's status."""
    request = parse_commit_request(found)
    by_type = {item.type: item for item in request.conditions}
    ready = by_type.get("Ready")
    succeeded = ready is not None and ready.status == "True"
    return Result(
        request,
        finished=is_terminal(request),
        succeeded=succeeded,
        reason=ready.reason if ready is not None else "",
        message=ready.message if ready is not None else "",
    )
