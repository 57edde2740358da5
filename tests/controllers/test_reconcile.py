"""The reconcilers on a sandbox API server, a real Redis and real repositories."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import pyrage
import pytest

from reverser.controllers.world import TARGETS
from reverser.errors import KubeInvalid, LostRace
from reverser.kube.paths import own_path
from reverser.store.keys import DUE, branch_part
from reverser.store.model import BranchHealth, BranchKey, PathVerdict, StreamState
from tests.controllers.cluster import Cluster
from watchers.registry import Registry

MAIN = BranchKey("shop", "gp", "main")
BASE = {"allowedBranches": ["main", "env/*"]}
ENCRYPTED = {
    "secretRef": {"name": "age"},
    "age": {"enabled": True, "recipients": {"extractFromSecret": True, "generateWhenMissing": True}},
}


async def base(cluster: Cluster, url: str) -> None:
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE})
    await cluster.apply("GitTarget", "gt", {"providerRef": {"name": "gp"}, "branch": "main", "path": "live"})
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]
    await cluster.apply("WatchRule", "wr", {"targetRef": {"name": "gt"}, "rules": rules})


async def test_a_reachable_empty_repository_is_ready(cluster: Cluster, url: str) -> None:
    """A01: reason, message and observedGeneration; a second pass writes nothing."""
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE})
    await cluster.settle()
    provider = await cluster.get("GitProvider", "gp")
    assert await cluster.conditions("GitProvider", "gp") == {
        "Ready": "True/Ready",
        "Reconciling": "False/Ready",
        "Stalled": "False/Ready",
    }
    message = await cluster.message("GitProvider", "gp", "Ready")
    assert message == f"Repository connectivity validated for {url}"
    assert provider["status"]["observedGeneration"] == provider["metadata"]["generation"]
    cluster.restart()
    await cluster.settle()
    again = await cluster.get("GitProvider", "gp")
    assert again["metadata"]["resourceVersion"] == provider["metadata"]["resourceVersion"]
    assert await cluster.events("gp") == [("Normal", "Ready")]


async def test_a_missing_secret_and_its_arrival(cluster: Cluster, url: str) -> None:
    """A03: named with its namespace; read again at the next pass, no restart. Wrong keys are named."""
    spec = {"url": "https://git.example.test/r.git", "secretRef": {"name": "cred"}, **BASE}
    await cluster.apply("GitProvider", "gp", spec)
    await cluster.settle()
    assert (await cluster.conditions("GitProvider", "gp"))["Stalled"] == "True/SecretNotFound"
    message = await cluster.message("GitProvider", "gp", "Ready")
    assert message.startswith("Secret 'cred' not found in namespace 'shop'")
    await cluster.put_secret("cred", {"username": "zq-MARKER-user"})
    await cluster.settle()
    assert (await cluster.conditions("GitProvider", "gp"))["Stalled"] == "True/SecretMalformed"
    message = await cluster.message("GitProvider", "gp", "Ready")
    assert message.startswith("Secret 'cred' malformed")
    assert "zq-MARKER" not in message
    assert ("Warning", "SecretMalformed") in await cluster.events("gp")


async def test_a_repository_that_vanishes(cluster: Cluster, url: str, tmp_path: Path) -> None:
    """ConnectionFailed, with Git's words; the cached success ends with its generation."""
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE})
    await cluster.settle()
    shutil.rmtree(tmp_path / "repo.git")
    cluster.restart()
    await cluster.settle()
    assert (await cluster.conditions("GitProvider", "gp"))["Ready"] == "False/ConnectionFailed"
    message = await cluster.message("GitProvider", "gp", "Ready")
    assert message.startswith("Failed to connect to repository: ")


@pytest.mark.parametrize("bad", ["--upload-pack=touch /tmp/pwn", 'ext::sh -c "touch /tmp/pwn"'])
async def test_dangerous_urls_are_never_run(cluster: Cluster, bad: str) -> None:
    """A10: refused before git sees them."""
    await cluster.apply("GitProvider", "gp", {"url": bad, **BASE})
    await cluster.settle()
    assert (await cluster.conditions("GitProvider", "gp"))["Stalled"] == "True/InvalidConfig"


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"eventTemplate": "{{.Oops}}"}, "event"),
        ({"groupTemplate": "{{range .Resources}}x"}, "group"),
        ({"reconcileTemplate": "{{if .Group}}{{.Typo}}{{end}}"}, "reconcile"),
        ({"eventTemplate": "{{call .Name}}"}, "event"),
    ],
)
async def test_bad_templates(cluster: Cluster, url: str, message: dict[str, str], kind: str) -> None:
    """A11: refused at configuration time, naming the template."""
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE, "commit": {"message": message}})
    await cluster.settle()
    assert (await cluster.conditions("GitProvider", "gp"))["Stalled"] == "True/CommitConfigInvalid"
    words = await cluster.message("GitProvider", "gp", "Ready")
    assert words.startswith("invalid commit configuration")
    assert kind in words


async def test_a_generated_signing_key(cluster: Cluster, url: str) -> None:
    """A16: made once, published, without owner; kept across restarts, with an Event."""
    signing = {"secretRef": {"name": "sig"}, "generateWhenMissing": True}
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE, "commit": {"signing": signing}})
    await cluster.settle()
    secret = await cluster.secret("sig")
    assert secret is not None
    assert set(secret["data"]) == {"signing.key", "signing.pub"}
    assert "ownerReferences" not in secret["metadata"]
    public = base64.b64decode(secret["data"]["signing.pub"]).decode().strip()
    assert public.startswith("ssh-ed25519 ")
    assert (await cluster.get("GitProvider", "gp"))["status"]["signingPublicKey"] == public
    assert ("Normal", "SigningKeyGenerated") in await cluster.events("gp")
    cluster.restart()
    await cluster.settle()
    assert await cluster.secret("sig") == secret


async def test_signing_without_generation(cluster: Cluster, url: str) -> None:
    """Sheet 3.3: missing Secret, missing entry, unparseable key; nothing is written to the Secret."""
    spec = {"url": url, **BASE, "commit": {"signing": {"secretRef": {"name": "sig"}}}}
    await cluster.apply("GitProvider", "gp", spec)
    await cluster.settle()
    assert "signing secret shop/sig not found" in await cluster.message("GitProvider", "gp", "Ready")
    await cluster.put_secret("sig", {"signing.key": "zq-MARKER"})
    await cluster.settle()
    assert (await cluster.conditions("GitProvider", "gp"))["Stalled"] == "True/SecretMalformed"
    assert "zq-MARKER" not in await cluster.message("GitProvider", "gp", "Ready")


async def test_the_provider_arrives_after_the_target(cluster: Cluster, url: str) -> None:
    """B01: everything behind the gate is Unknown; the gate record opens when the provider is there."""
    await base(cluster, url)
    await cluster.delete("GitProvider", "gp")
    await cluster.settle()
    found = await cluster.conditions("GitTarget", "gt")
    assert found["Validated"] == "False/ProviderNotFound"
    assert found["EncryptionConfigured"] == "Unknown/Blocked"
    assert found["StreamsRunning"] == "Unknown/NotReady"
    assert found["GitPathAccepted"] == "Unknown/NotChecked"
    assert found["Stalled"] == "True/ValidationFailed"
    assert (await cluster.conditions("WatchRule", "wr"))["Stalled"] == "True/GitProviderNotFound"
    uid = await cluster.uid("GitTarget", "gt")
    assert await cluster.store.read_gate(uid) is None
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE})
    await cluster.settle()
    gate = await cluster.store.read_gate(uid)
    assert gate is not None
    assert (gate.open, gate.branch, gate.path) == (True, MAIN, "live")
    assert (await cluster.conditions("GitTarget", "gt"))["Reconciling"] == "True/Replaying"


async def test_streams_make_target_and_rule_ready(cluster: Cluster, url: str) -> None:
    """StreamsRunning, the roll-up, and the Events of the way there."""
    await base(cluster, url)
    await cluster.settle()
    assert (await cluster.get("GitTarget", "gt"))["status"]["streams"]["summary"] == "0/1"
    await cluster.stream("gt", "configmaps", StreamState.STREAMING)
    await cluster.settle()
    assert (await cluster.conditions("GitTarget", "gt"))["Ready"] == "True/OK"
    assert (await cluster.conditions("WatchRule", "wr"))["Ready"] == "True/Ready"
    rule = await cluster.get("WatchRule", "wr")
    assert rule["status"]["streams"]["summary"] == "1/1"
    await cluster.stream("gt", "configmaps", StreamState.BLOCKED)
    await cluster.settle()
    assert (await cluster.conditions("WatchRule", "wr"))["Stalled"] == "True/WatchError"
    assert sorted(await cluster.events("gt")) == [("Normal", "OK"), ("Warning", "WatchError")]


async def test_widening_and_narrowing_branches(cluster: Cluster, url: str) -> None:
    """B05: the gate follows allowedBranches at the next pass, and stops what already runs."""
    await base(cluster, url)
    await cluster.apply("GitTarget", "gt2", {"providerRef": {"name": "gp"}, "branch": "qa", "path": "live"})
    await cluster.settle()
    uid = await cluster.uid("GitTarget", "gt2")
    assert (await cluster.conditions("GitTarget", "gt2"))["Validated"] == "False/BranchNotAllowed"
    await cluster.apply("GitProvider", "gp", {"url": url, "allowedBranches": ["main", "qa"]})
    await cluster.settle()
    gate = await cluster.store.read_gate(uid)
    assert gate is not None
    assert gate.open
    await cluster.apply("GitProvider", "gp", {"url": url, "allowedBranches": ["main"]})
    await cluster.settle()
    gate = await cluster.store.read_gate(uid)
    assert gate is not None
    assert (gate.open, gate.reason) == (False, "BranchNotAllowed")
    assert "streams" not in (await cluster.get("GitTarget", "gt2"))["status"]


async def test_a_loser_takes_over(cluster: Cluster, url: str) -> None:
    """B06, B08: the winner keeps its gate, the loser gets one when the winner is gone."""
    await base(cluster, url)
    await cluster.apply(
        "GitTarget", "zz", {"providerRef": {"name": "gp"}, "branch": "main", "path": "live/sub"}
    )
    await cluster.settle()
    assert (await cluster.conditions("GitTarget", "gt"))["Validated"] == "True/OK"
    assert (await cluster.conditions("GitTarget", "zz"))["Validated"] == "False/TargetConflict"
    message = await cluster.message("GitTarget", "zz", "Validated")
    assert "'shop/gt'" in message
    assert "overlaps" in message
    old = await cluster.uid("GitTarget", "gt")
    await cluster.delete("GitTarget", "gt")
    await cluster.settle()
    gate = await cluster.store.read_gate(await cluster.uid("GitTarget", "zz"))
    assert gate is not None
    assert gate.open
    retired = await cluster.store.read_gate(old)
    assert retired is not None
    assert (retired.open, retired.reason) == (False, "Deleted")
    entries = await cluster.store.read_entries(MAIN)
    assert [type(entry.entry).__name__ for entry in entries] == ["RetireEntry"]
    assert entries[0].entry.target.name == "gt"


async def test_overlap_across_providers_of_one_repository(cluster: Cluster, url: str) -> None:
    """F18, I7: another provider of the same repository does not get around the rule."""
    await base(cluster, url)
    await cluster.apply("GitProvider", "gp", {"url": url + "/", **BASE}, namespace="depot")
    spec = {"providerRef": {"name": "gp"}, "branch": "main", "path": "./live"}
    await cluster.apply("GitTarget", "zz", spec, namespace="depot")
    await cluster.settle()
    found = [await cluster.conditions("GitTarget", *who) for who in (("gt", "shop"), ("zz", "depot"))]
    assert sorted(c["Validated"] for c in found) == ["False/TargetConflict", "True/OK"]


async def test_deleted_while_no_controller_ran(cluster: Cluster, url: str) -> None:
    """B18: the gate record is memory enough to retire a target after a restart."""
    await base(cluster, url)
    await cluster.settle()
    uid = await cluster.uid("GitTarget", "gt")
    await cluster.delete("GitTarget", "gt")
    cluster.restart()
    await cluster.settle()
    assert [e.entry.target.uid for e in await cluster.store.read_entries(MAIN)] == [uid]
    await cluster.settle()
    assert len(await cluster.store.read_entries(MAIN)) == 1


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"path": "/abs"}, "InvalidConfig"),
        ({"path": "../up"}, "InvalidConfig"),
        ({"path": "x/../../y"}, "InvalidConfig"),
        ({"path": "a\\b"}, "InvalidConfig"),
        ({"branch": "--mirror"}, "InvalidConfig"),
        ({"branch": "re fs"}, "InvalidConfig"),
        ({"placement": {"default": "all.yaml"}}, "InvalidConfig"),
        ({"placement": {"default": "../x.yaml"}}, "InvalidConfig"),
        ({"placement": {"default": "{bogus}/a.yaml"}}, "InvalidConfig"),
        ({"placement": {"byType": {"v1": "a/{name}.yaml"}}}, "InvalidConfig"),
    ],
)
async def test_invalid_targets_never_open(cluster: Cluster, url: str, spec: dict, reason: str) -> None:
    """A10, B03: the gate stays closed and the message names the field."""
    await cluster.apply("GitProvider", "gp", {"url": url, "allowedBranches": ["*"]})
    whole = {"providerRef": {"name": "gp"}, "branch": "main", "path": "live", **spec}
    await cluster.apply("GitTarget", "gt", whole)
    await cluster.settle()
    assert (await cluster.conditions("GitTarget", "gt"))["Validated"] == f"False/{reason}"
    assert next(iter(spec)) in await cluster.message("GitTarget", "gt", "Validated")
    assert await cluster.store.read_gates() == {}


async def test_encryption_gate_waits_for_its_secret(cluster: Cluster, url: str) -> None:
    """B10: MissingSecret closes the whole gate; the key's arrival opens it at the next pass."""
    await base(cluster, url)
    await cluster.delete("GitTarget", "gt")
    age = {"enabled": True, "recipients": {"extractFromSecret": True}}
    spec = {"providerRef": {"name": "gp"}, "branch": "main", "path": "live"}
    encryption = {"secretRef": {"name": "age"}, "age": age}
    await cluster.apply("GitTarget", "gt", {**spec, "encryption": encryption})
    await cluster.settle()
    found = await cluster.conditions("GitTarget", "gt")
    assert found["EncryptionConfigured"] == "False/MissingSecret"
    assert found["Stalled"] == "True/EncryptionNotConfigured"
    assert "failed to fetch encryption secret" in await cluster.message(
        "GitTarget", "gt", "EncryptionConfigured"
    )
    due = await cluster.look(TARGETS, "shop/gt")
    assert due is not None
    assert 0 < due <= 15
    await cluster.put_secret("age", {"k.agekey": f"# mine\n{pyrage.x25519.Identity.generate()}\n"})
    await cluster.settle()
    assert (await cluster.conditions("GitTarget", "gt"))["EncryptionConfigured"] == "True/OK"


async def test_a_generated_age_key(cluster: Cluster, url: str) -> None:
    """B13, E1 to E3: made where there is none, with both annotations; nothing is overwritten."""
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE})
    await cluster.put_secret("age", {"other": "x"})
    spec = {"providerRef": {"name": "gp"}, "branch": "main", "path": "live", "encryption": ENCRYPTED}
    await cluster.apply("GitTarget", "gt", spec)
    await cluster.settle()
    secret = await cluster.secret("age")
    assert secret is not None
    assert base64.b64decode(secret["data"]["other"]) == b"x"
    (entry,) = [key for key in secret["data"] if key.endswith(".agekey")]
    assert len(entry) == len("20310101.agekey")
    identity = pyrage.x25519.Identity.from_str(base64.b64decode(secret["data"][entry]).decode().strip())
    notes = secret["metadata"]["annotations"]
    assert notes["configbutler.ai/age-recipient"] == str(identity.to_public())
    assert notes["configbutler.ai/backup-warning"] == "REMOVE_AFTER_BACKUP"
    assert ("Warning", "AgeKeyGenerated") in await cluster.events("gt")
    cluster.restart()
    await cluster.settle()
    assert await cluster.secret("age") == secret


async def test_path_refusal_and_push_failure_reach_the_status(cluster: Cluster, url: str) -> None:
    """B20, I5, T9: both come from the store."""
    await base(cluster, url)
    await cluster.settle()
    uid = await cluster.uid("GitTarget", "gt")
    await cluster.store.write_path_verdict(
        uid, PathVerdict(False, "UnsupportedContent", ("live/deploy.sh: not YAML",), 1)
    )
    health = BranchHealth(ok=False, reason="PushRejected", message="remote: not on my watch")
    await cluster.store.write_branch_health(MAIN, health)
    await cluster.settle()
    found = await cluster.conditions("GitTarget", "gt")
    assert found["Stalled"] == "True/UnsupportedContent"
    assert found["PushSucceeding"] == "False/PushRejected"
    assert "lastPushTime" not in (await cluster.get("GitTarget", "gt"))["status"]
    assert {("Warning", "UnsupportedContent"), ("Warning", "PushRejected")} <= set(await cluster.events("gt"))


async def test_a_lost_lease_stops_writes(cluster: Cluster, url: str) -> None:
    """The status is left to the new holder."""
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE})
    await cluster.refresh()
    cluster.leads = False
    with pytest.raises(LostRace):
        await cluster.providers.reconcile("shop/gp")
    assert "status" not in await cluster.get("GitProvider", "gp")


async def test_objects_from_before_an_upgrade(cluster: Cluster, url: str) -> None:
    """An unknown enum value ends in a condition that names the field."""
    await base(cluster, url)
    await cluster.refresh()
    cluster.caches[TARGETS].found[0]["spec"]["prune"] = {"mode": "Sometimes"}
    await cluster.look(TARGETS, "shop/gt")
    assert "spec.prune.mode" in await cluster.message("GitTarget", "gt", "Validated")


async def test_schema_rejections(cluster: Cluster, url: str) -> None:
    """B03, I16, I18: what the API server itself refuses, with the agreed words."""
    await base(cluster, url)
    for field, value in (("branch", "env/x"), ("path", "other"), ("providerRef", {"name": "x"})):
        with pytest.raises(KubeInvalid, match=f"spec.{field} is immutable"):
            await cluster.kube.patch(own_path(TARGETS, namespace="shop", name="gt"), {"spec": {field: value}})
    await cluster.apply("CommitRequest", "cr", {"targetRef": {"name": "gt"}, "message": "a\n\nb"})
    path = own_path("commitrequests", namespace="shop", name="cr")
    for change in ({"message": None}, {"closeDelaySeconds": 3}, {"targetRef": {"name": "x"}}):
        with pytest.raises(KubeInvalid, match="spec is immutable"):
            await cluster.kube.patch(path, {"spec": change})
    for bad in ({"closeDelaySeconds": 301}, {"closeDelaySeconds": -1}, {"message": "a\tb"}, {"message": ""}):
        with pytest.raises(KubeInvalid):
            await cluster.apply("CommitRequest", "bad", {"targetRef": {"name": "gt"}, **bad})
    for bad in ({"branch": "b"}, {"branch": "b", "path": ""}):
        with pytest.raises(KubeInvalid):
            await cluster.apply("GitTarget", "bad", {"providerRef": {"name": "gp"}, **bad})


async def test_a_starting_process_does_not_take_back_what_was_said(cluster: Cluster, url: str) -> None:
    """While the API surface is being read, a judged rule keeps its status; a new one says why it waits."""
    await base(cluster, url)
    await cluster.settle()
    await cluster.stream("gt", "configmaps", StreamState.STREAMING)
    await cluster.settle()
    known, cluster.registry = cluster.registry, Registry()
    cluster.restart()
    rules = [{"resources": ["secrets"]}]
    await cluster.apply("WatchRule", "new", {"targetRef": {"name": "gt"}, "rules": rules})
    await cluster.settle()
    assert (await cluster.conditions("WatchRule", "wr"))["Ready"] == "True/Ready"
    assert (await cluster.conditions("GitTarget", "gt"))["Ready"] == "True/OK"
    assert (await cluster.conditions("WatchRule", "new"))["Reconciling"] == "True/UnresolvedResources"
    cluster.clock += 31
    await cluster.settle()
    assert (await cluster.conditions("WatchRule", "wr"))["Reconciling"] == "True/UnresolvedResources"
    cluster.registry = known
    await cluster.stream("gt", "secrets", StreamState.STREAMING)
    await cluster.settle()
    assert (await cluster.conditions("WatchRule", "wr"))["Ready"] == "True/Ready"


async def test_secrets_are_read_by_name_and_not_at_every_look(cluster: Cluster, url: str) -> None:
    """A08: get alone, never list or watch; looks in quick succession read once."""
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE})
    spec = {"providerRef": {"name": "gp"}, "branch": "main", "path": "live", "encryption": ENCRYPTED}
    await cluster.apply("GitTarget", "gt", spec)
    calls: list[tuple[str, str]] = []
    plain = cluster.kube.raw

    async def spy(method: str, path: str, **more: object) -> bytes:
        if "/secrets" in path:
            calls.append((method, path.rpartition("/secrets")[2]))
        return await plain(method, path, **more)  # type: ignore[arg-type]

    cluster.kube.raw = spy  # type: ignore[method-assign]
    await cluster.settle()
    assert calls == [("GET", "/age"), ("POST", ""), ("GET", "/age")]
    for _ in range(5):
        await cluster.look(TARGETS, "shop/gt")
    assert len(calls) == 3


async def test_an_idle_branch_notices_that_the_remote_moved(cluster: Cluster, url: str) -> None:
    """J19, F11: the listing is compared with the stored tip; a moved branch is woken once per tip."""
    await base(cluster, url)
    await cluster.settle()
    while await cluster.store.claim_due(10, 60_000):
        pass
    await cluster.store.client.hset(branch_part(MAIN, "record"), "base", "c0ffee")
    await cluster.store.client.delete(DUE)
    cluster.restart()
    await cluster.settle()
    assert await cluster.store.claim_due(10, 60_000) == [MAIN]
    await cluster.store.client.delete(DUE)
    cluster.secret_clock += 600
    await cluster.settle()
    assert await cluster.store.claim_due(10, 60_000) == []
