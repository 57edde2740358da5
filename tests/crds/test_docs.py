"""Each kind has a page, and the page speaks of every field, condition and reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reverser.kinds.parse import (
    parse_commit_request,
    parse_git_provider,
    parse_git_target,
    parse_watch_rule,
)
from tests.crds.test_crds import CRDS, PARSERS, schema

DOCS = Path(__file__).resolve().parents[2] / "docs" / "kinds"
PARSE = {
    "GitProvider": parse_git_provider,
    "GitTarget": parse_git_target,
    "WatchRule": parse_watch_rule,
    "ClusterWatchRule": parse_watch_rule,
    "CommitRequest": parse_commit_request,
}
WORDS = {
    "GitProvider": "Ready Checking CommitConfigInvalid InvalidConfig SecretNotFound SecretMalformed "
    "SecretForbidden ConnectionFailed signingPublicKey PushPermitted PushRefused",
    "GitTarget": "Validated EncryptionConfigured StreamsRunning GitPathAccepted PushSucceeding "
    "DeletionsApplied ObjectsWritten ObjectsSkipped RenderMatchesLive "
    "RenderDoesNotMatchLive OK NotRequired ProviderNotFound BranchNotAllowed TargetConflict InvalidConfig "
    "MissingSecret Blocked AllStreamsReady Replaying NoResolvedTypes WatchError WatchNotPermitted NotReady "
    "UnsupportedContent IgnoreShadowsManagedPath NotChecked NotPushed PushRejected SweepHeld Progressing "
    "ValidationFailed EncryptionNotConfigured WorkerUnavailable lastPushTime lastReconcileTime streams "
    "retention retainedDocuments observedTime",
    "WatchRule": "GitTargetReady ResourcesResolved StreamsRunning GitTargetNotFound GitProviderNotFound "
    "GitDestinationInvalid Resolved UnresolvedResources InvalidConfig pendingSample Ready",
    "ClusterWatchRule": "GitTargetReady ResourcesResolved StreamsRunning GitDestinationInvalid pendingSample",
    "CommitRequest": "WaitingForCloseDelay Committed NoWindowInGrace WindowMismatch AlreadyPresent "
    "FinalizeFailed UnexpectedOutcome AuthorAttributed AttributedFromAdmission CommitterFallback Pushed sha "
    "branch submitter",
}


def page(kind: str) -> str:
    return (DOCS / f"{kind.lower()}.md").read_text()


def field_names(node: dict[str, Any]) -> Iterator[str]:
    for name, child in node.get("properties", {}).items():
        yield name
        yield from field_names(child)
    if "items" in node:
        yield from field_names(node["items"])


@pytest.mark.parametrize("kind", PARSERS)
def test_every_field_stands_on_the_page(kind: str) -> None:
    """Each field of a kind's schema is on its page."""
    text = page(kind)
    for name in field_names(schema(kind)["properties"]["spec"]):
        assert re.search(rf"`[^`]*\b{re.escape(name)}\b[^`]*`", text), name


@pytest.mark.parametrize("kind", PARSERS)
def test_every_condition_and_reason_stands_on_the_page(kind: str) -> None:
    """Each condition type and reason of a kind is on its page."""
    text = page(kind)
    missing = [word for word in WORDS[kind].split() if f"`{word}`" not in text]
    assert missing == []


@pytest.mark.parametrize("kind", PARSERS)
def test_the_example_is_valid(kind: str) -> None:
    """The example on a kind's page is parsed without a problem."""
    block = re.search(r"```yaml\n(.*?)```", page(kind), re.S)
    assert block is not None
    example = yaml.safe_load(block[1])
    assert example["kind"] == kind
    assert PARSE[kind](example).problems == ()


def test_every_kind_is_listed() -> None:
    """The index of the kinds links to every page."""
    text = (DOCS / "README.md").read_text()
    assert all(f"[{kind}]({kind.lower()}.md)" in text for kind in CRDS)
