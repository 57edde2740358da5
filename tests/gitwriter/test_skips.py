"""What is not written stays visible until it is."""

from __future__ import annotations

import dataclasses

import pytest

from gitwriter.manifests import ChangeResult, Outcome, SkipReason
from gitwriter.skips import MAX_KEPT, left_out, newly, news_of
from gitwriter.skips import follow as follow_news
from reverser.store.model import OutcomeKind, Skipped
from tests.gitwriter.conftest import World
from tests.gitwriter.test_decisions import outcomes
from tests.gitwriter.test_writer import seed, shutdown_write
from tests.manifests.folder import config_map, sweep


def skip(name: str, namespace: str = "shop", code: SkipReason = SkipReason.NOT_EDITABLE) -> ChangeResult:
    return ChangeResult(config_map(name, namespace), Outcome.SKIPPED, "a.yaml", code.value, "why")


def follow(before: Skipped, results: list[ChangeResult]) -> Skipped:
    return follow_news(before, news_of(results))


def names(skipped: Skipped) -> list[str]:
    return [f"{found.namespace}/{found.name}" for found in skipped.objects]


def test_a_skip_stays_until_its_object_is_settled_otherwise() -> None:
    """N10: other objects' windows leave it, its own takes it away."""
    found = follow(Skipped(), [skip("menu")])
    found = follow(found, [skip("card"), ChangeResult(config_map("other"), Outcome.CREATED)])
    assert names(found) == ["shop/menu", "shop/card"]
    assert names(follow(found, [ChangeResult(config_map("menu"), Outcome.UNCHANGED)])) == ["shop/card"]
    assert names(follow(found, [skip("menu")])) == ["shop/card", "shop/menu"]


def test_only_a_skip_that_is_new_is_told() -> None:
    """O15: one line for an object and a cause, not one for every replay."""
    before = follow(Skipped(), [skip("menu")])
    assert newly(before, before) == []
    after = follow(before, [skip("card"), skip("menu", code=SkipReason.LIMIT)])
    assert {(found.name, found.code) for found in newly(before, after)} == {
        ("card", SkipReason.NOT_EDITABLE.value),
        ("menu", SkipReason.LIMIT.value),
    }


def test_a_sweep_tells_of_its_whole_scope() -> None:
    """What a replay of a namespace no longer finds skipped is gone; other namespaces stay."""
    found = follow(Skipped(more=3), [skip("menu"), skip("menu", "depot")])
    done = ChangeResult(sweep("ConfigMap", scope="shop"), Outcome.UNCHANGED)
    kept = ChangeResult(sweep("ConfigMap", scope="shop"), Outcome.SKIPPED, "b.yaml", "write-fan-in", "shared")
    assert names(follow(found, [done])) == ["depot/menu"]
    assert names(follow(found, [kept])) == ["depot/menu", "shop/"]
    everywhere = dataclasses.replace(done, change=sweep("ConfigMap"))
    assert follow(found, [everywhere]) == Skipped()


def test_only_what_a_person_can_act_on_is_kept_and_it_is_bounded() -> None:
    """Unselected operations, held deletions and resealing are counted elsewhere."""
    codes = (SkipReason.CREATE_NOT_SELECTED, SkipReason.HELD, SkipReason.RESEAL_NEEDED)
    assert follow(Skipped(), [skip("a", code=code) for code in codes]) == Skipped()
    found = follow(Skipped(), [skip(f"n{number}") for number in range(MAX_KEPT + 5)])
    assert (len(found.objects), found.more) == (MAX_KEPT, 5)


def test_what_is_left_out_in_a_sentence() -> None:
    """I13, O15: the first three by name; what is left out by a rule's own wish is not told."""
    assert left_out([skip("a", code=SkipReason.UPDATE_NOT_SELECTED)]) == ""
    found = left_out([skip(name) for name in "abcd"] + [ChangeResult(config_map("e"), Outcome.UPDATED)])
    assert found == (
        "left out: configmaps shop/a (not-editable), configmaps shop/b (not-editable), "
        "configmaps shop/c (not-editable) and 1 more; see ObjectsWritten of the GitTarget"
    )


DOUBLE = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: shop\ndata: {v: x}\ndata: {v: y}\n"
)


def test_the_writer_records_what_it_leaves_out(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """O15: a document that cannot be edited is named in the store and the log; once a person corrected it,
    it is not.
    """
    seed(world, "live/a.yaml", DOUBLE)
    world.event("a", "1")
    world.write()
    (found,) = world.store.read_skipped(world.target.uid).objects
    assert (found.resource, found.namespace, found.name, found.code) == (
        "configmaps",
        "shop",
        "a",
        "not-editable",
    )
    assert "has a key twice" in found.message
    lines = [record for record in caplog.records if record.message == "an object is not written"]
    assert [record.__dict__["object"] for record in lines] == ["configmaps shop/a"]
    assert lines[0].__dict__["reason"] == "not-editable"
    (outcome,) = outcomes(world)
    assert outcome.kind is OutcomeKind.NO_CHANGE
    assert outcome.detail == left_out([skip("a")])
    seed(world, "live/a.yaml", DOUBLE.replace("data: {v: x}\n", ""))
    world.event("a", "2")
    shutdown_write(world)
    assert world.store.read_skipped(world.target.uid) == Skipped()
