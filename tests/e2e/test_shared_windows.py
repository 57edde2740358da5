"""Windows of several people and types: who is named when changes meet."""

from __future__ import annotations

from typing import Any

from tests.e2e.audited import Installation, Person, pause, scenario
from tests.e2e.test_attribution import NewSpace, authors, derived
from tests.e2e.workspace import CONFIGMAPS, Workspace, until

DEPLOYMENTS = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
SERVICES = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"]}


def apply(person: Person, space: Workspace, manager: str, data: dict[str, str]) -> Any:
    """Server-side apply of ConfigMap ``menu``."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "menu"}, "data": data}
    return person.request(
        "PATCH",
        space.path(name="menu"),
        body,
        content_type="application/apply-patch+yaml",
        fieldManager=manager,
    )


def three_applies(lab: Installation, space: Workspace) -> None:
    """Alice adds a, bob adds b and takes it back."""
    apply(lab.person("alice"), space, "one", {"a": "1"})
    apply(lab.person("bob"), space, "two", {"b": "1"})
    apply(lab.person("bob"), space, "two", {})


@scenario
def test_two_managers_without_a_window(lab: Installation, new: NewSpace) -> None:
    """D18: three commits, each by who made it; the key that bob gave up is gone."""
    space = new()
    space.base(window="0s")
    three_applies(lab, space)
    until(lambda: len(space.git.log()) == 3, "three commits")
    assert authors(space) == [derived("alice"), derived("bob"), derived("bob")]
    content = space.git.read(space.file("menu")) or b""
    assert b"a: " in content
    assert b"b: " not in content


@scenario
def test_two_managers_within_a_window(lab: Installation, new: NewSpace) -> None:
    """D18: changes that cancel out inside one window are no commit."""
    space = new()
    space.base(window="5s")
    three_applies(lab, space)
    space.in_git("menu")
    pause(7)
    assert authors(space) == [derived("alice")]
    assert b"b: " not in (space.git.read(space.file("menu")) or b"")


@scenario
def test_two_types_share_a_window(lab: Installation, new: NewSpace) -> None:
    """D26: one author's changes of two types are one commit that counts them."""
    space = new()
    space.base(window="3s", rules=[CONFIGMAPS, DEPLOYMENTS])
    alice = lab.person("alice")
    alice.configmap(space, "a")
    pod = {"metadata": {"labels": {"app": "till"}}, "spec": {"containers": [{"name": "a", "image": "r/a:1"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "till"}}, "template": pod}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "till"}, "spec": spec}
    alice.request("POST", space.path("deployments", group="apps"), body)
    space.in_git("till", resource="apps/deployments")
    space.in_git("a")
    assert space.subjects() == ["alice on gt: 2 resource(s)"]
    assert authors(space) == [derived("alice")]


@scenario
def test_a_rule_changes_while_somebody_writes(lab: Installation, new: NewSpace) -> None:
    """C25: none of alice's writes is swallowed by a replay that names nobody."""
    space = new()
    space.base(window="0s", rules=[CONFIGMAPS, SERVICES])
    alice = lab.person("alice")
    for number in range(15):
        alice.configmap(space, f"n{number}")
        if number == 5:
            space.patch_own("watchrules", "wr", {"rules": [CONFIGMAPS]})
        pause(0.2)
    until(lambda: len(space.git.log()) == 15, "fifteen commits")
    assert authors(space) == [derived("alice")] * 15
    assert [s.rpartition("/")[2] for s in reversed(space.subjects())] == [f"n{n}" for n in range(15)]
