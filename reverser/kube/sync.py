"""The synchronous client: for branch writers, status helpers and the web process.

Same verbs and errors as the asynchronous one, without watches. Thread-safe: one urllib3 pool, credentials
behind a lock. Every call has a deadline; the only retry is one after a 401, with reloaded credentials.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import urllib3

from reverser.errors import KubeGone, KubeUnavailable
from reverser.kube.answers import http_error
from reverser.kube.credentials import KubeConfig
from reverser.kube.requests import (
    DEFAULT_TIMEOUT,
    LIST_RESTARTS,
    PAGE_SIZE,
    CertificateRejected,
    Impersonation,
    KubeList,
    Patch,
    Request,
    decode_object,
    decode_page,
    encode_body,
    status_path,
)


class Kube:
    """A blocking client on paths from ``reverser.kube.paths``."""

    def __init__(self, config: KubeConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._pool = _pool(config)

    @classmethod
    def connect(cls, kubeconfig: str | None = None) -> Kube:
        """Loads the configuration (see ``KubeConfig.load``); opens no connection yet."""
        return cls(KubeConfig.load(kubeconfig))

    def get(self, path: str, *, timeout: float = DEFAULT_TIMEOUT) -> dict[str, Any]:
        """One object. Raises KubeNotFound when it is not there."""
        return decode_object(self.raw("GET", path, timeout=timeout))

    def pages(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        limit: int = PAGE_SIZE,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> Iterator[KubeList]:
        """The pages of one consistent list. Raises KubeGone when it outlived the server's history."""
        token = ""
        while True:
            params = {**(query or {}), "limit": str(limit), **({"continue": token} if token else {})}
            page, token = decode_page(self.raw("GET", path, query=params, timeout=timeout))
            yield page
            if not token:
                return

    def list(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        limit: int = PAGE_SIZE,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> KubeList:
        """The whole collection, page by page; starts over when a page answers 410."""
        for _ in range(LIST_RESTARTS):
            try:
                pages = [*self.pages(path, query, limit=limit, timeout=timeout)]
            except KubeGone:
                continue
            items = [item for page in pages for item in page.items]
            return KubeList(items=items, resource_version=pages[-1].resource_version)
        raise KubeUnavailable(f"GET {path}: the list expired {LIST_RESTARTS} times before its last page")

    def create(
        self, path: str, body: Mapping[str, Any], *, timeout: float = DEFAULT_TIMEOUT
    ) -> dict[str, Any]:
        """Creates in the collection ``path``. Raises KubeConflict with ``exists`` when the name is taken."""
        return decode_object(self.raw("POST", path, body=body, timeout=timeout))

    def update(
        self, path: str, body: Mapping[str, Any], *, timeout: float = DEFAULT_TIMEOUT
    ) -> dict[str, Any]:
        """Replaces one object. Raises KubeConflict when its resourceVersion is not the current one."""
        return decode_object(self.raw("PUT", path, body=body, timeout=timeout))

    def update_status(
        self, path: str, body: Mapping[str, Any], *, timeout: float = DEFAULT_TIMEOUT
    ) -> dict[str, Any]:
        """Replaces the status subresource of the object at ``path``."""
        return self.update(status_path(path), body, timeout=timeout)

    def patch(
        self,
        path: str,
        body: Any,
        *,
        kind: Patch = Patch.MERGE,
        query: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> dict[str, Any]:
        """Patches one object; ``kind`` is the content type."""
        return decode_object(
            self.raw("PATCH", path, body=body, content_type=kind.value, query=query, timeout=timeout)
        )

    def delete(self, path: str, *, uid: str = "", timeout: float = DEFAULT_TIMEOUT) -> None:
        """Deletes one object, of that ``uid`` alone when given."""
        body = {"preconditions": {"uid": uid}} if uid else None
        self.raw("DELETE", path, body=body, timeout=timeout)

    def raw(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        acting_as: Impersonation | None = None,
        content_type: str = "application/json",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> bytes:
        """The body of a successful answer. Raises the error tree's class for every other answer."""
        payload, extra = encode_body(body, content_type)
        request = Request(method, path, query, payload, {**extra, **(headers or {})}, acting_as)
        try:
            status, answer, wait = self._send(request, timeout)
        except CertificateRejected:
            # The certificate authority may have been rotated, and its file with it.
            if not self._renew():
                raise
            status, answer, wait = self._send(request, timeout)
        if status == 401:
            self._renew()
            status, answer, wait = self._send(request, timeout)
        if status >= 300:
            raise http_error(request.name, status, answer, wait)
        return answer

    def _send(self, request: Request, timeout: float) -> tuple[int, bytes, str | None]:
        query = f"?{urlencode(request.query)}" if request.query else ""
        try:
            answer = self._pool.request(
                request.method,
                self._config.host + request.path + query,
                body=request.payload,
                headers=self._headers(request),
                timeout=urllib3.Timeout(connect=min(timeout, 10.0), total=timeout),
                retries=False,
                redirect=False,
            )
            return answer.status, answer.data, answer.headers.get("Retry-After")
        except urllib3.exceptions.SSLError as error:
            raise CertificateRejected(
                f"{request.name}: no TLS connection to {self._config.host}: {error}; check the CA"
            ) from error
        except urllib3.exceptions.HTTPError as error:
            raise KubeUnavailable(f"{request.name}: {self._config.host} does not answer: {error}") from error

    def _headers(self, request: Request) -> urllib3.HTTPHeaderDict:
        """Identity, then the request's own headers; a header that occurs several times stays so."""
        headers = urllib3.HTTPHeaderDict({**self._config.headers(), **request.headers})
        if request.acting_as is not None:
            headers.discard("Impersonate-Group")
            headers["Impersonate-User"] = request.acting_as.user
            for group in request.acting_as.groups:
                headers.add("Impersonate-Group", group)
        return headers

    def _renew(self) -> bool:
        """Reads the credentials again. True when the address, the authority or the certificate changed."""
        changed = self._config.reload()
        if changed:
            with self._lock:
                self._pool = _pool(self._config)
        return changed

    def close(self) -> None:
        """Closes pooled connections; the client is not used afterwards."""
        self._pool.clear()


def _pool(config: KubeConfig) -> urllib3.PoolManager:
    context = config.tls()
    options: dict[str, Any] = {"maxsize": 8, "block": False}
    if context is not None:
        options["ssl_context"] = context
        if not config.verifies:
            options["cert_reqs"] = "CERT_NONE"
            # The kubeconfig asks for it; a warning with every connection would tell nothing new.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        if config.server_name:
            options["server_hostname"] = config.server_name
    if config.proxy:
        return urllib3.ProxyManager(config.proxy, **options)
    return urllib3.PoolManager(**options)
