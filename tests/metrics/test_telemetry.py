"""Metrics over TLS: who may read them, and what the plain address still says."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reverser import health, telemetry
from reverser.config import Config, load_config
from reverser.errors import KubeUnavailable
from reverser.kube.sync import Kube
from reverser.quantities import Address
from reverser.readiness import PROCESS
from reverser.rest import access
from reverser.rest.identity import Caller
from reverser.sandbox.pki import Authority, KeyPair
from webhooks.listener import Listener


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """A configuration with a metrics certificate, on a free port."""
    monkeypatch.setattr(health, "_plain_metrics_closed", type(health._plain_metrics_closed)())
    config = load_config({"REVERSER_METRICS_CERT_DIR": str(tmp_path), "REVERSER_STATE_DIR": str(tmp_path)})
    return replace(config, metrics_addr=Address("127.0.0.1", 0))


def write(folder: Path, pair: KeyPair) -> None:
    """A certificate and its key, as a mounted Secret has them."""
    (folder / "tls.crt").write_bytes(pair.cert)
    (folder / "tls.key").write_bytes(pair.key)


Open = Callable[[Config], Listener]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Open the metrics of a configuration; closed after the test."""
    made: list[Listener] = []
    endings: list[Callable[[], None]] = []

    class Kept(Listener):
        def start(self) -> None:
            made.append(self)
            self._poll_seconds = 0.05
            super().start()

    monkeypatch.setattr(telemetry, "Listener", Kept)

    def begin(settings: Config) -> Listener:
        endings.extend(telemetry.open_metrics(settings, "web", on_failure=lambda: None))
        return made[-1]

    yield begin
    for end in endings:
        end()
    PROCESS._checks.pop("metrics", None)


def get(listener: Listener, context: ssl.SSLContext, path: str, token: str = "") -> tuple[int, str]:
    """Status and body."""
    connection = http.client.HTTPSConnection("127.0.0.1", listener.port, context=context, timeout=60)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def trusting(authority: Authority) -> ssl.SSLContext:
    """A client that checks the server's certificate, whatever its name."""
    context = ssl.create_default_context(cadata=authority.pair.cert.decode())
    context.check_hostname = False
    return context


def test_a_token_that_may_get_metrics(
    settings: Config, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a client CA the cluster decides by token: 401 without one, 403 for one that may not, 503 while
    it does not say; only metrics and build information are there. The plain address refuses metrics only.
    """
    authority = Authority()
    write(tmp_path, authority.serving())

    def admits(token: str, path: str) -> bool:
        if token == "later":
            raise KubeUnavailable("gone")
        return (token, path) == ("scraper", "/metrics")

    monkeypatch.setattr(telemetry, "cluster_admits", admits)
    listener, context = opened(settings), trusting(authority)
    assert get(listener, context, "/metrics")[0] == 401
    assert get(listener, context, "/metrics", "somebody")[0] == 403
    assert get(listener, context, "/metrics", "later")[0] == 503
    status, body = get(listener, context, "/metrics", "scraper")
    assert (status, "# TYPE" in body) == (200, True)
    assert get(listener, context, "/healthz", "scraper")[0] == 404
    plain = health.answer("GET", "/metrics")
    assert plain is not None
    assert (plain.status, b"REVERSER_METRICS_ADDR" in plain.body) == (403, True)
    healthy = health.answer("GET", "/healthz")
    assert healthy is not None
    assert healthy.status == 200


def test_a_client_certificate(settings: Config, opened: Open, tmp_path: Path) -> None:
    """With a client CA only holders of its certificates get in, and need no token."""
    authority, other = Authority(), Authority()
    write(tmp_path, authority.serving())
    ca = tmp_path / "ca.crt"
    ca.write_bytes(authority.pair.cert)
    listener = opened(replace(settings, metrics_client_ca=ca))

    def holder(of: Authority | None) -> ssl.SSLContext:
        context = trusting(authority)
        if of is not None:
            pair = of.client("prometheus")
            (tmp_path / "client.pem").write_bytes(pair.cert + pair.key)
            context.load_cert_chain(tmp_path / "client.pem")
        return context

    assert get(listener, holder(authority), "/metrics")[0] == 200
    for stranger in (None, other):
        with pytest.raises(OSError):
            get(listener, holder(stranger), "/metrics")


def test_certificates_are_waited_for_and_followed(settings: Config, opened: Open, tmp_path: Path) -> None:
    """Readiness names the missing certificate; once there it serves, and a new one is taken while it runs."""
    listener = opened(settings)
    assert "metrics: metrics not yet serving" in PROCESS.failure()
    for authority in (Authority(), Authority()):
        write(tmp_path, authority.serving())
        deadline = time.monotonic() + 60
        while True:
            try:
                assert get(listener, trusting(authority), "/metrics")[0] == 401
                break
            except (OSError, AttributeError):
                assert time.monotonic() < deadline
                time.sleep(0.05)
    assert PROCESS.failure() == ""


def test_the_cluster_is_asked_who_and_whether(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is reviewed, then its holder's right to get the very path, groups included."""
    asked = []

    class Cluster(Kube):
        def __init__(self) -> None:
            pass

        def create(self, path: str, body: dict[str, object], **_options: object) -> dict[str, object]:
            asked.append((path.rsplit("/", 1)[-1], body["spec"]))
            return {"status": {"allowed": True}}

    access.ACCESS.clear()
    assert access.may_get(Cluster(), Caller("prometheus", ("monitoring",)), "/metrics")
    assert asked == [
        (
            "subjectaccessreviews",
            {
                "user": "prometheus",
                "groups": ["monitoring"],
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            },
        )
    ]
    access.ACCESS.clear()
