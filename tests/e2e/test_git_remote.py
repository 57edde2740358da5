"""What happens to the remote while the operator writes to it, and what it makes of that."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reverser.supervision.gitview import GitView
from tests.e2e.cluster import kubectl
from tests.e2e.operator import Operator
from tests.e2e.test_live import forget_redis
from tests.e2e.test_restarts import pending
from tests.e2e.trust import shows
from tests.e2e.workspace import Workspace, until
from tests.git.servers import git_http

SERVICES = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"]}


def git(space: Workspace, *arguments: str) -> str:
    """Plumbing on the bare repository."""
    done = subprocess.run(
        ["git", f"--git-dir={space.repository}", *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def mirror_branch(space: Workspace, branch: str) -> GitView:
    """A second target ``gt2`` on another branch; its view."""
    space.target("gt2", branch=branch)
    space.rule(name="wr2", target="gt2")
    space.wait_streams("gt2")
    return GitView(space.repository, branch)


def holds(view: GitView, path: str, text: bytes, seconds: float = 40) -> None:
    until(lambda: text in (view.read(path) or b""), f"{path} holds {text!r}", seconds)


def test_an_empty_repository_with_another_head(space: Workspace, operator: Operator) -> None:
    """F01, F23: the branch is a root commit, HEAD and the unborn default stay; the clone is where it is
    documented.
    """
    git(space, "symbolic-ref", "HEAD", "refs/heads/trunk")
    space.base()
    view = mirror_branch(space, "env/b")
    space.configmap("menu")
    space.in_git("menu")
    holds(view, space.file("menu"), b"menu")
    assert len(space.subjects()) == 1
    assert git(space, "symbolic-ref", "HEAD") == "refs/heads/trunk"
    assert "refs/heads/trunk" not in git(space, "for-each-ref", "--format=%(refname)").split()
    digest = hashlib.sha256(f"file://{space.repository}".encode()).hexdigest()[:32]
    folder = operator.state / "workers" / space.namespace / "gp"
    for branch in ("main", "env/b"):
        assert [path.name for path in (folder / branch / "repos").iterdir() if path.is_dir()] == [digest]


def test_a_branch_is_merged_and_deleted_then_used_again(space: Workspace) -> None:
    """F03: the next change is one commit on the merge."""
    space.seed({"docs.md": "x\n"})
    space.provider()
    view = mirror_branch(space, "env/b")
    space.configmap("menu", {"price": "1"})
    holds(view, space.file("menu"), b"price")
    old = git(space, "rev-parse", "main")
    tree = git(space, "rev-parse", "env/b^{tree}")
    identity = ["-c", "user.name=Human", "-c", "user.email=human@lab.test"]
    merge = git(space, *identity, "commit-tree", tree, "-p", old, "-p", view.tip(), "-m", "merge")
    git(space, "update-ref", "refs/heads/main", merge)
    git(space, "update-ref", "-d", "refs/heads/env/b")
    space.set("menu", "2", key="price")
    holds(view, space.file("menu"), b'price: "2"')
    assert git(space, "rev-parse", "env/b^") == merge


def test_more_races_than_attempts(space: Workspace) -> None:
    """F08: a human is faster five times in a row; nobody's commit is lost and nothing is forced."""
    space.base()
    space.configmap("old")
    space.in_git("old")
    left = space.folder / "left"
    left.write_text("5")
    racing = f"""
left=$(cat {left})
[ "$left" -gt 0 ] || exit 0
echo $((left - 1)) > {left}
unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES
export GIT_AUTHOR_NAME=Human GIT_AUTHOR_EMAIL=human@lab.test
export GIT_COMMITTER_NAME=Human GIT_COMMITTER_EMAIL=human@lab.test
tip=$(git rev-parse refs/heads/main)
git update-ref refs/heads/main $(git commit-tree "$tip^{{tree}}" -p "$tip" -m "human $left")
"""
    space.hook("pre-receive", racing)
    before = space.git.tip()
    space.configmap("a")
    space.in_git("a", seconds=60)
    subjects = space.subjects()
    assert [subject for subject in subjects if subject.startswith("human")] == [
        f"human {number}" for number in range(1, 6)
    ]
    assert before in [commit.sha for commit in space.git.log()]
    assert subjects.count("[CREATE] v1/configmaps/a") == 1


def test_the_history_is_replaced(space: Workspace) -> None:
    """F09, F10, F11: an unrelated root, then a deleted branch: everything claimed is there again, without a
    restart, on what the remote has now.
    """
    space.base()
    space.configmap("a")
    space.configmap("b")
    space.in_git("b")
    tree = git(space, "mktree")
    identity = ["-c", "user.name=Human", "-c", "user.email=human@lab.test"]
    root = git(space, *identity, "commit-tree", tree, "-m", "another beginning")
    git(space, "update-ref", "refs/heads/main", root)
    space.configmap("z")
    for name in ("z", "a", "b"):
        space.in_git(name, seconds=60)
    assert space.subjects()[-1] == "another beginning"
    git(space, "update-ref", "refs/heads/base", root)
    git(space, "symbolic-ref", "HEAD", "refs/heads/base")
    git(space, "update-ref", "-d", "refs/heads/main")
    space.set("a", "2")
    space.in_git("a", b'v: "2"', seconds=60)
    for name in ("z", "b"):
        space.in_git(name, seconds=60)
    assert space.subjects()[-1] == "another beginning"
    assert space.git.problems() == ""


@pytest.mark.slow
def test_a_remote_that_is_away_or_silent(space: Workspace, operator: Operator) -> None:
    """F13, F15: what the first replay found is kept until the remote is back, also over a restart; a silent
    remote holds up neither other branches nor the end of the process.
    """
    with git_http(space.folder) as server:
        server.answer = 503
        for number in range(5):
            space.configmap(f"cm-{number}")
        space.provider(url=server.url("repo.git"))
        space.target()
        space.rule()
        space.wait_streams()
        shows(space, "gittargets", "gt", "PushSucceeding=False", seconds=60)
        server.answer = None
        server.hang.set()
        subprocess.run(["git", "init", "-q", "--bare", str(space.folder / "other.git")], check=True)
        space.provider("gp2", url=f"file://{space.folder / 'other.git'}")
        spec = {"providerRef": {"name": "gp2"}, "branch": "main", "path": "live"}
        space.apply("gittargets", "GitTarget", "gt2", spec)
        space.rule(name="wr2", target="gt2")
        holds(GitView(space.folder / "other.git", "main"), space.file("cm-4"), b"cm-4", 60)
        began = time.monotonic()
        assert operator.stop() == 0
        assert time.monotonic() - began < 30
        server.hang.clear()
        operator.start()
        for number in range(5):
            space.in_git(f"cm-{number}", seconds=90)


def test_two_targets_interleave_on_one_branch(space: Workspace, operator: Operator) -> None:
    """F16: no update is lost, each commit touches one folder, one clone serves the branch."""
    space.base()
    space.target("gs", path="svc")
    space.rule((SERVICES,), name="ws", target="gs")
    space.wait_streams("gs")
    names = [f"x{number}" for number in range(4)]
    for name in names:
        space.configmap(name)
        port = {"port": 80, "protocol": "TCP", "targetPort": 80}
        spec = {"selector": {"app": name}, "ports": [port]}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
        space.kube.create(space.path("services"), body)

    def write(name: str) -> None:
        for value in range(2, 12):
            space.set(name, str(value))
            change = {"metadata": {"labels": {"v": str(value)}}}
            space.kube.patch(space.path("services", name), change)
            time.sleep(0.3)

    threads = [threading.Thread(target=write, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for name in names:
        space.in_git(name, b'v: "11"')
        space.in_git(name, b'v: "11"', resource="services", root="svc")
    for commit in space.git.log():
        touched = git(space, "show", "--format=", "--name-only", commit.sha).split()
        assert len({path.split("/")[0] for path in touched}) == 1
    repositories = operator.state / "workers" / space.namespace / "gp" / "main" / "repos"
    assert len([path for path in repositories.iterdir() if path.is_dir()]) == 1


def test_one_repository_under_two_names(space: Workspace) -> None:
    """F18: another spelling of the URL is no other repository; the younger target is told, no commit war."""
    space.base()
    space.configmap("a")
    space.in_git("a")
    space.provider("gp2", url=f"file://{space.repository.with_suffix('')}.git/")
    spec = {"providerRef": {"name": "gp2"}, "branch": "main", "path": "live"}
    space.apply("gittargets", "GitTarget", "younger", spec)
    space.rule(name="wr2", target="younger")
    message = shows(space, "gittargets", "younger", "Validated=False/TargetConflict")
    assert f"{space.namespace}/gt" in message
    space.quiet(4)


def test_people_move_edit_and_remove_files(space: Workspace, operator: Operator) -> None:
    """F20, F21: no timer turns a human's edit back; the next change of the object does, where the human has
    moved its file to; what a human removed comes back with a replay.
    """
    space.base()
    space.configmap("menu", {"soup": "leek", "price": "1"})
    space.configmap("b")
    space.in_git("menu")
    space.in_git("b")
    text = (space.git.read(space.file("menu")) or b"").decode()
    lunch = "live/food/lunch.yaml"
    edited = "# moved\n" + text.replace("leek", "tomato")
    space.seed({space.file("menu"): None, lunch: edited, space.file("b"): None})
    space.quiet(8)
    space.set("menu", "2", key="price")
    until(lambda: b'price: "2"' in (space.git.read(lunch) or b""), "the moved file is edited")
    content = space.git.read(lunch) or b""
    assert b"soup: leek" in content
    assert content.startswith(b"# moved\n")
    assert space.git.read(space.file("menu")) is None
    assert space.git.read(space.file("b")) is None
    assert operator.stop() == 0
    forget_redis(operator)
    operator.start()
    again = until(lambda: [path for path in space.git.files() if path.endswith("/b.yaml")], "b is back", 60)
    assert b"name: b\n" in (space.git.read(again[0]) or b"")
    assert (space.git.read(lunch) or b"") == content
    space.delete("menu")
    until(lambda: space.git.read(lunch) is None, "the moved file goes with its object")


class Engine:
    """Applies the branch to the cluster after each push, as GitOps engines do."""

    def __init__(self, space: Workspace, kubeconfig: Path) -> None:
        self._space = space
        self._kubeconfig = kubeconfig
        self._stop = threading.Event()
        self.applied = ""
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Engine:
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            tip = self._space.git.tip()
            if tip and tip != self.applied:
                self._apply(tip)
                self.applied = tip

    def _apply(self, tip: str) -> None:
        folder = self._space.folder / "engine"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        archive = subprocess.run(
            ["git", f"--git-dir={self._space.repository}", "archive", tip, "live"],
            check=True,
            capture_output=True,
        )
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
        done = kubectl(
            self._kubeconfig,
            *("apply", "--server-side", "--force-conflicts", "--field-manager=engine", "-R"),
            *("-f", str(folder / "live" / self._space.namespace)),
        )
        if done.returncode != 0:
            self.failures.append(done.stderr)
        for label in ("label", "annotate"):
            key = "kustomize.toolkit.fluxcd.io/name" if label == "label" else "kubectl.kubernetes.io/engine"
            kubectl(
                self._kubeconfig,
                *(label, "configmap", "--all", "--overwrite", f"{key}=x", "-n", self._space.namespace),
            )


@pytest.fixture
def engine(space: Workspace, kubeconfig: Path) -> Iterator[Engine]:
    """An engine that applies what the scenario's branch holds."""
    with Engine(space, kubeconfig) as running:
        yield running


def test_no_loop_with_an_engine_on_the_same_path(
    space: Workspace, engine: Engine, operator: Operator
) -> None:
    """F25: three changes in the cluster and three in Git are six commits; comments stay, then it is quiet."""
    space.base()
    space.configmap("menu", {"soup": "leek", "price": "1"})
    space.in_git("menu")
    path = space.file("menu")

    def settled() -> None:
        until(
            lambda: engine.applied == space.git.tip() and pending(operator) == 0,
            "the engine has applied the tip and its echo has been judged",
        )

    settled()
    for value in ("2", "3"):
        space.set("menu", value, key="price")
        space.in_git("menu", f'price: "{value}"'.encode())
        settled()
    for number, soup in enumerate(("tomato", "onion", "pea")):
        text = (space.git.read(path) or b"").decode()
        old = ("leek", "tomato", "onion")[number]
        space.seed({path: f"# note {number}\n" + text.replace(f"soup: {old}", f"soup: {soup}")})
        until(
            lambda soup=soup: space.kube.get(space.path(name="menu"))["data"]["soup"] == soup,  # type: ignore[misc]
            "the engine has applied the human's commit",
        )
        settled()
    space.quiet(7)
    subjects = space.subjects()
    assert subjects.count("human") == 3
    assert len(subjects) == 6
    content = space.git.read(path) or b""
    assert content.startswith(b"# note 2\n# note 1\n# note 0\n")
    assert b"soup: pea" in content
    assert b'price: "3"' in content
    assert engine.failures == []
