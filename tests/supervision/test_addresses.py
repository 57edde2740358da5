"""Listen addresses of both families, in every server of the product."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from reverser.health import health_first, start_health_server
from reverser.quantities import Address, parse_address
from reverser.supervision.preflight import port_problem
from reverser.webserver import WebServer
from webhooks.server import Limits, Server

Serve = Callable[[Address], Iterator[int]]
IPV6 = socket.has_dualstack_ipv6()


def _application(_environ: object, _start_response: object) -> list[bytes]:
    return []


def _health(address: Address) -> Iterator[int]:
    server = start_health_server(address)
    yield int(server.server_address[1])
    server.shutdown()
    server.server_close()


def _cheroot(server: Server) -> Iterator[int]:
    server.prepare()
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield server.port
    server.stop()
    thread.join()


def _web(address: Address) -> Iterator[int]:
    return _cheroot(WebServer(address, health_first(_application)))


def _listener(address: Address) -> Iterator[int]:
    return _cheroot(Server(address, health_first(_application), limits=Limits(), certificates=None))


@pytest.mark.parametrize("serve", [_health, _web, _listener], ids=["health", "web", "listener"])
@pytest.mark.parametrize(
    ("address", "reached"),
    [
        ("127.0.0.1:0", ["127.0.0.1"]),
        ("0.0.0.0:0", ["127.0.0.1"]),
        ("[::1]:0", ["[::1]"]),
        ("[::]:0", ["127.0.0.1", "[::1]"]),
        (":0", ["127.0.0.1", "[::1]"]),
    ],
)
def test_every_family_is_served(serve: Serve, address: str, reached: list[str]) -> None:
    """Pods of IPv6 clusters are probed there; an address without a host is reached over both families."""
    if not IPV6 and "[" in address:
        return
    with contextmanager(serve)(parse_address(address)) as port:
        for host in reached if IPV6 else reached[:1]:
            with urllib.request.urlopen(f"http://{host}:{port}/healthz", timeout=60) as answer:
                assert answer.read() == b"ok\n"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"] if IPV6 else ["127.0.0.1"])
def test_a_port_that_is_taken_in_either_family(host: str) -> None:
    """An address without a host wants both."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as taken:
        port = taken.getsockname()[1]
        assert "cannot listen on" in port_problem("REVERSER_HTTP_ADDR", Address("", port))
