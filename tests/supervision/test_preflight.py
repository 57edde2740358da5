"""Everything that can be wrong before a start is one clear line, and nothing is left running."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reverser import workerprocess
from reverser.config import load_config
from reverser.errors import KubeForbidden, KubeUnauthenticated, KubeUnavailable, SettingsInvalid
from reverser.quantities import Address
from reverser.sandbox import seeds
from reverser.supervision import preflight
from reverser.supervision.gitview import GitView
from reverser.supervision.valkey import embedded_valkey
from tests.e2e.operator import ROOT
from tests.ports import free_port

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: u, user: {}}]
contexts: [{name: c, context: {cluster: a, user: u}}]
current-context: CONTEXT
"""


def start(tmp_path: Path, *arguments: str, **settings: str) -> tuple[int, list[str]]:
    """Run manage.py; exit code and lines."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("REVERSER_", "KUBE"))}
    environment |= {
        "HOME": str(tmp_path),
        "REVERSER_STATE_DIR": str(tmp_path / "state"),
        "REVERSER_HTTP_ADDR": f"127.0.0.1:{free_port()}",
        **settings,
    }
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port on which nobody listens, and that nobody else can take meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def kubeconfig(tmp_path: Path, context: str = "c") -> str:
    """A kubeconfig whose server does not listen."""
    path = tmp_path / f"kubeconfig-{context}"
    path.write_text(KUBECONFIG.replace("CONTEXT", context))
    return str(path)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"KUBECONFIG": "down"}, "the cluster cannot be reached"),
        ({"KUBECONFIG": "other-context"}, "expected object with name nope"),
        ({"KUBECONFIG": "broken"}, "is not valid YAML"),
        ({"KUBECONFIG": "/no/such/file"}, "no such file"),
        ({"KUBECONFIG": "empty"}, "is empty"),
        ({"KUBECONFIG": "binary"}, "is not a kubeconfig"),
        ({"KUBECONFIG": "folder"}, "is a directory"),
        ({"REVERSER_STATE_DIR": "/proc/nowhere"}, "choose another folder"),
        ({"REVERSER_STATE_DIR": "file"}, "choose another folder"),
        ({"REVERSER_STATE_DIR": "below-file"}, "choose another folder"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_up_says_what_is_wrong(tmp_path: Path, settings: dict[str, str], words: str) -> None:
    """Exit code 2 and one line that begins with ``error:``."""
    (tmp_path / "broken").write_text("a: [b")
    (tmp_path / "empty").write_text("")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    made = {
        "folder": str(tmp_path),
        "empty": str(tmp_path / "empty"),
        "binary": str(tmp_path / "binary"),
        "file": str(tmp_path / "empty"),
        "below-file": str(tmp_path / "empty" / "state"),
        "down": kubeconfig(tmp_path),
        "other-context": kubeconfig(tmp_path, "nope"),
        "broken": str(tmp_path / "broken"),
    }
    code, lines = start(tmp_path, "up", **{key: made.get(value, value) for key, value in settings.items()})
    assert (code, len(lines)) == (2, 1), lines
    assert lines[0].startswith("error: ")
    assert words.lower() in lines[0].lower()


def test_nothing_is_made_before_a_start_can_work(tmp_path: Path) -> None:
    """A Redis that is not there and a port in use are told together; no cluster, folder or file of the run is
    left, apart from the lock and the key that settings need.
    """
    with socket.create_server(("127.0.0.1", 0)) as server, deaf_port() as deaf:
        taken = f"127.0.0.1:{server.getsockname()[1]}"
        away = f"redis://:hunter2@127.0.0.1:{deaf}/0"
        code, lines = start(tmp_path, "demo", REVERSER_REDIS_URL=away, REVERSER_HTTP_ADDR=taken)
    assert code == 2
    assert [line.split(":")[:2] for line in lines] == [
        ["error", " REVERSER_HTTP_ADDR"],
        ["error", " REVERSER_REDIS_URL"],
    ]
    assert "hunter2" not in "".join(lines)
    assert {path.name for path in (tmp_path / "state").iterdir()} == {"secret-key", "supervisor.lock"}


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little room, or no more files, is one line before anything is made."""
    assert preflight.space_problem(tmp_path) == ""
    monkeypatch.setattr(preflight, "LEAST_FREE_BYTES", 2**80)
    assert "is full" in preflight.space_problem(tmp_path)
    found = list(os.statvfs(tmp_path))
    found[5], found[7] = 1000, 0
    monkeypatch.setattr(preflight, "LEAST_FREE_BYTES", 0)
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result(found))
    assert "is full (no more files)" in preflight.space_problem(tmp_path)


def test_a_repository_that_was_made_in_part_is_completed(tmp_path: Path) -> None:
    """A start that was killed, or ran out of room, while it made the demo's repository does no harm to the
    next; what cannot be made at all is one line.
    """
    path = tmp_path / "repo.git"
    path.mkdir()
    (path / "HEAD").write_text("ref: refs/heads/main\n")
    seeds.create_repository(path)
    assert GitView(path, "main").problems() == ""
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsInvalid, match="the repository cannot be made: fatal:"):
        seeds.create_repository(tmp_path / "file")


def test_an_empty_key_is_made_anew(tmp_path: Path) -> None:
    """A full disk may have left an empty secret key; the next start makes one, and the others keep it."""
    state = tmp_path / "state"
    state.mkdir()
    (state / "secret-key").touch(0o600)
    code, lines = start(tmp_path, "version")
    assert code == 0, lines
    key = (state / "secret-key").read_text()
    assert len(key) > 50
    assert start(tmp_path, "version")[0] == 0
    assert (state / "secret-key").read_text() == key


def test_demo_without_git(tmp_path: Path) -> None:
    """A missing git is named before anything starts."""
    code, lines = start(tmp_path, "demo", PATH=str(tmp_path))
    assert (code, lines) == (2, ["error: git: the program is not on PATH; install git 2.31 or newer"])


def test_all_settings_are_judged_at_once(tmp_path: Path) -> None:
    """One line for each setting that cannot work."""
    code, lines = start(tmp_path, "up", REVERSER_HTTP_ADDR="x", REVERSER_LOG_LEVEL="loud", REVERSER_NOPE="1")
    assert code == 2
    assert [line.split(":")[1].strip() for line in lines] == [
        "REVERSER_HTTP_ADDR",
        "REVERSER_LOG_LEVEL",
        "REVERSER_NOPE",
    ]


def test_a_port_in_use_is_named() -> None:
    """The message names the setting and the address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address("127.0.0.1", server.getsockname()[1])
        problem = preflight.port_problem("REVERSER_HTTP_ADDR", address)
    assert problem.startswith(f"REVERSER_HTTP_ADDR: cannot listen on {address}: address already in use")
    assert preflight.port_problem("REVERSER_HTTP_ADDR", Address("127.0.0.1", 0)) == ""


def test_two_settings_with_one_port(tmp_path: Path) -> None:
    """Two listeners of the same process cannot share an address."""
    port = str(free_port())
    config = load_config(
        {
            "REVERSER_STATE_DIR": str(tmp_path),
            "REVERSER_HTTP_ADDR": f"127.0.0.1:{port}",
            "REVERSER_AUDIT_ADDR": f"127.0.0.1:{port}",
            "REVERSER_AUDIT_INSECURE": "true",
        }
    )
    assert ["REVERSER_AUDIT_ADDR" in problem for problem in preflight.listener_problems(config)] == [True]


def test_one_supervisor_per_state_directory(tmp_path: Path) -> None:
    """The second is told which process has it, at once."""
    with preflight.owned_state_dir(tmp_path):
        with pytest.raises(SettingsInvalid) as refused, preflight.owned_state_dir(tmp_path):
            pass
        assert f"process {os.getpid()}" in refused.value.problems[0]
    with preflight.owned_state_dir(tmp_path):
        pass


def test_children_of_a_killed_supervisor_keep_the_directory(tmp_path: Path) -> None:
    """While one is left the directory stays taken; a start waits for it, and no longer than it is told."""
    with preflight.owned_state_dir(tmp_path) as lock:
        child = subprocess.Popen(["sleep", "60"], pass_fds=(lock,))
    dead = subprocess.Popen(["true"])
    dead.wait()
    (tmp_path / "supervisor.lock").write_text(str(dead.pid))
    with pytest.raises(SettingsInvalid), preflight.owned_state_dir(tmp_path, patience=0.3):
        pass
    child.kill()
    child.wait()
    with preflight.owned_state_dir(tmp_path, patience=10):
        pass


def test_a_killed_supervisor_that_nobody_looked_after_is_not_waited_for_in_vain(tmp_path: Path) -> None:
    """E15, E18: a parent that kills it and starts another at once leaves a zombie, which runs nothing:
    its children end on their own, as after every kill.
    """
    with preflight.owned_state_dir(tmp_path) as lock:
        child = subprocess.Popen(["sleep", "1"], pass_fds=(lock,))
    dead = subprocess.Popen(["true"])
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    (tmp_path / "supervisor.lock").write_text(str(dead.pid))
    with preflight.owned_state_dir(tmp_path, patience=60):
        assert child.wait() == 0
    dead.wait()


def test_a_start_outwaits_what_a_killed_supervisor_leaves() -> None:
    """E18: killed while a push hangs in a hook and started again at once, it comes up."""
    assert preflight.LEFTOVER_SECONDS > workerprocess.LIMIT_SECONDS + 2


def test_redis_that_is_not_there_shows_no_password() -> None:
    """The reason, never the credentials."""
    with deaf_port() as port:
        problem = preflight.redis_problem(f"redis://:hunter2@127.0.0.1:{port}/0")
    assert "no Redis answers there" in problem
    assert "hunter2" not in problem
    assert "write redis://" in preflight.redis_problem("http://127.0.0.1")


def test_the_cluster_is_judged_by_the_class_of_the_error() -> None:
    """Unreachable, forbidden and badly configured read differently."""

    def failing(error: Exception) -> str:
        def connect() -> preflight.Kube:
            raise error

        return preflight.cluster_problem(connect)

    assert "cannot be reached" in failing(KubeUnavailable("down"))
    assert "does not accept these credentials" in failing(KubeForbidden("no"))
    assert "does not accept these credentials" in failing(KubeUnauthenticated("no"))
    assert failing(SettingsInvalid(["bad file"])) == "bad file"


def test_a_deep_state_directory_gets_a_short_socket(tmp_path: Path) -> None:
    """A socket's path may not be longer than about 100 bytes; each start finds the same one."""
    deep = tmp_path / ("d" * 90)
    first, second = embedded_valkey(deep), embedded_valkey(deep)
    assert first.url == second.url
    assert len(first.url) < 110
    Path(first.url.removeprefix("unix://").partition("?")[0]).parent.rmdir()
