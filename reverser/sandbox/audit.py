"""Audit events and the webhook that receives them.

The policy is fixed: ResponseComplete events of every mutating request on a resource, at level
RequestResponse, without token reviews (their bodies are credentials). Events are sent in batches, a batch is
retried until it is taken or a newer one would have to wait too long; what cannot be sent is dropped and
counted, as a real server does.
"""

import asyncio
import ssl
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson
import structlog

Obj = dict[str, Any]
_log = structlog.get_logger(__name__)

_MUTATING = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_SILENT = frozenset({("authentication.k8s.io", "tokenreviews")})
_RETRIES = 6
_FIRST_DELAY = 0.25
_POST_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class AuditWebhook:
    """Where batches go. Times in seconds; files are PEM; `ca` empty means the system's authorities."""

    url: str
    ca: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    max_wait: float = 1.0
    max_size: int = 400

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS context for https URLs, None for http."""
        if urlsplit(self.url).scheme != "https":
            return None
        context = ssl.create_default_context(cafile=str(self.ca) if self.ca else None)
        if self.client_cert is not None:
            context.load_cert_chain(self.client_cert, self.client_key)
        return context


@dataclass(slots=True)
class AuditDraft:
    """What one request adds to its event while it is handled."""

    request_object: Any = None
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = field(default_factory=dict)


def wanted(verb: str, group: str, resource: str) -> bool:
    """Whether the policy records such a request."""
    return bool(resource) and verb in _MUTATING and (group, resource) not in _SILENT


def stamp(moment: float) -> str:
    """A time (seconds since the epoch) as audit events write it: UTC with microseconds."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))
    return f"{whole}.{int(moment % 1 * 1_000_000):06d}Z"


class AuditLog:
    """Keeps the newest events for tests and feeds the webhooks."""

    def __init__(self, webhooks: tuple[AuditWebhook, ...] = (), *, keep: int = 10_000) -> None:
        self.events: deque[Obj] = deque(maxlen=keep)
        self.dropped = 0
        self._senders = [_Sender(webhook, self) for webhook in webhooks]

    @property
    def active(self) -> bool:
        """Whether anybody looks at events."""
        return bool(self._senders) or self.events.maxlen != 0

    def add(self, event: Obj) -> None:
        """Take one event."""
        self.events.append(event)
        for sender in self._senders:
            sender.add(event)

    async def start(self) -> None:
        """Start sending. Raises OSError or ssl.SSLError where a certificate cannot be read."""
        for sender in self._senders:
            sender.start()

    async def stop(self) -> None:
        """Send what is waiting (one attempt each) and end."""
        for sender in self._senders:
            await sender.stop()


class _Sender:
    def __init__(self, webhook: AuditWebhook, log: AuditLog) -> None:
        self._webhook = webhook
        self._log = log
        self._waiting: deque[Obj] = deque()
        self._wake = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._context: ssl.SSLContext | None = None

    def add(self, event: Obj) -> None:
        self._waiting.append(event)
        self._wake.set()

    def start(self) -> None:
        self._context = self._webhook.ssl_context()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_POST_TIMEOUT)) as session:
            while True:
                await self._wake.wait()
                if not self._waiting:
                    if self._stopping:
                        return
                    self._wake.clear()
                    continue
                await self._gather()
                batch = [
                    self._waiting.popleft() for _ in range(min(len(self._waiting), self._webhook.max_size))
                ]
                await self._post(session, batch)

    async def _gather(self) -> None:
        """Wait until the batch is full, its oldest event has waited long enough, or the end has come."""
        deadline = time.monotonic() + self._webhook.max_wait
        while not self._stopping and len(self._waiting) < self._webhook.max_size:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), left)
            except TimeoutError:
                break
        self._wake.set()

    async def _post(self, session: aiohttp.ClientSession, batch: list[Obj]) -> None:
        # As in every typed list, the kind stands on the list alone.
        items = [{k: v for k, v in event.items() if k not in ("kind", "apiVersion")} for event in batch]
        body = orjson.dumps(
            {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": items}
        )
        delay = _FIRST_DELAY
        problem = ""
        for _ in range(1 if self._stopping else _RETRIES):
            try:
                async with session.post(
                    self._webhook.url,
                    data=body,
                    headers={"Content-Type": "application/json"},
                    ssl=self._context if self._context is not None else True,
                ) as response:
                    if response.status < 300:
                        return
                    problem = f"answered {response.status}"  # whatever it says, it is sent again
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                problem = f"{type(error).__name__}: {error}"
            if self._stopping:
                break
            await asyncio.sleep(delay)
            delay *= 2
        self._log.dropped += len(batch)
        _log.warning("audit events dropped", url=self._webhook.url, count=len(batch), problem=problem)
