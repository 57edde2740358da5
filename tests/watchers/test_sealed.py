"""Sensitive objects: sealed text, digests or a refusal in the journal, never a plain value anywhere in
Redis.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
import pyrage
import pytest

from reverser.config import parse_sensitive_resources
from reverser.errors import KubeForbidden, KubeUnauthenticated, KubeUnavailable, TransientError
from reverser.kinds.model import GitTarget
from reverser.kinds.parse import parse_git_target
from reverser.store import AsyncStore
from reverser.store.keys import target_part
from reverser.store.model import (
    ALL_OPERATIONS,
    DigestRecord,
    ObjectRef,
    Presence,
    Scope,
    TargetRef,
    TypeRef,
)
from reverser.trust.child import ChildFailed, ChildTimeout
from watchers.clustersealer import ClusterSealer
from watchers.fold import Folded
from watchers.hooks import Unsealed
from watchers.sanitize import canonical
from watchers.sealing import Seals
from watchers.table import ShardSpec

from .conftest import Bench, Cluster, eventually

RULES = [{"resources": ["secrets", "configmaps"]}]
CANARY = "canary-7719-plain"


class FakeSealer:
    """Reversible by nobody: replaces a projection by a hash, for the recipients of the moment."""

    def __init__(self, *recipients: str) -> None:
        self.who: tuple[str, ...] | Unsealed | Exception = recipients
        self.sealed: list[str] = []
        self.fault: Unsealed | Exception | None = None
        """What becomes of every object now."""
        self.tries = 0

    async def recipients(self, target: GitTarget) -> tuple[str, ...] | Unsealed:
        if isinstance(self.who, Exception):
            raise self.who
        return self.who

    async def digest(self, target_uid: str, ref: ObjectRef, projection: Mapping[str, Any]) -> str:
        return f"d{hash((target_uid, canonical(projection)))}"

    async def seal(
        self, target_uid: str, ref: ObjectRef, projection: Mapping[str, Any], recipients: tuple[str, ...]
    ) -> bytes | Unsealed:
        self.tries += 1
        if isinstance(self.fault, Exception):
            raise self.fault
        if self.fault is not None:
            return self.fault
        if ref.name == "refused":
            return Unsealed("SealingFailed", "sops said no")
        self.sealed.append(ref.name)
        return f"sealed {ref.name} for {','.join(recipients)}".encode()


async def everything_in(store: AsyncStore) -> bytes:
    """All keys and values of Redis."""
    client = store.client
    parts: list[bytes] = []
    async for key in client.scan_iter("*", count=500):
        parts.append(key)
        parts.append(await client.dump(key) or b"")
        kind = await client.type(key)
        if kind == b"hash":
            parts += [part for pair in (await client.hgetall(key)).items() for part in pair]
        elif kind == b"stream":
            parts.append(repr(await client.xrange(key)).encode())
    return b"\n".join(parts)


async def test_without_encryption_secrets_are_shown_and_never_written(bench: Bench, cluster: Cluster) -> None:
    """J03, pain 54: an unsealed entry once per object, PRESENT in sweeps, other types go on, no value in
    Redis.
    """
    cluster.secret("old", CANARY)
    uid = cluster.target()
    cluster.rule("wr", "gt", RULES)
    await bench.open(uid)
    await bench.start()
    await bench.streaming(uid, 2)
    cluster.secret("new", CANARY)
    cluster.kube.patch("/api/v1/namespaces/shop/secrets/new", {"metadata": {"labels": {"a": "b"}}})
    cluster.create("a", v="1")

    async def shown() -> bool:
        return {e.object.name for e in await bench.journal().unsealed()} == {"old", "new"}

    await eventually(shown, "both are shown")
    await eventually(lambda: _has(bench, "a"), "the other type goes on")
    unsealed = await bench.journal().unsealed()
    assert [entry.reason for entry in unsealed] == ["EncryptionNotConfigured"] * 2
    assert "spec.encryption" in unsealed[0].message
    assert CANARY.encode() not in await everything_in(bench.store)


async def _has(bench: Bench, name: str) -> bool:
    return bool(await bench.journal().events(name))


async def test_sealed_before_the_journal(bench: Bench, cluster: Cluster) -> None:
    """J20: sweeps and live events carry sealed text and the generation; new recipients replay and reseal."""
    cluster.secret("old", CANARY)
    uid = cluster.target()
    cluster.rule("wr", "gt", RULES)
    await bench.open(uid)
    sealer = FakeSealer("r1")
    await bench.start(sealer=sealer)
    await bench.streaming(uid, 2)
    cluster.secret("new", CANARY)
    cluster.secret("refused", CANARY)
    await eventually(lambda: _has(bench, "new"), "the live Secret")
    (event,) = await bench.journal().events("new")
    assert (event.body, event.sealed, event.sensitive) == (b"sealed new for r1", True, True)
    generation = event.recipients_generation
    assert generation > 0
    sealer.who = ("r1", "r2")

    async def resealed() -> bool:
        tree = (await bench.journal().tree()).get(uid, {})
        return tree.get(("secrets", "shop", "old")) == b"sealed old for r1,r2"

    await eventually(resealed, "the replay for the new recipients")
    sweep = next(s for s in await bench.journal().sweeps() if s.scope.group_resource == "secrets")
    staged = {s.name: s for s in await bench.store.read_staging(bench.branch, sweep.replay_id) or []}
    assert staged["old"].recipients_generation == generation + 1
    assert str(staged["refused"].presence) == "present"
    assert [entry.reason for entry in await bench.journal().unsealed()] == ["SealingFailed"]
    assert CANARY.encode() not in await everything_in(bench.store)


async def test_a_successor_that_cannot_read_the_recipients_passes_no_state_over(
    bench: Bench, cluster: Cluster
) -> None:
    """E24, J20: taking over while the API server does not say who may decrypt, a watcher begins with Secrets
    only once it does, from the cursor: every state between is sealed, none is shown as unsealed.
    """
    cluster.secret("key", "first")
    uid = cluster.target()
    cluster.rule("wr", "gt", RULES)
    await bench.open(uid)
    former = await bench.start(sealer=FakeSealer("r1"))
    await bench.streaming(uid, 2)
    await eventually(lambda: _moved(bench, Scope(uid, "secrets", "shop")), "a cursor to go on from")
    sweeps = len(await bench.journal().sweeps())
    await former.stop()
    sealer = FakeSealer("r1")
    sealer.who = KubeUnavailable("the API server is away", status=503)
    await bench.start(sealer=sealer)

    async def waiting() -> bool:
        streams = {s.group_resource: r for s, r in (await bench.store.read_streams(uid)).items()}
        return {name: str(record.state) for name, record in streams.items()} == {
            "configmaps": "streaming",
            "secrets": "blocked",
        } and "once the recipients of this target can be read" in streams["secrets"].message

    await eventually(waiting, "ConfigMaps stream, Secrets wait")
    for value in ("second", "third", "fourth"):
        patch = {"stringData": {"v": value}}
        cluster.kube.patch("/api/v1/namespaces/shop/secrets/key", patch)
    sealer.who = ("r1",)

    async def all_states() -> bool:
        return len(await bench.journal().events("key")) == 3

    await eventually(all_states, "each state that was made meanwhile")
    assert len(await bench.journal().sweeps()) == sweeps
    assert await bench.journal().unsealed() == []


async def _moved(bench: Bench, scope: Scope) -> bool:
    return await bench.store.read_cursor(scope) is not None


async def test_a_refused_token_says_nothing_about_the_recipients() -> None:
    """A token that is just being replaced (401) is waited for; a missing right (403) is told as it is."""
    target = parse_git_target(
        {
            "metadata": {"namespace": "shop", "name": "gt", "uid": "u"},
            "spec": {
                "encryption": {
                    "provider": "sops",
                    "age": {"enabled": True, "recipients": {"extractFromSecret": True}},
                    "secretRef": {"name": "age"},
                }
            },
        }
    )

    def answering(error: Exception) -> ClusterSealer:
        class Refusing:
            async def get(self, path: str) -> Mapping[str, Any]:
                raise error

        return ClusterSealer(Refusing(), namespace="ops")  # type: ignore[arg-type]

    with pytest.raises(TransientError):
        await answering(KubeUnauthenticated("no such token")).recipients(target)
    missing = await answering(KubeForbidden("may not get secrets")).recipients(target)
    assert isinstance(missing, Unsealed)


async def test_recipients_are_known_before_anything_is_sealed(bench: Bench, cluster: Cluster) -> None:
    """B15: the folder's `.sops.yaml` rides its first commit, also where no rule selects a sensitive type."""
    uid = cluster.target(encryption={"provider": "sops", "age": {"enabled": True}})
    cluster.rule("wr", "gt", [{"resources": ["configmaps"]}])
    await bench.open(uid)
    await bench.start(sealer=FakeSealer("r1"))
    await bench.streaming(uid, 1)
    known = await bench.store.read_recipients(uid)
    assert known is not None
    assert known.recipients == ("r1",)


async def test_a_type_named_by_its_kind_is_sealed(
    bench: Bench, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """E1: the kind of a type seals it as well as its plural; an entry that fits no type is warned of."""
    named = parse_sensitive_resources("ConfigMap,vaults.example.com/Credential")
    bench.config = replace(bench.config, additional_sensitive_resources=named)
    uid = cluster.target()
    cluster.rule("wr", "gt", RULES)
    await bench.open(uid)
    with caplog.at_level(logging.WARNING, logger="watchers.runtime"):
        await bench.start(sealer=FakeSealer("r1"))
        await bench.streaming(uid, 2)
    said = [text for text in caplog.messages if "is no type that the cluster serves" in text]
    assert [text.count("'vaults.example.com/credential'") for text in said] == [1]
    cluster.create("a", v=CANARY)
    await eventually(lambda: _has(bench, "a"), "the ConfigMap")
    (event,) = await bench.journal().events("a")
    assert (event.body, event.sealed, event.sensitive) == (b"sealed a for r1", True, True)
    assert CANARY.encode() not in await everything_in(bench.store)


@pytest.mark.parametrize(
    "fault",
    [
        Unsealed("SopsMissing", "install it"),
        ChildTimeout("sops did not answer"),
        ChildFailed("sops was killed"),
    ],
    ids=["missing", "hangs", "killed"],
)
async def test_what_could_not_be_sealed_is_tried_again(
    bench: Bench, cluster: Cluster, fault: Unsealed | Exception
) -> None:
    """J14, Z2: a sops that fails costs others nothing, and an object that never changes again is written
    once sops works, also by a successor."""
    uid = cluster.target()
    cluster.rule("wr", "gt", RULES)
    await bench.open(uid)
    sealer = FakeSealer("r1")
    sealer.fault = fault
    first = await bench.start(sealer=sealer)
    await bench.streaming(uid, 2)
    cluster.secret("stuck", CANARY)

    async def shown() -> bool:
        return [entry.object.name for entry in await bench.journal().unsealed()] == ["stuck"]

    await eventually(shown, "it is shown")
    tries = sealer.tries

    async def tried() -> bool:
        return sealer.tries >= tries + 2

    await eventually(tried, "it is tried again")
    assert len(await bench.journal().unsealed()) == 1
    assert (await bench.journal().unsealed())[0].reason in {"SopsMissing", "EncryptionFailed"}
    await bench.store.client.hset(
        target_part(uid, "unsealed"), "secrets|shop|stuck", "EncryptionFailed"
    )  # as the writer settles it
    await first.stop()
    sealer.fault = None
    await bench.start(sealer=sealer)

    async def written() -> bool:
        tree = (await bench.journal().tree()).get(uid, {})
        return tree.get(("secrets", "shop", "stuck")) == b"sealed stuck for r1"

    await eventually(written, "it is written")

    async def quiet() -> bool:
        return not await bench.store.read_unsealed(uid)

    await eventually(quiet, "it is shown no longer")
    assert CANARY.encode() not in await everything_in(bench.store)


def test_pauses_between_tries() -> None:
    """J14: 10 s, doubled up to 5 minutes; only for reasons that may heal, and only in their own scope."""
    seals = Seals(None, FakeSealer(), TargetRef("u", "shop", "gt"), Unsealed("x", "y"))  # type: ignore[arg-type]
    shop, other = Scope("u", "secrets", "shop"), Scope("u", "secrets", "other")
    seals.reported = {"secrets|shop|a": "EncryptionFailed", "secrets|other|key": "OwnAgeKey"}
    moments = [
        now
        for now in range(1000)
        if seals.due([shop, other], now=float(now), first=10.0, most=300.0) == [shop]
    ]
    assert moments == [10, 30, 70, 150, 310, 610, 910]
    seals.reported.clear()
    assert seals.due([shop], now=5000.0, first=10.0, most=300.0) == []


@pytest.mark.parametrize(("generation", "sent"), [(1, Presence.FULL), (2, Presence.DIGEST)])
async def test_a_digest_stands_for_the_recipients_of_its_time(generation: int, sent: Presence) -> None:
    """J20, pain 115: unchanged content is sealed anew for a changed set of recipients, and only then."""
    ref = ObjectRef(TypeRef("", "v1", "secrets", "Secret", True), "shop", "safe")
    body = canonical({"kind": "Secret", "data": {"pin": "MQ=="}})
    sealer = FakeSealer()
    written = DigestRecord(await sealer.digest("u", ref, orjson.loads(body)), "blob", generation)

    class Settled:
        async def read_digests(self, uid: str, fields: list[str]) -> dict[str, DigestRecord]:
            return dict.fromkeys(fields, written)

    seals = Seals(Settled(), sealer, TargetRef("u", "shop", "gt"), ("r1", "r2"), 2)  # type: ignore[arg-type]
    spec = ShardSpec(Scope("u", "secrets", "shop"), ref.type, ALL_OPERATIONS, sensitive=True)
    (staged,), refused = await seals.stage(spec, [Folded("shop", "safe", Presence.FULL, body)])
    assert (staged.presence, staged.recipients_generation, refused) == (sent, 2, [])
    assert staged.body == (b"sealed safe for r1,r2" if sent is Presence.FULL else b"")


async def test_the_key_of_a_target_is_not_written_into_it() -> None:
    """A Secret with a private key of a recipient is shown and stays out; sealed for others it is written."""
    mine, other = (pyrage.x25519.Identity.generate() for _ in range(2))
    recipients = tuple(sorted(str(key.to_public()) for key in (mine, other)))
    sealer = ClusterSealer(None, namespace="ops")  # type: ignore[arg-type]
    ref = ObjectRef(TypeRef("", "v1", "secrets", "Secret", True), "shop", "age")
    data = {"20260101.agekey": base64.b64encode(f"# mine\n{mine}\n".encode()).decode(), "odd": "?"}
    projection = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "age"}, "data": data}
    refused = await sealer.seal("u", ref, projection, recipients)
    assert isinstance(refused, Unsealed)
    assert refused.reason == "OwnAgeKey"
    assert "shop/age holds an age key that opens this target" in refused.message
    assert str(mine) not in refused.message
    sealed = await sealer.seal("u", ref, projection, (str(other.to_public()),))
    assert isinstance(sealed, bytes)


async def test_a_key_that_replaces_another_is_not_sealed_for_it() -> None:
    """J18: the Secret that a target names stays out with any key, also before its recipients are read anew;
    without a key it is a Secret like others, and so is a key that another Secret holds.
    """
    old, new = (pyrage.x25519.Identity.generate() for _ in range(2))

    class Holding:
        async def get(self, path: str) -> Mapping[str, Any]:
            return {"data": {"a.agekey": base64.b64encode(f"{old}\n".encode()).decode()}}

    target = parse_git_target(
        {
            "metadata": {"uid": "u", "namespace": "shop", "name": "gt", "generation": 1},
            "spec": {
                "providerRef": {"name": "gp"},
                "branch": "main",
                "path": "live",
                "encryption": {
                    "age": {"enabled": True, "recipients": {"extractFromSecret": True}},
                    "secretRef": {"name": "age"},
                },
            },
        }
    )
    sealer = ClusterSealer(Holding(), namespace="ops")  # type: ignore[arg-type]
    recipients = await sealer.recipients(target)
    assert recipients == (str(old.to_public()),)

    async def sealed(name: str, text: str, *, namespace: str = "shop", uid: str = "u") -> bytes | Unsealed:
        ref = ObjectRef(TypeRef("", "v1", "secrets", "Secret", True), namespace, name)
        data = {"a.agekey": base64.b64encode(text.encode()).decode()}
        projection = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
        return await sealer.seal(uid, ref, projection, (str(old.to_public()),))

    refused = await sealed("age", f"# rotated\n{new}\n")
    assert isinstance(refused, Unsealed)
    assert refused.reason == "OwnAgeKey"
    assert str(new) not in refused.message
    assert isinstance(await sealed("age", "soon"), bytes)
    assert isinstance(await sealed("other", f"{new}"), bytes)
    assert isinstance(await sealed("age", f"{new}", namespace="depot"), bytes)
    assert isinstance(await sealed("age", f"{new}", uid="other"), bytes)


async def test_what_was_refused_and_is_gone_is_no_longer_shown(bench: Bench, cluster: Cluster) -> None:
    """J03: an object that went while nobody watched, and a type that no rule selects any more."""
    uid = cluster.target()
    await bench.open(uid)
    cluster.secret("here", CANARY)
    scope = Scope(uid, "secrets", "shop")
    for name in ("here", "gone"):
        await bench.store.client.hset(target_part(uid, "unsealed"), f"secrets|shop|{name}", "SealingFailed")
    cluster.rule("wr", "gt", RULES)
    await bench.start()
    await bench.streaming(uid, 2)

    async def shown() -> set[str]:
        return set(await bench.store.read_unsealed(uid))

    async def only_here() -> bool:
        return await shown() == {"secrets|shop|here"}

    await eventually(only_here, "what is gone is not shown")
    seals = Seals(bench.store, FakeSealer(), TargetRef(uid, "shop", "gt"), Unsealed("x", "y"))
    seals.reported.update(await bench.store.read_unsealed(uid))
    await seals.forget(replace(scope, namespace="other"))
    assert await shown() == {"secrets|shop|here"}
    await seals.forget(scope)
    assert await shown() == set()
