"""The scripted story of ``demo --once``: what a cluster's day looks like in Git, each step checked.

Nothing here is simulated: the steps go through the API server, the watcher, the journal, a Celery worker and
git, and are read back from the bare repository. Every name is new in each run, so the story can be repeated
in the same state directory. Any process may die in any step: a request that finds the API server down is
repeated, and Git must be the same in the end.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import secrets
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from reverser.errors import ReverserError
from reverser.kube.paths import core_path, own_path, resource_path
from reverser.kube.requests import Patch
from reverser.kube.sync import Kube
from reverser.sandbox import seeds
from reverser.supervision.demo import Demo
from reverser.supervision.gitview import GitView
from reverser.supervision.patience import STEP_SECONDS, PatientKube, StoryFailed, look_around
from reverser.supervision.up import Up

QUIET_SECONDS = 5.0
_MADE_HERE = re.compile(r"(menu|safe|keep|gone|hard)-[0-9a-f]{6}")
"""The names of the objects of any story."""
Say = Callable[[str], None]


@dataclass(slots=True)
class _Teller:
    run: Up
    kube: PatientKube
    git: GitView
    say: Say
    mark: str = field(default_factory=lambda: secrets.token_hex(3))
    steps: int = 0

    def path(self, resource: str, name: str, suffix: str = ".yaml") -> str:
        """Where an object of the shop stands in Git."""
        return f"{seeds.PATH}/{seeds.NAMESPACE}/{resource}/{name}{suffix}"

    def configmap(self, name: str = "") -> str:
        return core_path("configmaps", namespace=seeds.NAMESPACE, name=name)

    def until(self, what: str, check: Callable[[], bool]) -> None:
        """Wait for a condition; StoryFailed after the deadline, which restarts when a process has died."""
        deadline = time.monotonic() + STEP_SECONDS
        while not check():
            if time.monotonic() > deadline:
                raise StoryFailed(f"after {STEP_SECONDS:.0f} s still not so: {what}")
            if look_around(self.run):
                deadline = time.monotonic() + STEP_SECONDS

    def quiet(self, what: str) -> None:
        """Make sure that nothing is committed for a while."""
        tip = self.git.tip()
        deadline = time.monotonic() + QUIET_SECONDS
        while time.monotonic() < deadline:
            look_around(self.run)
            if self.git.tip() != tip:
                raise StoryFailed(f"a commit appeared although {what}: {self.git.log()[0].subject}")

    def done(self, text: str) -> None:
        """One line of the account."""
        self.steps += 1
        self.say(f"  {self.steps:2}. {text}")


def tell(run: Up, demo: Demo, say: Say) -> int:
    """Run the story; returns 0, or 1 with the reason said."""
    began = time.monotonic()
    kube = PatientKube(run, Kube.connect(str(demo.kubeconfig)))
    teller = _Teller(run, kube, GitView(demo.repository, seeds.BRANCH), say)
    say("The story of one cluster, as Git sees it:")
    try:
        for step in _STEPS:
            step(teller)
        problems = teller.git.problems()
        if problems:
            raise StoryFailed(f"git fsck complains: {problems}")
    except ReverserError as error:
        say(f"FAILED in step {teller.steps + 1}: {error}")
        return 1
    say(f"All {teller.steps} steps hold, {len(teller.git.log())} commits, {time.monotonic() - began:.0f} s.")
    return 0


def wait_in_step(run: Up, kubeconfig: str, seconds: float) -> bool:
    """Wait until the demo's GitTarget is Ready; false when it is not in time. Raises Interrupted."""
    kube, deadline = PatientKube(run, Kube.connect(kubeconfig)), time.monotonic() + seconds
    while not _holds(kube, "Ready"):
        if time.monotonic() > deadline:
            return False
        look_around(run)
    return True


def _holds(kube: PatientKube, condition: str) -> bool:
    target = kube.get(own_path("gittargets", namespace=seeds.NAMESPACE, name=seeds.TARGET))
    conditions = target.get("status", {}).get("conditions", [])
    return any(item["type"] == condition and item["status"] == "True" for item in conditions)


def _streams_run(teller: _Teller) -> None:
    def running() -> bool:
        return _holds(teller.kube, "StreamsRunning")

    teller.until("the streams of the GitTarget run", running)
    teller.until(
        "what existed before is in Git",
        lambda: teller.git.read(teller.path("configmaps", "opening-hours")) is not None,
    )
    count = len(teller.git.log())
    teller.done(f"What ran before anyone watched is in Git, {count} commit{'s'[: count != 1]} so far")


def _create(teller: _Teller) -> None:
    name = f"menu-{teller.mark}"
    teller.kube.create(
        teller.configmap(),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"tier": "front"}},
            "data": {"soup": "leek", "price": "4.50"},
        },
    )
    expected = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  labels:\n    tier: front\n"
        f'  name: {name}\n  namespace: {seeds.NAMESPACE}\ndata:\n  price: "4.50"\n  soup: leek\n'
    ).encode()
    teller.until(
        "the new ConfigMap is in Git", lambda: teller.git.read(teller.path("configmaps", name)) is not None
    )
    if teller.git.read(teller.path("configmaps", name)) != expected:
        raise StoryFailed(f"the file of ConfigMap {name} is not the expected clean YAML")
    subject = teller.git.last_subject(teller.path("configmaps", name))
    teller.done(f"A ConfigMap is created: {subject}")


def _edit(teller: _Teller) -> None:
    name = f"menu-{teller.mark}"
    teller.kube.patch(teller.configmap(name), {"data": {"soup": "tomato"}})
    path = teller.path("configmaps", name)
    teller.until("the edit is in Git", lambda: b"soup: tomato" in (teller.git.read(path) or b""))
    teller.done(f"It is edited, one line changes: {teller.git.last_subject(path)}")


def _secret(teller: _Teller) -> None:
    name, value = f"safe-{teller.mark}", f"pin-{secrets.token_hex(8)}"
    encoded = base64.b64encode(value.encode()).decode()
    teller.kube.create(
        core_path("secrets", namespace=seeds.NAMESPACE),
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {"name": name},
            "data": {"pin": encoded},
        },
    )
    path = teller.path("secrets", name, ".sops.yaml")
    teller.until("the sealed Secret is in Git", lambda: teller.git.read(path) is not None)
    if b"ENC[" not in (teller.git.read(path) or b""):
        raise StoryFailed(f"{path} is not sealed")
    if teller.git.contains(value.encode()) or teller.git.contains(encoded.encode()):
        raise StoryFailed("the value of the Secret can be read in the repository")
    teller.done("A Secret is created; Git holds it sealed, its value nowhere")


def _status_churn(teller: _Teller) -> None:
    path = resource_path(
        "apps", "v1", "deployments", namespace=seeds.NAMESPACE, name="till", subresource="status"
    )
    for ready in range(5):
        teller.kube.patch(path, {"status": {"readyReplicas": ready, "replicas": ready}}, kind=Patch.MERGE)
    teller.quiet("only a status changed")
    teller.done("A Deployment's status changes five times: no commit")


def _delete(teller: _Teller) -> None:
    name = f"menu-{teller.mark}"
    teller.kube.delete(teller.configmap(name))
    teller.until("the file is gone", lambda: teller.git.read(teller.path("configmaps", name)) is None)
    subject = teller.git.last_subject(teller.path("configmaps", name))
    teller.done(f"The ConfigMap is deleted: {subject}")


def _delete_while_down(teller: _Teller) -> None:
    keep, gone = f"keep-{teller.mark}", f"gone-{teller.mark}"
    for name in (keep, gone):
        teller.kube.create(
            teller.configmap(),
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": "1"}},
        )
    for name in (keep, gone):
        path = teller.path("configmaps", name)
        teller.until(f"{name} is in Git", lambda path=path: teller.git.read(path) is not None)  # type: ignore[misc]
    teller.run.supervisor.hold("watcher")
    teller.kube.delete(teller.configmap(gone))
    teller.kube.patch(teller.configmap(keep), {"data": {"v": "2"}})
    teller.run.supervisor.resume("watcher")
    teller.until(
        "the missed delete is in Git", lambda: teller.git.read(teller.path("configmaps", gone)) is None
    )
    teller.until(
        "the missed edit is in Git",
        lambda: b'v: "2"' in (teller.git.read(teller.path("configmaps", keep)) or b""),
    )
    teller.done("With the watcher down one object is deleted and one edited: both arrive after its start")


def _killed_worker(teller: _Teller) -> None:
    name = f"hard-{teller.mark}"
    teller.kube.create(
        teller.configmap(),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": "1"}},
    )
    with contextlib.suppress(ProcessLookupError):
        os.kill(teller.run.supervisor.pid("worker"), signal.SIGKILL)
    path = teller.path("configmaps", name)
    teller.until("the change made around the kill is in Git", lambda: teller.git.read(path) is not None)
    teller.done("The worker is killed with -9 in the middle of a change: the change arrives, once")


def _restart(teller: _Teller) -> None:
    tip = teller.git.tip()
    for name in ("watcher", "worker"):
        teller.run.supervisor.hold(name)
    for name in ("worker", "watcher"):
        teller.run.supervisor.resume(name)
    teller.until("every process is ready again", lambda: not teller.run.not_ready())
    teller.quiet("nothing but a restart happened")
    if teller.git.tip() != tip:
        raise StoryFailed("a restart made a commit")
    teller.done("Everything is restarted: no commit")


def _clean_up(teller: _Teller) -> None:
    """Remove leftovers of an interrupted story too, so that every story ends with the same tree."""
    for resource in ("configmaps", "secrets"):
        for name in teller.kube.names(core_path(resource, namespace=seeds.NAMESPACE)):
            if _MADE_HERE.fullmatch(name):
                teller.kube.delete(core_path(resource, namespace=seeds.NAMESPACE, name=name))

    def gone() -> bool:
        names = (Path(path).name.partition(".")[0] for path in teller.git.files(seeds.PATH))
        return not any(_MADE_HERE.fullmatch(name) for name in names)

    teller.until("everything of the story is gone from Git", gone)
    teller.done("All of it is deleted again: " + teller.git.log()[0].subject)


_STEPS: tuple[Callable[[_Teller], None], ...] = (
    _streams_run,
    _create,
    _edit,
    _secret,
    _status_churn,
    _delete,
    _delete_while_down,
    _killed_worker,
    _restart,
    _clean_up,
)
