"""The status of a GitProvider, from what the checks found. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from reverser.controllers.conditions import (
    FALSE,
    SECRET_BLOCKED,
    SECRET_STEADY,
    STEADY,
    Plan,
    blocked,
    condition,
    done,
    progressing,
)
from reverser.kinds.model import Condition, GitProvider

CONNECTION_RETRY = 60.0
"""Seconds until an unreachable remote is tried again."""


class Step(StrEnum):
    """The steps of a check, in order; the first that fails ends it."""

    CONFIG = "config"
    SIGNING = "signing"
    CREDENTIALS = "credentials"
    CONNECTION = "connection"


@dataclass(frozen=True, slots=True)
class ProviderFindings:
    """What the checks found: where they stopped (None = all good) and the public signing key."""

    failed: Step | None = None
    reason: str = ""
    message: str = ""
    signing_public_key: str = ""
    push_refused: str = ""
    """The remote's refusal of a trial push; empty when pushing is permitted, or when that is not known."""


def uses_secret(provider: GitProvider) -> bool:
    """True when a Secret or ConfigMap takes part, so that the provider is looked at more often."""
    return bool(provider.secret_name or provider.known_hosts or provider.commit.signing_configured)


def decide_provider(provider: GitProvider, findings: ProviderFindings | None) -> Plan:
    """Conditions and ``signingPublicKey``. ``findings`` None = not judged yet (``Checking``).

    The key is withheld where configuration or the key itself failed, and shown while credentials or
    connection fail, so that it can be registered before the repository can be reached.
    """
    if findings is None:
        key = provider.signing_public_key if provider.commit.signing_configured else ""
        message = f"checking repository {provider.url}"
        return Plan(progressing("Checking", message), _fields(key), requeue=0.0)
    key = findings.signing_public_key
    if findings.failed in (Step.CONFIG, Step.SIGNING) or not provider.commit.signing_configured:
        key = ""
    if findings.failed is not None:
        requeue = SECRET_BLOCKED if findings.failed in (Step.SIGNING, Step.CREDENTIALS) else STEADY
        if findings.failed is Step.CONNECTION:
            requeue = SECRET_BLOCKED if uses_secret(provider) else CONNECTION_RETRY
        return Plan(blocked(findings.reason, findings.message), _fields(key), requeue=requeue)
    message = f"Repository connectivity validated for {provider.url}"
    conditions = done("Ready", message)
    requeue = SECRET_STEADY if uses_secret(provider) else STEADY
    if findings.push_refused:
        conditions += (_push_refused(findings.push_refused),)
        requeue = min(requeue, CONNECTION_RETRY)
    return Plan(conditions, _fields(key), requeue)


def _push_refused(words: str) -> Condition:
    """``PushPermitted``, shown only while it is False: a listing proves reading alone. Ready stays, as
    branches of one remote may differ in who may push to them."""
    text = f"the remote can be read but did not let these credentials push: {words}; grant them write access"
    return condition("PushPermitted", FALSE, "PushRefused", text)


def _fields(key: str) -> dict[str, Any]:
    return {"signingPublicKey": key} if key else {}
