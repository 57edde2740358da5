"""What an operator of the product meets in its processes: logs of lasting errors, a clock that jumps, and
what the product's own user writes to the cluster.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reverser.kube.paths import core_path
from reverser.kube.sync import Kube
from reverser.sandbox.thread import SandboxServer
from reverser.supervision.install import install_crds
from reverser.supervision.processes import Supervisor
from tests import needs
from tests.e2e.cluster import sandbox_program, wait_for_cluster
from tests.e2e.operator import Operator
from tests.e2e.trust import ENCRYPTION, SECRETS
from tests.e2e.workspace import CONFIGMAPS, Workspace, until
from tests.loopback import receiving
from tests.soak.machine import Machine
from tests.soak.plan import Fault
from tests.valkey import running_valkey

MARKER = "zq-BODY-4411"
ERRORS_SECONDS = 40.0
MOST_LINES_OF_ONE = 8
"""Of one error of one branch or object in that time: tried again with growing pauses."""
WINDOW_SECONDS = 6.0
JUMPS = (-3600, 3600, 0)


def _spaces(kube: Kube, folder: Path, *names: str) -> list[Workspace]:
    made = []
    for name in names:
        (folder / name).mkdir()
        made.append(Workspace(kube, name, folder / name))
    return made


@contextmanager
def running(operator: Operator) -> Iterator[None]:
    """Started, and ended in an orderly way."""
    try:
        operator.start()
        yield
        assert operator.stop() == 0
    finally:
        if operator.running:
            operator.kill()


def test_lasting_errors_are_told_seldom_and_with_a_remedy(tmp_path: Path) -> None:
    """Q03: no credentials, a remote that is away while work waits, a folder that is refused and a Secret
    without encryption: each is told a few times, names what it concerns, and no line shows a body or a
    traceback.
    """
    with SandboxServer() as server:
        kube = Kube.connect(str(server.kubeconfig_path))
        operator = Operator(tmp_path / "state", server.kubeconfig_path)
        with running(operator):
            keyless, away, refused, unsealed = _spaces(
                kube, tmp_path, "keyless", "away", "refused", "unsealed"
            )
            keyless.provider(secretRef={"name": "nowhere"})
            keyless.target()
            keyless.rule()
            away.base(window="0s")
            refused.seed({"live/Chart.yaml": "apiVersion: v2\nname: x\nversion: 1.0.0\n"})
            refused.provider(window="0s")
            refused.target()
            refused.rule()
            unsealed.base(window="0s", rules=[SECRETS])
            before = len(operator.lines)
            away.repository.rename(away.folder / "gone.git")
            for space in (keyless, away, refused):
                space.configmap("menu", {"v": MARKER})
            kube.create(
                core_path("secrets", namespace=unsealed.namespace),
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": "pw"},
                    "stringData": {"v": MARKER},
                },
            )
            until(
                lambda: refused.is_condition("gittargets", "gt", "GitPathAccepted", "False"),
                "it is refused",
                90,
            )
            until(lambda: away.is_condition("gittargets", "gt", "PushSucceeding", "False"), "it is away", 90)
            # How much is said in this time is what is measured.
            time.sleep(ERRORS_SECONDS)
            told = operator.lines[before:]
    assert not [line for line in operator.lines if MARKER in line or "Traceback" in line]
    kinds: dict[tuple[str, str], int] = {}
    for line in told:
        if "[warning" not in line and "[error" not in line and "[critical" not in line:
            continue
        concerned = next((space for space in ("keyless", "away", "refused", "unsealed") if space in line), "")
        assert concerned, f"it names nothing: {line}"
        event = re.sub(r"^\S+\s+\S+\s+\[\w+\s*\]\s*", "", line)[:40]
        kinds[concerned, event] = kinds.get((concerned, event), 0) + 1
    assert {"away"} <= {concerned for concerned, _ in kinds}, told[-40:]
    assert all(count <= MOST_LINES_OF_ONE for count in kinds.values()), kinds


def test_windows_do_not_follow_the_wall_clock(tmp_path: Path) -> None:
    """Q05: the clock of all processes steps an hour back and an hour forth while a window and a save's delay
    are open: neither ends early, and neither waits for the hour.
    """
    machine = Machine(tmp_path)
    needs.able(machine.missing.get(Fault.CLOCK))
    with SandboxServer() as server, running_valkey() as valkey:
        kube = Kube.connect(str(server.kubeconfig_path))
        operator = Operator(
            tmp_path / "state",
            server.kubeconfig_path,
            REVERSER_REDIS_URL=f"redis://127.0.0.1:{valkey.port}/0",
            **machine.environment("all"),
        )
        with running(operator):
            (space,) = _spaces(kube, tmp_path, "jumps")
            space.base(window=f"{WINDOW_SECONDS:.0f}s")
            for number, jump in enumerate(JUMPS):
                name = f"o{number}"
                space.configmap(name)
                begun = time.monotonic()
                machine.step_clock("all", jump)
                space.in_git(name, seconds=90)
                assert time.monotonic() - begun > WINDOW_SECONDS - 1, (jump, "it was closed early")
            space.patch_own("gitproviders", "gp", {"push": {"commitWindow": "1h"}})
            space.configmap("saved")
            space.apply(
                "commitrequests",
                "CommitRequest",
                "save",
                {"targetRef": {"name": "gt"}, "message": "saved", "closeDelaySeconds": 5},
            )
            begun = time.monotonic()
            machine.step_clock("all", 3600)
            space.in_git("saved", seconds=90)
            assert time.monotonic() - begun > 4, "the delay was cut short"
            machine.step_clock("all", 0)


OWN = "configbutler.ai"
WRITES = {
    ("secrets", "create"),
    ("secrets", "update"),
    ("events", "create"),
    ("events", "patch"),
    ("leases", "create"),
    ("leases", "update"),
}


def _written(event: dict[str, Any]) -> str:
    """What a request of the product wrote that it may not; empty where it may."""
    ref = event.get("objectRef") or {}
    resource, verb = ref.get("resource", ""), event["verb"]
    if verb in {"get", "list", "watch"} or (resource, verb) in WRITES:
        return ""
    if ref.get("apiGroup") == OWN and ref.get("subresource") == "status" and verb in {"update", "patch"}:
        return ""
    if resource in {"subjectaccessreviews", "selfsubjectaccessreviews", "tokenreviews"}:
        return ""
    return f"{verb} {ref}"


def test_it_only_reads_the_cluster(tmp_path: Path) -> None:
    """Q06: through a day's work (keys made, Secrets sealed, changes, deletions, a save, a refused folder) the
    product's user writes its own statuses, Events, Lease and the Secrets that it makes, and nothing else.
    """
    token = secrets.token_hex(8)
    (tmp_path / "tokens.csv").write_text(f'{token},the-product,1,"system:masters"\n')
    events: list[dict[str, Any]] = []
    lock = threading.Lock()

    def take(body: bytes) -> int:
        with lock:
            events.extend(json.loads(body)["items"])
        return 200

    supervisor = Supervisor()
    with receiving(take) as port:
        supervisor.start(
            sandbox_program(
                tmp_path,
                tmp_path / "admin",
                "--audit-webhook",
                f"http://127.0.0.1:{port}/",
                "--audit-batch-max-wait",
                "0.2",
                "--token-file",
                str(tmp_path / "tokens.csv"),
            )
        )
        try:
            kube = wait_for_cluster(tmp_path / "admin")
            install_crds(kube)
            config = json.loads((tmp_path / "admin").read_bytes())
            config["users"][0]["user"] = {"token": token}
            (tmp_path / "product").write_text(json.dumps(config))
            operator = Operator(tmp_path / "state", tmp_path / "product")
            with running(operator):
                space, refused = _spaces(kube, tmp_path, "reading", "refusing")
                space.configmap("menu")
                signing = {"secretRef": {"name": "signing"}, "generateWhenMissing": True}
                space.provider(window="1s", commit={"signing": signing})
                space.target(encryption=ENCRYPTION)
                space.rule([SECRETS, CONFIGMAPS])
                space.wait_streams()
                space.in_git("menu", seconds=60)
                space.set("menu", "2")
                space.in_git("menu", b'"2"', seconds=60)
                space.configmap("doomed")
                space.in_git("doomed", seconds=60)
                space.delete("doomed")
                space.gone_from_git("doomed", seconds=60)
                space.apply("commitrequests", "CommitRequest", "save", {"targetRef": {"name": "gt"}})
                refused.seed({"live/Chart.yaml": "apiVersion: v2\nname: x\nversion: 1.0.0\n"})
                refused.base()
                until(
                    lambda: refused.is_condition("gittargets", "gt", "GitPathAccepted", "False"),
                    "refused",
                    60,
                )
        finally:
            supervisor.stop((), limit_seconds=15)
    ours = [event for event in events if event["user"]["username"] == "the-product"]
    assert [event for event in ours if (event.get("objectRef") or {}).get("subresource") == "status"]
    made = [_written(event) for event in ours]
    forbidden = sorted({what for what in made if what and "customresourcedefinitions" not in what})
    assert [what for what in forbidden if "'namespaces'" not in what] == []
