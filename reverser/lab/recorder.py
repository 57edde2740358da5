"""Runs the scenarios against an API server and keeps what its watch, audit stream and admission show.

The API server must be told to post its audit events here; admission is registered by the lab itself, for its
own namespaces, and unregistered at the end.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from reverser.errors import KubeConflict, KubeNotFound, KubeUnavailable, ReverserError, TransientError
from reverser.kube.aio import AsyncKube
from reverser.kube.paths import core_path, resource_path
from reverser.kube.sync import Kube
from reverser.lab.capabilities import Capabilities, Capability
from reverser.lab.normalise import normalise
from reverser.lab.scenarios import DENIED, Actor, Scenario
from reverser.quantities import Address
from reverser.sandbox.pki import Authority
from webhooks.http import BadBody, Environ, StartResponse, answer, read_body, say
from webhooks.server import Limits, Server
from webhooks.tls import Certificates

MAX_BODY = 32 * 2**20
LOOK_SECONDS = 0.1
QUIET_SECONDS = 2.5
SANDBOX_QUIET_SECONDS = 0.8
LONGEST_SECONDS = 30.0
_WEBHOOKS = resource_path("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
_DEFINITIONS = resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions")
_NONE = Capabilities()
_LABEL = "lab.configbutler.ai/run"
Obj = dict[str, Any]


class Receiver:
    """Takes audit events on one address, admission reviews on another."""

    def __init__(self) -> None:
        self.audit: list[Obj] = []
        self.reviews: list[Obj] = []
        self._lock = threading.Lock()

    def count(self) -> int:
        """How much has come."""
        with self._lock:
            return len(self.audit) + len(self.reviews)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Keep what comes; allow everything but one name."""
        try:
            body = orjson.loads(read_body(environ, MAX_BODY))
        except (BadBody, orjson.JSONDecodeError) as error:
            return say(start_response, 400, f"not understood: {error}")
        if environ.get("PATH_INFO") == "/audit-webhook":
            with self._lock:
                self.audit += body.get("items") or []
            return say(start_response, 200, "recorded")
        request = body.get("request") or {}
        with self._lock:
            self.reviews.append(request)
        response: Obj = {"uid": request.get("uid"), "allowed": request.get("name") != DENIED}
        if not response["allowed"]:
            response["status"] = {"message": "denied by the lab", "code": 403}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return answer(start_response, 200, orjson.dumps(review), content_type="application/json")


@contextmanager
def served(receiver: Receiver, address: Address, certificates: Certificates | None = None) -> Iterator[int]:
    """The receiver on an address; yields the port. Raises OSError where it cannot be bound."""
    if certificates is not None:
        certificates.load()
    server = Server(address, receiver, limits=Limits(body=MAX_BODY, drain=1.0), certificates=certificates)
    server.prepare()
    threading.Thread(target=server.serve, name="lab", daemon=True).start()
    try:
        yield server.port
    finally:
        server.stop()


def own_certificates(folder: Path) -> tuple[Certificates, bytes]:
    """Certificates for this machine's loopback names, and their CA."""
    authority = Authority()
    pair = authority.serving()
    (folder / "tls.crt").write_bytes(pair.cert)
    (folder / "tls.key").write_bytes(pair.key)
    return Certificates(folder), authority.pair.cert


@contextmanager
def registered(kube: Kube, run: str, url: str, ca: bytes) -> Iterator[None]:
    """The admission registration, for labelled namespaces alone."""
    name = f"gitops-reverser-lab-{run}"
    hook = {
        "name": "lab.configbutler.ai",
        "rules": [
            {
                "operations": ["*"],
                "apiGroups": ["*"],
                "apiVersions": ["*"],
                "resources": ["*"],
                "scope": "Namespaced",
            }
        ],
        "clientConfig": {"url": url, "caBundle": base64.b64encode(ca).decode()},
        "namespaceSelector": {"matchLabels": {_LABEL: run}},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "admissionReviewVersions": ["v1"],
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [hook],
    }
    kube.create(_WEBHOOKS, body)
    try:
        yield
    finally:
        with contextlib.suppress(KubeNotFound):
            kube.delete(f"{_WEBHOOKS}/{name}")


async def record(
    scenarios: Sequence[Scenario],
    *,
    kubeconfig: str | None,
    receiver: Receiver,
    run: str,
    tell: Callable[[str], None],
    quiet: float = QUIET_SECONDS,
    capabilities: Capabilities = _NONE,
) -> dict[str, Obj]:
    """The normalised traces by scenario; of one that the server cannot run, what it needs.

    Raises the error tree's classes for a cluster that is not usable.
    """
    kube = Kube.connect(kubeconfig)
    stream = await AsyncKube.connect(kubeconfig)
    found: dict[str, Obj] = {}
    try:
        for scenario in scenarios:
            if not capabilities.has(scenario.needs):
                tell(f"{scenario.id}: left out, the server has no {scenario.needs}")
                found[scenario.id] = skipped(scenario)
                continue
            tell(f"{scenario.id}: {scenario.title}")
            if scenario.needs is Capability.AGGREGATED_API and capabilities.aggregated is not None:
                scenario = replace(scenario, type=capabilities.aggregated)  # noqa: PLW2901 - where it runs
            with _defined(kube, scenario):
                found[scenario.id] = await _one(
                    scenario, kube=kube, stream=stream, receiver=receiver, run=run, quiet=quiet
                )
    finally:
        await stream.close()
        kube.close()
    return found


def skipped(scenario: Scenario) -> Obj:
    """What stands in a recording for a scenario that the server could not run."""
    return {"id": scenario.id, "title": scenario.title, "skipped": str(scenario.needs)}


@contextmanager
def _defined(kube: Kube, scenario: Scenario) -> Iterator[None]:
    """The scenario's definition, served; it is gone afterwards."""
    if scenario.definition is None:
        yield
        return
    name, kind = str(scenario.definition["metadata"]["name"]), scenario.type
    with contextlib.suppress(KubeConflict):  # of a recording that was killed
        kube.create(_DEFINITIONS, scenario.definition)
    try:
        end = time.monotonic() + LONGEST_SECONDS
        while not _is_served(kube, resource_path(kind.group, kind.version, kind.resource)):
            if time.monotonic() > end:
                raise KubeUnavailable(f"{name} was defined, and is not served")
            time.sleep(0.1)
        yield
    finally:
        with contextlib.suppress(KubeNotFound):
            kube.delete(f"{_DEFINITIONS}/{name}")


def _is_served(kube: Kube, path: str) -> bool:
    try:
        kube.raw("GET", path)
    except (KubeNotFound, TransientError):  # its storage is only just being made
        return False
    return True


async def _one(
    scenario: Scenario, *, kube: Kube, stream: AsyncKube, receiver: Receiver, run: str, quiet: float
) -> Obj:
    namespace = f"lab-{scenario.id}-{uuid.uuid4().hex[:6]}"
    meta = {"name": namespace, "labels": {_LABEL: run}}
    await asyncio.to_thread(kube.create, core_path("namespaces"), {"metadata": meta})
    events: list[Obj] = []
    actor = Actor(kube, namespace, type=scenario.type)
    opened = asyncio.Event()
    follower = asyncio.create_task(_follow(stream, actor.path(), events, opened))
    try:
        await asyncio.wait_for(opened.wait(), LONGEST_SECONDS)
        await asyncio.to_thread(scenario.run, actor)
        await _settle(lambda: len(events) + receiver.count(), quiet)
    finally:
        follower.cancel()
        await asyncio.wait((follower,))
        with contextlib.suppress(ReverserError):
            await asyncio.to_thread(kube.delete, core_path("namespaces", name=namespace))
    records = {
        "id": scenario.id,
        "title": scenario.title,
        "watch": [_seen(event) for event in events if _about(event["object"], namespace, scenario)]
        + actor.watched,
        "audit": [
            event
            for event in receiver.audit
            if (event.get("objectRef") or {}).get("namespace") == namespace
            and (event["objectRef"].get("resource")) == scenario.type.resource
            and event["objectRef"].get("subresource") != "status"
            and event.get("stage") == "ResponseComplete"
        ],
        "admission": [
            review
            for review in receiver.reviews
            if review.get("namespace") == namespace
            and (review.get("resource") or {}).get("resource") == scenario.type.resource
        ],
    }
    return normalise(records, namespace, managers=scenario.managers)


def _seen(event: Obj) -> Obj:
    """A watch event; of a bookmark the metadata alone, the rest is empty in one way or another."""
    if event["type"] != "BOOKMARK":
        return event
    return {"type": "BOOKMARK", "object": {"metadata": event["object"].get("metadata") or {}}}


def _about(obj: Obj, namespace: str, scenario: Scenario) -> bool:
    """Whether a watch event belongs to the scenario: the server's own objects of a new namespace do not."""
    meta = obj.get("metadata") or {}
    return "annotations" in meta or (
        meta.get("namespace") == namespace
        and not (scenario.type.resource == "configmaps" and meta.get("name") == "kube-root-ca.crt")
    )


async def _follow(kube: AsyncKube, path: str, events: list[Obj], opened: asyncio.Event) -> None:
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "300",
    }
    async with await kube.watch(path, query, silence=300, timeout=LONGEST_SECONDS) as stream:
        async for event in stream:
            opened.set()
            events.append({"type": event.type, "object": dict(event.object)})


async def _settle(count: Callable[[], int], quiet: float) -> None:
    """Until nothing new has come for a while."""
    loop = asyncio.get_running_loop()
    end = loop.time() + LONGEST_SECONDS
    known, looks = count(), 0
    # Looks are counted, not seconds: while this machine did something else nothing could come.
    while looks * LOOK_SECONDS < quiet and loop.time() < end:
        await asyncio.sleep(LOOK_SECONDS)
        looks += 1
        if count() != known:
            known, looks = count(), 0
