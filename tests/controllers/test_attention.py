"""What is said of something that works: credentials that only read, folders that need a look."""

from __future__ import annotations

from pathlib import Path

from reverser.controllers.decide_provider import CONNECTION_RETRY
from reverser.controllers.world import PROVIDERS, TARGETS
from reverser.store.keys import target_part
from reverser.store.model import (
    PathVerdict,
    Scope,
    Skipped,
    SkippedObject,
    StreamRecord,
    StreamState,
    TypeRef,
)
from tests.controllers.cluster import Cluster
from tests.controllers.test_reconcile import BASE, ENCRYPTED, base
from tests.git.helpers import bare
from tests.git.servers import git_http


async def test_read_only_credentials_are_told(cluster: Cluster, tmp_path: Path) -> None:
    """Z9: Ready, but a condition and an Event say that pushing is refused; it goes within a minute of their
    being let push."""
    bare(tmp_path / "origin.git")
    with git_http(tmp_path) as server:
        server.read_only = True
        await cluster.apply("GitProvider", "gp", {"url": server.url(), **BASE})
        await cluster.settle()
        found = await cluster.conditions("GitProvider", "gp")
        assert found["Ready"] == "True/Ready"
        assert found["PushPermitted"] == "False/PushRefused"
        assert "grant them write access" in await cluster.message("GitProvider", "gp", "PushPermitted")
        assert ("Warning", "PushRefused") in await cluster.events("gp")
        assert not any("POST" in request and "receive-pack" in request for request in server.requests)
        server.read_only = False
        due = await cluster.look(PROVIDERS, "shop/gp")
        assert due is not None
        assert due <= CONNECTION_RETRY
        cluster.secret_clock += CONNECTION_RETRY
        await cluster.settle()
        assert "PushPermitted" not in await cluster.conditions("GitProvider", "gp")


async def test_a_target_that_nothing_is_watched_for_says_what_is_missing(cluster: Cluster, url: str) -> None:
    """No rule at all, or rules that select nothing: two things to do."""
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE})
    spec = {"providerRef": {"name": "gp"}, "branch": "main", "path": "live"}
    off = {"provider": "sops", "age": {"recipients": {"publicKeys": ["age1x"]}}}
    await cluster.apply("GitTarget", "gt", {**spec, "encryption": off})
    await cluster.settle()
    assert (await cluster.message("GitTarget", "gt", "StreamsRunning")).endswith(
        "no resolved resource types; no rule names this target: create one"
    )
    assert "age.enabled" in await cluster.message("GitTarget", "gt", "EncryptionConfigured")
    await cluster.apply("WatchRule", "wr", {"targetRef": {"name": "gt"}, "rules": [{"resources": ["nope"]}]})
    await cluster.settle()
    assert (await cluster.message("GitTarget", "gt", "StreamsRunning")).endswith(
        "ResourcesResolved of its rules says why"
    )


async def test_remarks_on_a_folder_are_told_once(cluster: Cluster, url: str) -> None:
    """Z5, Z18: the folder stays accepted; message and one Event name what needs attention."""
    await base(cluster, url)
    await cluster.settle()
    uid = await cluster.uid("GitTarget", "gt")
    await cluster.store.write_path_verdict(uid, PathVerdict(accepted=True, remarks=("Secret x is clear",)))
    await cluster.settle()
    await cluster.settle()
    assert (await cluster.conditions("GitTarget", "gt"))["GitPathAccepted"] == "True/GitPathAccepted"
    assert "note: Secret x is clear" in await cluster.message("GitTarget", "gt", "GitPathAccepted")
    events = await cluster.events("gt")
    assert events.count(("Warning", "FolderNeedsAttention")) == 1


async def test_what_cannot_be_sealed_is_named(cluster: Cluster, url: str) -> None:
    """J03, Z2: an object that is not written is shown on its target, once as an Event; never its value."""
    await base(cluster, url)
    await cluster.settle()
    uid = await cluster.uid("GitTarget", "gt")
    field = "secrets|shop|safe"
    await cluster.store.client.hset(target_part(uid, "unsealed"), field, "EncryptionNotConfigured")
    await cluster.settle()
    await cluster.settle()
    message = await cluster.message("GitTarget", "gt", "EncryptionConfigured")
    assert "not written: secrets shop/safe (EncryptionNotConfigured)" in message
    assert (await cluster.events("gt")).count(("Warning", "NotSealed")) == 1
    assert (await cluster.conditions("GitTarget", "gt"))["ObjectsWritten"] == "False/ObjectsSkipped"
    message = await cluster.message("GitTarget", "gt", "ObjectsWritten")
    assert "not sealed: secrets shop/safe (EncryptionNotConfigured); see" in message
    await cluster.store.clear_unsealed(uid, [field])
    await cluster.store.write_path_verdict(uid, PathVerdict(accepted=True))
    await cluster.settle()
    assert "safe" not in await cluster.message("GitTarget", "gt", "EncryptionConfigured")
    assert (await cluster.conditions("GitTarget", "gt"))["ObjectsWritten"] == "True/OK"


async def test_nobody_misses_the_key_of_the_target(cluster: Cluster, url: str) -> None:
    """Z2: the Secret that opens the target is named with the encryption, and is not said to be missing."""
    await base(cluster, url)
    await cluster.settle()
    uid = await cluster.uid("GitTarget", "gt")
    await cluster.store.write_path_verdict(uid, PathVerdict(accepted=True))
    await cluster.store.client.hset(target_part(uid, "unsealed"), "secrets|shop|age", "OwnAgeKey")
    await cluster.settle()
    assert "shop/age (OwnAgeKey)" in await cluster.message("GitTarget", "gt", "EncryptionConfigured")
    assert (await cluster.conditions("GitTarget", "gt"))["ObjectsWritten"] == "True/OK"


async def test_nothing_is_called_written_in_a_refused_folder(cluster: Cluster, url: str) -> None:
    """N03: whether objects are left out is not known while the whole folder is."""
    await base(cluster, url)
    await cluster.settle()
    uid = await cluster.uid("GitTarget", "gt")
    refused = PathVerdict(accepted=False, reason="UnsupportedContent", issues=("deploy.sh is foreign",))
    await cluster.store.write_path_verdict(uid, refused)
    await cluster.settle()
    assert (await cluster.conditions("GitTarget", "gt"))["ObjectsWritten"] == "Unknown/NotChecked"
    assert "GitPathAccepted" in await cluster.message("GitTarget", "gt", "ObjectsWritten")


async def test_a_secret_in_use_is_looked_at_every_30_seconds(cluster: Cluster, url: str) -> None:
    """J23: however the looks fall, the next one is due when the last reading of the Secret is 30 s old."""
    await cluster.apply("GitProvider", "gp", {"url": url, **BASE})
    spec = {"providerRef": {"name": "gp"}, "branch": "main", "path": "live", "encryption": ENCRYPTED}
    await cluster.apply("GitTarget", "gt", spec)
    uid = await cluster.uid("GitTarget", "gt")
    await cluster.settle()
    await cluster.store.write_stream(
        StreamRecord(
            Scope(uid, "configmaps", "shop"),
            TypeRef("", "v1", "configmaps", "ConfigMap", True),
            StreamState.STREAMING,
            "AllStreamsReady",
        )
    )
    cluster.secret_clock += 20
    due = await cluster.look(TARGETS, "shop/gt")
    assert due is not None
    assert 20 + due <= 30


async def test_objects_that_are_left_out_are_named(cluster: Cluster, url: str) -> None:
    """N10: a skip is seen on the target with its reason, and goes when the object is written; a placeholder
    that live does not show has a condition of its own."""
    await base(cluster, url)
    await cluster.settle()
    uid = await cluster.uid("GitTarget", "gt")
    await cluster.store.write_path_verdict(uid, PathVerdict(accepted=True))
    await cluster.settle()
    found = await cluster.conditions("GitTarget", "gt")
    assert (found["ObjectsWritten"], found["RenderMatchesLive"]) == ("True/OK", "True/OK")
    ready = found["Ready"]
    skips = (
        SkippedObject("configmaps", "shop", "web", "not-editable", "has a key twice", "web.yaml"),
        SkippedObject("configmaps", "shop", "env", "render-does-not-match-live", "holds ${REGION}"),
    )
    await cluster.store.write_skipped(uid, Skipped(skips, more=7))
    await cluster.settle()
    found = await cluster.conditions("GitTarget", "gt")
    assert found["ObjectsWritten"] == "False/ObjectsSkipped"
    assert found["RenderMatchesLive"] == "False/RenderDoesNotMatchLive"
    assert found["Ready"] == ready
    message = await cluster.message("GitTarget", "gt", "ObjectsWritten")
    assert message.startswith("not written: configmaps shop/web (not-editable: has a key twice)")
    assert "and 3 more" in message
    assert ("Warning", "ObjectsSkipped") in await cluster.events("gt")
    await cluster.store.write_skipped(uid, Skipped())
    await cluster.settle()
    assert (await cluster.conditions("GitTarget", "gt"))["ObjectsWritten"] == "True/OK"
