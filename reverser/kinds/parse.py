"""From decoded JSON to the values of ``reverser.kinds.model``.

Every ``parse_*`` is total: whatever an object holds (written before a schema upgrade, edited in etcd, of a
wrong type altogether), the answer is a value, and what was wrong with it stands in ``problems`` as ``<field>:
<what is wrong>``. What cannot be understood is left out so that less happens: an unreadable rule matches
nothing, never everything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reverser.kinds.branches import malformed_patterns
from reverser.kinds.model import (
    CommitRequest,
    CommitSettings,
    Condition,
    Encryption,
    GitProvider,
    GitTarget,
    IgnoreField,
    KnownHostsRef,
    Meta,
    Placement,
    PruneMode,
    Retention,
    Rule,
    Submitter,
    WatchRule,
)
from reverser.kinds.paths import normalize_path, path_problem
from reverser.kinds.reader import Reader
from reverser.quantities import parse_duration

DEFAULT_COMMIT_WINDOW = 5.0
OPERATIONS = ("CREATE", "UPDATE", "DELETE")
MAX_CLOSE_DELAY = 300
MAX_MESSAGE = 1024
_MESSAGE_CONTROL = re.compile(r"[\x00-\x09\x0B-\x1F\x7F]")
_IDENT_FORBIDDEN = re.compile(r"[<>\x00-\x1f\x7f]")


def _meta(obj: Reader) -> Meta:
    meta = obj.child("metadata")
    return Meta(
        namespace=meta.text("namespace"),
        name=meta.text("name"),
        uid=meta.text("uid"),
        generation=meta.number("generation"),
        resource_version=meta.text("resourceVersion"),
        creation_timestamp=meta.text("creationTimestamp"),
        deletion_timestamp=meta.text("deletionTimestamp"),
        annotations=meta.text_map("annotations"),
    )


def _conditions(status: Reader) -> tuple[Condition, ...]:
    return tuple(
        Condition(
            type=item.text("type"),
            status=item.text("status"),
            reason=item.text("reason"),
            message=item.text("message"),
            observed_generation=item.number("observedGeneration"),
            last_transition_time=item.text("lastTransitionTime"),
        )
        for item in status.children("conditions")
    )


def _open(obj: Any) -> tuple[Reader, Reader, Reader]:
    """Readers of the object, its spec and its status; problems in a status concern nobody."""
    root = Reader(obj if isinstance(obj, Mapping) else {}, "", [])
    return root, root.child("spec"), Reader(root.raw_mapping("status"), "status", [])


def _ref(spec: Reader, field: str, *, kind: str, group: str = "configbutler.ai") -> tuple[str, str]:
    """(namespace, name) of a reference; both empty when it names another kind."""
    ref = spec.child(field)
    if ref.text("kind", kind) != kind or ref.text("group", group) != group:
        ref.problem("", f"must refer to a {kind}")
        return "", ""
    return ref.text("namespace").strip(), ref.text("name").strip()


def _secret(spec: Reader, field: str) -> str:
    return _ref(spec, field, kind="Secret", group="")[1]


def _commit_window(push: Reader) -> float:
    if not push.has("commitWindow"):
        return DEFAULT_COMMIT_WINDOW
    try:
        return max(0.0, parse_duration(push.text("commitWindow")))
    except ValueError as error:
        push.problem("commitWindow", f"{error}; 5s is used instead")
        return DEFAULT_COMMIT_WINDOW


def _identity(committer: Reader, field: str, default: str) -> str:
    value = committer.text(field).strip() or default
    if _IDENT_FORBIDDEN.search(value):
        committer.problem(
            field, "must not contain '<', '>' or a control character; the default is used instead"
        )
        return default
    return value


def _commit(spec: Reader) -> CommitSettings:
    commit = spec.child("commit")
    committer = commit.child("committer")
    message = commit.child("message")
    signing = commit.child("signing")

    def template(field: str) -> str:
        text = message.text(field)
        return text if text.strip() else ""

    return CommitSettings(
        committer_name=_identity(committer, "name", CommitSettings().committer_name),
        committer_email=_identity(committer, "email", CommitSettings().committer_email),
        event_template=template("eventTemplate"),
        group_template=template("groupTemplate"),
        reconcile_template=template("reconcileTemplate"),
        signing_secret=_secret(signing, "secretRef"),
        signing_configured=commit.has("signing"),
        signing_generate=signing.flag("generateWhenMissing"),
    )


def parse_git_provider(obj: Any) -> GitProvider:
    """A GitProvider of decoded JSON. Never raises."""
    root, spec, status = _open(obj)
    known_hosts = None
    if spec.has("knownHostsRef"):
        ref = spec.child("knownHostsRef")
        kind, name = ref.choice("kind", ("ConfigMap", "Secret"), "ConfigMap"), ref.text("name").strip()
        known_hosts = KnownHostsRef(kind=kind, name=name) if name else None
        if not name:
            ref.problem("name", "must name a ConfigMap or Secret")
    branches = spec.texts("allowedBranches")
    for pattern in malformed_patterns(branches):
        spec.problem("allowedBranches", f"{pattern[:100]!r} is not a glob and matches no branch")
    if not spec.text("url").strip():
        spec.problem("url", "must be set")
    return GitProvider(
        meta=_meta(root),
        url=spec.text("url").strip(),
        allowed_branches=branches,
        secret_name=_secret(spec, "secretRef"),
        known_hosts=known_hosts,
        commit_window=_commit_window(spec.child("push")),
        commit=_commit(spec),
        conditions=_conditions(status),
        signing_public_key=status.text("signingPublicKey"),
        observed_generation=status.number("observedGeneration"),
        problems=tuple(root.problems),
    )


def _encryption(spec: Reader) -> Encryption:
    encryption = spec.child("encryption")
    encryption.choice("provider", ("sops",), "sops")
    age = encryption.child("age")
    recipients = age.child("recipients")
    return Encryption(
        enabled=age.flag("enabled"),
        secret_name=_secret(encryption, "secretRef"),
        public_keys=recipients.texts("publicKeys"),
        extract_from_secret=recipients.flag("extractFromSecret"),
        generate_when_missing=recipients.flag("generateWhenMissing"),
    )


def _ignore_fields(spec: Reader) -> tuple[IgnoreField, ...]:
    out = []
    for item in spec.children("ignoreFields"):
        pointers = tuple(p for p in item.texts("pointers") if p.startswith("/"))
        if len(pointers) != len(item.texts("pointers")):
            item.problem("pointers", "a JSON pointer starts with '/', for example /spec/replicas")
        if not item.text("kind") or not pointers:
            item.problem("", "needs a kind and at least one pointer; it is left out")
            continue
        out.append(
            IgnoreField(
                group=item.text("group"), kind=item.text("kind"), name=item.text("name"), pointers=pointers
            )
        )
    return tuple(out)


def _retention(status: Reader) -> Retention | None:
    """What a controller wrote, or None."""
    mode, observed = status.text("mode"), status.text("observedTime")
    if not mode or not observed:
        return None
    return Retention(mode, status.number("retainedDocuments"), observed)


def parse_git_target(obj: Any) -> GitTarget:
    """A GitTarget of decoded JSON. Never raises.

    A valid ``path`` comes in its normal form (``a/b``, ``.`` for the root), an invalid one as it is.
    An unknown ``prune.mode`` is read as ``Never``: what is not understood deletes nothing.
    """
    root, spec, status = _open(obj)
    placement, path = spec.child("placement"), spec.text("path")
    mode = spec.child("prune").choice("mode", tuple(PruneMode), PruneMode.ALWAYS, unknown=PruneMode.NEVER)
    return GitTarget(
        meta=_meta(root),
        provider=_ref(spec, "providerRef", kind="GitProvider")[1],
        branch=spec.text("branch"),
        path=path if path_problem(path) else normalize_path(path) or ".",
        encryption=_encryption(spec),
        placement=Placement(
            by_type=placement.text_map("byType"),
            default=placement.text("default"),
            inference=placement.flag("inference", True),
        ),
        prune=PruneMode(mode),
        ignore_fields=_ignore_fields(spec),
        last_push_time=status.text("lastPushTime"),
        retention=_retention(status.child("retention")),
        conditions=_conditions(status),
        observed_generation=status.number("observedGeneration"),
        problems=tuple(root.problems),
    )


def _rule(item: Reader, *, cluster: bool) -> Rule | None:
    """One rule, or None when what it asks for cannot be told."""
    before = len(item.problems)
    resources = []
    for resource in item.texts("resources"):
        name = resource.strip().lower()
        if not name or "/" in name:
            item.problem(
                "resources",
                f"{resource[:100]!r} is not a plural resource name (subresources are not watched)",
            )
        else:
            resources.append(name)
    operations: set[str] = set()
    for operation in item.texts("operations"):
        if operation == "*":
            operations.update(OPERATIONS)
        elif operation in OPERATIONS:
            operations.add(operation)
        else:
            item.problem("operations", f"{operation[:100]!r} is none of CREATE, UPDATE, DELETE, *")
    scope = "Namespaced"
    if cluster:
        scope = item.choice("scope", ("Cluster", "Namespaced"), "", unknown="")
    narrowing = ("operations", "apiGroups", "apiVersions")
    lost = any(item.has(name) and item.raw(name) and not item.texts(name) for name in narrowing)
    no_operation = bool(item.texts("operations")) and not operations
    if not resources or not scope or lost or no_operation:
        if len(item.problems) == before:
            item.problem("", "needs resources" + (" and a scope" if cluster else ""))
        return None
    return Rule(
        resources=tuple(resources),
        operations=frozenset(operations),
        api_groups=tuple(group.strip() for group in item.texts("apiGroups")),
        api_versions=tuple(version.strip() for version in item.texts("apiVersions")),
        scope=scope,
    )


def parse_watch_rule(obj: Any) -> WatchRule:
    """A WatchRule or a ClusterWatchRule of decoded JSON (told apart by ``kind``). Never raises.

    ``operations: ["*"]`` becomes the three operations; a rule that cannot be read is left out.
    """
    root, spec, status = _open(obj)
    meta = _meta(root)
    kind = root.text("kind")
    cluster = kind == "ClusterWatchRule" or (not kind and not meta.namespace)
    namespace, name = _ref(spec, "targetRef", kind="GitTarget")
    rules = tuple(
        rule for item in spec.children("rules") if (rule := _rule(item, cluster=cluster)) is not None
    )
    return WatchRule(
        meta=meta,
        cluster=cluster,
        target_namespace=namespace if cluster else meta.namespace,
        target_name=name,
        rules=rules,
        conditions=_conditions(status),
        observed_generation=status.number("observedGeneration"),
        problems=tuple(root.problems),
    )


def parse_commit_request(obj: Any) -> CommitRequest:
    """A CommitRequest of decoded JSON. Never raises; a delay out of range is clamped."""
    root, spec, status = _open(obj)
    delay = spec.number("closeDelaySeconds")
    if not 0 <= delay <= MAX_CLOSE_DELAY:
        spec.problem("closeDelaySeconds", f"must be between 0 and {MAX_CLOSE_DELAY}")
    message = spec.text("message")
    if len(message) > MAX_MESSAGE or _MESSAGE_CONTROL.search(message):
        spec.problem(
            "message", f"must have at most {MAX_MESSAGE} characters and no control character but newline"
        )
        message = ""
    ttl = None
    if spec.has("ttlSecondsAfterFinished"):
        ttl = spec.number("ttlSecondsAfterFinished", -1)
        if ttl < 0:
            spec.problem("ttlSecondsAfterFinished", "must be 0 or more; the request is kept")
            ttl = None
    who = status.child("submitter")
    submitter = None
    if who.text("username"):
        submitter = Submitter(who.text("username"), who.text("displayName"), who.text("email"))
    return CommitRequest(
        meta=_meta(root),
        target_name=_ref(spec, "targetRef", kind="GitTarget")[1],
        message=message,
        close_delay_seconds=min(max(delay, 0), MAX_CLOSE_DELAY),
        ttl_seconds_after_finished=ttl,
        conditions=_conditions(status),
        branch=status.text("branch"),
        sha=status.text("sha"),
        observed_generation=status.number("observedGeneration"),
        submitter=submitter,
        problems=tuple(root.problems),
    )
