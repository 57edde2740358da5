"""Metrics pushed by OTLP: the same numbers as those scraped, whatever the collector does."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from reverser import otlp


class Collector(BaseHTTPRequestHandler):
    """Keeps what it was sent."""

    bodies: list[tuple[str, Any]]
    status = 200

    def do_POST(self) -> None:
        """One export request."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.bodies.append((self.path, body))
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def collector() -> Iterator[tuple[str, type[Collector]]]:
    """Its address and its memory."""
    kind = type("Fresh", (Collector,), {"bodies": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/", kind
    server.shutdown()
    server.server_close()


def test_each_kind_is_translated() -> None:
    """Counters are cumulative sums, gauges gauges, histograms have counts per bucket, not running ones."""
    registry = CollectorRegistry()
    Counter("made", "Things.", ["kind"], registry=registry).labels("a").inc(3)
    Gauge("depth", "Deep.", registry=registry).set(7.5)
    Gauge("unknown", "No number.", registry=registry).set(float("nan"))
    times = Histogram("wait_seconds", "Long.", buckets=(1.0, 2.0), registry=registry)
    for seconds in (0.5, 1.5, 1.7, 9.0):
        times.observe(seconds)
    body = otlp.push_request(registry.collect(), {"service.name": "x"}, now_ns=2**60, started_ns=5)
    (resource,) = body["resourceMetrics"]
    assert resource["resource"] == {"attributes": [{"key": "service.name", "value": {"stringValue": "x"}}]}
    metrics = {m["name"]: m for m in resource["scopeMetrics"][0]["metrics"]}
    assert set(metrics) == {"made_total", "depth", "wait_seconds"}
    made = metrics["made_total"]["sum"]
    assert (made["isMonotonic"], made["aggregationTemporality"]) == (True, 2)
    assert made["dataPoints"] == [
        {
            "startTimeUnixNano": "5",
            "timeUnixNano": str(2**60),
            "attributes": [{"key": "kind", "value": {"stringValue": "a"}}],
            "asDouble": 3.0,
        }
    ]
    assert metrics["depth"]["gauge"]["dataPoints"][0]["asDouble"] == 7.5
    (point,) = metrics["wait_seconds"]["histogram"]["dataPoints"]
    assert (point["count"], point["sum"]) == ("4", pytest.approx(12.7))
    assert (point["bucketCounts"], point["explicitBounds"]) == (["1", "2", "1"], [1.0, 2.0])
    json.dumps(body, allow_nan=False)


def test_it_is_pushed(collector: tuple[str, type[Collector]]) -> None:
    """What this process exposes arrives under the standard path, with who tells; and once more at the end."""
    address, memory = collector
    stop = threading.Event()
    stop.set()
    otlp.Exporter(address, "worker").run(stop)
    ((path, body),) = memory.bodies
    assert path == "/v1/metrics"
    attributes = {
        a["key"]: a["value"]["stringValue"] for a in body["resourceMetrics"][0]["resource"]["attributes"]
    }
    assert attributes["service.name"] == "gitops-reverser"
    assert attributes["service.namespace"] == "worker"
    assert body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]


def test_an_outage_is_told_once(
    collector: tuple[str, type[Collector]], caplog: pytest.LogCaptureFixture
) -> None:
    """A collector that refuses costs one line, its return another; nothing is raised."""
    address, memory = collector
    exporter = otlp.Exporter(address, "web")
    caplog.set_level(logging.INFO, logger="reverser.otlp")
    memory.status = 503
    exporter.push()
    exporter.push()
    memory.status = 200
    exporter.push()
    exporter.push()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "REVERSER_OTLP_ENDPOINT" in told[0]
    assert told[1] == "metrics are pushed again"
