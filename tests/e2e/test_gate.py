"""Folders, branches and paths as people make them: what is refused is refused for its structure alone, and
heals by itself.
"""

from __future__ import annotations

import threading

from tests.e2e.beside import beside
from tests.e2e.test_targets import shows
from tests.e2e.workspace import CONFIGMAPS, Workspace, until

HEAL_SECONDS = 90.0


@beside
def test_a_folder_becomes_foreign_and_is_cleaned_up(space: Workspace) -> None:
    """N05, N06: once a person's file refuses the folder nothing is written into it; when the file is gone,
    what was created, changed and deleted meanwhile arrives by itself.
    """
    space.base()
    for name in ("changed", "deleted"):
        space.configmap(name)
        space.in_git(name)
    tip = space.seed({"live/deploy.sh": "#!/bin/sh\n"})
    space.configmap("created")
    shows(space, "gt", "GitPathAccepted", "False", "UnsupportedContent")
    assert space.is_condition("gittargets", "gt", "Ready", "False")
    space.set("changed", "2")
    space.delete("deleted")
    space.quiet(3)
    assert space.git.tip() == tip
    space.seed({"live/deploy.sh": None})
    space.in_git("created", seconds=HEAL_SECONDS)
    space.in_git("changed", b'v: "2"', seconds=HEAL_SECONDS)
    space.gone_from_git("deleted", seconds=HEAL_SECONDS)
    shows(space, "gt", "GitPathAccepted", "True")
    space.wait_ready()


@beside
def test_discovery_never_refuses_a_folder(space: Workspace) -> None:
    """N13: with documents of a type that is not served any more, and with a group whose backend is away, the
    folder stays accepted, and what is served is written on.
    """
    mark = space.namespace.rpartition("-")[2]
    group = f"gate{mark}.lab.test"
    definition = space.definition(group, versions=("v1", "v2"), storage="v2")
    gizmos = {"apiGroups": [group], "apiVersions": ["v1"], "resources": ["gizmos"]}
    space.base(rules=[CONFIGMAPS, gizmos])
    space.custom(group, "g", size=1)
    file = f"live/{space.namespace}/{group}/gizmos/g.yaml"
    until(lambda: space.git.read(file), "the gizmo is in Git")
    shows(space, "gt", "GitPathAccepted", "True")
    seen: set[str] = set()
    enough = threading.Event()

    def look() -> None:
        while not enough.wait(0.2):
            seen.add(str(space.condition("gittargets", "gt", "GitPathAccepted").get("status")))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        served = space.kube.get(definition)["spec"]["versions"]
        unserved = [{**version, "served": version["name"] != "v1"} for version in served]
        space.kube.patch(definition, {"spec": {"versions": unserved}})
        space.configmap("while-unserved")
        space.in_git("while-unserved")
        space.broken_api_service(f"broken{mark}.lab.test")
        space.configmap("while-degraded")
        space.in_git("while-degraded")
        # A commit of a person makes the writer read the folder anew.
        space.seed({"live/kept.yaml": f"apiVersion: {group}/v1\nkind: Gizmo\nmetadata:\n  name: kept\n"})
        space.set("while-degraded", "2")
        space.in_git("while-degraded", b'v: "2"')
        space.quiet(2)
    finally:
        enough.set()
        looking.join()
    assert seen == {"True"}
    assert space.git.read(file) is not None


@beside
def test_odd_branches_and_paths(space: Workspace) -> None:
    """P08: names that Git allows work, and what Git would take for a pattern or an option is a plain name;
    what is no branch is refused with a reason.
    """
    good = {
        "dotted": ("env/a.b", "with blanks/in it"),
        "umlaut": ("\u00fcmlaut", "\u00fc"),
        "at": ("a@b", "-rf"),
        "glob": ("main", ":(glob)x"),
        "star": ("main", "*"),
        "plain": ("main", "x"),
    }
    bad = {"head": "HEAD", "full": "refs/heads/main"}
    space.provider(window="0s", allowedBranches=["*", "env/*", "refs/*/*"])
    space.configmap("menu")
    for name, (branch, path) in good.items():
        space.target(name, branch=branch, path=path)
        space.rule(name=name, target=name)
    for name, branch in bad.items():
        space.target(name, branch=branch)
        space.rule(name=name, target=name)

    def holds(branch: str, path: str, text: bytes) -> bool:
        file = f"{branch}:{path}/{space.namespace}/configmaps/menu.yaml"
        return text in space.git._git("cat-file", "blob", file).stdout

    for value in ("1", "2"):
        space.set("menu", value)
        for branch, path in good.values():
            wanted = f'v: "{value}"'.encode()
            until(lambda b=branch, p=path, w=wanted: holds(b, p, w), f"{path} on {branch} has {value}", 60)
    for name in bad:
        shows(space, name, "Validated", "False", "InvalidConfig")
        assert "spec.branch" in space.condition("gittargets", name, "Validated")["message"]
    for line in space.git._git("log", "--format=%x00", "--name-only", "main").stdout.split(b"\0")[1:]:
        assert len({file.split(b"/")[0] for file in line.split(b"\n") if file}) == 1, line
    heads = space.git._git("for-each-ref", "--format=%(refname:short)").stdout.decode().split()
    assert set(heads) == {branch for branch, _ in good.values()}
