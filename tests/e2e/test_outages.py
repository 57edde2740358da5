"""What breaks around the operator while it runs, and what must be right afterwards.

Every scenario writes before, during and after its fault, and compares each object's history in Git with what
was written: nothing lost, nothing twice, nothing out of order.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
import redis

from reverser.store import Store
from tests.e2e.apiproxy import ApiProxy
from tests.e2e.operator import Operator
from tests.e2e.test_restarts import BEAT, VALKEY, WATCHER, WORKER, forget_redis, pending
from tests.e2e.workspace import CONFIGMAPS, Workspace, until

SERVICES = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"]}


def redis_of(operator: Operator) -> redis.Redis:
    """The embedded Redis of an installation."""
    return redis.Redis(unix_socket_path=str(operator.state / "valkey" / "valkey.sock"))


@contextmanager
def paused(pids: list[int]) -> Iterator[None]:
    """SIGSTOP, and SIGCONT afterwards whatever happens."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def proxy(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiProxy]:
    """Between operator and API server."""
    made = ApiProxy(kubeconfig, tmp_path_factory.mktemp("proxy"))
    yield made
    made.close()


@pytest.fixture
def through(space: Workspace, operator: Operator, proxy: ApiProxy) -> Iterator[ApiProxy]:
    """The shared installation, restarted so that it sees the cluster through the proxy."""
    del space
    if operator.environment["KUBECONFIG"] != str(proxy.kubeconfig):
        assert operator.stop() == 0
        operator.environment["KUBECONFIG"] = str(proxy.kubeconfig)
        operator.start()
    yield proxy
    proxy.down = False
    proxy.refused.clear()
    proxy.expire_next = ""


@pytest.fixture(scope="module", autouse=True)
def direct_again(shared_operator: Operator, kubeconfig: Path) -> Iterator[None]:
    """Later modules see the cluster directly."""
    yield
    if shared_operator.environment["KUBECONFIG"] != str(kubeconfig):
        if shared_operator.running:
            assert shared_operator.stop() == 0
        shared_operator.environment["KUBECONFIG"] = str(kubeconfig)


def test_redis_is_emptied_while_everything_runs(space: Workspace, operator: Operator) -> None:
    """E23, A23: all streams replay, the tree is right, nothing is turned back."""
    space.base(window="0s")
    for name in ("a", "doomed"):
        space.configmap(name)
        space.in_git(name)
    space.count_up("a", range(2, 6))
    redis_of(operator).flushall()
    space.count_up("a", range(6, 12))
    space.delete("doomed")
    space.configmap("late")
    space.counted_to("a", 11, complete=False, seconds=90)
    space.gone_from_git("doomed", seconds=60)
    space.in_git("late", seconds=60)
    space.count_up("a", range(12, 14))
    space.counted_to("a", 13, complete=False)
    space.wait_ready()
    assert space.git.problems() == ""


def test_the_queues_are_deleted(space: Workspace, operator: Operator) -> None:
    """The broker's messages are hints: a branch whose queue vanished is woken again within seconds."""
    space.base(window="2s")
    space.configmap("a")
    space.in_git("a")
    connection = redis_of(operator)
    space.configmap("b")
    until(lambda: pending(operator) > 0, "the event is in the journal", 10)
    names = [name for name in connection.keys("*") if not name.startswith(b"gitops-reverser:")]
    for name in names:
        connection.delete(name)
    space.in_git("b", seconds=15)
    space.configmap("c")
    space.in_git("c", seconds=15)


def test_a_gone_history_in_mid_stream(space: Workspace, through: ApiProxy) -> None:
    """E11: the watch says 410 while objects change; both changes arrive, neither twice."""
    space.base(window="0s")
    for number in range(20):
        space.configmap(f"n{number}")
    space.in_git("n19")
    through.expire_next = f"namespaces/{space.namespace}/configmaps"
    space.set("n3", "2")
    space.delete("n4")
    space.in_git("n3", b'v: "2"')
    space.gone_from_git("n4")
    space.quiet(2)
    assert space.values("n3") == ["1", "2"]
    assert space.history("n4")[1:] == [None]
    assert not through.expire_next


@pytest.mark.parametrize("seconds", [5.0, pytest.param(60.0, marks=pytest.mark.slow)])
def test_the_api_server_is_away(space: Workspace, through: ApiProxy, seconds: float) -> None:
    """An API server that is gone for a while costs no change that its history still has."""
    space.base(window="0s")
    for name in ("a", "doomed"):
        space.configmap(name)
        space.in_git(name)
    through.down = True
    through.cut()
    space.count_up("a", range(2, 10))
    space.delete("doomed")
    space.configmap("new")
    time.sleep(seconds)
    through.down = False
    space.counted_to("a", 9, complete=True, seconds=90)
    space.gone_from_git("doomed", seconds=60)
    space.in_git("new", seconds=60)
    space.wait_ready(seconds=90)


def test_discovery_is_down_at_the_start(space: Workspace, operator: Operator, through: ApiProxy) -> None:
    """C16: nothing is committed, nothing crashes; when it answers again all is as before."""
    space.base()
    for number in range(10):
        space.configmap(f"n{number}")
    space.in_git("n9")
    space.quiet(2)
    tip = space.git.tip()
    assert operator.stop() == 0
    through.refused[r"^/apis?(\?|$)"] = 503
    operator.start(wait=False)
    space.quiet(10)
    assert operator.running
    through.refused.clear()
    operator.wait_ready()
    space.wait_ready()
    space.configmap("after")
    space.in_git("after")
    assert space.subjects()[0] == "[CREATE] v1/configmaps/after"
    assert space.git._git("rev-parse", "main~1").stdout.decode().strip() == tip


@pytest.mark.slow
def test_a_type_that_is_not_permitted(space: Workspace, through: ApiProxy) -> None:
    """C31: the others are mirrored, the status names it, it is asked for rarely and heals by itself."""
    through.refused[f"namespaces/{space.namespace}/services"] = 403
    space.provider()
    space.target()
    space.rule([CONFIGMAPS, SERVICES])
    space.configmap("a")
    space.in_git("a")
    streams = until(lambda: _blocked(space), "one of two streams is blocked")
    assert streams["summary"] == "1/2"
    running = space.condition("gittargets", "gt", "StreamsRunning")
    assert running["reason"] == "WatchNotPermitted"
    assert "services" in running["message"]
    since = time.monotonic()
    time.sleep(25)
    asked = [s for s in through.seen if s.at > since and f"{space.namespace}/services" in s.target]
    assert len(asked) <= 1, asked
    through.refused.clear()
    space.wait_streams(seconds=75)


def _blocked(space: Workspace) -> dict[str, object]:
    found = space.get("gittargets", "gt").get("status", {}).get("streams", {})
    return found if found.get("blocked") else {}


def test_servers_without_streaming_lists(space: Workspace, through: ApiProxy) -> None:
    """E09, D15: a server that refuses sendInitialEvents is listed; terminating objects stay away."""
    through.refused["sendInitialEvents"] = 422
    space.configmap("a")
    space.configmap("held", finalizers=["lab.test/hold"])
    space.delete("held")
    space.base()
    space.in_git("a")
    space.set("a", "2")
    space.in_git("a", b'v: "2"')
    assert space.git.read(space.file("held")) is None
    space.kube.patch(space.path(name="held"), {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("seconds", [4.0, pytest.param(60.0, marks=pytest.mark.slow)])
def test_redis_does_not_answer(space: Workspace, operator: Operator, seconds: float) -> None:
    """B17: while Redis hangs, what is watched waits; then each change is one commit, in order."""
    space.base(window="0s")
    space.configmap("a")
    space.in_git("a")
    with paused(operator.pids(VALKEY)):
        space.count_up("a", range(2, 12))
        time.sleep(seconds)
    space.count_up("a", range(12, 15))
    space.counted_to("a", 14, complete=seconds < 10, seconds=90)
    space.wait_ready(seconds=90)


@pytest.mark.slow
@pytest.mark.parametrize("word", [WATCHER, WORKER])
def test_a_process_sleeps_past_its_leases(space: Workspace, operator: Operator, word: str) -> None:
    """Stopped for longer than its leases, then continued: nothing lost, nothing doubled."""
    space.base(window="0s")
    space.configmap("a")
    space.in_git("a")
    space.count_up("a", range(2, 6), pause=0)
    with paused(operator.pids(word)):
        space.count_up("a", range(6, 20))
        space.configmap("b")
        time.sleep(35)
    space.count_up("a", range(20, 25))
    space.counted_to("a", 24, complete=True, seconds=90)
    space.in_git("b", seconds=60)
    assert space.git.problems() == ""


@pytest.mark.slow
def test_two_installations_on_one_journal(
    space: Workspace, operator: Operator, kubeconfig: Path, tmp_path: Path
) -> None:
    """E28, Q08: a second one beside the first; the first sleeps for a while: each change is one commit."""
    watcher, worker = operator.pids(WATCHER), operator.pids(WORKER)
    log = tmp_path / "refs"
    space.hook("post-receive", f"cat >> {log}")
    space.base(window="0s")
    space.configmap("a")
    space.in_git("a")
    url = f"unix://{operator.state / 'valkey' / 'valkey.sock'}?db=0"
    other = Operator(tmp_path / "second", operator.kubeconfig, REVERSER_REDIS_URL=url)
    other.start()
    try:
        space.count_up("a", range(2, 30))
        with paused([*watcher, *worker]):
            space.count_up("a", range(30, 50))
            time.sleep(45)
            space.counted_to("a", 49, complete=True, seconds=60)
        space.count_up("a", range(50, 60))
        space.counted_to("a", 59, complete=True, seconds=60)
        assert other.stop() == 0
        space.count_up("a", range(60, 65))
        space.counted_to("a", 64, complete=True, seconds=60)
    finally:
        if other.running:
            other.kill()
    tips = [line.split()[:2] for line in log.read_text().splitlines()]
    assert all(new == old for (_, new), (old, _) in pairwise(tips))
    assert space.git.problems() == ""


def test_killed_after_the_remote_accepted(space: Workspace, operator: Operator) -> None:
    """E18: the hook still runs when everything is killed; the same change is not committed again."""
    space.base(window="0s")
    space.configmap("a")
    space.in_git("a")
    time.sleep(5.5)
    hook = space.hook("post-receive", "sleep 8")
    space.set("a", "2")
    space.in_git("a", b'v: "2"')
    tip = space.git.tip()
    operator.kill()
    hook.unlink()
    operator.start()
    space.wait_ready()
    space.quiet(4)
    assert space.git.tip() == tip
    until(lambda: pending(operator) == 0, "the journal is empty")


def test_all_objects_are_gone(space: Workspace, operator: Operator) -> None:
    """E03, E08: an empty but complete replay removes exactly its own files; a file that a human moved is
    edited where it is (E05).
    """
    hand = "apiVersion: v1\nkind: Service\nmetadata:\n  name: hand\n"
    space.base()
    for number in range(4):
        space.configmap(f"n{number}")
    space.in_git("n3")
    moved = (space.git.read(space.file("n0")) or b"").decode()
    space.seed(
        {
            space.file("n0"): None,
            "live/hand/moved.yaml": f"# hand note\n{moved}",
            space.file("hand", resource="services"): f"{hand}  namespace: {space.namespace}\n",
        }
    )
    assert operator.stop() == 0
    space.delete("n0")
    space.configmap("n0", {"v": "7"})
    operator.start()
    until(lambda: b'v: "7"' in (space.git.read("live/hand/moved.yaml") or b""), "edited where it is")
    assert (space.git.read("live/hand/moved.yaml") or b"").startswith(b"# hand note\n")
    assert space.git.read(space.file("n0")) is None
    space.wait_ready()
    assert operator.stop() == 0
    for number in range(4):
        space.delete(f"n{number}")
    forget_redis(operator)
    before = len(space.subjects())
    operator.start()
    until(lambda: not [f for f in space.git.files() if "/configmaps/" in f or "hand/" in f], "all are gone")
    space.wait_ready()
    space.quiet(2)
    assert len(space.subjects()) == before + 1
    assert space.git.read(space.file("hand", resource="services")) is not None


def test_leftovers_of_a_crash(space: Workspace, operator: Operator) -> None:
    """E20: locks, a truncated pack, an empty object, or a file where the clone was: the next start works."""
    space.base()
    space.configmap("a")
    space.in_git("a")
    assert operator.stop() == 0
    clones = [
        path for path in operator.state.rglob("HEAD") if path.is_file() and (path.parent / "objects").is_dir()
    ]
    assert clones
    for head in clones:
        clone = head.parent
        for name in ("HEAD.lock", "index.lock", "packed-refs.lock", "shallow.lock", "config.lock"):
            (clone / name).touch()
        (clone / "objects" / "pack").mkdir(exist_ok=True)
        (clone / "objects" / "pack" / f"pack-{'0' * 40}.pack").write_bytes(b"PACK\0\0\0\2")
        (clone / "objects" / "12").mkdir(exist_ok=True)
        (clone / "objects" / "12" / ("3" * 38)).touch()
    operator.start()
    space.configmap("b")
    space.in_git("b", seconds=45)
    assert space.git.problems() == ""


def test_the_cursor_never_runs_ahead(space: Workspace, operator: Operator) -> None:
    """E25, E26: whenever the stored cursor has passed a change, the change is in the journal or in Git."""
    space.base(window="3s")
    uid = space.get("gittargets", "gt")["metadata"]["uid"]
    key = f"gitops-reverser:watch:v1:target:{uid}:configmaps:namespace:{space.namespace}:last-rv"
    connection = redis_of(operator)
    store = Store.connect(f"unix://{operator.state / 'valkey' / 'valkey.sock'}?db=0")
    version = int(space.configmap("a")["metadata"]["resourceVersion"])
    passed = 0
    try:
        until(lambda: int(connection.get(key) or 0) >= version, "the cursor passes the change", 10)
        assert 3400 < int(connection.ttl(key)) <= 3600
        while space.git.read(space.file("a")) is None:
            held = sum(store.read_branch(branch).entries for branch in store.known_branches())
            passed += 1
            assert held or space.git.read(space.file("a")) is not None
            time.sleep(0.1)
    finally:
        store.close()
    assert passed


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_faults_in_a_row(space: Workspace, operator: Operator, through: ApiProxy, seed: int) -> None:
    """Four writers and a human work while process after process is killed or paused and connections break:
    the history of each object in Git is exactly the history that was written.
    """
    space.base(window="0s")
    written: dict[str, list[str]] = {f"n{number}": [] for number in range(4)}
    enough = threading.Event()

    def write(name: str) -> None:
        chance = random.Random(f"{seed} {name}")
        record, value = written[name], 0
        while not enough.wait(chance.uniform(0.05, 0.4)):
            if record and record[-1] and chance.random() < 0.2:
                space.delete(name)
                record.append("")
                continue
            value += 1
            if record and record[-1]:
                space.set(name, str(value))
            else:
                space.configmap(name, {"v": str(value)})
            record.append(str(value))

    with ThreadPoolExecutor(len(written)) as pool:
        jobs = [pool.submit(write, name) for name in written]
        chance = random.Random(seed)
        try:
            for number in range(12):
                one_fault(chance, operator, through, space, number)
                time.sleep(chance.uniform(0.5, 4.0))
        finally:
            enough.set()
    for job in jobs:
        job.result()
    for name, record in written.items():
        until(lambda name=name, record=record: len(space.values(name)) >= len(record), f"all of {name}", 90)
    until(lambda: pending(operator) == 0, "the journal is empty", 60)
    assert {name: space.values(name) for name in written} == written
    assert space.git.problems() == ""


def one_fault(
    chance: random.Random, operator: Operator, proxy: ApiProxy, space: Workspace, number: int
) -> None:
    """Something breaks."""
    kind = chance.choice(["kill", "kill", "kill", "pause", "pause", "cut", "away", "human", "human", "all"])
    word = chance.choice([WATCHER, WORKER, VALKEY, BEAT])
    pids = operator.pids(word)
    if kind == "kill" and pids:
        os.kill(pids[0], signal.SIGKILL)
    elif kind == "pause" and pids:
        with paused(pids[:1]):
            time.sleep(chance.uniform(1.0, 6.0))
    elif kind == "cut":
        proxy.cut()
    elif kind == "away":
        proxy.down = True
        proxy.cut()
        time.sleep(chance.uniform(1.0, 5.0))
        proxy.down = False
    elif kind == "human":
        with contextlib.suppress(subprocess.CalledProcessError):
            space.seed({f"docs/{number}.md": "by hand\n"})
    elif kind == "all":
        operator.kill()
        operator.start()
