"""A cluster that changes by itself: ``python -m tests.bench.load KUBECONFIG TYPES``.

Changes are made inside the sandbox's own loop, at a steady rate, because requests over TLS would cost more
than the watcher that is measured. Each carries the moment at which it was made. Orders come on stdin, one a
line: ``RATE SECONDS``; the answer is one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from reverser.kube.client import Kube
from reverser.kube.paths import core_path, resource_path
from reverser.sandbox.thread import SandboxServer

GROUP = "bench.example.com"
NAMESPACE = "shop"
OBJECTS = 50
"""Objects of each type."""
TICK = 0.01
CRDS = Path(__file__).resolve().parents[2] / "deploy" / "crds"


def plural(number: int) -> str:
    """The plural name of the n-th type."""
    return f"kind{number:02}s"


def _definition(number: int) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    name = plural(number)
    return {
        "metadata": {"name": f"{name}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": name, "singular": name[:-1], "kind": name[:-1].capitalize()},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def prepare(kube: Kube, types: int) -> None:
    """Install the product's kinds, a namespace, and types with their objects."""
    definitions = resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    for file in sorted(CRDS.glob("*.yaml")):
        kube.create(definitions, yaml.safe_load(file.read_text()))
    kube.create(core_path("namespaces"), {"metadata": {"name": NAMESPACE}})
    for number in range(types):
        kube.create(definitions, _definition(number))
    for number in range(types):
        path = resource_path(GROUP, "v1", plural(number), namespace=NAMESPACE)
        kind = plural(number)[:-1].capitalize()
        for index in range(OBJECTS):
            body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": f"o{index:03}"}}
            kube.create(path, {**body, "spec": {"at": 0.0, "text": "x" * 300}})


class Driver:
    """Makes changes round the types and objects."""

    def __init__(self, server: SandboxServer, types: int) -> None:
        self._server = server
        self._types = types
        self._made = 0

    def run(self, rate: int, seconds: float) -> dict[str, float]:
        """``rate`` changes a second; what could not be made in time is made late, and said."""
        began = time.monotonic()
        made, most_late = 0, 0.0
        while (passed := time.monotonic() - began) < seconds:
            wanted = int(passed * rate) - made
            if wanted > 0:
                most_late = max(most_late, wanted / rate - TICK)
                # a few at a time, so that the watches are served in between
                self._server.call(partial(self._change, min(wanted, 20)))
                made += min(wanted, 20)
            else:
                time.sleep(TICK)
        return {"made": made, "seconds": time.monotonic() - began, "late": most_late}

    def _change(self, count: int) -> None:
        storage = self._server.server.storage
        for _ in range(count):
            kind = plural(self._made % self._types)
            name = f"o{self._made // self._types % OBJECTS:03}"
            self._made += 1
            found = storage.get((GROUP, kind), NAMESPACE, name)
            assert found is not None
            spec = {**found["spec"], "at": time.time(), "number": self._made}
            storage.put((GROUP, kind), NAMESPACE, name, {**found, "spec": spec})


def main(argv: list[str]) -> None:
    """Serve until stdin ends."""
    out, types = Path(argv[0]), int(argv[1])
    with SandboxServer(record=False) as server:
        prepare(Kube.connect(str(server.kubeconfig_path)), types)
        out.write_bytes(server.kubeconfig_path.read_bytes())
        print(json.dumps({"ready": server.url}), flush=True)
        driver = Driver(server, types)
        for line in sys.stdin:
            rate, seconds = line.split()
            print(json.dumps(driver.run(int(rate), float(seconds))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
