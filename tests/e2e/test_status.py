"""The status of the five kinds, seen from outside while everything runs."""

from __future__ import annotations

import pyrage

from reverser.kube.paths import core_path, own_path
from tests.e2e.beside import beside
from tests.e2e.workspace import Workspace, until


def allow(space: Workspace, *branches: str) -> None:
    """Change allowedBranches."""
    path = own_path("gitproviders", namespace=space.namespace, name="gp")
    space.kube.patch(path, {"spec": {"allowedBranches": list(branches)}})


def shows(space: Workspace, plural: str, name: str, kind: str, state: str, *, seconds: float = 30.0) -> None:
    """Wait for ``status/reason`` of a condition."""
    status, _, reason = state.partition("/")
    what = f"{kind} of {plural}/{name} is {state}"
    until(lambda: space.is_condition(plural, name, kind, status, reason), what, seconds)


@beside
def test_the_provider_arrives_last(space: Workspace) -> None:
    """B01: the target says what is missing, and everything follows without a 5 min tick."""
    space.configmap("menu")
    space.target()
    space.rule()
    shows(space, "gittargets", "gt", "Validated", "False/ProviderNotFound")
    shows(space, "watchrules", "wr", "Stalled", "True")
    assert f"'{space.namespace}/gp'" in space.condition("gittargets", "gt", "Validated")["message"]
    space.provider()
    space.in_git("menu")
    shows(space, "gitproviders", "gp", "Ready", "True/Ready")
    shows(space, "gittargets", "gt", "Ready", "True/OK")
    shows(space, "watchrules", "wr", "Ready", "True/Ready")


@beside
def test_branches_are_widened_and_narrowed(space: Workspace) -> None:
    """B05: a target opens when its branch is allowed, and stops when it no longer is."""
    space.base()
    space.target("gt2", branch="qa")
    space.rule(name="wr2", target="gt2")
    shows(space, "gittargets", "gt2", "Validated", "False/BranchNotAllowed")
    allow(space, "main", "qa")
    space.wait_ready("gt2")
    space.configmap("menu")
    until(lambda: "refs/heads/qa" in _refs(space), "branch qa appears")
    until(lambda: space.get("gittargets", "gt2")["status"].get("lastPushTime"), "lastPushTime is filled")
    allow(space, "main")
    shows(space, "gittargets", "gt2", "Stalled", "True/ValidationFailed")
    assert "lastPushTime" not in space.get("gittargets", "gt2")["status"]
    before = _refs(space)["refs/heads/qa"]
    space.set("menu", "2")
    space.in_git("menu", b'v: "2"')
    space.quiet()
    assert _refs(space)["refs/heads/qa"] == before


@beside
def test_the_loser_takes_over(space: Workspace) -> None:
    """B06, B08: TargetConflict while the older one is there, Ready after it is gone, nothing deleted."""
    space.base()
    space.configmap("menu")
    space.in_git("menu")
    space.target("zz")
    space.rule(name="wr2", target="zz")
    shows(space, "gittargets", "zz", "Validated", "False/TargetConflict")
    space.kube.delete(own_path("gittargets", namespace=space.namespace, name="gt"))
    space.wait_ready("zz")
    space.set("menu", "2")
    space.in_git("menu", b'v: "2"')


@beside
def test_a_rejecting_remote_is_told(space: Workspace) -> None:
    """B20: lastPushTime stays empty, a condition and an Event say why; then it heals."""
    hook = space.repository / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho not on my watch >&2\nexit 1\n")
    hook.chmod(0o755)
    space.base()
    space.configmap("menu")
    shows(space, "gittargets", "gt", "PushSucceeding", "False")
    assert "not on my watch" in space.condition("gittargets", "gt", "PushSucceeding")["message"]
    assert "lastPushTime" not in space.get("gittargets", "gt")["status"]
    events = space.kube.list(core_path("events", namespace=space.namespace)).items
    assert any(e["type"] == "Warning" and e["involvedObject"]["name"] == "gt" for e in events)
    hook.unlink()
    shows(space, "gittargets", "gt", "PushSucceeding", "True/OK", seconds=120)
    assert space.get("gittargets", "gt")["status"]["lastPushTime"]


@beside
def test_the_encryption_gate_opens_with_its_secret(space: Workspace) -> None:
    """B10: nothing is mirrored until the Secret is there, then within 30 s."""
    space.provider()
    age = {"enabled": True, "recipients": {"extractFromSecret": True}}
    space.target(encryption={"secretRef": {"name": "age"}, "age": age})
    space.rule()
    space.configmap("menu")
    shows(space, "gittargets", "gt", "EncryptionConfigured", "False/MissingSecret")
    assert not _refs(space)
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "age"},
        "stringData": {"k.agekey": str(pyrage.x25519.Identity.generate())},
    }
    space.kube.create(core_path("secrets", namespace=space.namespace), body)
    shows(space, "gittargets", "gt", "EncryptionConfigured", "True/OK", seconds=40)
    space.in_git("menu")


@beside
def test_save_now(space: Workspace) -> None:
    """I01, I13, I26 with attribution off: the window closes at once with the message, byte for byte."""
    space.base(window="60s")
    message = "Menu for spring\n\n- soup"
    space.configmap("menu")

    def save(name: str, **spec: object) -> None:
        space.apply("commitrequests", "CommitRequest", name, {"targetRef": {"name": "gt"}, **spec})

    save("one", message=message, closeDelaySeconds=2)
    shows(space, "commitrequests", "one", "Ready", "True/Committed")
    space.in_git("menu")
    status = space.get("commitrequests", "one")["status"]
    assert (status["sha"], status["branch"]) == (space.git.tip(), "main")
    assert space.git.log()[0].subject == "Menu for spring"
    save("two")
    shows(space, "commitrequests", "two", "Ready", "True/NoWindowInGrace")
    assert "sha" not in space.get("commitrequests", "two")["status"]
    assert space.get("commitrequests", "one")["status"] == status


def _refs(space: Workspace) -> dict[str, str]:
    heads = space.repository / "refs" / "heads"
    return {
        f"refs/heads/{file.relative_to(heads)}": file.read_text()
        for file in heads.rglob("*")
        if file.is_file()
    }
