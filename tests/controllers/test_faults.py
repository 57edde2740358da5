"""What breaks in between: answers that cannot be read, races, deaths. Nothing is decided from a guess."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyrage
import pytest

from reverser.controllers.conditions import Plan
from reverser.controllers.world import PROVIDERS, REQUESTS, TARGETS
from reverser.errors import (
    KubeConflict,
    KubeForbidden,
    KubeInvalid,
    KubeUnavailable,
    LostRace,
    ReverserError,
    StoreUnavailable,
)
from reverser.kube.paths import core_path
from tests.controllers.cluster import Cluster
from tests.controllers.test_reconcile import BASE, ENCRYPTED, base
from tests.git.helpers import bare
from tests.git.servers import git_http, make_authority
from tests.trust.github_api import PEM, github

Kube = Callable[..., Any]


def failing(cluster: Cluster, verb: str, part: str, error: Exception, *, times: int = 1000) -> None:
    """Let a verb of the client fail on paths with ``part``, so many times."""
    plain: Kube = getattr(cluster.kube, verb)
    left = [times]

    async def broken(path: str, *args: Any, **more: Any) -> Any:
        if part in path and left[0] > 0:
            left[0] -= 1
            raise error
        return await plain(path, *args, **more)

    setattr(cluster.kube, verb, broken)


async def test_an_unreadable_provider_is_not_an_absent_one(cluster: Cluster, url: str) -> None:
    """T5, N7: the pass fails, gate and status stay as they were."""
    await base(cluster, url)
    await cluster.settle()
    before = await cluster.get("GitTarget", "gt")
    gates = await cluster.store.read_gates()
    cluster.caches[PROVIDERS].found = []
    failing(cluster, "get", "/gitproviders/", KubeUnavailable("503"))
    with pytest.raises(KubeUnavailable):
        await cluster.look(TARGETS, "shop/gt")
    assert await cluster.get("GitTarget", "gt") == before
    assert await cluster.store.read_gates() == gates


async def test_an_unreadable_list_retires_nobody(cluster: Cluster, url: str) -> None:
    """A target that is missing in the cache is asked for before it is retired."""
    await base(cluster, url)
    await cluster.settle()
    gates = await cluster.store.read_gates()
    cluster.caches[TARGETS].found = []
    plain = cluster.kube.list
    failing(cluster, "list", "/gittargets", KubeUnavailable("503"))
    with pytest.raises(KubeUnavailable):
        await cluster.targets.retire_missing()
    cluster.kube.list = plain  # type: ignore[method-assign]
    await cluster.targets.retire_missing()
    assert await cluster.store.read_gates() == gates


@pytest.mark.parametrize("kind", ["GitProvider", "GitTarget"])
async def test_killed_between_the_secret_and_the_status(cluster: Cluster, url: str, kind: str) -> None:
    """The next process finds the key, keeps it and tells the status."""
    signing = {"secretRef": {"name": "sig"}, "generateWhenMissing": True}
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE, "commit": {"signing": signing}})
    spec = {"providerRef": {"name": "gp"}, "branch": "main", "path": "live", "encryption": ENCRYPTED}
    await cluster.apply("GitTarget", "gt", spec)
    await cluster.refresh()
    plain = cluster.writer.write

    async def dies(resource: str, obj: Mapping[str, Any], plan: Plan, **more: Any) -> bool:
        if plan.condition("Ready").reason != "Checking":
            raise SystemExit
        return await plain(resource, obj, plan, **more)

    cluster.writer.write = dies  # type: ignore[method-assign]
    resource, name = (PROVIDERS, "gp") if kind == "GitProvider" else (TARGETS, "gt")
    with pytest.raises(SystemExit):
        await cluster.look(resource, f"shop/{name}")
    secret = await cluster.secret("sig" if kind == "GitProvider" else "age")
    assert secret is not None
    cluster.restart()
    await cluster.settle()
    assert await cluster.secret("sig" if kind == "GitProvider" else "age") == secret
    assert (await cluster.conditions("GitTarget", "gt"))["EncryptionConfigured"] == "True/OK"
    assert (await cluster.conditions("GitProvider", "gp"))["Ready"] == "True/Ready"


async def test_a_lost_race_uses_the_winners_key(cluster: Cluster, url: str) -> None:
    """K1, 4.6: "already exists" is read again and never overwritten."""
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE})
    spec = {"providerRef": {"name": "gp"}, "branch": "main", "path": "live", "encryption": ENCRYPTED}
    await cluster.apply("GitTarget", "gt", spec)
    await cluster.refresh()
    plain = cluster.kube.create
    winner = str(pyrage.x25519.Identity.generate())

    async def race(path: str, body: Mapping[str, Any], **more: Any) -> Any:
        if path.endswith("/secrets"):
            cluster.kube.create = plain  # type: ignore[method-assign]
            await cluster.put_secret("age", {"theirs.agekey": winner})
            raise KubeConflict("exists", exists=True)
        return await plain(path, body, **more)

    cluster.kube.create = race  # type: ignore[method-assign]
    await cluster.look(TARGETS, "shop/gt")
    secret = await cluster.secret("age")
    assert secret is not None
    assert [base64.b64decode(value).decode() for value in secret["data"].values()] == [winner]


async def test_forbidden_secrets_are_said_to_be_forbidden(cluster: Cluster, url: str) -> None:
    """I12: only 404 is "not found"; the remedy is a permission."""
    await cluster.apply("GitProvider", "gp", {"url": url, "secretRef": {"name": "cred"}, **BASE})
    spec = {"providerRef": {"name": "gp"}, "branch": "main", "path": "live", "encryption": ENCRYPTED}
    await cluster.apply("GitTarget", "gt", spec)
    failing(cluster, "get", "/secrets/", KubeForbidden("secrets is forbidden"))
    await cluster.settle()
    assert (await cluster.conditions("GitProvider", "gp"))["Stalled"] == "True/SecretForbidden"
    assert "grant get" in await cluster.message("GitProvider", "gp", "Ready")
    assert (await cluster.conditions("GitTarget", "gt"))["EncryptionConfigured"] == "False/MissingSecret"
    assert "forbidden" in await cluster.message("GitTarget", "gt", "EncryptionConfigured")


async def test_conflicting_status_writes_are_repeated(cluster: Cluster, url: str) -> None:
    """S8: up to five attempts, each on a fresh object; then the pass fails and comes back."""
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE})
    await cluster.refresh()
    failing(cluster, "update_status", "/gitproviders/", KubeConflict("changed"), times=4)
    await cluster.look(PROVIDERS, "shop/gp")
    assert (await cluster.conditions("GitProvider", "gp"))["Ready"] == "True/Ready"
    await cluster.apply("GitProvider", "gp", {"url": url, "allowedBranches": ["x"]})
    await cluster.refresh()
    failing(cluster, "update_status", "/gitproviders/", KubeConflict("changed"))
    with pytest.raises(KubeConflict):
        await cluster.look(PROVIDERS, "shop/gp")


async def test_an_object_that_is_gone_or_another_is_left_alone(cluster: Cluster, url: str) -> None:
    """S8: gone is success; a new object of the name is not given the old one's status."""
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE})
    await cluster.refresh()
    await cluster.delete("GitProvider", "gp")
    assert await cluster.look(PROVIDERS, "shop/gp") is not None
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE})
    await cluster.look(PROVIDERS, "shop/gp")
    assert "status" not in await cluster.get("GitProvider", "gp")


async def test_without_redis_a_target_says_so(
    cluster: Cluster, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T4: WorkerUnavailable names the target and the cause; it heals at the next look."""
    await base(cluster, url)
    await cluster.refresh()

    async def away(*args: Any, **more: Any) -> Any:
        raise StoreUnavailable("Redis cannot serve now")

    with monkeypatch.context() as patch:
        patch.setattr(cluster.store, "run", away)
        await cluster.look(TARGETS, "shop/gt")
    assert (await cluster.conditions("GitTarget", "gt"))["Stalled"] == "True/WorkerUnavailable"
    message = await cluster.message("GitTarget", "gt", "Ready")
    assert "shop/gt" in message
    assert "Redis" in message
    await cluster.settle()
    assert (await cluster.conditions("GitTarget", "gt"))["Reconciling"] == "True/Replaying"


async def test_without_the_lease_nothing_at_all_is_changed(cluster: Cluster, url: str) -> None:
    """A leader that was paused and wakes up with an old view opens no gate, makes no key, deletes nothing."""
    signing = {"secretRef": {"name": "sig"}, "generateWhenMissing": True}
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE})
    await cluster.apply("GitProvider", "sp", {"url": url, **BASE, "commit": {"signing": signing}})
    spec = {"providerRef": {"name": "gp"}, "branch": "main", "path": "live"}
    await cluster.apply("GitTarget", "gt", spec)
    await cluster.apply("GitTarget", "sealed", {**spec, "path": "other", "encryption": ENCRYPTED})
    await cluster.apply("CommitRequest", "save", {"targetRef": {"name": "gt"}, "ttlSecondsAfterFinished": 0})
    await cluster.refresh()
    request = cluster.caches[REQUESTS].found[0]
    request["status"] = {
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}]
    }
    cluster.leads = False
    for resource, key in (
        (PROVIDERS, "shop/sp"),
        (TARGETS, "shop/gt"),
        (TARGETS, "shop/sealed"),
        (REQUESTS, "shop/save"),
    ):
        with pytest.raises(LostRace):
            await cluster.look(resource, key)
    assert await cluster.store.read_gates() == {}
    assert await cluster.secret("sig") is None
    assert await cluster.secret("age") is None
    assert await cluster.get("CommitRequest", "save")
    cluster.leads = True
    await cluster.settle()
    await cluster.delete("GitTarget", "gt")
    await cluster.refresh()
    gates = await cluster.store.read_gates()
    cluster.leads = False
    with pytest.raises(LostRace):
        await cluster.targets.retire_missing()
    assert await cluster.store.read_gates() == gates


async def test_a_gate_that_somebody_else_wrote_is_noticed(cluster: Cluster, url: str) -> None:
    """The last write of a paused leader is undone at the next comparison, not at the next steady look."""
    await base(cluster, url)
    await cluster.settle()
    uid = await cluster.uid("GitTarget", "gt")
    gate = await cluster.store.read_gate(uid)
    assert gate is not None
    await cluster.store.write_gate(uid, replace(gate, open=False, reason="BranchNotAllowed"))
    assert await cluster.targets.compare_gates() == {"shop/gt"}
    await cluster.look(TARGETS, "shop/gt")
    assert await cluster.store.read_gate(uid) == gate
    assert await cluster.targets.compare_gates() == set()


async def test_a_status_that_the_api_server_refuses_becomes_an_event(cluster: Cluster, url: str) -> None:
    """An object from before an upgrade may be invalid as a whole; an Event says what the status would."""
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE})
    await cluster.refresh()
    failing(cluster, "update_status", "/gitproviders/", KubeInvalid("spec.url: Too long"))
    with pytest.raises(KubeInvalid):
        await cluster.look(PROVIDERS, "shop/gp")
    listed = await cluster.kube.list(core_path("events", namespace="shop"))
    (event,) = listed.items
    assert (event["type"], event["reason"]) == ("Warning", "StatusRefused")
    assert "spec.url: Too long" in event["message"]
    assert "The status would be Checking" in event["message"]


async def test_memory_of_written_statuses_is_bounded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CommitRequest per minute for years must not fill the controller."""
    monkeypatch.setattr("reverser.controllers.status.REMEMBERED", 2)
    for name in ("one", "two", "three"):
        await cluster.apply("CommitRequest", name, {"targetRef": {"name": "gone"}})
    await cluster.settle(1)
    uids = [await cluster.uid("CommitRequest", name) for name in ("one", "two", "three")]
    assert sum(cluster.writer.last_written(uid) is not None for uid in uids) == 2


async def test_gates_are_written_again_after_a_flush(cluster: Cluster, url: str) -> None:
    """E23: Redis without its memory is noticed by the missing gate, not at the next steady look."""
    await base(cluster, url)
    await cluster.apply("GitTarget", "bad", {"providerRef": {"name": "gp"}, "branch": "main", "path": "/abs"})
    await cluster.settle()
    assert await cluster.targets.compare_gates() == set()
    await cluster.store.client.flushall()
    assert await cluster.targets.compare_gates() == {"shop/gt"}
    await cluster.look(TARGETS, "shop/gt")
    assert len(await cluster.store.read_gates()) == 1
    assert await cluster.targets.compare_gates() == set()


@pytest.mark.parametrize("name", ["..", ".", "a/b", "?x=1", "Ä"])
async def test_names_that_no_object_can_have(cluster: Cluster, url: str, name: str) -> None:
    """A reference that leads nowhere is not found, whatever it is made of."""
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE, "secretRef": {"name": name}})
    await cluster.apply("GitTarget", "gt", {"providerRef": {"name": name}, "branch": "main", "path": "live"})
    rules = [{"resources": ["configmaps"]}]
    await cluster.apply("WatchRule", "wr", {"targetRef": {"name": name}, "rules": rules})
    await cluster.settle()
    assert (await cluster.conditions("GitProvider", "gp"))["Ready"].startswith("False/")
    assert (await cluster.conditions("GitTarget", "gt"))["Validated"] == "False/ProviderNotFound"
    assert (await cluster.conditions("WatchRule", "wr"))["Stalled"] == "True/GitTargetNotFound"


async def test_events_that_cannot_be_written_cost_nothing(cluster: Cluster, url: str) -> None:
    """I24: an Event is a courtesy; the status is there without it."""
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE})
    failing(cluster, "create", "/events", ReverserError("no"))
    await cluster.settle()
    assert (await cluster.conditions("GitProvider", "gp"))["Ready"] == "True/Ready"


async def test_an_app_that_is_installed_later(cluster: Cluster, tmp_path: Path) -> None:
    """Z9, K4: a GitHub App that its owner has not installed is a fault of the Secret, by the names of its
    entries; once it is installed the next look succeeds."""
    bare(tmp_path / "origin.git")
    authority = make_authority(tmp_path / "ca")
    with github(authority) as hub, git_http(tmp_path, tls=authority.context()) as server:
        server.basic = ("x-access-token", "ghs_0")
        entries = {
            "githubAppID": "12",
            "githubAppInstallationOwner": "zq-MARKER-org",
            "githubAppPrivateKey": PEM.decode(),
            "githubAppBaseURL": hub.url,
            "ca.crt": authority.ca.read_text(),
        }
        await cluster.put_secret("cred", entries)
        spec = {"url": server.url(), "secretRef": {"name": "cred"}, **BASE}
        await cluster.apply("GitProvider", "gp", spec)
        await cluster.settle()
        assert (await cluster.conditions("GitProvider", "gp"))["Stalled"] == "True/SecretMalformed"
        message = await cluster.message("GitProvider", "gp", "Ready")
        assert message.startswith("Secret 'cred' malformed: GitHub knows no installation")
        assert "githubAppInstallationOwner" in message
        assert "zq-MARKER" not in message
        hub.installed = {"users/zq-MARKER-org": 34}
        await cluster.settle()
        assert (await cluster.conditions("GitProvider", "gp"))["Ready"] == "True/Ready"


async def test_credentials_that_rotate(cluster: Cluster, tmp_path: Path) -> None:
    """A08: a password changed at the server is told, and the new one in the Secret is used at the next look,
    without a restart; wrong keys in the Secret are named in between.
    """
    bare(tmp_path / "origin.git")
    with git_http(tmp_path) as server:
        server.basic = ("bot", "first")
        await cluster.put_secret("cred", {"username": "bot", "password": "first"})
        spec = {"url": server.url(), "secretRef": {"name": "cred"}, **BASE}
        await cluster.apply("GitProvider", "gp", spec)
        await cluster.settle()
        assert (await cluster.conditions("GitProvider", "gp"))["Ready"] == "True/Ready"
        server.basic = ("bot", "next")
        cluster.secret_clock += 310
        await cluster.settle()
        assert (await cluster.conditions("GitProvider", "gp"))["Stalled"] == "True/ConnectionFailed"
        message = await cluster.message("GitProvider", "gp", "Ready")
        assert "Secret 'cred'" in message
        assert "first" not in message
        path = core_path("secrets", namespace="shop", name="cred")
        await cluster.kube.patch(path, {"data": None, "stringData": {"passwort": "next"}})
        await cluster.settle()
        assert (await cluster.conditions("GitProvider", "gp"))["Stalled"] == "True/SecretMalformed"
        await cluster.kube.patch(path, {"stringData": {"username": "bot", "password": "next"}})
        await cluster.settle()
        assert (await cluster.conditions("GitProvider", "gp"))["Ready"] == "True/Ready"
