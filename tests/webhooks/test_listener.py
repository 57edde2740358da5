"""The listeners on real sockets: slow and hostile callers, start and end."""

from __future__ import annotations

import gzip
import http.client
import logging
import re
import socket
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from reverser.errors import SettingsInvalid
from reverser.quantities import Address
from tests.auditevents import event_list
from tests.webhooks.listening import EMPTY, LIMITS, QUICK, TIMEOUT, Start, post
from webhooks.server import Server


def test_plain(start: Start) -> None:
    """A13: without TLS, where that was asked for; a kept connection serves many requests."""
    listener = start()
    connection = http.client.HTTPConnection("127.0.0.1", listener.port, timeout=TIMEOUT)
    for _ in range(3):
        connection.request("POST", "/audit-webhook", EMPTY)
        answer = connection.getresponse()
        assert (answer.status, answer.version) == (200, 11)
        answer.read()
    connection.close()
    assert listener.serving_check() == ""


def test_address_in_use(start: Start) -> None:
    """H4: an address that cannot be bound ends the start and was never ready."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SettingsInvalid, match="REVERSER_AUDIT_ADDR"):
            start(address=Address("127.0.0.1", taken.getsockname()[1]))


def test_an_end_by_itself_is_a_failure(start: Start) -> None:
    """H4: a listener that dies is not ready any more and takes its process with it."""
    failed = threading.Event()
    listener = start(on_failure=failed.set)
    listener._server.stop()
    assert failed.wait(TIMEOUT)
    assert listener.serving_check() == "audit ingress not yet serving"


def test_slow_body_is_cut_off(start: Start) -> None:
    """A10: a body that drips in is answered at the end of the read time, however steadily it drips."""
    listener = start(limits=QUICK)
    with socket.create_connection(("127.0.0.1", listener.port), timeout=TIMEOUT) as connection:
        started = time.monotonic()
        connection.sendall(b"POST /audit-webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n")
        ended = threading.Event()

        def drip() -> None:
            while not ended.wait(0.1):
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        first = connection.recv(1000)
        ended.set()
        dripping.join()
    assert first.startswith(b"HTTP/1.1 400")
    assert 0.5 < time.monotonic() - started < 60, "the whole body would take 90 s"


def test_slow_headers_are_cut_off(start: Start) -> None:
    """A request that never gets to its end of headers is ended."""
    listener = start(limits=QUICK)
    with socket.create_connection(("127.0.0.1", listener.port), timeout=TIMEOUT) as connection:
        connection.sendall(b"POST /audit-webhook HTTP/1.1\r\nHost: x\r\n")
        while connection.recv(1000):
            pass


@pytest.mark.parametrize("extra", [1, 100_000, 5_000_000])
def test_too_large_body_gets_its_answer(start: Start, extra: int) -> None:
    """A5: whoever sends too much still sees why."""
    status, text = post(start(), b"x" * (1000 + extra))
    assert (status, text) == (400, "request body too large: max 1000 bytes")


def test_chunked_bodies(start: Start) -> None:
    """A body in chunks works; a chunk that claims gigabytes costs nothing."""
    listener = start()
    connection = http.client.HTTPConnection("127.0.0.1", listener.port, timeout=TIMEOUT)
    connection.request(
        "POST",
        "/audit-webhook",
        iter([EMPTY[:5], EMPTY[5:]]),
        encode_chunked=True,
        headers={"Transfer-Encoding": "chunked"},
    )
    assert connection.getresponse().status == 200
    connection.close()
    head = b"POST /audit-webhook HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    for chunks in (b"FFFFFFFF\r\nxx", b"zz\r\n", b"-5\r\n"):
        with socket.create_connection(("127.0.0.1", listener.port), timeout=TIMEOUT) as raw:
            raw.sendall(head + chunks)
            assert raw.recv(1000).startswith(b"HTTP/1.1 400")


def request(body: bytes, *headers: str) -> bytes:
    """A POST as bytes."""
    length = f"Content-Length: {len(body)}"
    head = "\r\n".join(["POST /audit-webhook HTTP/1.1", "Host: x", length, *headers])
    return head.encode() + b"\r\n\r\n" + body


def conversation(port: int, sent: bytes) -> bytes:
    """Everything that is answered to these bytes until the other side ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as raw:
        raw.sendall(sent)
        raw.shutdown(socket.SHUT_WR)
        parts = []
        while part := raw.recv(65536):
            parts.append(part)
    return b"".join(parts)


def test_requests_behind_each_other(start: Start) -> None:
    """HTTP/1.1: requests that are sent without waiting are answered in their order, on one connection; what
    follows a refused one is not looked at."""
    port = start().port
    packed = gzip.compress(b'{"kind":"EventList","items":[null]}')
    chunked = b"POST /audit-webhook HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    said = conversation(
        port,
        request(EMPTY)
        + request(packed, "Content-Encoding: gzip")
        + chunked
        + b"5\r\n"
        + EMPTY[:5]
        + b"\r\n%x\r\n" % len(EMPTY[5:])
        + EMPTY[5:]
        + b"\r\n0\r\n\r\n"
        + request(b"[]")
        + request(EMPTY),
    )
    statuses = re.findall(rb"HTTP/1\.1 (\d+)", said)
    assert statuses == [b"200", b"200", b"200", b"400"]
    assert said.count(b"Empty event list processed") == 2


@pytest.mark.parametrize("trailers", [b"", b"X: y\r\n", b"POST /audit-webhook HTTP/1.1: no\r\nX: y\r\n"])
def test_what_stands_behind_the_last_chunk_is_no_request(start: Start, trailers: bytes) -> None:
    """Trailers are passed over, and the connection goes on."""
    chunked = b"POST /audit-webhook HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"%x\r\n" % len(EMPTY) + EMPTY + b"\r\n0\r\n" + trailers + b"\r\n"
    said = conversation(start().port, chunked + body + request(EMPTY))
    assert re.findall(rb"HTTP/1\.1 (\d+)", said) == [b"200", b"200"]


def test_two_lengths(start: Start) -> None:
    """H03: chunks win over a declared length, and what follows is not looked at: a proxy before us may have
    counted by the other one.
    """
    both = request(EMPTY, "Transfer-Encoding: chunked").removesuffix(EMPTY)
    body = b"%x\r\n" % len(EMPTY) + EMPTY + b"\r\n0\r\n\r\n"
    said = conversation(start().port, both + body + request(EMPTY))
    assert re.findall(rb"HTTP/1\.1 (\d+)", said) == [b"200"]


def test_a_packed_chunked_body(start: Start) -> None:
    """Chunks of a gzip are put together before they are unpacked."""
    packed = gzip.compress(EMPTY)
    connection = http.client.HTTPConnection("127.0.0.1", start().port, timeout=TIMEOUT)
    headers = {"Transfer-Encoding": "chunked", "Content-Encoding": "gzip"}
    for _ in range(2):  # the connection stays usable
        parts = iter([packed[:7], packed[7:8], packed[8:]])
        connection.request("POST", "/audit-webhook", parts, encode_chunked=True, headers=headers)
        found = connection.getresponse()
        assert (found.status, found.read()) == (200, b"Empty event list processed\n")
    connection.close()


@pytest.mark.parametrize(
    "noise", [b"\x00" * 200, b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"POST / HTTP/9.9\r\n\r\n"]
)
def test_noise_is_survived(start: Start, noise: bytes) -> None:
    """Whatever is sent, the next caller is served."""
    listener = start()
    with socket.create_connection(("127.0.0.1", listener.port), timeout=TIMEOUT) as connection:
        connection.sendall(noise)
    assert post(listener)[0] == 200


def test_end_lets_requests_finish(start: Start) -> None:
    """A10: what is being answered when the end comes is answered; then nothing is accepted."""
    entered = threading.Event()

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        entered.set()
        time.sleep(0.5)
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    listener = start(app, limits=replace(LIMITS, drain=60.0))
    port = listener.port
    answers: list[tuple[int, str]] = []
    caller = threading.Thread(target=lambda: answers.append(post(listener)))
    caller.start()
    assert entered.wait(TIMEOUT)
    listener.stop()
    caller.join(TIMEOUT)
    assert answers == [(200, "ok")]
    assert listener.serving_check()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1)


def test_event_list_over_the_wire(start: Start) -> None:
    """The whole way once: an empty list is an empty list."""
    import orjson

    assert post(start(), orjson.dumps(event_list()))[1] == "Empty event list processed"


def test_what_a_broken_connection_leaves_in_the_log_can_be_read(caplog: pytest.LogCaptureFixture) -> None:
    """Q03: cheroot gives a number; a line says what it is, and nothing of the request."""
    server = Server(Address("127.0.0.1", 0), lambda environ, start: [], limits=LIMITS, certificates=None)
    caplog.set_level(logging.INFO)
    try:
        raise OSError("zq-MARKER")
    except OSError:
        server.error_log("socket.error 8", level=logging.WARNING, traceback=True)
    (record,) = caplog.records
    assert record.getMessage().startswith("a connection broke")
    assert "socket.error 8" in record.getMessage()
    assert record.exc_info is None
