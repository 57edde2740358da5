"""The listeners on real sockets: handshakes, rotation, slow and hostile callers, start and end."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import logging
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reverser.errors import SettingsInvalid
from reverser.quantities import Address
from reverser.sandbox.pki import Authority, KeyPair
from reverser.sparing import Sparing
from tests.auditevents import event_list
from tests.webhooks.call import Memory
from webhooks.audit import CLIENT_NAMES, AuditIngress
from webhooks.listener import Listener
from webhooks.server import Limits, Server
from webhooks.tls import Certificates

LIMITS = Limits(read=60.0, write=60.0, idle=60.0, drain=1.0, body=1000, threads=4)
QUICK = replace(LIMITS, read=1.0)
"""For a caller that is slow on purpose; nobody else is to be cut off where the machine is slow."""
TIMEOUT = 60.0
EMPTY = b'{"kind":"EventList"}'


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


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = Files(tmp_path)
    made.serve()
    made.trust(made.authority)
    return made


Start = Callable[..., Listener]


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[Listener] = []

    def begin(app: Any = None, certificates: Certificates | None = None, **more: Any) -> Listener:
        app = app or AuditIngress(Memory(), ttl_ms=900_000, max_body=1000)
        more = {"limits": LIMITS, "on_failure": lambda: None, "poll_seconds": 0.1} | more
        address = more.pop("address", Address("127.0.0.1", 0))
        listener = Listener(
            "audit ingress", "REVERSER_AUDIT", address, app, certificates=certificates, **more
        )
        running.append(listener)
        listener.start()
        return listener

    yield begin
    for listener in running:
        listener.stop()


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


def test_client_certificates(files: Files, start: Start) -> None:
    """A11: with the right certificate it works; without, or with another CA's, the handler never runs."""
    calls: list[Any] = []

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        calls.append(environ[CLIENT_NAMES])
        start_response("200 OK", [("Content-Length", "0")])
        return [b""]

    listener = start(app, Certificates(files.folder, files.ca))
    assert post(listener, context=files.client(files.authority))[0] == 200
    assert calls == [{"kube-apiserver"}]
    assert refused(listener, files.client())
    assert refused(listener, files.client(Authority()))
    serving = files.client()
    pair = files.authority.serving()
    path = files.folder / "wrong-usage.pem"
    path.write_bytes(pair.cert + pair.key)
    serving.load_cert_chain(path)
    assert refused(listener, serving)
    old = files.client(files.authority)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert post(listener, context=old)[0] == 200
    assert len(calls) == 2


def test_rotation_while_running(files: Files, start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """A12: new files are used by the next handshake, unusable ones are told once and the old ones stay."""
    listener = start(certificates=Certificates(files.folder, files.ca))
    first = files.client(files.authority)
    assert post(listener, context=first)[0] == 200
    other = Authority()
    files.replace("tls.crt", other.serving().cert)
    until(lambda: "old ones stay" in caplog.text, "the bad pair is told")
    assert post(listener, context=first)[0] == 200
    files.replace("tls.key", b"no key at all")
    time.sleep(0.3)
    assert post(listener, context=first)[0] == 200
    assert caplog.text.count("old ones stay") <= 2
    files.serve(other.serving())
    files.serve(pair := other.serving())
    assert pair
    old_authority, files.authority = files.authority, other
    second = files.client(old_authority)
    until(lambda: not refused(listener, second), "the new pair is served")
    files.trust(other)
    until(lambda: refused(listener, second), "the old client CA is forgotten")
    assert post(listener, context=files.client(other))[0] == 200


def test_mounted_secrets_are_swapped(tmp_path: Path, start: Start) -> None:
    """A12: Kubernetes changes a mounted Secret by one symbolic link, certificate, key and CA together."""

    def mount(authority: Authority, version: str) -> ssl.SSLContext:
        folder = tmp_path / version
        folder.mkdir()
        serving, client = authority.serving(), authority.client("kube-apiserver")
        files = {"tls.crt": serving.cert, "tls.key": serving.key, "ca.crt": authority.pair.cert}
        for name, content in files.items():
            (folder / name).write_bytes(content)
        link = tmp_path / "..data_tmp"
        link.symlink_to(version)
        link.replace(tmp_path / "..data")
        (tmp_path / "client.pem").write_bytes(client.cert + client.key)
        context = ssl.create_default_context(cadata=authority.pair.cert.decode())
        context.load_cert_chain(tmp_path / "client.pem")
        return context

    before = mount(Authority(), "..1")
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    listener = start(certificates=Certificates(tmp_path, tmp_path / "ca.crt"))
    assert post(listener, context=before)[0] == 200
    after = mount(Authority(), "..2")
    until(lambda: not refused(listener, after), "the new Secret is used")
    before.check_hostname, before.verify_mode = False, ssl.CERT_NONE
    assert refused(listener, before)


def test_cold_start_waits_for_files(tmp_path: Path, start: Start) -> None:
    """A process whose certificates come later is not ready until then, and starts by itself."""
    files = Files(tmp_path)
    listener = start(certificates=Certificates(files.folder, files.ca))
    assert "tls.crt does not exist yet" in listener.serving_check()
    assert listener.certificate_check()
    files.trust(files.authority)
    files.serve()
    until(lambda: listener.serving_check() == "", "it serves")
    assert listener.certificate_check() == ""
    assert post(listener, context=files.client(files.authority))[0] == 200


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "client-ca.crt"])
def test_unusable_files_at_the_start(files: Files, start: Start, name: str) -> None:
    """A11: what is there and cannot be used is a mistake that is told at the start."""
    (files.folder / name).write_text("nonsense")
    with pytest.raises(SettingsInvalid, match="REVERSER_AUDIT_CERT_DIR"):
        start(certificates=Certificates(files.folder, files.ca))


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


def test_silent_callers_hold_up_nobody(files: Files, start: Start) -> None:
    """Connections that say nothing cost no thread, with TLS too: one that did would be held for a minute."""
    listener = start(certificates=Certificates(files.folder, files.ca))
    silent = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(40)]
    try:
        assert post(listener, context=files.client(files.authority))[0] == 200
    finally:
        for connection in silent:
            connection.close()


def client_hello() -> bytes:
    """The first words of a TLS client."""
    sent = ssl.MemoryBIO()
    talk = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="x")
    with contextlib.suppress(ssl.SSLWantReadError):
        talk.do_handshake()
    return sent.read()


@pytest.mark.parametrize("said", [1, 5, 60, None])
def test_strangers_in_the_middle_of_a_handshake_hold_up_nobody(
    files: Files, start: Start, said: int | None
) -> None:
    """Who begins a handshake and stops, or lets it drip, has no thread either: nothing is known of him."""
    listener = start(
        certificates=Certificates(files.folder, files.ca), limits=replace(LIMITS, read=600.0, idle=600.0)
    )
    hello = client_hello()
    with contextlib.ExitStack() as strangers:
        for _ in range(LIMITS.threads * 5):
            connection = strangers.enter_context(
                socket.create_connection(("127.0.0.1", listener.port), TIMEOUT)
            )
            connection.sendall(hello[:said])
        assert post(listener, context=files.client(files.authority))[0] == 200
        connection.sendall(hello[said:] if said else b"")
        assert post(listener, context=files.client(files.authority))[0] == 200


def test_a_handshake_that_drips_ends(files: Files, start: Start) -> None:
    """It has the time of a request, however steadily something comes."""
    listener = start(certificates=Certificates(files.folder, files.ca), limits=QUICK)
    with socket.create_connection(("127.0.0.1", listener.port), timeout=0.2) as connection:
        # The head of a record that is never filled.
        connection.sendall(b"\x16\x03\x01\x20\x00")
        deadline = time.monotonic() + TIMEOUT
        with contextlib.suppress(OSError):
            while time.monotonic() < deadline:
                connection.sendall(b"\x00")
                with contextlib.suppress(TimeoutError):
                    if not connection.recv(10):
                        break
        assert time.monotonic() < deadline


def test_failed_handshakes_do_not_fill_the_log(
    files: Files, start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A scanner, or a probe without TLS, is told of a few times a minute by address and reason."""
    monkeypatch.setattr("webhooks.server._failed_handshakes", Sparing(lines=3, seconds=600))
    caplog.set_level(logging.INFO, "webhooks.server")
    listener = start(certificates=Certificates(files.folder, files.ca))
    for _ in range(8):
        with socket.create_connection(("127.0.0.1", listener.port), timeout=TIMEOUT) as connection:
            connection.sendall(b"\xff" * 64)
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(100):
                    pass
    assert len([record for record in caplog.records if "handshake" in record.message]) == 3


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


def test_plain_http_to_tls(files: Files, start: Start) -> None:
    """A plain request to a TLS port ends; the next caller is served."""
    listener = start(certificates=Certificates(files.folder, files.ca))
    with pytest.raises((OSError, http.client.HTTPException)):
        post(listener)
    assert post(listener, context=files.client(files.authority))[0] == 200


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
