"""An installation with attribution and admission on, beside a sandbox whose audit stream passes through here.

The relay lets a test hold back or drop what the audit stream says of one user, as slow or broken senders do.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson

from reverser.kube.paths import resource_path
from reverser.kube.sync import Kube
from reverser.sandbox.pki import Authority
from reverser.supervision.processes import Supervisor
from tests.e2e.cluster import sandbox_program, wait_for_cluster
from tests.e2e.operator import Operator, free_port
from tests.e2e.workspace import Workspace

Event = dict[str, Any]
WEBHOOKS = resource_path("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")


def user_of(event: Event) -> str:
    """Who an audit event's request acted as."""
    found = (event.get("impersonatedUser") or event.get("user") or {}).get("username")
    return str(found or "")


@dataclass
class Relay:
    """Takes batches over plain HTTP and passes them on with mutual TLS, late or not at all where asked to."""

    port: int
    context: ssl.SSLContext
    hold: dict[str, float] = field(default_factory=dict)
    """Seconds that the events of a user are held back."""
    drop: set[str] = field(default_factory=set)
    """Users whose events get lost."""
    seen: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        relay = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = relay.take(json.loads(body)["items"])
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/audit-webhook"

    def clear(self) -> None:
        """Pass everything on at once again."""
        self.hold.clear()
        self.drop.clear()

    def take(self, events: list[Event]) -> int:
        """The status for the sender: that of what goes on at once."""
        self.seen += events
        now = []
        for event in events:
            user = user_of(event)
            if user in self.drop:
                continue
            if user in self.hold:
                timer = threading.Timer(self.hold[user], self._send, args=([event],))
                timer.daemon = True
                timer.start()
            else:
                now.append(event)
        return self._send(now) if now else 200

    def _send(self, events: list[Event]) -> int:
        body = orjson.dumps({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": events})
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=self.context)
        try:
            connection.request("POST", "/audit-webhook", body, {"Content-Type": "application/json"})
            return connection.getresponse().status
        except OSError:
            return 503
        finally:
            connection.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Person:
    """Requests in somebody's name, by impersonation."""

    def __init__(self, kube: Kube, user: str, *, claims: Mapping[str, str] | None = None) -> None:
        self._kube = kube
        self.user = user
        self._headers = {"Impersonate-User": user, "Impersonate-Group": "system:masters"}
        for key, value in (claims or {}).items():
            self._headers[f"Impersonate-Extra-configbutler.ai%2Fclaims%2F{key}"] = value

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        **query: str,
    ) -> Any:
        """One request; the decoded answer."""
        answer = self._kube.raw(
            method, path, query=query or None, body=body, headers=self._headers, content_type=content_type
        )
        return orjson.loads(answer)

    def configmap(self, space: Workspace, name: str, value: str = "1", **metadata: Any) -> Any:
        """Create a ConfigMap."""
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, **metadata},
            "data": {"v": value},
        }
        return self.request("POST", space.path(), body)

    def set(self, space: Workspace, name: str, value: str) -> Any:
        """Change it."""
        body = {"data": {"v": value}}
        return self.request("PATCH", space.path(name=name), body, content_type="application/merge-patch+json")

    def apply(self, space: Workspace, name: str, value: str, manager: str = "kubectl") -> Any:
        """Server-side apply."""
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}}
        return self.request(
            "PATCH",
            space.path(name=name),
            body,
            content_type="application/apply-patch+yaml",
            fieldManager=manager,
            force="true",
        )

    def delete(self, space: Workspace, name: str) -> Any:
        """Delete it."""
        return self.request("DELETE", space.path(name=name))

    def save(self, space: Workspace, name: str, **spec: Any) -> Any:
        """Create a CommitRequest."""
        body = {
            "apiVersion": "configbutler.ai/v1alpha3",
            "kind": "CommitRequest",
            "metadata": {"name": name},
            "spec": {"targetRef": {"name": "gt"}, **spec},
        }
        path = resource_path("configbutler.ai", "v1alpha3", "commitrequests", namespace=space.namespace)
        return self.request("POST", path, body)


@dataclass
class Installation:
    """Cluster, relay and operator."""

    kube: Kube
    relay: Relay
    operator: Operator
    settings: dict[str, str]

    def person(self, user: str, **claims: str) -> Person:
        """Somebody who may do everything."""
        return Person(self.kube, user, claims={key.replace("_", "-"): text for key, text in claims.items()})

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels, over all processes."""
        connection = http.client.HTTPConnection(*self.operator.http.split(":"), timeout=10)  # type: ignore[arg-type]
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        total = 0.0
        for line in text.splitlines():
            if not line.startswith((f"{name}{{", f"{name} ")):
                continue
            if all(f'{key}="{value}"' in line for key, value in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total


@contextmanager
def installation(folder: Path, **settings: str) -> Iterator[Installation]:
    """Everything running, webhook registered; ``settings`` change the operator's."""
    authority = Authority()
    certs = folder / "certs"
    certs.mkdir(parents=True)
    serving, client = authority.serving(), authority.client("kube-apiserver")
    (certs / "tls.crt").write_bytes(serving.cert)
    (certs / "tls.key").write_bytes(serving.key)
    (certs / "ca.crt").write_bytes(authority.pair.cert)
    (folder / "client.pem").write_bytes(client.cert + client.key)
    context = ssl.create_default_context(cafile=str(certs / "ca.crt"))
    context.load_cert_chain(folder / "client.pem")
    audit_port, admission_port = free_port(), free_port()
    relay = Relay(audit_port, context)
    kubeconfig = folder / "kubeconfig"
    supervisor = Supervisor()
    supervisor.start(
        sandbox_program(folder, kubeconfig, "--audit-webhook", relay.url, "--audit-batch-max-wait", "0.2")
    )
    everything = {
        "REVERSER_AUDIT_ADDR": f"127.0.0.1:{audit_port}",
        "REVERSER_AUDIT_CERT_DIR": str(certs),
        "REVERSER_AUDIT_CLIENT_CA": str(certs / "ca.crt"),
        "REVERSER_ADMISSION_ADDR": f"127.0.0.1:{admission_port}",
        "REVERSER_ADMISSION_CERT_DIR": str(certs),
        **settings,
    }
    operator = Operator(folder / "state", kubeconfig, **everything)
    try:
        kube = wait_for_cluster(kubeconfig)
        operator.start()
        kube.create(WEBHOOKS, webhook(admission_port, authority))
        yield Installation(kube, relay, operator, everything)
        if operator.running:
            assert operator.stop() == 0
    finally:
        if operator.running:
            operator.kill()
        supervisor.stop((), limit_seconds=15)
        relay.close()


def webhook(port: int, authority: Authority) -> dict[str, Any]:
    """The registration that deploy/apiserver ships, for an address instead of a Service."""
    import yaml

    path = Path(__file__).resolve().parents[2] / "deploy" / "apiserver" / "validating-webhook.yaml"
    config: dict[str, Any] = yaml.safe_load(path.read_text())
    client = {
        "url": f"https://127.0.0.1:{port}/validate-operator-types",
        "caBundle": base64.b64encode(authority.pair.cert).decode(),
    }
    config["webhooks"][0]["clientConfig"] = client
    return config


def together(*calls: Callable[[], Any]) -> None:
    """Run things at the same time; re-raises the first failure."""
    failures: list[BaseException] = []

    def run(call: Callable[[], Any]) -> None:
        try:
            call()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def pause(seconds: float) -> None:
    """Time that must pass in a scenario."""
    time.sleep(seconds)
