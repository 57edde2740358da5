"""Who is named in Git, with the audit stream on: each scenario in a namespace and repository of its own."""

from __future__ import annotations

import base64
import os
import random
import signal
import subprocess
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from reverser.errors import KubeConflict, KubeForbidden, ReverserError
from tests.e2e.audited import (
    GRACE,
    Board,
    Installation,
    Person,
    pause,
    scenario,
    store_of,
    together,
    user_of,
)
from tests.e2e.workspace import Workspace, until
from webhooks.evidence import timestamp

COMMITTER = "GitOps Reverser <noreply@configbutler.ai>"
DEPLOYMENTS = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
CONFIGMAPS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
NewSpace = Callable[[], Workspace]


def authors(space: Workspace) -> list[str]:
    """Author lines, oldest first."""
    return [commit.author for commit in reversed(space.git.log())]


def derived(user: str) -> str:
    """The author line of a user without claims."""
    local = "".join(char for char in user.lower() if char.isalnum() or char in ".-")
    return f"{user} <{local}@noreply.cluster.local>"


def raw_commits(space: Workspace) -> list[bytes]:
    """Every commit object of the branch."""
    git = ["git", f"--git-dir={space.repository}"]
    names = subprocess.run([*git, "rev-list", "main"], capture_output=True, check=True).stdout.split()
    return [
        subprocess.run([*git, "cat-file", "commit", name.decode()], capture_output=True, check=True).stdout
        for name in names
    ]


def last_author(space: Workspace, name: str) -> str:
    """The author line of the newest commit that touched an object's file."""
    git = ["git", f"--git-dir={space.repository}", "log", "-1", "--format=%an <%ae>", "main", "--"]
    return subprocess.run([*git, space.file(name)], capture_output=True, check=True, text=True).stdout.strip()


@scenario
def test_people_robots_and_claims(lab: Installation, new: NewSpace) -> None:
    """G01, G03, G06: a human, a service account, an impersonated user with and without claims of his own."""
    space = new()
    space.base()
    before = lab.metric("gitopsreverser_attribution_resolutions_total", result="exact_user")
    lab.person("alice").configmap(space, "a")
    space.in_git("a")
    lab.person("system:serviceaccount:ci:deployer").configmap(space, "b")
    space.in_git("b")
    lab.person("carol", display_name="Carol C. Example", email="carol@example.com").configmap(space, "c")
    space.in_git("c")
    lab.person("dora@lab.test").set(space, "a", "2")
    space.in_git("a", b'v: "2"')
    assert authors(space) == [
        derived("alice"),
        "system:serviceaccount:ci:deployer <systemserviceaccountcideployer@noreply.cluster.local>",
        "Carol C. Example <carol@example.com>",
        "dora@lab.test <dora@lab.test>",
    ]
    assert b"committer GitOps Reverser <noreply@configbutler.ai>" in raw_commits(space)[0]
    after = lab.metric("gitopsreverser_attribution_resolutions_total", result="exact_user")
    assert after - before >= 3


@scenario
def test_hostile_names(lab: Installation, new: NewSpace) -> None:
    """G05: whatever a name holds, a commit has one author line and git finds no fault with it."""
    space = new()
    space.base(window="0s")
    people = [
        lab.person("eve <root@kernel.lab>"),
        lab.person("mia", display_name="Bob <boss@lab.test>"),
        lab.person("mia", display_name="n" * 2000),
        lab.person("ice \U0001f366".encode().decode("latin-1")),
        lab.person("rtl", display_name="\u202egnirts".encode().decode("latin-1")),
    ]
    for number, person in enumerate(people):
        person.configmap(space, f"n{number}")
    space.in_git(f"n{len(people) - 1}")
    until(lambda: len(space.git.log()) == len(people), "a commit each")
    assert space.git.problems() == ""
    for raw in raw_commits(space):
        head = raw.partition(b"\n\n")[0].splitlines()
        assert sum(line.startswith(b"author ") for line in head) == 1
        assert sum(line.startswith(b"committer ") for line in head) == 1
    assert "root@kernel.lab" not in authors(space)[0].partition("<")[2]
    assert authors(space)[1] == derived("mia")


@scenario
def test_late_lost_and_next(lab: Installation, new: NewSpace) -> None:
    """G08, G25: later than the grace, or never: the committer, no rewrite, and nobody inherits the name."""
    space = new()
    space.base()
    lab.person("first").configmap(space, "z")
    space.in_git("z")
    lab.relay.hold[(space.namespace, "alice")] = 2 * GRACE
    lab.person("alice").configmap(space, "a")
    space.in_git("a")
    tip = space.git.tip()
    assert authors(space)[-1] == COMMITTER
    lab.relay.wait_passed(space, "alice", "create")
    space.quiet(1)
    assert space.git.tip() == tip
    lab.person("bob").set(space, "a", "2")
    space.in_git("a", b'v: "2"')
    assert authors(space)[-1] == derived("bob")
    lab.relay.drop.add((space.namespace, "carol"))
    lab.person("carol").set(space, "a", "3")
    space.in_git("a", b'v: "3"')
    assert authors(space)[-1] == COMMITTER


@scenario
def test_authors_split_a_window(lab: Installation, new: NewSpace) -> None:
    """G11: three runs of one author each are three commits, in order."""
    space = new()
    space.base(window="8s")
    for user, name in (("alice", "a"), ("alice", "b"), ("bob", "c"), ("alice", "d")):
        lab.person(user).configmap(space, name)
    space.in_git("d")
    assert authors(space) == [derived("alice"), derived("bob"), derived("alice")]
    assert space.subjects()[::-1] == [
        "alice on gt: 2 resource(s)",
        "[CREATE] v1/configmaps/c",
        "[CREATE] v1/configmaps/d",
    ]


@scenario
def test_deletions(lab: Installation, new: NewSpace) -> None:
    """G13, G16, G26: the deleter, with or without a finalizer; a lost event names nobody."""
    space = new()
    space.base()
    alice, bob = lab.person("alice"), lab.person("bob")
    controller = lab.person("system:serviceaccount:lab:releaser")
    alice.configmap(space, "plain")
    alice.configmap(space, "held", finalizers=["lab.test/hold"])
    space.in_git("held")
    bob.delete(space, "plain")
    space.gone_from_git("plain")
    assert authors(space)[-1] == derived("bob")
    bob.delete(space, "held")
    controller.request(
        "PATCH",
        space.path(name="held"),
        {"metadata": {"finalizers": None}},
        content_type="application/merge-patch+json",
    )
    space.gone_from_git("held")
    assert authors(space)[-1] == derived("bob")
    lab.relay.drop.add((space.namespace, "carol"))
    lab.person("carol").configmap(space, "plain")
    space.in_git("plain")
    assert authors(space)[-1] == COMMITTER
    lab.person("carol").delete(space, "plain")
    space.gone_from_git("plain")
    assert authors(space)[-1] == COMMITTER
    assert not [author for author in authors(space) if "releaser" in author]


@scenario
def test_no_op_apply_does_not_steal(lab: Installation, new: NewSpace) -> None:
    """G15: who applies what is there already is never its author, whoever is heard first."""
    no_op(lab, new(), Person.apply)


@scenario
def test_no_op_patch_does_not_steal(lab: Installation, new: NewSpace) -> None:
    """G15: who patches to an equal value is never its author, whoever is heard first."""
    no_op(lab, new(), Person.set)


def no_op(lab: Installation, space: Workspace, act: Callable[[Person, Workspace, str, str], object]) -> None:
    """Alice changes, dave repeats, alice's event is late."""
    space.base()
    alice, dave = lab.person("alice"), lab.person("dave")
    alice.apply(space, "a", "1")
    space.in_git("a")
    lab.relay.hold[(space.namespace, "alice")] = GRACE / 2
    act(alice, space, "a", "2")
    pause(1)  # the change is seen; nothing tells so, for it waits for its author
    act(dave, space, "a", "2")
    space.in_git("a", b'v: "2"')
    space.quiet(2)
    assert authors(space)[-1] in (derived("alice"), COMMITTER)
    assert derived("dave") not in authors(space)


@scenario
def test_the_same_change_at_the_same_moment(lab: Installation, new: NewSpace) -> None:
    """G15, T3: two people send one change at once, one of them is heard of later: nobody is named who did not
    come first for certain."""
    space = new()
    space.base(window="8s")
    people = {user: lab.person(user) for user in ("alice", "dave")}
    objects = [f"n{number}" for number in range(8)]
    for name in objects:
        lab.person("root").configmap(space, name)
    space.in_git(objects[-1])
    lab.relay.hold[(space.namespace, "alice")] = 1.0
    for name in objects:
        together(*(partial(person.set, space, name, "2") for person in people.values()))
    for name in objects:
        space.in_git(name, b'v: "2"')
    for name in objects:
        told = [
            event
            for event in lab.relay.seen
            if event["verb"] == "patch"
            and (event["objectRef"].get("namespace"), event["objectRef"].get("name"))
            == (space.namespace, name)
        ]
        versions = {event["responseObject"]["metadata"]["resourceVersion"] for event in told}
        assert (len(told), len(versions)) == (2, 1)
        first, second = sorted(told, key=lambda event: timestamp(event["requestReceivedTimestamp"]))
        certain = timestamp(second["requestReceivedTimestamp"]) > timestamp(first["stageTimestamp"])
        assert last_author(space, name) in ({COMMITTER, derived(user_of(first))} if certain else {COMMITTER})


@scenario
def test_dry_runs_of_deletions(lab: Installation, new: NewSpace) -> None:
    """T2: kubectl asks for a dry run of a deletion in the body; who does so is never named."""
    space = new()
    space.base()
    mallory, bob = lab.person("mallory"), lab.person("bob")
    dry = {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}
    for name in ("a", "b"):
        mallory.configmap(space, name, labels={"batch": "x"})
        space.in_git(name)
    mallory.request("DELETE", space.path(name="a"), dry)
    mallory.request("DELETE", space.path(), dry, labelSelector="batch=x")
    lab.relay.wait_passed(space, "mallory", "delete")
    lab.relay.wait_passed(space, "mallory", "deletecollection")
    before = len(authors(space))
    for name in ("a", "b"):
        bob.delete(space, name)
        space.gone_from_git(name)
    assert set(authors(space)[before:]) == {derived("bob")}


@scenario
def test_collections(lab: Installation, new: NewSpace) -> None:
    """G18, G20: all of a collection are the deleter's, a held one too; neighbours stay."""
    space = new()
    space.base(window="2s")
    alice, bob = lab.person("alice"), lab.person("bob")
    for number in range(1, 6):
        more = {"finalizers": ["lab.test/hold"]} if number == 3 else {}
        alice.configmap(space, f"x{number}", labels={"batch": "x"}, **more)
    alice.configmap(space, "keep")
    space.in_git("keep")
    expanded = lab.metric("gitopsreverser_attribution_fact_events_total", op="deletecollection_expanded")
    named = lab.metric("gitopsreverser_attribution_resolutions_total", result="exact_deletecollection_item")
    bob.request("DELETE", space.path(), labelSelector="batch=x")
    space.gone_from_git("x3")
    space.gone_from_git("x5")
    assert space.subjects()[0] == "bob on gt: 5 resource(s)"
    assert authors(space)[-1] == derived("bob")
    assert space.git.read(space.file("keep")) is not None
    tip = space.git.tip()
    alice.request(
        "PATCH",
        space.path(name="x3"),
        {"metadata": {"finalizers": None}},
        content_type="application/merge-patch+json",
    )
    space.quiet(3)
    assert space.git.tip() == tip
    metrics = "gitopsreverser_attribution_fact_events_total"
    assert lab.metric(metrics, op="deletecollection_expanded") - expanded >= 5
    metrics = "gitopsreverser_attribution_resolutions_total"
    assert lab.metric(metrics, result="exact_deletecollection_item") - named >= 5


@scenario
def test_scale(lab: Installation, new: NewSpace) -> None:
    """G21: a scale request is its author's change of one line."""
    space = new()
    space.base(rules=(DEPLOYMENTS,))
    labels = {"app": "till"}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "till"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "till", "image": "lab.test/till:1"}]},
            },
        },
    }
    path = space.path("deployments", group="apps")
    lab.person("alice").request("POST", path, body)
    before = space.in_git("till", resource="apps/deployments").splitlines()
    lab.person("carol").request(
        "PATCH", f"{path}/till/scale", {"spec": {"replicas": 5}}, content_type="application/merge-patch+json"
    )
    after = space.in_git("till", b"replicas: 5", resource="apps/deployments").splitlines()
    assert authors(space) == [derived("alice"), derived("carol")]
    assert [line for line in after if line not in before] == [b"  replicas: 5"]


@scenario
def test_failed_requests(lab: Installation, new: NewSpace) -> None:
    """G23: a conflict and a forbidden request name nobody."""
    space = new()
    space.base()
    alice, mallory = lab.person("alice"), lab.person("mallory")
    stale = alice.configmap(space, "a")
    space.in_git("a")
    failed = lab.metric("gitopsreverser_audit_events_total", outcome="failed_request")
    alice.set(space, "a", "2")
    with pytest.raises(KubeConflict):
        mallory.request("PUT", space.path(name="a"), {**stale, "data": {"v": "9"}})
    with pytest.raises(KubeForbidden):
        lab.kube.raw(
            "PATCH",
            space.path(name="a"),
            body={"data": {"v": "9"}},
            headers={"Impersonate-User": "mallory"},
            content_type="application/merge-patch+json",
        )
    mallory.request(
        "PATCH",
        space.path(name="a"),
        {"data": {"v": "9"}},
        content_type="application/merge-patch+json",
        dryRun="All",
    )
    space.in_git("a", b'v: "2"')
    assert set(authors(space)) == {derived("alice")}
    until(
        lambda: lab.metric("gitopsreverser_audit_events_total", outcome="failed_request") - failed >= 2,
        "both failures are counted",
    )


@scenario
def test_many_people_at_once(lab: Installation, new: NewSpace) -> None:
    """G35: of each commit, the one author is who wrote its files last; every file is the newest."""
    space = new()
    space.base()
    people = [lab.person(f"user{number}") for number in range(6)]
    wrote: dict[str, str] = {}

    def work(person: Person) -> None:
        names = [f"{person.user}-{number}" for number in range(6)]
        for name in names:
            person.configmap(space, name)
            wrote[name] = person.user
        random.Random(person.user).shuffle(names)
        for name in names:
            person.set(space, name, "2")

    together(*(lambda person=person: work(person) for person in people))
    for name in wrote:
        space.in_git(name, b'v: "2"', seconds=60)
    log = space.git._git("log", "--format=commit %an", "--name-only", "refs/heads/main").stdout.decode()
    author = ""
    for line in filter(None, log.splitlines()):
        if line.startswith("commit "):
            author = line.removeprefix("commit ")
        elif line.endswith(".yaml"):
            assert wrote[Path(line).stem] == author


@scenario
def test_secret_bodies_in_the_stream(lab: Installation, new: NewSpace) -> None:
    """H08: of Secrets in the audit stream nothing but who and what is kept or printed."""
    space = new()
    marker = f"zq-MARKER-{uuid.uuid4().hex[:6]}"
    alice = lab.person("alice")
    path = space.path("secrets")
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"p": marker}}
    alice.request("POST", path, body)
    with pytest.raises(ReverserError):
        alice.request("POST", path, {**body, "metadata": {"name": "Bad_Name"}})
    alice.request("DELETE", path)
    lab.relay.wait_passed(space, "alice", "deletecollection")
    with store_of(lab.operator) as store:
        dump = b"".join(
            store.client.get(key)
            for key in store.client.keys("*author:v1*")
            if store.client.type(key) == b"string"
        )
    assert b"secrets" in dump
    encoded = base64.b64encode(marker.encode())
    for text in (marker.encode(), encoded):
        assert text not in dump
        assert text.decode() not in "\n".join(lab.operator.lines)


def test_burst_with_a_slow_stream(alone: Installation, board: Board) -> None:
    """G33: a hundred writes whose facts come 1.5 s late are all hers, and wait once, together."""
    space = board.space()
    space.base(window="2s")
    alice = alone.person("alice")
    alice.configmap(space, "first")
    space.in_git("first")
    exact = alone.metric("gitopsreverser_attribution_resolutions_total", result="exact_user")
    alone.relay.hold[(space.namespace, "alice")] = 1.5
    for number in range(100):
        alice.configmap(space, f"n{number}")
    space.in_git("n99", seconds=15)
    assert set(authors(space)) == {derived("alice")}
    assert len(authors(space)) <= 6
    assert alone.metric("gitopsreverser_attribution_resolutions_total", result="exact_user") - exact >= 100


def test_replay_is_nobodys(alone: Installation, board: Board) -> None:
    """G31: what a replay brings is the committer's, though the facts are there."""
    space = board.space()
    space.base()
    for name in ("a", "b"):
        alone.person("alice").configmap(space, name)
    space.in_git("b")
    space.in_git("a")
    assert alone.operator.stop() == 0
    store_files = alone.operator.state / "valkey" / "appendonlydir"
    for leftover in store_files.iterdir():
        leftover.unlink()
    alone.person("bob").delete(space, "b")
    alone.person("alice").configmap(space, "c")
    count = len(authors(space))
    alone.operator.start()
    space.gone_from_git("b")
    space.in_git("c")
    assert set(authors(space)[count:]) == {COMMITTER}


def test_idle_while_nobody_watched(alone: Installation, board: Board) -> None:
    """T3: the watcher is away and the event of her change gets lost; who repeats it meanwhile, with the same
    tool, is not named when the change is seen at last. What is heard of is named also then.
    """
    space = board.space()
    space.base()
    alice, bob, dave = (alone.person(user) for user in ("alice", "bob", "dave"))
    for name in ("a", "b"):
        bob.configmap(space, name)
        space.in_git(name)
    alone.relay.drop.add((space.namespace, "alice"))
    (watcher,) = alone.operator.pids("manage.py watch")
    os.kill(watcher, signal.SIGKILL)
    alice.set(space, "a", "2")
    bob.set(space, "b", "2")
    pause(1.5)  # managedFields count whole seconds
    dave.set(space, "a", "2")
    for name in ("a", "b"):
        space.in_git(name, b'v: "2"')
    space.quiet(2)
    assert (last_author(space, "a"), last_author(space, "b")) == (COMMITTER, derived("bob"))
