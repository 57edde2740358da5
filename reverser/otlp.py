"""The same metrics by OTLP: pushed to a collector, besides being scraped.

OTLP over HTTP may be JSON, so what Prometheus would scrape is translated and posted without another library:
a second set of instruments could report other numbers. Names and labels stay those of the scrape, so alerts
and dashboards are the same. While a collector does not answer only the points of that time are lost: sums are
cumulative, and the next push carries them.
"""

from __future__ import annotations

import json
import logging
import math
import os
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import requests
from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from reverser.buildinfo import build_info
from reverser.metrics import registry

logger = logging.getLogger(__name__)

PUSH_SECONDS = 30.0
DEADLINE_SECONDS = 10.0
_CUMULATIVE = 2
_STARTED = time.time_ns()


def resource(process: str) -> dict[str, str]:
    """The sender: attributes by OpenTelemetry's semantic conventions."""
    return {
        "service.name": "gitops-reverser",
        "service.namespace": process,
        "service.version": build_info().version,
        "service.instance.id": f"{socket.gethostname()}/{os.getpid()}",
    }


def push_request(
    families: Iterable[Metric], about: dict[str, str], *, now_ns: int, started_ns: int = _STARTED
) -> dict[str, Any]:
    """Metric families as the body of OTLP's ExportMetricsServiceRequest. Pure; 64-bit integers are strings,
    as protobuf's JSON requires, and non-finite numbers are left out.
    """
    times = {"startTimeUnixNano": str(started_ns), "timeUnixNano": str(now_ns)}
    found = [metric for family in families if (metric := _metric(family, times)) is not None]
    scope = {"scope": {"name": "gitops-reverser"}, "metrics": found}
    return {"resourceMetrics": [{"resource": {"attributes": _attributes(about)}, "scopeMetrics": [scope]}]}


def _metric(family: Metric, times: dict[str, str]) -> dict[str, Any] | None:
    head = {"name": family.name, "description": family.documentation}
    if family.type == "histogram":
        points = _histograms(family, times)
        data = {"dataPoints": points, "aggregationTemporality": _CUMULATIVE}
        return {**head, "histogram": data} if points else None
    total = f"{family.name}_total"
    wanted = total if family.type == "counter" else family.name
    numbers = [
        {**times, "attributes": _attributes(sample.labels), "asDouble": float(sample.value)}
        for sample in family.samples
        if sample.name == wanted and math.isfinite(sample.value)
    ]
    if not numbers:
        return None
    if family.type == "counter":
        summed = {"dataPoints": numbers, "aggregationTemporality": _CUMULATIVE, "isMonotonic": True}
        return {**head, "name": total, "sum": summed}
    return {**head, "gauge": {"dataPoints": numbers}}


def _histograms(family: Metric, times: dict[str, str]) -> list[dict[str, Any]]:
    series: dict[tuple[tuple[str, str], ...], list[Sample]] = defaultdict(list)
    for sample in family.samples:
        series[tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))].append(sample)
    points = []
    for labels, samples in series.items():
        buckets = sorted((float(s.labels["le"]), int(s.value)) for s in samples if s.name.endswith("_bucket"))
        if not buckets:
            continue
        below = [0, *(count for _bound, count in buckets[:-1])]
        counts = [count - before for (_bound, count), before in zip(buckets, below, strict=True)]
        total = next((s.value for s in samples if s.name == f"{family.name}_sum"), 0.0)
        points.append(
            {
                **times,
                "attributes": _attributes(dict(labels)),
                "count": str(buckets[-1][1]),
                "sum": float(total),
                "bucketCounts": [str(count) for count in counts],
                "explicitBounds": [bound for bound, _count in buckets if math.isfinite(bound)],
            }
        )
    return points


def _attributes(values: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in sorted(values.items())]


class Exporter:
    """Pushes the metrics of this process; an outage is logged once, and so is its end."""

    def __init__(self, endpoint: str, process: str) -> None:
        self._url = f"{endpoint.rstrip('/')}/v1/metrics"
        self._about = resource(process)
        self._failing = False

    def run(self, stop: threading.Event) -> None:
        """Push until ``stop``, and once more at the end, so that the last sums arrive."""
        while not stop.wait(PUSH_SECONDS):
            self.push()
        self.push()

    def push(self) -> None:
        """Once. A refusal or a lost connection is logged, never raised."""
        body = json.dumps(push_request(registry().collect(), self._about, now_ns=time.time_ns()))
        try:
            answer = requests.post(
                self._url, data=body, headers={"Content-Type": "application/json"}, timeout=DEADLINE_SECONDS
            )
            answer.raise_for_status()
        except requests.RequestException as error:
            if not self._failing:
                reason = error.response.status_code if error.response is not None else type(error).__name__
                logger.warning(
                    "metrics cannot be pushed; check REVERSER_OTLP_ENDPOINT and the collector",
                    extra={"detail": str(reason)},
                )
            self._failing = True
            return
        if self._failing:
            logger.info("metrics are pushed again")
        self._failing = False
