"""What a GitTarget accepts, shares and leaves behind in its branch."""

from __future__ import annotations

import base64
import time

import pyrage
import pytest

from reverser.errors import KubeInvalid
from reverser.kube.paths import core_path, own_path
from tests.e2e.beside import beside
from tests.e2e.workspace import Workspace, until

ENCRYPTION = {
    "provider": "sops",
    "secretRef": {"name": "age"},
    "age": {"enabled": True, "recipients": {"extractFromSecret": True, "generateWhenMissing": True}},
}


def branches(space: Workspace) -> set[str]:
    """The heads of the repository."""
    answer = space.git._git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads")
    return set(answer.stdout.decode().split())


def shows(space: Workspace, target: str, kind: str, status: str, reason: str = "") -> None:
    """Wait for a condition of a target."""
    until(
        lambda: space.is_condition("gittargets", target, kind, status, reason),
        f"{kind} of {target} is {status}/{reason}",
    )


@beside
def test_paths(space: Workspace) -> None:
    """B03: the schema refuses an empty path, status what leads out of the repository; all others are one
    plain folder each, and an invalid one never becomes the root.
    """
    good = {"dot": (".", ""), "plain": ("a//b/./c/", "a/b/c/"), "wide": ("deep/ü/ø", "deep/ü/ø/")}
    bad = {"absolute": "/abs", "up": "../up", "through": "x/../../y", "back": "a\\b"}
    space.configmap("menu")
    space.provider(allowedBranches=["*", "env/*"])
    for empty in ({}, {"path": ""}):
        body = {"providerRef": {"name": "gp"}, "branch": "env/none", **empty}
        with pytest.raises(KubeInvalid):
            space.apply("gittargets", "GitTarget", "empty", body)
    for name, path in {**{n: p for n, (p, _) in good.items()}, **bad}.items():
        space.target(name, path=path, branch=f"env/{name}")
        space.rule(name=name, target=name)
    for name in bad:
        shows(space, name, "Validated", "False", "InvalidConfig")
    for name, (_, root) in good.items():
        file = f"{root}{space.namespace}/configmaps/menu.yaml"

        def there(name: str = name, file: str = file) -> bool:
            return space.git._git("cat-file", "-e", f"env/{name}:{file}").returncode == 0

        until(there, f"{file} is on env/{name}")
    space.quiet(2)
    assert branches(space) == {f"env/{name}" for name in good}


@beside
def test_overlapping_paths(space: Workspace) -> None:
    """B06: equal and nested folders conflict with the older one, on a path boundary and one branch only."""
    space.base(path="team/app")
    time.sleep(1.1)
    lose = {"same": "team/app", "above": "team", "below": "team/app/sub", "all": ".", "odd": "./team//app/"}
    pass_ = {"longer": "team/app-staging", "shorter": "team/ap", "case": "Team/App"}
    for name, path in {**lose, **pass_}.items():
        space.target(name, path=path)
        space.rule(name=name, target=name)
    space.target("elsewhere", path="team/app", branch="env/x")
    for name in lose:
        shows(space, name, "Validated", "False", "TargetConflict")
        message = space.condition("gittargets", name, "Validated")["message"]
        assert f"'{space.namespace}/gt'" in message
        assert ("overlaps" in message) is (name not in {"same", "odd"}), message
    for name in (*pass_, "elsewhere"):
        shows(space, name, "Validated", "True")
    space.configmap("menu")
    for path in ("team/app", *pass_.values()):
        space.in_git("menu", root=path)
    space.quiet(3)
    tops = {file.partition(f"/{space.namespace}/")[0] for file in space.git.files() if "menu" in file}
    assert tops == {"team/app", *pass_.values()}
    space.wait_ready()


@beside
def test_an_age_secret_that_exists_is_kept(space: Workspace) -> None:
    """B13: a Secret with a key is not touched; one without gets a key beside what it holds."""
    space.provider()
    path = core_path("secrets", namespace=space.namespace)

    def secret(name: str, **data: str) -> dict[str, object]:
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}
        return space.kube.create(path, body)

    key = str(pyrage.x25519.Identity.generate())
    made = secret("age", **{"hand.agekey": key, "other": "x"})
    secret("bare", other="x")
    space.target(encryption=ENCRYPTION)
    space.target("gt2", path="second", encryption={**ENCRYPTION, "secretRef": {"name": "bare"}})
    for name in ("gt", "gt2"):
        shows(space, name, "EncryptionConfigured", "True")
    assert space.kube.get(f"{path}/age")["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]  # type: ignore[index]
    filled = space.kube.get(f"{path}/bare")
    assert base64.b64decode(filled["data"]["other"]) == b"x"
    assert len([name for name in filled["data"] if name.endswith(".agekey")]) == 1
    assert len(filled["metadata"]["annotations"]) == 2


@beside
def test_bootstrap_files(space: Workspace) -> None:
    """B15, B16: nothing before the first object; files of people are kept, and a missing one comes back with
    the next real commit.
    """
    hand = "creation_rules:\n  - path_regex: nothing\n    age: age1none\n"
    space.provider()
    space.target(encryption=ENCRYPTION)
    space.rule()
    space.wait_streams()
    space.delete("never-mirrored")
    space.quiet(2)
    assert not branches(space)
    space.seed({"live/README.md": "ours\n", "live/.sops.yaml": hand})
    space.configmap("menu")
    space.in_git("menu")
    assert space.git.read("live/README.md") == b"ours\n"
    assert space.git.read("live/.sops.yaml") == hand.encode()
    ignore = (space.git.read("live/.gittargetignore") or b"").decode()
    assert ignore
    assert all(not line.strip() or line.startswith("#") for line in ignore.splitlines())
    assert {file for file in space.git.files() if not file.startswith("live/")} == set()
    space.seed({"live/.gittargetignore": None})
    space.configmap("b")
    space.in_git("b")
    assert space.git.read("live/.gittargetignore") == ignore.encode()
    assert space.subjects() == ["[CREATE] v1/configmaps/b", "human", "[CREATE] v1/configmaps/menu", "human"]


@beside
def test_one_of_two_targets_is_deleted(space: Workspace) -> None:
    """B18: its open window goes with it, its files stay, and the other one is not held up."""
    space.provider(window="3s")
    for name in ("a", "b"):
        space.target(name, path=f"p{name}")
        space.rule(name=name, target=name)
    for name in ("a", "b"):
        space.wait_streams(name)
    space.configmap("first")
    for root in ("pa", "pb"):
        space.in_git("first", root=root)
    space.kube.patch(space.path(name="first"), {"data": {"v": "2"}})
    space.kube.delete(own_path("gittargets", namespace=space.namespace, name="a"))
    space.configmap("x")
    space.in_git("x", root="pb")
    space.in_git("first", b'v: "2"', root="pb")
    space.quiet(3)
    assert space.git.read(space.file("first", root="pa")) is not None
    assert space.git.read(space.file("x", root="pa")) is None
    assert space.git.problems() == ""
