"""The simplest scenarios of live mirroring: what a change becomes in Git."""

from __future__ import annotations

from reverser.kube.paths import core_path
from tests.e2e.beside import beside
from tests.e2e.workspace import Workspace, until


@beside
def test_first_object_exact_bytes(space: Workspace) -> None:
    """D01, B15: one root commit, exact file, mode, author, and the bootstrap files beside it."""
    space.base()
    space.configmap("menu", {"soup": "leek", "price": "4.50"}, labels={"tier": "front"})
    content = space.in_git("menu")
    assert (
        content
        == (
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  labels:\n    tier: front\n  name: menu\n"
            f'  namespace: {space.namespace}\ndata:\n  price: "4.50"\n  soup: leek\n'
        ).encode()
    )
    (commit,) = space.git.log()
    assert commit.subject == "[CREATE] v1/configmaps/menu"
    assert commit.author == "GitOps Reverser <noreply@configbutler.ai>"
    assert space.git.files() == ["live/.gittargetignore", "live/README.md", space.file("menu")]
    assert space.git.problems() == ""


@beside
def test_existing_objects_are_one_reconcile_commit(space: Workspace) -> None:
    """D03: what existed before the rule arrives as one commit of the committer."""
    for number in range(6):
        space.configmap(f"old-{number}")
    space.base()
    space.in_git("old-5")
    (subject,) = space.subjects()
    assert subject.startswith("reconciled 6 configmaps (last resourceVersion: ")
    space.wait_ready()


@beside
def test_rule_sees_only_its_own_namespace(space: Workspace) -> None:
    """C01: another namespace's objects never appear, its documents in the same folder survive."""
    keep = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: keep\n  namespace: elsewhere\n"
    space.seed({"live/elsewhere/configmaps/keep.yaml": keep})
    space.base()
    space.configmap("menu")
    space.in_git("menu")
    space.kube.create(
        core_path("configmaps", namespace="default"),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"other-{space.namespace}"}},
    )
    space.quiet()
    assert space.git.read("live/elsewhere/configmaps/keep.yaml") == keep.encode()
    assert not [path for path in space.git.files() if "other-" in path]


@beside
def test_edit_and_delete(space: Workspace) -> None:
    """An edit changes one line, a delete removes the file."""
    space.base()
    space.configmap("a", {"v": "1", "w": "x"})
    space.in_git("a")
    space.set("a", "2")
    space.in_git("a", b'v: "2"')
    space.delete("a")
    space.gone_from_git("a")
    assert space.subjects() == [
        "[DELETE] v1/configmaps/a",
        "[UPDATE] v1/configmaps/a",
        "[CREATE] v1/configmaps/a",
    ]


def _retention(space: Workspace) -> tuple[str, int] | None:
    """Mode and count of ``status.retention``."""
    found = space.get("gittargets", "gt").get("status", {}).get("retention")
    return (found["mode"], found["retainedDocuments"]) if found else None


@beside
def test_what_a_prune_mode_keeps_is_counted(space: Workspace) -> None:
    """Under OnEvent a replay sweeps nothing, under Never no deletion is mirrored; the status counts what
    stays and no condition changes. Always removes it.
    """
    ghost = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ghost\n  namespace: {space.namespace}\n"
    space.seed({space.file("ghost"): ghost})
    space.configmap("menu")
    space.configmap("card")
    space.base(prune={"mode": "OnEvent"})
    space.in_git("menu")
    until(lambda: _retention(space) == ("OnEvent", 1), "the replay has counted the ghost")
    space.delete("card")
    space.gone_from_git("card")
    assert _retention(space) == ("OnEvent", 1)
    space.patch_own("gittargets", "gt", {"prune": {"mode": "Never"}})
    until(lambda: _retention(space) == ("Never", 1), "the mode is taken up")
    space.delete("menu")
    until(lambda: _retention(space) == ("Never", 2), "the deletion that is not mirrored is counted")
    space.configmap("menu", {"v": "2"})
    space.in_git("menu", b'v: "2"')
    until(lambda: _retention(space) == ("Never", 1), "an object that is back is not gone")
    assert space.git.read(space.file("ghost")) == ghost.encode()
    space.wait_ready()
    assert space.is_condition("gittargets", "gt", "ObjectsWritten", "True", "OK")
    assert space.is_condition("gittargets", "gt", "DeletionsApplied", "True", "OK")
    space.patch_own("gittargets", "gt", {"prune": {"mode": "Always"}})
    space.gone_from_git("ghost")
    until(lambda: _retention(space) is None, "nothing is kept any more")
    assert space.git.read(space.file("menu"))


@beside
def test_last_write_wins_inside_a_window(space: Workspace) -> None:
    """D06: thirty writes of one object and one of another are one commit with the last values."""
    space.base(window="8s")
    space.configmap("a")
    for value in range(2, 31):
        space.set("a", str(value))
    space.configmap("b")
    assert b'v: "30"' in space.in_git("a")
    space.in_git("b")
    assert len(space.subjects()) == 1


@beside
def test_window_zero_is_a_commit_per_change(space: Workspace) -> None:
    """D05: each persisted change is a commit, in order."""
    space.base(window="0s")
    space.configmap("a")
    for value in "234":
        space.set("a", value)
    space.in_git("a", b'v: "4"')
    until(lambda: len(space.subjects()) == 4, "four commits")
    assert space.subjects()[-1] == "[CREATE] v1/configmaps/a"


@beside
def test_delete_and_recreate_keeps_the_humans_file(space: Workspace) -> None:
    """D08: within one window a deleted and re-created object stays where the human put it, comment kept."""
    space.base(window="8s")
    space.configmap("a")
    space.in_git("a")
    before = (space.git.read(space.file("a")) or b"").decode()
    space.seed({space.file("a"): f"# hand note\n{before}"})
    space.delete("a")
    space.configmap("a", {"v": "9"})
    content = space.in_git("a", b'v: "9"')
    assert content.startswith(b"# hand note\n")
    assert len(space.subjects()) == 3


@beside
def test_metadata_churn_is_no_commit(space: Workspace) -> None:
    """D13: last-applied, owner references, finalizers and tool labels never reach Git."""
    space.base()
    space.configmap("a")
    space.in_git("a")
    path = space.path(name="a")
    space.kube.patch(
        path, {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}}
    )
    space.kube.patch(path, {"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": "x"}}})
    space.kube.patch(path, {"metadata": {"finalizers": ["lab.test/hold"]}})
    space.quiet()
    space.kube.patch(path, {"metadata": {"finalizers": None}})


@beside
def test_foreign_commit_survives(space: Workspace) -> None:
    """A commit pushed by a human between two of ours stays, and ours builds on it."""
    space.base()
    space.configmap("a")
    space.in_git("a")
    space.seed({"docs.md": "by hand\n"})
    space.configmap("b")
    space.in_git("b")
    assert space.git.read("docs.md") == b"by hand\n"
    assert space.subjects()[1] == "human"
    assert space.git.problems() == ""
