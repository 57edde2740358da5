"""Metrics beyond the plain address: over TLS to permitted callers, and pushed by OTLP.

Both are off unless set. With a certificate, ``/metrics`` leaves the plain address, which probes keep: a
caller then shows a certificate of the client CA, or, where none is set, a bearer token of the cluster that
RBAC lets ``get`` the path ``/metrics``. The certificate's files are followed like those of the other
listeners.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from reverser import health
from reverser.config import Config
from reverser.errors import ReverserError
from reverser.otlp import Exporter
from reverser.readiness import PROCESS
from webhooks.listener import Listener
from webhooks.server import Limits
from webhooks.tls import Certificates

logger = logging.getLogger(__name__)

PATHS = frozenset({"/metrics", "/build-info"})
Admits = Callable[[str, str], bool]
"""Whether a bearer token may get a path. Raises ReverserError when the cluster does not answer."""


def cluster_admits(token: str, path: str) -> bool:
    """Decided by the cluster: TokenReview says whose token it is, RBAC whether they may get the path."""
    from reverser.rest.access import may_get, review_token
    from reverser.wiring import kube

    caller = review_token(kube(), token) if token else None
    return caller is not None and may_get(kube(), caller, path)


def guarded(admits: Admits | None) -> Callable[..., Iterable[bytes]]:
    """The application behind TLS; ``admits`` is None where the handshake has settled who may ask."""

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path, method = environ.get("PATH_INFO", ""), environ["REQUEST_METHOD"]
        found = health.answer(method, path, plain=False) if path in PATHS else None
        if found is None:
            found = health.Answer(HTTPStatus.NOT_FOUND, b"not found\n")
        elif admits is not None:
            found = _refusal(environ, path, admits) or found
        start_response(f"{found.status.value} {found.status.phrase}", health.headers(found))
        return [b"" if method == "HEAD" else found.body]

    return serve


def _refusal(environ: dict[str, Any], path: str, admits: Admits) -> health.Answer | None:
    scheme, _, token = str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        return health.Answer(HTTPStatus.UNAUTHORIZED, b"show a bearer token of the cluster\n")
    try:
        if admits(token, path):
            return None
    except ReverserError:
        return health.Answer(HTTPStatus.SERVICE_UNAVAILABLE, b"the cluster does not say who you are\n")
    return health.Answer(HTTPStatus.FORBIDDEN, f"this token may not get {path}\n".encode())


def _end_process() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def open_metrics(
    settings: Config, process: str, *, on_failure: Callable[[], None] = _end_process
) -> list[Callable[[], None]]:
    """Start what the settings ask for; the returned functions stop it. Raises SettingsInvalid for an address
    that cannot be bound and for certificates that cannot be used.
    """
    endings: list[Callable[[], None]] = []
    if settings.metrics_cert_dir is not None:
        listener = Listener(
            "metrics",
            "REVERSER_METRICS",
            settings.metrics_addr,
            guarded(None if settings.metrics_client_ca is not None else cluster_admits),
            limits=Limits(read=5.0, write=30.0, drain=2.0, body=1024, threads=4),
            certificates=Certificates(settings.metrics_cert_dir, settings.metrics_client_ca),
            on_failure=on_failure,
        )
        health.close_plain_metrics()
        listener.start()
        PROCESS.add("metrics", listener.serving_check)
        endings.append(listener.stop)
    if settings.otlp_endpoint:
        stop = threading.Event()
        exporter = Exporter(settings.otlp_endpoint, process)
        thread = threading.Thread(target=exporter.run, args=(stop,), name="metrics export", daemon=True)
        thread.start()
        endings += [stop.set, lambda: thread.join(2.0)]
    return endings
