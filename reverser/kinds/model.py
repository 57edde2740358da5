"""The five custom resources as typed, immutable values.

Parsing (``parse_*``) is total: an object written before a schema upgrade, with an unknown enum value
or a wrong type, becomes a value with ``problems``, never an exception. Whoever decides conditions
reports the problems; nobody else has to look at raw dictionaries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

API_GROUP = "configbutler.ai"
API_VERSION = "v1alpha3"


@dataclass(frozen=True, slots=True)
class Meta:
    """What every object carries: identity, generation, creation time (RFC 3339), annotations."""

    namespace: str
    name: str
    uid: str
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone for a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Condition:
    """A Kubernetes condition; ``status`` is ``True``, ``False`` or ``Unknown``."""

    type: str
    status: str
    reason: str
    message: str = ""
    observed_generation: int = 0
    last_transition_time: str = ""


@dataclass(frozen=True, slots=True)
class KnownHostsRef:
    """A ConfigMap or Secret that holds known-hosts lines."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class CommitSettings:
    """``GitProvider.spec.commit`` with blanks already replaced by the defaults."""

    committer_name: str = "GitOps Reverser"
    committer_email: str = "noreply@configbutler.ai"
    event_template: str = ""
    group_template: str = ""
    reconcile_template: str = ""
    signing_secret: str = ""
    signing_configured: bool = False
    signing_generate: bool = False


@dataclass(frozen=True, slots=True)
class GitProvider:
    """A repository, its credentials, and how commits are made there."""

    meta: Meta
    url: str
    allowed_branches: tuple[str, ...]
    secret_name: str = ""
    known_hosts: KnownHostsRef | None = None
    commit_window: float = 5.0
    """Seconds of silence that close a commit window; 0 commits each event."""
    commit: CommitSettings = CommitSettings()
    conditions: tuple[Condition, ...] = ()
    signing_public_key: str = ""
    observed_generation: int = 0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Encryption:
    """``GitTarget.spec.encryption``; nothing in it has effect while ``enabled`` is false."""

    enabled: bool = False
    secret_name: str = ""
    public_keys: tuple[str, ...] = ()
    extract_from_secret: bool = False
    generate_when_missing: bool = False


@dataclass(frozen=True, slots=True)
class IgnoreField:
    """Fields of a kind (of one object when ``name`` is set) that are not mirrored."""

    group: str
    kind: str
    name: str
    pointers: tuple[str, ...]


class PruneMode(StrEnum):
    """What may delete from Git: everything, live DELETED events alone, or nothing."""

    ALWAYS = "Always"
    ON_EVENT = "OnEvent"
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class Retention:
    """``status.retention``: documents that the prune mode keeps although their objects are gone."""

    mode: str
    documents: int
    observed_time: str
    """RFC 3339."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where new documents go: templates by exact type, a default, and whether siblings are followed."""

    by_type: Mapping[str, str] = field(default_factory=dict)
    default: str = ""
    inference: bool = True


@dataclass(frozen=True, slots=True)
class GitTarget:
    """One (provider, branch, path) destination."""

    meta: Meta
    provider: str
    branch: str
    path: str
    encryption: Encryption = Encryption()
    placement: Placement = Placement()
    prune: PruneMode = PruneMode.ALWAYS
    ignore_fields: tuple[IgnoreField, ...] = ()
    last_push_time: str = ""
    """``status.lastPushTime`` (RFC 3339), or empty."""
    retention: Retention | None = None
    conditions: tuple[Condition, ...] = ()
    observed_generation: int = 0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of ``spec.rules``. Empty tuples mean what the API says for an omitted field."""

    resources: tuple[str, ...]
    operations: frozenset[str] = frozenset()
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    scope: str = "Namespaced"
    """``Namespaced`` or ``Cluster``; a WatchRule is always ``Namespaced``."""


@dataclass(frozen=True, slots=True)
class WatchRule:
    """A WatchRule or a ClusterWatchRule; ``cluster`` tells which."""

    meta: Meta
    cluster: bool
    target_namespace: str
    target_name: str
    rules: tuple[Rule, ...]
    conditions: tuple[Condition, ...] = ()
    observed_generation: int = 0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Submitter:
    """``CommitRequest.status.submitter``: who asked, as admission saw it."""

    username: str
    display_name: str = ""
    email: str = ""


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """One request to close the open window of a target now."""

    meta: Meta
    target_name: str
    message: str = ""
    close_delay_seconds: int = 0
    ttl_seconds_after_finished: int | None = None
    conditions: tuple[Condition, ...] = ()
    branch: str = ""
    sha: str = ""
    observed_generation: int = 0
    submitter: Submitter | None = None
    problems: tuple[str, ...] = ()
