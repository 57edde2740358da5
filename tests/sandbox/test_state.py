"""The state directory: what survives a restart, a kill, and a torn line."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reverser.errors import SettingsInvalid
from reverser.sandbox.__main__ import main
from reverser.sandbox.thread import SandboxServer
from tests import needs
from tests.sandbox.client import DEADLINE, Client
from tests.sandbox.test_custom_resources import CRDS, GIZMOS, crd, gizmo
from tests.sandbox.test_objects import CMS, configmap

ROOT = Path(__file__).resolve().parents[2]


def test_restart(tmp_path: Path) -> None:
    """Objects, versions, custom resources, credentials and trust survive; history does not."""
    with SandboxServer(tmp_path) as first:
        admin = Client(first)
        admin.ok("POST", CRDS, crd())
        admin.ok("POST", GIZMOS, gizmo())
        made = admin.ok("POST", CMS, configmap())
        admin.ok("POST", CMS, configmap("gone"))
        admin.ok("DELETE", f"{CMS}/gone")
        token, ca, version = first.token, first.ca_cert, first.resource_version()
        url = first.url
    with SandboxServer(tmp_path) as second:
        admin = Client(second, token)
        assert second.url == url
        assert (second.token, second.ca_cert, second.resource_version()) == (token, ca, version)
        assert admin.ok("GET", f"{CMS}/app") == made
        assert admin.request("GET", f"{CMS}/gone")[0] == 404
        assert admin.ok("GET", f"{GIZMOS}/one")["spec"] == {"path": "a", "size": 1}
        resumed = admin.watch(CMS, f"resourceVersion={version}")
        expired = admin.watch(CMS, f"resourceVersion={made['metadata']['resourceVersion']}")
        expired.wait_end()
        assert expired.events[0]["object"]["code"] == 410
        later = admin.ok("POST", CMS, configmap("later"))
        assert int(later["metadata"]["resourceVersion"]) == version + 1
        assert resumed.wait(1)[0]["object"]["metadata"]["name"] == "later"


def test_torn_line(tmp_path: Path) -> None:
    """A change that was half written is as if it had not been."""
    with SandboxServer(tmp_path) as server:
        Client(server).ok("POST", CMS, configmap())
    with (tmp_path / "changes.jsonl").open("ab") as file:
        file.write(b'{"rv":99999,"r":["","configm')
    with SandboxServer(tmp_path) as server:
        assert Client(server).request("GET", f"{CMS}/app")[0] == 200
        assert server.resource_version() < 99999


def test_a_full_disk_costs_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that could be written in part only is cut off; the next one that can be kept keeps it too."""
    write, full = os.write, [True]

    def short(descriptor: int, data: bytes) -> int:
        if full and b'"configmaps"' in data:
            full.pop()
            return write(descriptor, data[:20])
        return write(descriptor, data)

    with SandboxServer(tmp_path) as server:
        monkeypatch.setattr(os, "write", short)
        admin = Client(server)
        for name in ("first", "second", "third"):
            admin.ok("POST", CMS, configmap(name))
        assert full == []
    with SandboxServer(tmp_path) as server:
        for name in ("first", "second", "third"):
            assert Client(server).request("GET", f"{CMS}/{name}")[0] == 200


def test_files_are_private(tmp_path: Path) -> None:
    """Secrets are in the state, so only its owner can read it."""
    with SandboxServer(tmp_path) as server:
        Client(server).ok("POST", CMS, configmap())
        private = [p for p in tmp_path.rglob("*") if p.is_file() and p.suffix != ".crt"]
    assert {p.stat().st_mode & 0o777 for p in private} == {0o600}


def test_one_process_at_a_time(tmp_path: Path) -> None:
    """A second sandbox on the same directory is refused with a way out."""
    with SandboxServer(tmp_path), pytest.raises(SettingsInvalid, match="another sandbox uses"):
        SandboxServer(tmp_path).start()


def test_record() -> None:
    """The record holds every version of every object, in order."""
    with SandboxServer() as server:
        admin = Client(server)
        made = admin.ok("POST", CMS, configmap())
        admin.ok("PUT", f"{CMS}/app", made | {"data": {"k": "2"}})
        admin.ok("DELETE", f"{CMS}/app")
        record = [e for e in server.store_record() if e.key == ("default", "app")]
    assert [(e.type.value, e.obj["data"]["k"]) for e in record] == [
        ("ADDED", "v"),
        ("MODIFIED", "2"),
        ("DELETED", "2"),
    ]
    assert [e.rv for e in record] == sorted(e.rv for e in record)


@contextmanager
def process(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """`python -m reverser.sandbox` with its first line of output."""
    started = subprocess.Popen(
        [sys.executable, "-m", "reverser.sandbox", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    try:
        assert started.stdout is not None
        yield started, started.stdout.readline().strip()
    finally:
        started.kill()
        started.communicate(timeout=DEADLINE)


def test_own_process(tmp_path: Path) -> None:
    """The process says when it is ready, keeps its state over kill -9, and ends on SIGTERM."""
    state, kubeconfig = tmp_path / "state", tmp_path / "kubeconfig"
    options = ("--state-dir", str(state), "--kubeconfig-out", str(kubeconfig))
    kubectl = [needs.kubectl(), "--kubeconfig", str(kubeconfig)]
    with process(*options) as (started, line):
        assert line.startswith("ready https://127.0.0.1:")
        subprocess.run([*kubectl, "create", "configmap", "menu"], check=True, timeout=240)
        started.send_signal(signal.SIGKILL)
        started.wait(DEADLINE)
    with process(*options) as (started, line):
        subprocess.run([*kubectl, "get", "configmap", "menu"], check=True, timeout=240)
        started.send_signal(signal.SIGTERM)
        assert started.wait(DEADLINE) == 0


def test_bad_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot work is one clear line and exit code 2."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    with SandboxServer() as server:
        cases = [
            (("--listen", "nonsense"), "is not HOST:PORT"),
            (("--listen", f"127.0.0.1:{server.port}"), "choose another port"),
            (("--state-dir", str(blocked)), "choose another"),
            (
                ("--audit-webhook", "https://127.0.0.1:1/", "--audit-ca", str(tmp_path / "absent")),
                "No such file",
            ),
        ]
        for arguments, text in cases:
            monkeypatch.setattr(sys, "argv", ["sandbox", *arguments])
            assert main() == 2
            output = capsys.readouterr()
            assert output.out == ""
            assert text in output.err
            assert len(output.err.strip().splitlines()) == 1
