"""Under what a cursor is valid."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from reverser.kinds.model import IgnoreField
from reverser.store.model import BranchKey, Gate, Operation
from watchers.target import TargetRunner

from .steps import BRANCH, SPEC


def fingerprint(
    *,
    spec: Any = SPEC,
    gate: Gate | None = None,
    url: str = "u",
    noise: bool = True,
    generation: int = 1,
    ignored: tuple[IgnoreField, ...] = (),
) -> str:
    runner = SimpleNamespace(
        _env=SimpleNamespace(config=SimpleNamespace(noise_filter=noise)),
        _seals=SimpleNamespace(generation=generation),
        target=SimpleNamespace(ignore_fields=ignored),
    )
    return TargetRunner._fingerprint(
        cast(TargetRunner, runner), spec, gate or Gate(True, 1, BRANCH, "p"), url
    )


def test_whatever_changes_the_set_voids_the_cursor() -> None:
    """J4: operations, of single namespaces too, noise filter, version, recipients of sealed types, remote,
    branch, path, and fields of the very kind that are ignored; nothing else.
    """
    kind = SPEC.type.kind
    creates, sealed = frozenset({Operation.CREATE}), replace(SPEC, sensitive=True)
    prints = [
        fingerprint(),
        fingerprint(spec=replace(SPEC, operations=creates)),
        fingerprint(spec=replace(SPEC, namespace_operations={"shop": creates})),
        fingerprint(spec=replace(SPEC, namespace_operations={"depot": creates})),
        fingerprint(spec=replace(SPEC, type=replace(SPEC.type, version="v2"))),
        fingerprint(spec=sealed),
        fingerprint(spec=sealed, generation=2),
        fingerprint(noise=False),
        fingerprint(url="other"),
        fingerprint(gate=Gate(True, 1, BranchKey("shop", "gp", "other"), "p")),
        fingerprint(gate=Gate(True, 1, BRANCH, "q")),
        fingerprint(ignored=(IgnoreField("", kind, "", ("/data/v",)),)),
        fingerprint(ignored=(IgnoreField("", kind, "a", ("/data/v",)),)),
        fingerprint(ignored=(IgnoreField("", kind, "", ("/data/v", "/data/w")),)),
    ]
    assert len(set(prints)) == len(prints)
    same = [
        fingerprint(spec=replace(SPEC, retained=True)),
        fingerprint(generation=2),
        fingerprint(gate=Gate(True, 7, BRANCH, "p")),
        fingerprint(ignored=(IgnoreField("apps", kind, "", ("/data/v",)), IgnoreField("", "X", "", ("/y",)))),
    ]
    assert set(same) == {prints[0]}
