"""An installation with attribution and admission on, on a cluster whose audit stream passes through here.

The relay lets a test hold back or drop what the audit stream says of one user, as slow or broken senders do.
Scenarios mostly wait, and each has a namespace and a repository of its own, so they run at the same time: a
test that is a scenario only asks for how it went. Tests that stop the operator run when no scenario does.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from reverser.errors import KubeNotFound
from reverser.kube.paths import own_path, resource_path
from reverser.kube.sync import Kube
from reverser.sandbox.pki import Authority
from reverser.store import Store
from reverser.store.model import AttachEntry, BranchKey, Entry, EventEntry
from reverser.supervision.processes import Supervisor
from tests.e2e.cluster import audited_programs, wait_for_cluster
from tests.e2e.operator import Operator
from tests.e2e.workspace import Workspace, until
from tests.loopback import receiving
from tests.ports import free_port

Event = dict[str, Any]
AT_ONCE = 6
GRACE = 6.0
"""Longer than by default: a busy machine is no late audit stream."""
SCENARIO_SECONDS = 280.0
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
    hold: dict[tuple[str, str], float] = field(default_factory=dict)
    """Seconds that the events of a user in a namespace are held back, by (namespace, user)."""
    drop: set[tuple[str, str]] = field(default_factory=set)
    """Whose events get lost."""
    seen: list[Event] = field(default_factory=list)
    passed: list[Event] = field(default_factory=list)
    """What the operator has taken."""

    def __post_init__(self) -> None:
        self._closing = contextlib.ExitStack()
        self._listens = self._closing.enter_context(
            receiving(lambda body: self.take(json.loads(body)["items"]))
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listens}/audit-webhook"

    def take(self, events: list[Event]) -> int:
        """The status for the sender: that of what goes on at once."""
        self.seen += events
        now = []
        later: dict[float, list[Event]] = {}
        for event in events:
            about = (str((event.get("objectRef") or {}).get("namespace")), user_of(event))
            if about in self.drop:
                continue
            if about in self.hold:
                later.setdefault(self.hold[about], []).append(event)
            else:
                now.append(event)
        for seconds, held in later.items():
            timer = threading.Timer(seconds, self._send, args=(held,))
            timer.daemon = True
            timer.start()
        return self._send(now) if now else 200

    def _send(self, events: list[Event]) -> int:
        body = orjson.dumps({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": events})
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self.context)
        try:
            connection.request("POST", "/audit-webhook", body, {"Content-Type": "application/json"})
            status = connection.getresponse().status
            if status == 200:
                self.passed += events
            return status
        except OSError:
            return 503
        finally:
            connection.close()

    def wait_passed(self, space: Workspace, user: str, verb: str) -> None:
        """Until the operator has filed what it was told of somebody's deed in a namespace."""

        def check() -> bool:
            return any(
                user_of(event) == user
                and event["verb"] == verb
                and (event.get("objectRef") or {}).get("namespace") == space.namespace
                for event in list(self.passed)
            )

        until(check, f"the operator knows of {user}'s {verb}")

    def close(self) -> None:
        self._closing.close()


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

    def wait_journaled(self, space: Workspace, name: str, value: str = "1") -> None:
        """Until a change waits for its commit: author and order are settled."""
        wait_journaled(self.operator, space, name, value)

    def wait_attached(self, space: Workspace, name: str) -> None:
        """Until a CommitRequest has its place among the changes."""
        until(
            lambda: [
                e for e in journal(self.operator, space) if isinstance(e, AttachEntry) and e.name == name
            ],
            f"CommitRequest {name} is in the journal",
        )

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels, over all processes."""
        return self.operator.metric(name, **labels)


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
    for program in audited_programs(folder, kubeconfig, relay.url):
        supervisor.start(program)
    everything = {
        "REVERSER_AUTHOR_ATTRIBUTION_GRACE": f"{GRACE:.0f}s",
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


Scenario = Callable[[Installation, Callable[[], Workspace]], None]
_SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Callable[..., None]:
    """Makes a test of a scenario that runs beside the others."""
    name = f"{function.__module__}.{function.__name__}"
    _SCENARIOS[name] = function

    def test(board: Board) -> None:
        board.result(name)

    test.__name__, test.__doc__, test.__module__ = function.__name__, function.__doc__, function.__module__
    return test


class Board:
    """Runs the scenarios that were asked for."""

    def __init__(self, lab: Installation, folder: Path, names: Iterable[str]) -> None:
        self._lab = lab
        self._folder = folder
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="scenario")
        self._running = {name: self._pool.submit(self._run, name) for name in names if name in _SCENARIOS}

    def space(self) -> Workspace:
        """A namespace and repository of its own."""
        folder = self._folder / uuid.uuid4().hex[:8]
        folder.mkdir()
        return Workspace(self._lab.kube, f"who-{folder.name}", folder)

    def _run(self, name: str) -> None:
        """One scenario; what it made is removed, however it went."""
        made: list[Workspace] = []

        def space() -> Workspace:
            made.append(self.space())
            return made[-1]

        try:
            _SCENARIOS[name](self._lab, space)
        finally:
            self._remove(made)

    def _remove(self, made: Iterable[Workspace]) -> None:
        for workspace in made:
            for plural in ("commitrequests", "watchrules", "gittargets", "gitproviders"):
                path = own_path(plural, namespace=workspace.namespace)
                for found in self._lab.kube.list(path).items:
                    with contextlib.suppress(KubeNotFound):
                        self._lab.kube.delete(f"{path}/{found['metadata']['name']}")

    def result(self, name: str) -> None:
        """Raises what the scenario raised."""
        self._running[name].result(SCENARIO_SECONDS)

    def wait(self) -> None:
        """Until no scenario runs."""
        wait(self._running.values(), SCENARIO_SECONDS)

    def close(self) -> None:
        """Forget what has not begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One installation with everything on."""
    with installation(tmp_path_factory.mktemp("audited")) as made:
        yield made


@pytest.fixture(scope="session")
def board(
    lab: Installation, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Board]:
    """The scenarios of this session, running."""
    names = [
        f"{item.nodeid.partition('.py')[0].replace('/', '.')}.{item.name}" for item in request.session.items
    ]
    made = Board(lab, tmp_path_factory.mktemp("spaces"), names)
    yield made
    made.close()


@pytest.fixture
def alone(lab: Installation, board: Board) -> Installation:
    """The installation when no scenario runs, to be stopped and started; a test may leave it stopped."""
    board.wait()
    if not lab.operator.running:
        lab.operator.start()
    return lab


def webhook(port: int, authority: Authority) -> dict[str, Any]:
    """The registration that deploy/apiserver ships, for an address instead of a Service."""
    path = Path(__file__).resolve().parents[2] / "deploy" / "apiserver" / "validating-webhook.yaml"
    config: dict[str, Any] = yaml.safe_load(path.read_text())
    client = {
        "url": f"https://127.0.0.1:{port}/validate-operator-types",
        "caBundle": base64.b64encode(authority.pair.cert).decode(),
    }
    config["webhooks"][0]["clientConfig"] = client
    return config


@contextmanager
def store_of(operator: Operator) -> Iterator[Store]:
    """The Redis of a running installation."""
    store = Store.connect(f"unix://{operator.state / 'valkey' / 'valkey.sock'}?db=0")
    try:
        yield store
    finally:
        store.close()


def journal(operator: Operator, space: Workspace) -> list[Entry]:
    """What waits for the branch of a workspace, in order."""
    with store_of(operator) as store:
        return [stored.entry for stored in store.read_entries(BranchKey(space.namespace, "gp", "main"))]


def wait_journaled(operator: Operator, space: Workspace, name: str, value: str = "1") -> None:
    """Until a ConfigMap's change waits for its commit."""

    def check() -> bool:
        mine = [e for e in journal(operator, space) if isinstance(e, EventEntry) and e.object.name == name]
        return bool(mine) and f'"{value}"'.encode() in mine[-1].body

    until(check, f"the change of {name} is in the journal")


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
