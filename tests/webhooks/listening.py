"""What tests of the listeners share: limits, certificates as a mounted Secret has them, and a caller."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from reverser.sandbox.pki import Authority, KeyPair
from webhooks.listener import Listener
from webhooks.server import Limits

LIMITS = Limits(read=60.0, write=60.0, idle=60.0, drain=1.0, body=1000, threads=4)
QUICK = replace(LIMITS, read=1.0)
"""For a caller that is slow on purpose; nobody else is to be cut off where the machine is slow."""
TIMEOUT = 60.0
EMPTY = b'{"kind":"EventList"}'

Start = Callable[..., Listener]


def until(check: Callable[[], Any], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.02)


class Files:
    """A folder with a certificate, as a mounted Secret is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = folder / "client-ca.crt"
        self.authority = Authority()

    def serve(self, pair: KeyPair | None = None) -> None:
        pair = pair or self.authority.serving()
        self.replace("tls.crt", pair.cert)
        self.replace("tls.key", pair.key)

    def trust(self, authority: Authority) -> None:
        self.replace(self.ca.name, authority.pair.cert)

    def replace(self, name: str, content: bytes) -> None:
        """At once, as a mount does: nobody sees half a file."""
        new = self.folder / f"{name}.new"
        new.write_bytes(content)
        new.replace(self.folder / name)

    def client(self, authority: Authority | None = None, user: str = "kube-apiserver") -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority.pair.cert.decode())
        context.check_hostname = False
        if authority is not None:
            pair = authority.client(user)
            path = self.folder / f"client-{id(context)}.pem"
            path.write_bytes(pair.cert + pair.key)
            context.load_cert_chain(path)
        return context


def post(listener: Listener, body: bytes = EMPTY, context: ssl.SSLContext | None = None) -> tuple[int, str]:
    if context is None:
        connection = http.client.HTTPConnection("127.0.0.1", listener.port, timeout=TIMEOUT)
    else:
        connection = http.client.HTTPSConnection("127.0.0.1", listener.port, timeout=TIMEOUT, context=context)
    try:
        connection.request("POST", "/audit-webhook", body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode().strip()
    finally:
        connection.close()


def refused(listener: Listener, context: ssl.SSLContext) -> bool:
    """Whether no request comes through."""
    try:
        post(listener, context=context)
    except (OSError, http.client.HTTPException):
        return True
    return False
