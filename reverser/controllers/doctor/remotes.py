"""GitProviders and GitTargets: reach, credentials, permission to write, and what their status says.

Permission to write is asked of the remote by a push that is a dry run: nothing is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gitwriter.git.probe import refused_push
from gitwriter.git.repository import list_remote
from gitwriter.sources import Sources
from reverser.controllers.conditions import FALSE, READY, STALLED, TRUE, find
from reverser.controllers.doctor.findings import Finding, good, note, problem
from reverser.errors import ReverserError, StalledError
from reverser.kinds.branches import branch_allowed
from reverser.kinds.model import GitProvider, GitTarget


def check_provider(provider: GitProvider, sources: Sources) -> Iterator[Finding]:
    """Credentials, reach, permission to write, signing key."""
    area, name = "provider", provider.meta.key
    for text in provider.problems:
        yield problem(area, f"{name}: {text}", "correct the field")
    try:
        remote = sources.remote(provider)
        refs = list_remote(remote)
    except ReverserError as error:
        yield problem(area, f"{name}: {error}", _remedy(error))
        return
    yield good(area, f"{name}: {provider.url} answers with {len(refs.branches)} branch(es)")
    try:
        refused = refused_push(remote)
    except ReverserError as error:
        refused = str(error)
    if refused:
        yield problem(
            area, f"{name}: pushing is refused: {refused}", "give the credentials permission to write"
        )
    else:
        yield good(area, f"{name}: the credentials may push")
    if provider.commit.signing_configured:
        try:
            public = sources.signer(provider.meta.namespace, provider.commit.signing_secret).public
        except ReverserError as error:
            yield problem(area, f"{name}: {error}", "repair the Secret, or set generateWhenMissing")
        else:
            yield good(area, f"{name}: commits are signed with {public}")


def check_target(
    target: GitTarget, providers: Mapping[str, GitProvider], holders: Mapping[str, str]
) -> Iterator[Finding]:
    """What its controller said, whether anybody watches for it, and what that means."""
    area, name = "target", target.meta.key
    provider = providers.get(f"{target.meta.namespace}/{target.provider}")
    if provider is None:
        yield problem(area, f"{name}: GitProvider '{target.provider}' does not exist", "create it")
        return
    if not branch_allowed(provider.allowed_branches, target.branch):
        yield problem(
            area,
            f"{name}: branch '{target.branch}' is not allowed by GitProvider {provider.meta.key}",
            "add a pattern to its allowedBranches",
        )
    ready, stalled = find(target.conditions, READY), find(target.conditions, STALLED)
    if ready is None or target.observed_generation < target.meta.generation:
        yield problem(
            area,
            f"{name}: its controller has not judged it",
            "check that a watcher runs (`manage.py up` or `watch`) and leads",
        )
    elif stalled is not None and stalled.status == TRUE:
        text = f"{name}: {stalled.reason}: {_closed_gate(target) or stalled.message}"
        yield problem(area, text, "do what the message says")
    elif ready.status != TRUE:
        yield note(area, f"{name}: {ready.reason}: {ready.message}")
    else:
        yield good(area, f"{name}: ready, {ready.message}")
    yield from _domain(target)
    if target.meta.uid not in holders:
        yield note(area, f"{name}: no watcher holds it now")


def _remedy(error: ReverserError) -> str:
    """A fault of the spec or of a Secret names what is wrong itself; anything else lies on the way."""
    if isinstance(error, StalledError) and error.reason != "ConnectionFailed":
        return "correct what the message names"
    return "check spec.url, the Secret of spec.secretRef and the network between here and the remote"


def _closed_gate(target: GitTarget) -> str:
    """What the gate that stalls a target says: Stalled gives only its reason. Empty when gates are open."""
    for kind in ("Validated", "EncryptionConfigured"):
        gate = find(target.conditions, kind)
        if gate is not None and gate.status == FALSE:
            return gate.message
    return ""


def _domain(target: GitTarget) -> Iterable[Finding]:
    for kind in ("PushSucceeding", "DeletionsApplied"):
        item = find(target.conditions, kind)
        if item is not None and item.status == "False":
            text = f"{target.meta.key}: {kind} is False: {item.message}"
            yield problem("target", text, "do what the message says")
    for kind in ("ObjectsWritten", "RenderMatchesLive"):
        item = find(target.conditions, kind)
        if item is not None and item.status == "False":
            yield note("target", f"{target.meta.key}: {kind} is False: {item.message}")
