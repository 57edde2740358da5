"""CommitRequests from creation to their final status, with attribution and admission on or off."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from reverser.kube.paths import own_path
from tests.e2e.audited import Board, Installation, scenario, store_of, together, wait_journaled
from tests.e2e.operator import Operator
from tests.e2e.workspace import Workspace, until

COMMITTER = "GitOps Reverser <noreply@configbutler.ai>"
ALICE = "alice <alice@noreply.cluster.local>"
BOB = "bob <bob@noreply.cluster.local>"
NewSpace = Callable[[], Workspace]


def conditions(space: Workspace, name: str) -> dict[str, str]:
    """``Ready`` and the others as ``status/reason``."""
    found = space.get("commitrequests", name).get("status", {}).get("conditions", [])
    return {c["type"]: f"{c['status']}/{c['reason']}" for c in found}


def finished(space: Workspace, name: str, seconds: float = 30.0) -> dict[str, Any]:
    """Wait for the final status and return it."""

    def check() -> bool:
        found = conditions(space, name)
        return found.get("Ready", "").startswith("True") or found.get("Stalled", "").startswith("True")

    until(check, f"CommitRequest {name} is finished: {conditions(space, name)}", seconds)
    return dict(space.get("commitrequests", name)["status"])


def message(space: Workspace, commit: str = "main") -> str:
    """The message of a commit, verbatim."""
    raw: bytes = space.git._git("log", "-1", "--format=%B", commit).stdout
    return raw.decode().rstrip("\n")


def authors(space: Workspace) -> list[str]:
    return [commit.author for commit in reversed(space.git.log())]


@scenario
def test_save_now(lab: Installation, new: NewSpace) -> None:
    """I01, I26: the exact message, the author, every condition; and a finished request stays as it is."""
    space = new()
    space.base(window="60s")
    alice = lab.person("alice")
    alice.configmap(space, "a")
    lab.wait_journaled(space, "a")
    started = time.monotonic()
    alice.save(space, "save", message="Menu for spring\n\n- soup")
    status = finished(space, "save")
    assert time.monotonic() - started < 25
    assert conditions(space, "save") == {
        "Ready": "True/Committed",
        "Reconciling": "False/Committed",
        "Stalled": "False/Committed",
        "Pushed": "True/Pushed",
        "AuthorAttributed": "True/AttributedFromAdmission",
    }
    assert (status["sha"], status["branch"]) == (space.git.tip(), "main")
    assert status["submitter"]["username"] == "alice"
    assert message(space) == "Menu for spring\n\n- soup"
    assert authors(space) == [ALICE]
    path = own_path("commitrequests", namespace=space.namespace, name="save")
    lab.kube.patch(path, {"metadata": {"labels": {"touched": "yes"}}})
    alice.set(space, "a", "2")
    lab.wait_journaled(space, "a", "2")
    alice.save(space, "again")
    finished(space, "again")
    assert space.get("commitrequests", "save")["status"] == status
    assert message(space) != message(space, status["sha"])


@scenario
def test_save_at_once(lab: Installation, new: NewSpace) -> None:
    """I01: a request right behind its change finds the change, though audit is later than both."""
    space = new()
    space.base(window="60s")
    alice = lab.person("alice")
    for number in range(4):
        alice.configmap(space, f"n{number}")
        alice.save(space, f"s{number}", message=f"change {number}")
        status = finished(space, f"s{number}")
        assert conditions(space, f"s{number}")["Ready"] == "True/Committed"
        assert message(space, status["sha"]) == f"change {number}"


@scenario
def test_request_comes_first(lab: Installation, new: NewSpace) -> None:
    """I03, I05: what follows within the delay joins; one apply with the request in front is one commit."""
    space = new()
    space.base(window="60s")
    alice = lab.person("alice")
    started = time.monotonic()
    alice.save(space, "save", message="The whole menu", closeDelaySeconds=8)
    for number in range(10):
        alice.configmap(space, f"n{number}")
    status = finished(space, "save", seconds=60)
    assert time.monotonic() - started >= 8
    assert conditions(space, "save")["Ready"] == "True/Committed"
    assert len(space.git.log()) == 1
    assert message(space) == "The whole menu"
    assert status["sha"] == space.git.tip()
    assert len([path for path in space.git.files() if "/configmaps/n" in path]) == 10


@scenario
def test_somebody_elses_window(lab: Installation, new: NewSpace) -> None:
    """I06, I08, T4: a request never closes another author's window; an author change closes its own."""
    space = new()
    space.base(window="60s")
    alice, bob = lab.person("alice"), lab.person("bob")
    alice.configmap(space, "a")
    lab.wait_journaled(space, "a")
    bob.save(space, "now")
    bob.save(space, "soon", closeDelaySeconds=3)
    finished(space, "now")
    finished(space, "soon")
    for name in ("now", "soon"):
        found = conditions(space, name)
        assert (found["Ready"], found["Pushed"]) == ("True/WindowMismatch", "False/WindowMismatch")
        assert "sha" not in space.get("commitrequests", name)["status"]
    assert space.git.tip() == ""
    alice.save(space, "hers", message="by alice", closeDelaySeconds=200)
    lab.wait_attached(space, "hers")
    bob.configmap(space, "b")
    lab.wait_journaled(space, "b")
    bob.save(space, "his", closeDelaySeconds=1)
    status = finished(space, "hers")
    assert conditions(space, "hers")["Ready"] == "True/Committed"
    assert message(space, status["sha"]) == "by alice"
    space.in_git("b", seconds=30)
    assert authors(space) == [ALICE, BOB]
    assert space.subjects()[0] == "[CREATE] v1/configmaps/b"


@scenario
def test_two_requests(lab: Installation, new: NewSpace) -> None:
    """I10: one window takes one request; the other waits for a next one until its own deadline."""
    first, second = new(), new()
    alice = lab.person("alice")
    first.base(window="60s")
    second.base(window="60s")
    alice.configmap(first, "a")
    lab.wait_journaled(first, "a")
    alice.save(first, "one", message="one", closeDelaySeconds=5)
    alice.save(second, "one", message="one", closeDelaySeconds=25)
    lab.wait_attached(first, "one")
    lab.wait_attached(second, "one")
    alice.save(first, "two", message="two", closeDelaySeconds=2)
    alice.save(second, "two", message="two", closeDelaySeconds=10)
    lab.wait_attached(second, "two")
    alice.configmap(second, "a")
    finished(first, "one")
    finished(first, "two")
    assert conditions(first, "one")["Ready"] == "True/Committed"
    assert conditions(first, "two")["Ready"] == "True/NoWindowInGrace"
    assert message(first) == "one"
    finished(second, "one", seconds=60)
    finished(second, "two")
    assert conditions(second, "two")["Ready"] == "True/Committed"
    assert conditions(second, "one")["Ready"] == "True/NoWindowInGrace"
    assert message(second) == "two"


@scenario
def test_nothing_to_commit(lab: Installation, new: NewSpace) -> None:
    """I13, Q13: a window whose changes cancel out, and no window at all, end well and without a commit."""
    space = new()
    space.base(window="60s")
    alice = lab.person("alice")
    alice.configmap(space, "a")
    lab.wait_journaled(space, "a")
    alice.save(space, "base")
    finished(space, "base")
    tip = space.git.tip()
    for value in ("2", "1"):
        alice.set(space, "a", value)
        lab.wait_journaled(space, "a", value)
    alice.save(space, "same")
    finished(space, "same")
    assert conditions(space, "same")["Ready"] == "True/AlreadyPresent"
    assert conditions(space, "same")["Pushed"] == "False/AlreadyPresent"
    alice.save(space, "none")
    finished(space, "none")
    assert conditions(space, "none")["Ready"] == "True/NoWindowInGrace"
    assert space.git.tip() == tip


@scenario
def test_window_zero(lab: Installation, new: NewSpace) -> None:
    """I21: with windows of 0 s a waiting request binds to the first change and names its commit."""
    space = new()
    space.base(window="0s")
    alice = lab.person("alice")
    alice.save(space, "save", message="the first change", closeDelaySeconds=60)
    lab.wait_attached(space, "save")
    alice.configmap(space, "a")
    status = finished(space, "save", seconds=50)
    assert conditions(space, "save")["Ready"] == "True/Committed"
    assert message(space, status["sha"]) == "the first change"


@scenario
def test_same_name_again(lab: Installation, new: NewSpace) -> None:
    """I25: a request of the same name is another request: its uid decides."""
    space = new()
    space.base(window="60s")
    alice = lab.person("alice")
    shas = []
    for text in ("first", "second"):
        alice.configmap(space, text)
        lab.wait_journaled(space, text)
        alice.save(space, "save", message=text)
        shas.append(finished(space, "save")["sha"])
        assert message(space, shas[-1]) == text
        lab.kube.delete(own_path("commitrequests", namespace=space.namespace, name="save"))
    assert len(set(shas)) == 2


@scenario
def test_time_to_live(lab: Installation, new: NewSpace) -> None:
    """I21: a finished request with a time to live goes by itself."""
    space = new()
    space.base(window="60s")
    lab.person("alice").save(space, "save", ttlSecondsAfterFinished=2)
    path = own_path("commitrequests", namespace=space.namespace)
    until(lambda: not lab.kube.list(path).items, "the finished request is gone")


@scenario
def test_race_on_the_remote(lab: Installation, new: NewSpace) -> None:
    """I11: the sha is that of the commit on the remote, after a human was faster."""
    space = new()
    space.base(window="60s")
    alice = lab.person("alice")
    alice.configmap(space, "first")
    lab.wait_journaled(space, "first")
    alice.save(space, "base")
    finished(space, "base")
    hook = space.repository / "hooks" / "pre-receive"
    done = space.folder / "raced"
    clone = space.folder / "human"
    space.seed({"notes.txt": "one\n"}, "human")
    # Once, in the middle of the push: the human's commit lands first, and the push is a race that is lost.
    hook.write_text(
        "#!/bin/sh\n"
        f"test -e {done} && exit 0\n"
        f"touch {done}\n"
        "unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_DIR\n"
        f"cd {clone} && echo two > notes.txt && git -c user.name=Human -c user.email=h@lab.test "
        "commit -q -am racing && git push -q origin HEAD:main\n"
        "exit 0\n"
    )
    hook.chmod(0o755)
    alice.configmap(space, "a")
    lab.wait_journaled(space, "a")
    alice.save(space, "save", message="after the race")
    status = finished(space, "save", seconds=60)
    hook.unlink()
    assert done.exists()
    commits = space.git._git("rev-list", "main").stdout.decode().split()
    assert status["sha"] == commits[0]
    assert "racing" in space.subjects()
    assert space.git.read(space.file("a")) is not None


@scenario
def test_refused_folder(lab: Installation, new: NewSpace) -> None:
    """I15: a folder that is refused fails the request with the reason, and nothing is committed."""
    space = new()
    space.base(window="60s")
    alice = lab.person("alice")
    alice.configmap(space, "first")
    lab.wait_journaled(space, "first")
    alice.save(space, "base")
    finished(space, "base")
    tip = space.seed({"live/deploy.sh": "#!/bin/sh\n"})
    alice.configmap(space, "a")
    lab.wait_journaled(space, "a")
    alice.save(space, "save")
    finished(space, "save", seconds=60)
    found = conditions(space, "save")
    assert (found["Ready"], found["Stalled"]) == ("False/FinalizeFailed", "True/FinalizeFailed")
    assert "deploy.sh" in space.condition("commitrequests", "save", "Stalled")["message"]
    assert space.git.tip() == tip


@scenario
def test_deleted_while_waiting(lab: Installation, new: NewSpace) -> None:
    """I21: a request that is deleted while it waits leaves the changes to their window."""
    space = new()
    space.base(window="6s")
    alice = lab.person("alice")
    alice.save(space, "save", message="withdrawn", closeDelaySeconds=200)
    uid = space.get("commitrequests", "save")["metadata"]["uid"]
    lab.wait_attached(space, "save")
    lab.kube.delete(own_path("commitrequests", namespace=space.namespace, name="save"))
    with store_of(lab.operator) as store:
        until(lambda: store.withdrawn([uid]), "it is withdrawn")
    alice.configmap(space, "a")
    space.in_git("a", seconds=20)
    assert space.subjects() == ["[CREATE] v1/configmaps/a"]


@scenario
def test_many_requests(lab: Installation, new: NewSpace) -> None:
    """I28: requests of several people while they write: all end, each sha is its submitter's, none twice."""
    space = new()
    space.base(window="60s")
    people = [lab.person(f"user{number}") for number in range(4)]

    def work(number: int) -> None:
        for turn in range(8):
            people[number].configmap(space, f"u{number}-{turn}")
            people[number].save(space, f"s{number}-{turn}", message=f"{number} {turn}")

    together(*(lambda number=number: work(number) for number in range(len(people))))
    shas: dict[str, str] = {}
    for number in range(len(people)):
        for turn in range(8):
            status = finished(space, f"s{number}-{turn}", seconds=120)
            if "sha" in status:
                assert status["sha"] not in shas
                shas[status["sha"]] = f"user{number}"
    for commit in space.git.log():
        if commit.sha in shas:
            assert commit.author.startswith(f"{shas[commit.sha]} <")
    assert set(shas) <= {commit.sha for commit in space.git.log()}


def test_killed_while_waiting(alone: Installation, board: Board) -> None:
    """I23: all processes killed while a request waits: it ends, and its change is in Git."""
    space = board.space()
    space.base(window="30s")
    alice = alone.person("alice")
    alice.configmap(space, "a")
    alone.wait_journaled(space, "a")
    alice.save(space, "save", message="survived", closeDelaySeconds=8)
    alone.wait_attached(space, "save")
    alone.operator.kill()
    alone.operator.start()
    status = finished(space, "save", seconds=90)
    space.in_git("a", seconds=60)
    assert conditions(space, "save")["Stalled"].startswith("False")
    if conditions(space, "save")["Ready"] == "True/Committed":
        assert message(space, status["sha"]) == "survived"


def test_combinations(alone: Installation, board: Board) -> None:
    """I20, I3, G36: with attribution off nothing listens, nobody is named, nobody waits, and a request binds
    to any window. With admission off nobody is known to have asked: an attributed window is another's.
    """
    off = {"REVERSER_AUTHOR_ATTRIBUTION": "false"}
    assert alone.operator.stop() == 0
    alone.operator.start(extra=off)
    try:
        space = board.space()
        space.base(window="60s")
        assert alone.relay.take([{"verb": "x"}]) == 503
        ask(alone, space, AuthorAttributed="True/AttributedFromAdmission")
        assert space.get("commitrequests", "save")["status"]["submitter"]["username"] == "alice"
        assert alone.operator.stop() == 0
        alone.operator.start(extra={"REVERSER_ADMISSION_CERT_DIR": ""})
        space = board.space()
        space.base(window="60s")
        alone.person("alice").configmap(space, "hers")
        alone.wait_journaled(space, "hers")
        alone.person("alice").save(space, "mismatch")
        finished(space, "mismatch")
        assert conditions(space, "mismatch")["Ready"] == "True/WindowMismatch"
        alone.relay.drop.add((space.namespace, "anon"))
        ask(alone, space, AuthorAttributed="False/CommitterFallback")
        assert "submitter" not in space.get("commitrequests", "save")["status"]
    finally:
        if alone.operator.running:
            assert alone.operator.stop() == 0


def test_both_off(operator: Operator, space: Workspace) -> None:
    """I20, I3: without both, a request binds to any window, and nobody is named."""
    space.base(window="60s")
    space.configmap("a")
    wait_journaled(operator, space, "a")
    space.apply("commitrequests", "CommitRequest", "save", {"targetRef": {"name": "gt"}, "message": "saved"})
    status = finished(space, "save")
    assert conditions(space, "save")["Ready"] == "True/Committed"
    assert conditions(space, "save")["AuthorAttributed"] == "False/CommitterFallback"
    assert message(space, status["sha"]) == "saved"
    assert authors(space) == [COMMITTER]


def ask(lab: Installation, space: Workspace, **expected: str) -> None:
    """Somebody's change, alice's request: committed as the committer's."""
    lab.person("anon").configmap(space, "a")
    lab.wait_journaled(space, "a")
    lab.person("alice").save(space, "save", message="saved")
    status = finished(space, "save")
    found = conditions(space, "save")
    assert found["Ready"] == "True/Committed"
    assert {key: found[key] for key in expected} == expected
    assert message(space, status["sha"]) == "saved"
    assert authors(space)[-1] == COMMITTER
