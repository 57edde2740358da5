"""TLS on the listeners: whose certificate is taken, rotation, and callers who never finish a handshake."""

from __future__ import annotations

import contextlib
import http.client
import logging
import socket
import ssl
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reverser.errors import SettingsInvalid
from reverser.sandbox.pki import Authority
from reverser.sparing import Sparing
from tests.webhooks.listening import LIMITS, QUICK, TIMEOUT, Files, Start, post, refused, until
from webhooks.audit import CLIENT_NAMES
from webhooks.tls import Certificates


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


def test_plain_http_to_tls(files: Files, start: Start) -> None:
    """A plain request to a TLS port ends; the next caller is served."""
    listener = start(certificates=Certificates(files.folder, files.ca))
    with pytest.raises((OSError, http.client.HTTPException)):
        post(listener)
    assert post(listener, context=files.client(files.authority))[0] == 200
