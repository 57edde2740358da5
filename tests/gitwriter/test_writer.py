"""The branch writer end to end: journal in, commits out, over a real Valkey and a real repository."""

from __future__ import annotations

import dataclasses
import subprocess
import time
from typing import Any

import pytest

from gitwriter.backoff import STALLED_FIRST_SECONDS
from gitwriter.health import BLOCKED_RECHECK_SECONDS
from reverser.errors import KubeForbidden, KubeUnauthenticated, ReverserError
from reverser.store.branches import IDS_AT_ONCE
from reverser.store.model import AttachEntry, OutcomeKind
from tests.gitwriter.conftest import PREFIX, World

FILE = "live/shop/configmaps/menu.yaml"


def test_first_object_is_one_root_commit_with_exact_bytes(world: World) -> None:
    """D01: one root commit, subject, author = committer, exact file, bootstrap files beside it (B15)."""
    world.event("menu", "1")
    world.write()
    (commit,) = world.git.log()
    assert commit.subject == "[UPDATE] v1/configmaps/menu"
    assert commit.author == "GitOps Reverser <noreply@configbutler.ai>"
    assert world.git.read(FILE) == (
        b'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: menu\n  namespace: shop\ndata:\n  v: "1"\n'
    )
    assert world.git.files() == ["live/.gittargetignore", "live/README.md", FILE]
    assert world.pending() == 0
    assert world.git.problems() == ""


def test_window_zero_commits_each_event_in_order(world: World) -> None:
    """D05: four events, four commits, in order, one push."""
    for value in "1234":
        world.event("a", value)
    world.write()
    assert len(world.git.log()) == 4
    assert world.git.read("live/shop/configmaps/a.yaml").endswith(b'v: "4"\n')


def test_window_folds_and_closes_on_author_change(world: World) -> None:
    """D06, C4: last write wins inside a window, another author closes it, authors are not mixed."""
    world.set_window("60s")
    world.event("a", "1", author="alice")
    world.event("b", "1", author="alice")
    world.event("a", "2", author="alice")
    world.event("a", "3", author="bob")
    world.write()
    (commit,) = world.git.log()
    assert commit.subject == "alice on gt: 2 resource(s)"
    assert commit.author == "alice <alice@noreply.cluster.local>"
    assert world.git.read("live/shop/configmaps/a.yaml").endswith(b'v: "2"\n')
    assert world.pending() == 1


def message(world: World) -> str:
    words = ["git", "--git-dir", str(world.repository), "log", "-1", "--format=%B", "main"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def test_a_message_of_several_changes_lists_them(world: World) -> None:
    """Pain 105: a useful subject, the objects below it, a bounded length; words of one's own say it all."""
    world.set_window("60s")
    for number in range(53):
        world.event(f"c{number:02}", "1")
    shutdown_write(world)
    first, blank, *body = message(world).splitlines()
    assert (first, blank) == ("GitOps Reverser on gt: 53 resource(s)", "")
    assert body[0] == "UPDATE v1/configmaps/shop/c00"
    assert body[49:] == ["UPDATE v1/configmaps/shop/c49", "and 3 more"]
    world.provider["spec"]["commit"] = {"message": {"groupTemplate": "{{.Count}} things"}}
    for name in ("c00", "c01"):
        world.event(name, "2")
    shutdown_write(world)
    assert message(world) == "2 things"


def test_replay_is_one_reconcile_commit_and_a_second_one_is_nothing(world: World) -> None:
    """D03, E01: the first replay is one commit by the committer; the same replay again changes nothing."""
    world.sweep({"a": "1", "b": "2"})
    world.write()
    (commit,) = world.git.log()
    assert commit.subject == "reconciled 2 configmaps (last resourceVersion: 42)"
    tip = world.git.tip()
    world.sweep({"a": "1", "b": "2"})
    shutdown_write(world)
    assert world.git.tip() == tip
    assert world.pending() == 0


def test_replay_sweeps_only_its_own_namespace(world: World) -> None:
    """C01, E03: what a replay no longer holds goes; other namespaces stay."""
    world.sweep({"a": "1", "b": "2"})
    world.write()
    seed(world, "live/depot/configmaps/keep.yaml", DEPOT)
    world.sweep({"a": "1"})
    shutdown_write(world)
    files = [path for path in world.git.files() if path.endswith(".yaml")]
    assert files == ["live/depot/configmaps/keep.yaml", "live/shop/configmaps/a.yaml"]


def test_delete_of_something_unknown_is_no_commit(world: World) -> None:
    """T8: no commit, no branch, no bootstrap."""
    world.event("ghost", None)
    world.write()
    assert world.git.tip() == ""
    assert world.pending() == 0
    (outcome,) = [item for _id, item in world.store.read_outcomes("0-0", 10, 0)]
    assert outcome.kind is OutcomeKind.NO_CHANGE


def test_a_push_that_also_names_an_empty_window_has_arrived(world: World) -> None:
    """J15: the last window of a push changes nothing; the push is not taken for one that was given up."""
    world.event("a", "1")
    world.event("ghost", None)
    world.write()
    outcomes = [item.kind for _id, item in world.store.read_outcomes("0-0", 10, 0)]
    assert outcomes == [OutcomeKind.PUSHED, OutcomeKind.NO_CHANGE]
    assert world.store.read_intents(world.branch) == []
    assert world.store.read_strays(world.branch) == []
    marks = world.store.read_marks(world.target.uid)
    world.event("b", "1")
    world.write()
    assert world.store.read_marks(world.target.uid) == marks


def test_foreign_commit_is_kept_and_built_upon(world: World) -> None:
    """A commit pushed by somebody else in between stays, linear history, nothing lost."""
    world.event("a", "1")
    world.write()
    seed(world, "README.md", "ours\n")
    world.event("b", "1")
    shutdown_write(world)
    subjects = [commit.subject for commit in world.git.log()]
    assert subjects == ["[UPDATE] v1/configmaps/b", "human", "[UPDATE] v1/configmaps/a"]


def test_refused_folder_settles_and_heals_by_a_replay(world: World) -> None:
    """A foreign file refuses the folder; nothing is written; a replay is wanted, parked until a rescan."""
    seed(world, "live/deploy.sh", "echo\n")
    world.event("a", "1")
    world.write()
    verdict = world.store.read_path_verdict(world.target.uid)
    assert verdict is not None and not verdict.accepted
    assert verdict.reason == "UnsupportedContent"
    marks = world.store.read_marks(world.target.uid)[world.scope()]
    assert marks.needs_replay and marks.parked_reason == "path-refused"
    assert world.git.files("live") == ["live/deploy.sh"]
    assert world.pending() == 0


@pytest.mark.parametrize("mode", ["100644", "120000", "160000"])
@pytest.mark.parametrize("path", ["mod", "mod/inner"])
def test_what_stands_in_the_way_to_the_folder_is_kept(world: World, mode: str, path: str) -> None:
    """N11: a person's file, link or submodule where a folder of the target's path should be is never
    replaced by that folder; the refusal names it, and a rescan accepts the path once it is gone.
    """
    target = world.second_target("inner", path=path)
    git = ["git", f"--git-dir={world.repository}"]
    stream = b"commit refs/heads/main\ncommitter H <h@h> 1700000000 +0000\ndata 1\nx\n"
    stream += (
        b"M 160000 %s mod\n" % (b"1" * 40)
        if mode == "160000"
        else b"M %s inline mod\ndata 1\nx\n" % mode.encode()
    )
    subprocess.run([*git, "fast-import", "--quiet"], input=stream, check=True)
    target.event("a", "1")
    target.write()
    verdict = world.store.read_path_verdict(target.target.uid)
    assert verdict is not None and not verdict.accepted
    assert verdict.issues[0].startswith("Git path refused at mod: it is a ")
    assert world.git.files() == ["mod"]
    assert world.pending() == 0


def test_a_folder_behind_a_symbolic_link_stays_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """N11: looking again judges the way to the folder, too; what lies behind the link is no answer."""
    seed(world, "elsewhere/keep.yaml", DEPOT)
    clone = world.repository.parent / "human"
    (clone / "live").symlink_to("elsewhere")
    git = ["git", "-C", str(clone), "-c", "user.name=Human", "-c", "user.email=human@lab.test"]
    for words in (["add", "-A"], ["commit", "-q", "-m", "link"], ["push", "-q", "origin", "HEAD:main"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr("gitwriter.rescan.rescan_delay", lambda tries: 0.0)
    world.event("a", "1")
    for _ in range(2):
        world.write()
        verdict = world.store.read_path_verdict(world.target.uid)
        assert verdict is not None and not verdict.accepted
        assert verdict.issues[0].startswith("Git path refused at live: it is a symbolic link")


DEPOT = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: keep\n  namespace: depot\n"


def shutdown_write(world: World) -> None:
    """A run that ignores the push cooldown, as a shutdown does."""
    world.runtime.begin_shutdown(grace=600)
    world.write()


def seed(world: World, path: str, content: str, *, orphan: bool = False) -> None:
    """Commit a file as a human, through a private clone; ``orphan`` replaces the branch's history."""
    clone = world.repository.parent / "human"
    if not clone.exists():
        subprocess.run(
            ["git", "clone", "-q", str(world.repository), str(clone)], check=True, capture_output=True
        )
    git = ["git", "-C", str(clone), "-c", "user.name=Human", "-c", "user.email=human@lab.test"]
    subprocess.run([*git, "pull", "-q", "origin", "main"], capture_output=True)
    if orphan:
        subprocess.run([*git, "checkout", "-q", "--orphan", "fresh"], check=True)
        subprocess.run([*git, "rm", "-rqf", "."], check=True)
    file = clone / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "human"], check=True)
    subprocess.run([*git, "push", "-q", "--force", "origin", "HEAD:main"], check=True)


def test_closed_gate_holds_a_finalized_window(world: World) -> None:
    """J21, B05: a window that closed before its gate did waits; it goes once the gate is open again."""
    hook(world, "exit 1")
    world.event("a", "1")
    world.write()
    assert world.git.tip() == ""
    hook(world, "exit 0")
    gate = world.store.read_gate(world.target.uid)
    assert gate is not None
    world.store.write_gate(world.target.uid, dataclasses.replace(gate, open=False))
    restart(world)
    shutdown_write(world)
    assert world.git.tip() == ""
    assert world.pending() == 1
    world.store.write_gate(world.target.uid, gate)
    shutdown_write(world)
    assert world.subjects() == ["[UPDATE] v1/configmaps/a"]


def test_policy_refusal_keeps_the_offender_and_lets_others_pass(world: World) -> None:
    """J18, pain 90, 92: the window that the hook refuses stays, with its words; its neighbours are pushed."""
    other = world.second_target("other")
    hook(
        world,
        "while read old new ref; do git ls-tree -r $new | grep -q bad.yaml && "
        "{ echo 'no bad here' >&2; exit 1; }; done; exit 0",
    )
    world.event("bad", "1")
    other.event("good", "1")
    world.write()
    assert world.subjects() == ["[UPDATE] v1/configmaps/good"]
    assert world.pending() == 1
    health = world.store.read_branch_health(world.branch)
    assert health is not None and not health.ok
    assert "no bad here" in health.message
    hook(world, "exit 0")
    restart(world)
    shutdown_write(world)
    assert world.subjects()[0] == "[UPDATE] v1/configmaps/bad"
    assert world.pending() == 0


def test_an_offender_is_tried_again_when_its_pause_is_over(world: World) -> None:
    """J18: by the same process, and not before; the branch is due again at that moment by itself."""
    hook(world, "echo closed >&2; exit 1")
    world.event("a", "1")
    world.write()
    memory = world.memory
    assert len(memory.offenders) == 1
    due = world.store.read_due()[world.branch.id] - world.store.time_ms()
    assert 0 < due <= STALLED_FIRST_SECONDS * 1000 + 1000
    hook(world, "exit 0")
    shutdown_write(world)
    assert world.pending() == 1
    memory.offenders = dict.fromkeys(memory.offenders, 0.0)
    shutdown_write(world)
    assert world.subjects() == ["[UPDATE] v1/configmaps/a"]
    assert (world.pending(), memory.offenders) == (0, {})


def test_retired_target_settles_its_open_entries_and_wants_a_replay(world: World) -> None:
    """J22: the GitTarget is gone; what it had outside finalized windows is settled as retired."""
    world.set_window("60s")
    world.event("a", "1")
    del world.cluster.objects[f"{PREFIX}/gittargets/gt"]
    world.write()
    assert world.pending() == 0
    assert world.git.tip() == ""
    kinds = [item.kind for _id, item in world.store.read_outcomes("0-0", 10, 0)]
    assert kinds == [OutcomeKind.RETIRED]
    assert world.store.read_marks(world.target.uid)[world.scope()].needs_replay


def test_nothing_to_write_leaves_a_missing_branch_missing(world: World) -> None:
    """L6, J19: what is noted is that the branch does not exist, not where it would begin; so a later look
    takes nothing for a rewrite.
    """
    seed(world, "docs/x.md", "by hand\n")
    git = ["git", f"--git-dir={world.repository}"]
    subprocess.run([*git, "branch", "-m", "main", "trunk"], check=True)
    subprocess.run([*git, "symbolic-ref", "HEAD", "refs/heads/trunk"], check=True)
    for _ in range(2):
        world.event("unknown", None)
        restart(world)
        shutdown_write(world)
        assert world.pending() == 0
    assert world.git.tip() == ""
    assert world.store.read_base(world.branch) == ""
    assert world.scope() not in world.store.read_marks(world.target.uid)


def test_a_long_queue_of_a_deleted_target_is_one_outcome(world: World) -> None:
    """J22, J7: its entries retire together, its request gets an answer of its own, others go on."""
    world.set_window("60s")
    other = world.second_target("other")
    for number in range(40):
        world.event(f"n{number}", "1")
    other.event("kept", "1")
    request = AttachEntry(world.target, "shop", "save", "cr-1", None, any_author=True)
    world.store.append_attach(world.branch, world.fence, request)
    world.event("last", "1")
    del world.cluster.objects[f"{PREFIX}/gittargets/gt"]
    shutdown_write(world)
    outcomes = [item for _id, item in world.store.read_outcomes("0-0", 10, 0)]
    assert sorted((item.kind, item.changes_total, item.request_uid) for item in outcomes) == [
        (OutcomeKind.PUSHED, 1, ""),
        (OutcomeKind.RETIRED, 1, "cr-1"),
        (OutcomeKind.RETIRED, 41, ""),
    ]
    assert world.pending() == 0


def test_a_long_journal_is_read_in_pages(world: World) -> None:
    """J8: Redis serves others meanwhile; the window is whole, and leaves nothing."""
    world.set_window("60s")
    world.updates("ctr", 2 * IDS_AT_ONCE)
    world.event("ctr", "last")
    shutdown_write(world)
    assert world.git.read("live/shop/configmaps/ctr.yaml").endswith(b"v: last\n")
    assert len(world.subjects()) == 1
    assert world.pending() == 0
    assert world.store.read_unsettled_bytes(world.branch) == {}


def test_push_that_arrived_before_the_crash_is_recognised(world: World) -> None:
    """J15, E18: killed after the remote accepted, before settling: no second commit, its sha is known."""
    world.event("a", "1")

    class Killed(BaseException):
        pass

    def dying(*_args: object, **_kwargs: object) -> bool:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(world.store), "settle", dying)
        with pytest.raises(Killed):
            world.write()
    tip = world.git.tip()
    assert tip
    world.expire_lease()
    restart(world)
    shutdown_write(world)
    assert world.git.tip() == tip
    assert world.pending() == 0
    (outcome,) = [item for _id, item in world.store.read_outcomes("0-0", 10, 0)]
    assert (outcome.kind, outcome.commit) == (OutcomeKind.PUSHED, tip)


def test_rewritten_history_replays_every_scope(world: World) -> None:
    """J19, pain 94: after a force-push the change goes on top of the new tip and a replay is wanted."""
    world.event("a", "1")
    world.write()
    seed(world, "other.txt", "x", orphan=True)
    world.event("b", "1")
    shutdown_write(world)
    assert world.subjects() == ["[UPDATE] v1/configmaps/b", "human"]
    assert world.store.read_marks(world.target.uid)[world.scope()].needs_replay


def hook(world: World, body: str) -> None:
    """Install a pre-receive hook in the remote."""
    path = world.repository / "hooks" / "pre-receive"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def restart(world: World) -> None:
    """A new writer process: nothing is remembered but the journal."""
    world.runtime = world.new_runtime()


@pytest.mark.parametrize(
    ("refusal", "soon"),
    [
        (KubeUnauthenticated("GET x: 401 Unauthorized"), True),
        (KubeForbidden("GET x: 403 Forbidden"), False),
    ],
    ids=["void token", "missing right"],
)
def test_a_refusal_of_the_api_server_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch, refusal: ReverserError, soon: bool
) -> None:
    """A token that is void, or a right that is missing, when a writer begins: the branch says so, is due
    again, and its lease is given back; nothing is lost. A token is renewed within seconds, a right seldom.
    """
    get = world.cluster.get
    world.event("menu", "1")
    begun = time.monotonic()

    def refuse(path: str, *, timeout: float = 30) -> dict[str, Any]:
        raise refusal

    monkeypatch.setattr(world.cluster, "get", refuse)
    world.write()
    health = world.store.read_branch_health(world.branch)
    assert health is not None
    assert not health.ok
    assert "GET x: 40" in health.message
    assert world.pending() == 1
    pause = world.memory.retry_at - begun
    assert world.memory.retry_at - time.monotonic() < 2 if soon else pause >= BLOCKED_RECHECK_SECONDS
    monkeypatch.setattr(world.cluster, "get", get)
    world.memory.retry_at = 0.0  # as if the pause were over
    world.write()
    assert world.pending() == 0
    assert len(world.git.log()) == 1
