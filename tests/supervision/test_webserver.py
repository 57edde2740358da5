"""The main address while its callers are slow."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from reverser.health import health_first
from reverser.quantities import Address
from reverser.webserver import LIMITS, THREADS, WebServer

TIMEOUT = 60.0
PATIENT = replace(LIMITS, read=600.0, idle=600.0)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Reads what it is sent."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


@pytest.fixture
def server() -> Iterator[WebServer]:
    """One that waits ten minutes for a request."""
    made = WebServer(Address("127.0.0.1", 0), health_first(application), limits=PATIENT)
    made.prepare()
    thread = threading.Thread(target=made.serve)
    thread.start()
    try:
        yield made
    finally:
        made.stop()
        thread.join()


def ask(
    server: WebServer, method: str = "GET", path: str = "/healthz", body: bytes = b""
) -> tuple[int, bytes]:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT)
    connection.request(method, path, body)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"G",
        b"GET /healthz HTTP/1.1\r\n",
        b"POST /admin/login/ HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\nx",
    ],
    ids=["silent", "first letter", "header", "body"],
)
def test_probes_do_not_wait_for_slow_callers(server: WebServer, beginning: bytes) -> None:
    """Whatever holds every other thread, /healthz and /readyz are answered: a process that only has slow
    callers is not restarted.
    """
    with ExitStack() as slow:
        for _ in range(THREADS * 5):
            connection = slow.enter_context(socket.create_connection(("127.0.0.1", server.port), TIMEOUT))
            connection.sendall(beginning)
        for _ in range(3):
            assert ask(server) == (200, b"ok\n")
            assert ask(server, "HEAD") == (200, b"")
            assert ask(server, path="/readyz?verbose")[0] in {200, 500}


def test_a_probe_on_a_connection_that_stays(server: WebServer) -> None:
    """Probes and other requests follow each other on one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT)
    for path, body in (("/healthz", b"ok\n"), ("/other", b""), ("/healthz", b"ok\n")):
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, body)
    connection.close()


def test_slow_requests_end() -> None:
    """What does not arrive in time is cut off, however steadily it drips, and its thread is free again."""
    made = WebServer(Address("127.0.0.1", 0), application, limits=replace(LIMITS, read=2.0))
    made.prepare()
    thread = threading.Thread(target=made.serve)
    thread.start()
    try:
        with ExitStack() as slow:
            for _ in range(THREADS * 2):
                connection = slow.enter_context(socket.create_connection(("127.0.0.1", made.port), TIMEOUT))
                connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
            assert ask(made, "POST", "/", b"whole") == (200, b"whole")
    finally:
        made.stop()
        thread.join()


def test_an_answer_may_take_long() -> None:
    """The time to read a request does not end its answer: events are followed for minutes."""
    told = threading.Event()

    def slowly(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        start_response("200 OK", [])
        yield b"first "
        assert told.wait(TIMEOUT)
        yield b"last"

    made = WebServer(Address("127.0.0.1", 0), slowly, limits=replace(LIMITS, read=0.1))
    made.prepare()
    thread = threading.Thread(target=made.serve)
    thread.start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", made.port, timeout=TIMEOUT)
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert answer.read(6) == b"first "
        threading.Timer(1.0, told.set).start()
        assert answer.read() == b"last"
        connection.close()
    finally:
        made.stop()
        thread.join()
