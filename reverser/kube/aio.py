"""The asynchronous client: for watchers and controllers.

One aiohttp session carries everything; its connector is unlimited because every watch holds a connection
for minutes. Raw JSON in, raw JSON out: objects are never turned into client models.
"""

from __future__ import annotations

import asyncio
from asyncio import sslproto
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp

from reverser.errors import KubeGone, KubeUnavailable
from reverser.kube.answers import http_error
from reverser.kube.credentials import KubeConfig
from reverser.kube.lines import LineSplitter, WatchEvent, parse_event
from reverser.kube.requests import (
    DEFAULT_TIMEOUT,
    LIST_RESTARTS,
    PAGE_SIZE,
    CertificateRejected,
    KubeList,
    Patch,
    Request,
    decode_object,
    decode_page,
    encode_body,
    status_path,
)

WATCH_SILENCE = 180.0
"""Seconds without a byte after which a watch counts as dead: bookmarks come every minute."""
TLS_BUFFER = 32 * 1024
"""asyncio keeps a read buffer of 256 KiB per TLS connection, but a record has at most 16 KiB: with hundreds
of watches the difference is most of a watcher's memory."""
sslproto.SSLProtocol.max_size = TLS_BUFFER
_LOST = (aiohttp.ClientError, OSError, asyncio.TimeoutError)


class WatchStream:
    """An open watch: an async iterator of events, and an async context manager that closes it.

    The iterator ends when the server closed the stream between two lines, and raises KubeUnavailable when
    the connection broke, stayed silent too long, or a line was no event.
    """

    def __init__(self, response: aiohttp.ClientResponse, path: str) -> None:
        self._response = response
        self._path = path
        self._events = self._read()

    async def _read(self) -> AsyncIterator[WatchEvent]:
        splitter = LineSplitter()
        try:
            async for chunk in self._response.content.iter_any():
                for line in splitter.feed(chunk):
                    yield parse_event(line)
        except _LOST as error:
            raise KubeUnavailable(f"watch of {self._path}: the connection broke: {_words(error)}") from error
        if splitter.pending:
            raise KubeUnavailable(f"watch of {self._path}: the connection ended inside a line")

    def __aiter__(self) -> AsyncIterator[WatchEvent]:
        return self._events

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connection; the iterator gives nothing more."""
        self._response.close()


class AsyncKube:
    """An asyncio client on paths from ``reverser.kube.paths``. Use ``await AsyncKube.connect(...)``."""

    def __init__(self, config: KubeConfig) -> None:
        self._config = config
        self._session: aiohttp.ClientSession | None = None
        self._retired: list[aiohttp.ClientSession] = []
        self._renewing = asyncio.Lock()
        self._generation = 0

    @classmethod
    async def connect(cls, kubeconfig: str | None = None, context: str | None = None) -> AsyncKube:
        """Loads the configuration (see ``KubeConfig.load``); opens no connection yet."""
        return cls(await asyncio.to_thread(KubeConfig.load, kubeconfig, context))

    async def get(
        self, path: str, *, query: Mapping[str, str] | None = None, timeout: float = DEFAULT_TIMEOUT
    ) -> dict[str, Any]:
        """One object, or any JSON document. Raises KubeNotFound when it is not there."""
        return decode_object(await self.raw("GET", path, query=query, timeout=timeout))

    async def pages(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        limit: int = PAGE_SIZE,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> AsyncIterator[KubeList]:
        """The pages of one consistent list. Raises KubeGone when it outlived the server's history."""
        token = ""
        while True:
            params = {**(query or {}), "limit": str(limit), **({"continue": token} if token else {})}
            page, token = decode_page(await self.raw("GET", path, query=params, timeout=timeout))
            yield page
            if not token:
                return

    async def list(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        limit: int = PAGE_SIZE,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> KubeList:
        """The whole collection, page by page; starts over when a page answers 410."""
        for _ in range(LIST_RESTARTS):
            items: list[dict[str, Any]] = []
            version = ""
            try:
                async for page in self.pages(path, query, limit=limit, timeout=timeout):
                    items += page.items
                    version = page.resource_version
            except KubeGone:
                continue
            return KubeList(items=items, resource_version=version)
        raise KubeUnavailable(f"GET {path}: the list expired {LIST_RESTARTS} times before its last page")

    async def create(
        self, path: str, body: Mapping[str, Any], *, timeout: float = DEFAULT_TIMEOUT
    ) -> dict[str, Any]:
        """Creates in the collection ``path``. Raises KubeConflict with ``exists`` when the name is taken."""
        return decode_object(await self.raw("POST", path, body=body, timeout=timeout))

    async def update(
        self, path: str, body: Mapping[str, Any], *, timeout: float = DEFAULT_TIMEOUT
    ) -> dict[str, Any]:
        """Replaces one object. Raises KubeConflict when its resourceVersion is not the current one."""
        return decode_object(await self.raw("PUT", path, body=body, timeout=timeout))

    async def update_status(
        self, path: str, body: Mapping[str, Any], *, timeout: float = DEFAULT_TIMEOUT
    ) -> dict[str, Any]:
        """Replaces the status subresource of the object at ``path``."""
        return await self.update(status_path(path), body, timeout=timeout)

    async def patch(
        self,
        path: str,
        body: Any,
        *,
        kind: Patch = Patch.MERGE,
        query: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> dict[str, Any]:
        """Patches one object; ``kind`` is the content type."""
        answer = await self.raw(
            "PATCH", path, body=body, content_type=kind.value, query=query, timeout=timeout
        )
        return decode_object(answer)

    async def delete(self, path: str, *, uid: str = "", timeout: float = DEFAULT_TIMEOUT) -> None:
        """Deletes one object, of that ``uid`` alone when given."""
        body = {"preconditions": {"uid": uid}} if uid else None
        await self.raw("DELETE", path, body=body, timeout=timeout)

    async def raw(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> bytes:
        """The body of a successful answer. Raises the error tree's class for every other answer."""
        payload, extra = encode_body(body, content_type)
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=min(timeout, 10.0))
        request = Request(method, path, query, payload, {**extra, **(headers or {})})
        response = await self._open(request, limits)
        try:
            return await response.read()
        except _LOST as error:
            raise KubeUnavailable(f"{request.name}: the answer broke off: {_words(error)}") from error
        finally:
            response.release()

    async def watch(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        silence: float = WATCH_SILENCE,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> WatchStream:
        """Opens a watch (``watch=1`` is added) and returns once the server accepted it.

        ``timeout`` bounds the opening, ``silence`` the wait for the next byte, both in seconds. Raises the
        error tree's class when the server refuses.
        """
        limits = aiohttp.ClientTimeout(total=None, sock_connect=min(timeout, 10.0), sock_read=silence)
        try:
            async with asyncio.timeout(timeout):
                response = await self._open(Request("GET", path, {**(query or {}), "watch": "1"}), limits)
        except TimeoutError as error:
            raise KubeUnavailable(f"watch of {path}: not accepted within {timeout:g} s") from error
        return WatchStream(response, path)

    async def _open(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        for attempt in (1, 2):
            generation = self._generation
            try:
                response = await self._send(request, limits)
            except CertificateRejected:
                # The certificate authority may have been rotated, and its file with it.
                if attempt == 2 or not await self._renew(generation):
                    raise
                continue
            if response.status < 300:
                return response
            if response.status == 401 and attempt == 1:
                response.close()
                await self._renew(generation)
                continue
            break
        try:
            answer = await response.read()
        except _LOST as error:
            raise KubeUnavailable(f"{request.name}: the answer broke off: {_words(error)}") from error
        finally:
            response.release()
        raise http_error(request.name, response.status, answer, response.headers.get("Retry-After"))

    async def _send(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        session = self._current_session()
        config = self._config
        identity = await asyncio.to_thread(config.headers) if config.blocking else config.headers()
        try:
            return await session.request(
                request.method,
                config.host + request.path,
                params=request.query,
                data=request.payload,
                headers={**identity, **request.headers},
                timeout=limits,
                allow_redirects=False,
                proxy=config.proxy,
                server_hostname=config.server_name,
            )
        except aiohttp.ClientSSLError as error:
            raise CertificateRejected(
                f"{request.name}: no TLS connection to {config.host}: {_words(error)}; check the CA"
            ) from error
        except _LOST as error:
            raise KubeUnavailable(
                f"{request.name}: {config.host} does not answer: {_words(error)}"
            ) from error

    def _current_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            context = self._config.tls()
            connector = aiohttp.TCPConnector(limit=0, ssl=context if context is not None else True)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        return self._session

    async def _renew(self, generation: int) -> bool:
        """Reads the credentials again, once for all requests that were refused at the same time. True when
        the address, the authority or the certificate changed.
        """
        async with self._renewing:
            if generation != self._generation:
                return True
            changed = await asyncio.to_thread(self._config.reload)
            self._generation += 1
            if changed and self._session is not None:
                self._retired.append(self._session)
                self._session = None
            return changed

    async def close(self) -> None:
        """Closes every connection, open watches included."""
        sessions = [*self._retired, *([self._session] if self._session is not None else [])]
        self._retired, self._session = [], None
        for session in sessions:
            await session.close()


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
