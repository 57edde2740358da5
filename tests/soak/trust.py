"""Certificates of the two listeners, replaced with their authority while requests flow; the way audit events
take to them.

The sandbox sends its audit events here over plain HTTP, and they go on with mutual TLS to whichever web takes
them, as a Service would send them. A rotation is the one of a careful administrator: both authorities are
trusted for a while, then the old one is not.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import ssl
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from reverser.sandbox.pki import Authority, KeyPair
from tests.loopback import receiving

TAKEN_SECONDS = 60.0
POST_SECONDS = 5.0
NO_EVENTS = b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[]}'


class Trust:
    """The files that the listeners read, and the sender of audit events that believes them."""

    def __init__(self, folder: Path, audit_ports: Sequence[int], admission_ports: Sequence[int]) -> None:
        self._folder = folder
        self._audit_ports = tuple(audit_ports)
        self._admission_ports = tuple(admission_ports)
        self._turn = itertools.count()
        self._generation = itertools.count()
        self._authority = Authority()
        self._client = self._authority.client("kube-apiserver")
        self.certificates = folder / "certificates"
        """A symbolic link to the newest generation, as a mounted Secret has it."""
        self._publish(self._authority.serving(), [self._authority])
        self._context = self._sender([self._authority], self._client)
        self.sent = 0
        self._closing = contextlib.ExitStack()
        self._listens = self._closing.enter_context(receiving(self.pass_on))

    @property
    def url(self) -> str:
        """Where the API server sends its audit events."""
        return f"http://127.0.0.1:{self._listens}/audit-webhook"

    def close(self) -> None:
        """Take no more events."""
        self._closing.close()

    def pass_on(self, body: bytes) -> int:
        """The status for the sender: 200 once a web has taken the events."""
        start = next(self._turn)
        for number in range(len(self._audit_ports)):
            port = self._audit_ports[(start + number) % len(self._audit_ports)]
            if self._post(port, self._context, body):
                self.sent += 1
                return 200
        return 503

    def rotate(self) -> None:
        """A new authority, new certificates for both listeners and for the sender; then the old ones are
        worth nothing. Raises AssertionError where a listener does not follow.
        """
        old, old_client = self._authority, self._client
        new = Authority()
        client = new.client("kube-apiserver")
        self._context = self._sender([old, new], old_client)
        serving = new.serving()
        self._publish(serving, [old, new])
        only_new = self._sender([new], old_client)
        for port in self._audit_ports:
            _until(partial(self._post, port, only_new, NO_EVENTS), f"audit {port} took the new files")
        for port in self._admission_ports:
            _until(partial(_greets, port, only_new), f"admission {port} took the new files")
        self._authority, self._client = new, client
        self._context = self._sender([new], client)
        self._publish(serving, [new])
        for port in self._audit_ports:
            _until(
                partial(self._refuses, port, only_new), f"audit {port} refuses the old client, not the new"
            )

    def _refuses(self, port: int, context: ssl.SSLContext) -> bool:
        """Whether a listener that takes the present client does not take that of another context."""
        return self._post(port, self._context, NO_EVENTS) and not self._post(port, context, NO_EVENTS)

    def _publish(self, serving: KeyPair, trusted: Sequence[Authority]) -> None:
        generation = self._folder / f"certificates-{next(self._generation)}"
        generation.mkdir()
        (generation / "tls.crt").write_bytes(serving.cert)
        (generation / "tls.key").write_bytes(serving.key)
        (generation / "ca.crt").write_bytes(b"".join(authority.pair.cert for authority in trusted))
        link = self._folder / "certificates-next"
        link.symlink_to(generation.name)
        link.replace(self.certificates)

    def _sender(self, trusted: Sequence[Authority], client: KeyPair) -> ssl.SSLContext:
        pem = self._folder / "sender.pem"
        pem.write_bytes(client.cert + client.key)
        context = ssl.create_default_context(
            cadata="".join(authority.pair.cert.decode() for authority in trusted)
        )
        context.load_cert_chain(pem)
        return context

    def _post(self, port: int, context: ssl.SSLContext, body: bytes) -> bool:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=POST_SECONDS, context=context)
        try:
            connection.request("POST", "/audit-webhook", body, {"Content-Type": "application/json"})
            return connection.getresponse().status < 300
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def _greets(port: int, context: ssl.SSLContext) -> bool:
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=POST_SECONDS, context=context)
    try:
        connection.connect()
    except OSError:
        return False
    finally:
        connection.close()
    return True


def _until(check: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TAKEN_SECONDS
    while not check():
        if time.monotonic() > deadline:
            raise AssertionError(f"not so after {TAKEN_SECONDS:.0f} s: {what}")
        time.sleep(0.2)
