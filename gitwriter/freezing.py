"""What a closing window freezes of its provider and target (J13), and the placement policy made of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from gitwriter.manifests.changes import IgnoreField, Policy
from reverser.kinds.model import GitProvider, GitTarget
from reverser.store.model import Frozen
from reverser.trust.urls import canonical_url


def repository_of(provider: GitProvider) -> str:
    """Which repository a provider names: a digest that is equal for equivalent URLs."""
    return hashlib.sha256(canonical_url(provider.url).encode()).hexdigest()[:32]


def freeze(provider: GitProvider, target: GitTarget) -> Frozen:
    """The settings with which a window is written, however late."""
    commit = provider.commit
    return Frozen(
        committer_name=commit.committer_name,
        committer_email=commit.committer_email,
        event_template=commit.event_template,
        group_template=commit.group_template,
        reconcile_template=commit.reconcile_template,
        path=target.path,
        placement_by_type=dict(target.placement.by_type),
        placement_default=target.placement.default,
        placement_inference=target.placement.inference,
        ignore_fields=tuple(
            (item.group, item.kind, item.name, item.pointers) for item in target.ignore_fields
        ),
        prune=target.prune.value,
        signing_secret=commit.signing_secret if commit.signing_configured else "",
        repository=repository_of(provider),
    )


def policy_of(
    frozen: Frozen, *, sensitive: frozenset[str], recipients: Sequence[str], hold: bool = False
) -> Policy:
    """The placement and bootstrap policy of one window; recipients are never frozen."""
    return Policy(
        by_type=frozen.placement_by_type,
        default=frozen.placement_default or None,
        inference=frozen.placement_inference,
        ignore_fields=tuple(
            IgnoreField(group, kind, name or None, tuple(pointers))
            for group, kind, name, pointers in frozen.ignore_fields
        ),
        sensitive_types=sensitive,
        recipients=tuple(recipients),
        encryption_enabled=bool(recipients),
        hold_sweep_deletes=hold,
    )
