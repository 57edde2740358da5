"""What is remembered of sealed objects while windows are written (J20)."""

from __future__ import annotations

import dataclasses

import pytest

from reverser.store import keys
from reverser.store.codec import dumps
from reverser.store.model import (
    DigestRecord,
    EventEntry,
    ObjectRef,
    Operation,
    Presence,
    Scope,
    StagedObject,
    TypeRef,
    digest_field,
)

from .conftest import World
from .test_writer import shutdown_write

SECRET = ObjectRef(TypeRef("", "v1", "secrets", "Secret", True), "shop", "till")


def text(mac: str) -> bytes:
    """The Secret as sops leaves it; no two encryptions are equal."""
    return (
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: till\n  namespace: shop\n"
        "data:\n  pin: ENC[AES256_GCM,data:eA==,iv:eA==,tag:eA==,type:str]\n"
        f"sops:\n  mac: ENC[AES256_GCM,data:{mac},iv:eA==,tag:eA==,type:str]\n  version: 3.9.0\n"
    ).encode()


def sealed(world: World, operation: Operation, generation: int) -> EventEntry:
    """A change of a Secret that was sealed for the recipients of that generation."""
    return EventEntry(
        target=world.target,
        scope=Scope(world.target.uid, "secrets", "shop"),
        object=SECRET,
        operation=operation,
        object_uid="s",
        resource_version="7",
        body=b"" if operation is Operation.DELETE else b"sops: {}\n",
        sealed=operation is not Operation.DELETE,
        sensitive=True,
        recipients_generation=generation,
    )


def test_what_is_sealed_for_earlier_recipients_is_asked_for_again(world: World) -> None:
    """J20, pain 115: it is not written, and the types it came from replay; the rest of its window is."""
    for recipients in (["age1a"], ["age1b"]):
        generation = world.store.write_recipients(world.target.uid, world.fence, recipients)
    assert generation == 2
    world.set_window("60s")
    world.event("menu", "1")
    entry = sealed(world, Operation.CREATE, 1)
    world.events([entry])
    shutdown_write(world)
    assert [path for path in world.git.files() if path.endswith((".yaml", ".yml")) and "shop" in path] == [
        "live/shop/configmaps/menu.yaml"
    ]
    assert world.store.read_marks(world.target.uid)[entry.scope].needs_replay
    assert world.scope() not in world.store.read_marks(world.target.uid)
    assert world.pending() == 0


def test_the_digest_of_a_deleted_object_goes(world: World) -> None:
    """Made again with the same content, it has to be sealed again: there is no file to compare it with."""
    field, kept = digest_field(SECRET), digest_field(dataclasses.replace(SECRET, name="kept"))
    record = dumps(DigestRecord("d", "b", 0))
    for name in (field, kept):
        world.redis.hset(keys.target_part(world.target.uid, "digests"), name, record)
    world.events([sealed(world, Operation.DELETE, 0)])
    shutdown_write(world)
    assert set(world.store.read_digests(world.target.uid, [field, kept])) == {kept}
    assert world.pending() == 0


@pytest.mark.parametrize(
    ("digest", "generation", "together", "commits"),
    [
        ("same", 1, True, 1),
        ("same", 1, False, 1),
        ("another", 1, True, 2),
        ("another", 1, False, 2),
        ("same", 2, False, 2),
    ],
)
def test_a_replay_beside_a_change_that_waits_seals_nothing_twice(
    world: World, digest: str, generation: int, together: bool, commits: int
) -> None:
    """The replay read the object while its change still waited, so it was encrypted again. What it shows is
    what the change has made of it: no second commit, in one attempt with the change or in one after it. With
    other content, or for other recipients, it is written.
    """
    world.store.write_recipients(world.target.uid, world.fence, ["age1a"])
    change = dataclasses.replace(sealed(world, Operation.UPDATE, 1), body=text("a"), digest="same")
    world.events([change])
    if not together:
        shutdown_write(world)
    if generation == 2:
        world.store.write_recipients(world.target.uid, world.fence, ["age1b"])
    again = StagedObject(
        "shop",
        "till",
        Presence.FULL,
        text("b"),
        sealed=True,
        sensitive=True,
        digest=digest,
        recipients_generation=generation,
    )
    world.replay(SECRET.type, change.scope, [again])
    shutdown_write(world)
    assert world.pending() == 0
    assert len(world.git.log()) == commits, world.subjects()
    wanted = text("a") if commits == 1 else text("b")
    assert world.git.read("live/shop/secrets/till.sops.yaml") == wanted
