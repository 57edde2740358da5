"""Sensitive objects in clear text, and SOPS rules that differ from the target: told, repaired where safe."""

from __future__ import annotations

from itertools import permutations

import pytest

from gitwriter.manifests import Inventory, MemoryTree, Policy
from gitwriter.manifests.remarks import remarks

from .folder import codes, config_map, delete, manifest, plan, sealed_secret, sweep, text, written

CLEAR = manifest("Secret", "db", "shop", data={"k": "seeded"})
CONFIG = "# by hand\n" + manifest("ConfigMap", "a", "shop", data={"v": "1"})
KUSTOMIZATION = "resources: [all.yaml]\n"


def noted(files: dict[str, str | bytes], **policy: object) -> tuple[str, ...]:
    tree = MemoryTree(text(files))
    return remarks(tree, Inventory.scan(tree), Policy(**policy))  # type: ignore[arg-type]


@pytest.mark.parametrize("order", [CONFIG + "---\n" + CLEAR, CLEAR + "---\n" + CONFIG])
def test_a_clear_secret_among_others_gets_a_file_of_its_own(order: str) -> None:
    """Z18: the document is taken out and sealed elsewhere; its neighbours keep every byte."""
    secret = sealed_secret("db")
    made = plan({"all.yaml": order}, secret)
    assert secret.sealed is not None
    assert written(made) == {"all.yaml": CONFIG, "shop/secrets/db.sops.yaml": secret.sealed.decode()}
    assert codes(made) == ["created"]
    assert remarks(MemoryTree({}), made.after(), Policy()) == ()


def test_several_clear_secrets_leave_an_empty_file_behind_for_nobody() -> None:
    """Z18: when every document has moved, the file goes."""
    both = CLEAR + "---\n" + manifest("Secret", "tok", "shop", data={"k": "x"})
    made = plan({"all.yaml": both}, sealed_secret("db"), sealed_secret("tok"))
    assert set(written(made)) == {"all.yaml", "shop/secrets/db.sops.yaml", "shop/secrets/tok.sops.yaml"}
    assert written(made)["all.yaml"] is None


def test_where_moving_is_not_safe_it_is_told() -> None:
    """Z18: a file that a kustomization names, or that holds encrypted text too, is left and reported."""
    listed = {"all.yaml": CONFIG + "---\n" + CLEAR, "kustomization.yaml": KUSTOMIZATION}
    assert codes(plan(listed, sealed_secret("db"))) == ["multi_document_target"]
    other = sealed_secret("tok").sealed
    assert other is not None
    mixed = {"all.yaml": other + b"---\n" + CLEAR.encode()}
    assert codes(plan(mixed, sealed_secret("db"))) == ["multi_document_target"]
    (words,) = noted(listed)
    assert "shop/db" in words
    assert "all.yaml" in words
    assert "seeded" not in words


def test_a_moved_secret_is_not_swept_and_can_be_deleted() -> None:
    """Z18: a replay that moves it keeps it; a deletion removes the clear document alone."""
    files = {"all.yaml": CONFIG + "---\n" + CLEAR}
    made = plan(files, sealed_secret("db"), sweep("Secret", [("shop", "db")], "shop"))
    assert "shop/secrets/db.sops.yaml" in made.files
    assert made.swept == 0
    assert written(plan(files, delete("Secret", "db", "shop"))) == {"all.yaml": CONFIG}


def test_other_sensitive_types_are_told_too() -> None:
    """Z18: types that the operator added, by plural or kind."""
    gizmo = {"g.yaml": manifest("Gizmo", "g", "shop").replace("v1", "lab.test/v1")}
    assert noted(gizmo) == ()
    (words,) = noted(gizmo, sensitive_types=frozenset({"lab.test/gizmos"}))
    assert "g.yaml" in words
    (words,) = noted(gizmo, sensitive_types=frozenset({"lab.test/gizmo"}))
    assert "g.yaml" in words


def test_sops_rules_that_differ_are_told() -> None:
    """Z5, J18: missing and surplus recipients, in every notation of SOPS; equal sets say nothing."""
    rules = "creation_rules:\n- key_groups:\n  - age:\n    - age1a\n    - age1old\n"
    (words,) = noted({".sops.yaml": rules}, recipients=("age1a", "age1new"), encryption_enabled=True)
    assert "lacks age1new" in words
    assert "names age1old" in words
    same = "creation_rules:\n- age: age1b, age1a\n"
    assert noted({".sops.yaml": same}, recipients=("age1a", "age1b"), encryption_enabled=True) == ()
    (broken,) = noted({".sops.yaml": "a: [\n"}, recipients=("age1a",), encryption_enabled=True)
    assert "cannot be read" in broken
    assert noted({".sops.yaml": rules}) == ()


def test_placement_never_unseals_in_any_order() -> None:
    """J20: a bundle for everything, a place for Secrets: another sensitive type is skipped, not appended."""
    policy = Policy(
        by_type={"v1/secrets": "{namespace}/s/{name}{sensitiveSuffix}"},
        default="{namespace}/all.yaml",
        sensitive_types=frozenset({"lab.test/gizmos"}),
    )
    three = [config_map("a", v="1"), sealed_secret("db"), sealed_secret("g", kind="Gizmo")]
    for order in permutations(three):
        for files in ({}, {"shop/all.yaml": CONFIG}):
            made = plan(files, *order, policy=policy)
            assert written(made).keys() - {"shop/all.yaml"} == {"shop/s/db.sops.yaml"}
            assert "Gizmo" not in (written(made).get("shop/all.yaml") or "")
            assert made.placement_skipped == 1
