"""Small values for the decisions' tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from reverser.kinds.model import CommitRequest, Condition, GitProvider, GitTarget, Meta, Rule, WatchRule
from reverser.store.model import (
    BranchKey,
    Outcome,
    OutcomeKind,
    Scope,
    StreamRecord,
    StreamState,
    TargetRef,
    TypeRef,
)

NOW = "2031-01-01T00:00:00Z"
_SHAPES = {("True", "False", "False"), ("False", "True", "False"), ("False", "False", "True")}


def legal_shape(conditions: Sequence[Condition]) -> bool:
    """Whether Ready, Reconciling and Stalled each stand once and exactly one of them is True."""
    by_type = {item.type: item.status for item in conditions}
    if len(by_type) != len(conditions):
        return False
    return (by_type.get("Ready"), by_type.get("Reconciling"), by_type.get("Stalled")) in _SHAPES


def meta(name: str, namespace: str = "shop", **more: Any) -> Meta:
    return Meta(
        namespace=namespace,
        name=name,
        uid=f"uid-{namespace}-{name}",
        generation=1,
        creation_timestamp="2030-01-01T00:00:00Z",
        **more,
    )


def provider(**more: Any) -> GitProvider:
    base = GitProvider(meta=meta("gp"), url="file:///r", allowed_branches=("main", "env/*"))
    return replace(base, **more)


def target(name: str = "gt", *, created: str = "2030-01-01T00:00:00Z", **more: Any) -> GitTarget:
    base = GitTarget(meta=meta(name), provider="gp", branch="main", path="live")
    return replace(base, meta=replace(base.meta, creation_timestamp=created), **more)


def rule(**more: Any) -> WatchRule:
    base = WatchRule(
        meta=meta("wr"),
        cluster=False,
        target_namespace="shop",
        target_name="gt",
        rules=(Rule(resources=("configmaps",)),),
    )
    return replace(base, **more)


def request(**more: Any) -> CommitRequest:
    return replace(CommitRequest(meta=meta("save"), target_name="gt"), **more)


def record(
    resource: str,
    state: StreamState,
    *,
    group: str = "",
    namespace: str | None = None,
    reason: str = "",
    message: str = "",
) -> StreamRecord:
    type_ref = TypeRef(group, "v1", resource, resource.title(), True)
    return StreamRecord(
        scope=Scope("uid-shop-gt", type_ref.group_resource, namespace),
        type=type_ref,
        state=state,
        reason=reason,
        message=message,
    )


def outcome(kind: OutcomeKind, **more: Any) -> Outcome:
    base = Outcome(
        id="o1",
        kind=kind,
        branch=BranchKey("shop", "gp", "main"),
        target=TargetRef("uid-shop-gt", "shop", "gt"),
    )
    return replace(base, **more)
