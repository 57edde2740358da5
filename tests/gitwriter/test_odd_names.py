"""Files whose names nobody would choose, and that a repository may hold all the same."""

from __future__ import annotations

import pytest

from reverser.store.model import OutcomeKind

from .conftest import World
from .test_decisions import outcomes
from .test_writer import restart, seed, shutdown_write

MANIFEST = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: shop\ndata:\n  v: '0' # keep\n"
)


@pytest.mark.parametrize(
    "name",
    ["h\udce4nd.yaml", "h\udce4nd\n.yaml", 'a\tb"\\\x01.yaml'],
    ids=["latin-1", "line break", "quotes"],
)
def test_documents_in_them_are_edited_and_deleted(world: World, name: str) -> None:
    """P08: names that are no UTF-8, or hold control characters, are bytes like others, to Git and to us."""
    path = f"live/{name}"
    seed(world, path, MANIFEST)
    world.sweep({"a": "1", "b": "1"})
    world.write()
    assert world.git.read(path) == MANIFEST.replace("'0'", "'1'").encode()
    assert world.pending() == 0
    assert (outcomes(world)[-1].kind, outcomes(world)[-1].changes_total) == (OutcomeKind.PUSHED, 2)
    restart(world)
    world.event("a", "2")
    shutdown_write(world)
    assert world.git.read(path) == MANIFEST.replace("'0'", "'2'").encode()
    world.event("a", None)
    shutdown_write(world)
    assert path not in world.git.files()
    assert outcomes(world)[-1].kind is OutcomeKind.PUSHED
    assert world.pending() == 0


def test_a_foreign_file_with_such_a_name_is_told(world: World) -> None:
    """N01: the verdict names it as far as it can be shown, and the window is settled."""
    seed(world, "live/caf\udce9.sh", "#!/bin/sh")
    world.event("a", "1")
    world.write()
    verdict = world.store.read_path_verdict(world.target.uid)
    assert verdict is not None and not verdict.accepted
    assert "caf?.sh" in verdict.issues[0]
    assert (outcomes(world)[-1].kind, world.pending()) == (OutcomeKind.REFUSED, 0)
