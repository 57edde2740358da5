"""One target in detail: what the store, the cluster and the history say, each in its own part.

A part that is unavailable (no store, no cluster) says so in its place and does not affect the others.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from gitwriter.windows import TargetSettings, plan_windows
from reverser.dashboard.overview import branch_of
from reverser.dashboard.readings import BranchReading, read_branches
from reverser.dashboard.verdicts import Verdict, judge, moment, since_of
from reverser.errors import KubeNotFound, ReverserError, StoreUnavailable
from reverser.history.models import Commit, Incident, SaveRequest, TargetState
from reverser.history.queries import (
    recent_changes,
    target_commits,
    target_incidents,
    target_requests,
)
from reverser.kinds.model import WatchRule
from reverser.kinds.parse import parse_git_provider, parse_watch_rule
from reverser.kube.paths import own_path
from reverser.kube.sync import Kube
from reverser.store import Store
from reverser.store.model import Hold, LeaseKind, PathVerdict, Recipients, StreamState, digest_name

KUBE_SECONDS = 3.0
PLAN_BYTES = 1024 * 1024
LIST = 10
CLUSTER = "cluster"
STATES = {StreamState.BLOCKED: 0, StreamState.REPLAYING: 1, StreamState.STREAMING: 2}


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as a row."""

    type: str
    status: str
    reason: str
    message: str
    since: datetime | None
    bad: bool


@dataclass(frozen=True, slots=True)
class Stream:
    """One shard as a row."""

    group_resource: str
    kind: str
    version: str
    where: str
    state: str
    reason: str
    message: str
    since: datetime | None
    last_event: datetime | None
    restarts: int
    events: int
    """Of the last hour, as the watch sent them."""
    hourly: int
    """Objects written in the last hour."""
    waits: str


@dataclass(frozen=True, slots=True)
class KeptType:
    """Documents of one type that the prune mode keeps although their objects are gone."""

    group_resource: str
    where: str
    documents: int
    mode: str


@dataclass(frozen=True, slots=True)
class Window:
    """The open window of the target, if its changes have opened one."""

    author: str
    objects: Sequence[str]
    opened: datetime | None
    closes: datetime | None
    size: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the store says about the target."""

    problem: str = ""
    branch: BranchReading | None = None
    streams: Sequence[Stream] = ()
    path: PathVerdict | None = None
    recipients: Recipients | None = None
    unsealed: Mapping[str, str] = field(default_factory=dict)
    holds: Sequence[Hold] = ()
    kept: Sequence[KeptType] = ()
    window: Window | None = None
    closed: int = 0
    """Windows that are closed and not pushed yet."""
    due: datetime | None = None
    watcher: str = ""
    now_ms: int = 0


@dataclass(frozen=True, slots=True)
class Feeding:
    """A rule that feeds the target."""

    kind: str
    name: str
    selects: Sequence[str]
    ready: str
    reason: str
    message: str
    streams: str
    types: Sequence[str]
    """The types that it resolves to, each with its version."""


@dataclass(frozen=True, slots=True)
class Details:
    """Everything on the page."""

    target: TargetState
    verdict: Verdict
    conditions: Sequence[Condition]
    waiting: Waiting
    rules: Sequence[Feeding]
    rules_problem: str
    commits: Sequence[Commit]
    incidents: Sequence[Incident]
    requests: Sequence[SaveRequest]


def build(target: TargetState, store: Store, kube: Kube | None) -> Details:
    """The page of a target; ``kube`` is None where no cluster can be read."""
    window_ms, found, problem = _cluster(kube, target)
    waiting = _waiting(store, target, window_ms)
    now_ms = waiting.now_ms or int(time.time() * 1000)
    return Details(
        target=target,
        verdict=judge(target, waiting.branch, now_ms=now_ms),
        conditions=[_condition(item) for item in target.conditions or () if isinstance(item, Mapping)],
        waiting=waiting,
        rules=[_feeding(kind, rule, obj, waiting.streams) for kind, rule, obj in found],
        rules_problem=problem,
        commits=list(target_commits(target).prefetch_related("objects_changed")[:LIST]),
        incidents=list(target_incidents(target)[:LIST]),
        requests=list(target_requests(target)[:LIST]),
    )


_GOOD_WHEN_FALSE = frozenset({"Reconciling", "Stalled"})


def _condition(item: Mapping[str, Any]) -> Condition:
    name, status = str(item.get("type") or ""), str(item.get("status") or "")
    good = "False" if name in _GOOD_WHEN_FALSE else "True"
    return Condition(
        name,
        status,
        str(item.get("reason") or ""),
        str(item.get("message") or ""),
        since_of(item),
        bad=status not in (good, "Unknown"),
    )


def _waiting(store: Store, target: TargetState, window_ms: int | None) -> Waiting:
    key = branch_of(target)
    try:
        now_ms = store.time_ms()
        holders, due_ms = store.lease_holders(LeaseKind.BRANCH), store.read_due()
        (branch,) = read_branches(store, [key], holders=holders, due_ms=due_ms)
        window, closed, due = (None, 0, None)
        if window_ms is not None and branch.record.entries:
            window, closed, due = _plan(store, target, window_ms, now_ms)
        return Waiting(
            branch=branch,
            streams=_streams(store, target, now_ms),
            path=store.read_path_verdict(target.uid),
            recipients=store.read_recipients(target.uid),
            unsealed={
                digest_name(name): why for name, why in sorted(store.read_unsealed(target.uid).items())
            },
            holds=sorted(store.read_holds(target.uid).values(), key=lambda hold: hold.since_ms),
            kept=_kept(store, target),
            window=window,
            closed=closed,
            due=due,
            watcher=store.lease_holders(LeaseKind.TARGET).get(target.uid, ""),
            now_ms=now_ms,
        )
    except StoreUnavailable as error:
        return Waiting(problem=str(error))


def _kept(store: Store, target: TargetState) -> list[KeptType]:
    """Of the types that are watched."""
    counts = store.read_kept(target.uid)
    if not any(found.documents for found in counts.values()):
        return []
    watched = store.read_streams(target.uid)
    rows = [
        KeptType(scope.group_resource, scope.namespace or "", found.documents, found.mode)
        for scope, found in counts.items()
        if found.documents and scope in watched
    ]
    return sorted(rows, key=lambda row: (row.group_resource, row.where))


def _streams(store: Store, target: TargetState, now_ms: int) -> list[Stream]:
    records, marks = store.read_streams(target.uid), store.read_marks(target.uid)
    hourly = recent_changes(target, datetime.now(tz=UTC) - timedelta(hours=1))
    rows = []
    for scope, record in records.items():
        mark = marks.get(scope)
        waits = ""
        if mark is not None and mark.needs_replay:
            waits = f"replay waits: {mark.parked_reason}" if mark.is_parked(now_ms) else "replay wanted"
        rows.append(
            Stream(
                scope.group_resource,
                record.type.kind,
                record.type.version,
                scope.namespace or "all namespaces" if record.type.namespaced else CLUSTER,
                record.state.value,
                record.reason,
                record.message,
                moment(record.since_ms),
                moment(record.last_event_ms),
                record.restarts,
                record.hourly_events,
                hourly.get(scope.group_resource, 0),
                waits,
            )
        )
    order = {state.value: place for state, place in STATES.items()}
    return sorted(rows, key=lambda row: (order.get(row.state, 9), row.group_resource, row.where))


def _plan(
    store: Store, target: TargetState, window_ms: int, now_ms: int
) -> tuple[Window | None, int, datetime | None]:
    """The open window, the closed ones and the next due time, by the writer's own rules."""
    key = branch_of(target)
    entries = store.read_entries(key, max_bytes=PLAN_BYTES)
    settings = {
        uid: TargetSettings(window_ms, gate_open=gate.open, path=gate.path)
        for uid, gate in store.read_gates().items()
        if gate.branch == key
    }
    try:
        plan = plan_windows(
            entries,
            store.read_boundaries(key),
            now_ms=now_ms,
            settings=settings,
            buffer_limit=PLAN_BYTES * 8,
        )
    except ValueError:  # the journal is longer than what was read here
        return None, 0, None
    closed = sum(unit.boundary.target.uid == target.uid for unit in plan.closed)
    found = plan.open
    if found is None or found.target.uid != target.uid:
        return None, closed, moment(plan.due_at_ms or 0)
    window = Window(
        author=found.author.username if found.author else "",
        objects=[_object_name(event.event.object) for event in found.events[:LIST]],
        opened=moment(found.opened_ms),
        closes=moment(found.closes_at_ms),
        size=found.size,
    )
    return window, closed, moment(plan.due_at_ms or 0)


def _object_name(ref: Any) -> str:
    where = f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name
    return f"{ref.type.kind} {where}"


Found = list[tuple[str, WatchRule, Mapping[str, Any]]]


def _cluster(kube: Kube | None, target: TargetState) -> tuple[int | None, Found, str]:
    """The commit window in milliseconds, the rules with their kinds and objects, and what went wrong."""
    if kube is None:
        return None, [], "the cluster is not configured for this process"
    window: int | None = None
    try:
        path = own_path("gitproviders", namespace=target.namespace, name=target.provider)
        window = int(parse_git_provider(kube.get(path, timeout=KUBE_SECONDS)).commit_window * 1000)
    except (KubeNotFound, ValueError):
        window = None
    except ReverserError as error:
        return None, [], str(error)
    found: Found = []
    try:
        for kind, path in (
            ("WatchRule", own_path("watchrules", namespace=target.namespace)),
            ("ClusterWatchRule", own_path("clusterwatchrules")),
        ):
            for obj in kube.list(path, timeout=KUBE_SECONDS).items:
                rule = parse_watch_rule({"kind": kind, **obj})
                if (rule.target_namespace, rule.target_name) == (target.namespace, target.name):
                    found.append((kind, rule, obj))
    except ReverserError as error:
        return window, found, str(error)
    return window, found, ""


def _feeding(kind: str, rule: WatchRule, obj: Mapping[str, Any], streams: Sequence[Stream]) -> Feeding:
    by_type = {item.type: item for item in rule.conditions}
    ready, resolved = by_type.get("Ready"), by_type.get("ResourcesResolved")
    counts = (obj.get("status") or {}).get("streams") or {}
    bad = ready is not None and ready.status != "True"
    shown = ready if bad else resolved or ready
    return Feeding(
        kind,
        rule.meta.key,
        [_selects(item) for item in rule.rules],
        ready.status if ready is not None else "Unknown",
        shown.reason if shown is not None else "",
        shown.message if shown is not None else "not judged yet",
        str(counts.get("summary") or ""),
        [f"{row.group_resource} {row.version}" for row in streams if feeds(rule, row)],
    )


def feeds(rule: WatchRule, stream: Stream) -> bool:
    """Whether a stream that runs is one that the rule asks for."""
    if not rule.cluster and stream.where != rule.meta.namespace:
        return False
    group, _, resource = stream.group_resource.rpartition("/")
    for item in rule.rules:
        if rule.cluster and (item.scope == "Cluster") is not (stream.where == CLUSTER):
            continue
        named = {name.strip().lower() for name in item.resources}
        if (
            named & {resource, "*"}
            and _listed(group, item.api_groups)
            and _listed(stream.version, item.api_versions)
        ):
            return True
    return False


def _listed(value: str, allowed: Sequence[str]) -> bool:
    return not allowed or "*" in allowed or value in allowed


def _selects(rule: Any) -> str:
    groups = "/".join(group or "core" for group in rule.api_groups) or "any group"
    versions = f" {'/'.join(rule.api_versions)}" if rule.api_versions else ""
    operations = f" on {', '.join(sorted(rule.operations))}" if 0 < len(rule.operations) < 3 else ""
    return f"{', '.join(rule.resources)} ({groups}{versions}){operations}"
