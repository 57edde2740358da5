"""GitProviders and GitTargets: reach, credentials, permission to write, and what their status says.

Permission to write is asked with ``git push --dry-run`` of an empty commit to a branch that does not exist:
the remote checks the credentials for receiving, and nothing is sent.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gitwriter.git.environment import base_environment, git_binary
from gitwriter.git.remote import Remote
from gitwriter.git.repository import list_remote
from gitwriter.sources import Sources
from reverser.controllers.conditions import READY, STALLED, TRUE, find
from reverser.controllers.doctor.findings import Finding, good, note, problem
from reverser.errors import RemoteUnavailable, ReverserError
from reverser.kinds.branches import branch_allowed
from reverser.kinds.model import GitProvider, GitTarget
from reverser.trust.child import run
from reverser.trust.values import redact

PROBE_BRANCH = "gitops-reverser-doctor-probe"
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
DEADLINE = 30.0
_PROBE = {
    "GIT_AUTHOR_NAME": "doctor",
    "GIT_AUTHOR_EMAIL": "doctor@localhost",
    "GIT_COMMITTER_NAME": "doctor",
    "GIT_COMMITTER_EMAIL": "doctor@localhost",
}


def check_provider(provider: GitProvider, sources: Sources) -> Iterator[Finding]:
    """Credentials, reach, permission to write, signing key."""
    area, name = "provider", provider.meta.key
    for text in provider.problems:
        yield problem(area, f"{name}: {text}", "correct the field")
    try:
        remote = sources.remote(provider)
        refs = list_remote(remote)
    except ReverserError as error:
        remedy = "check spec.url, the Secret of spec.secretRef and the network between here and the remote"
        yield problem(area, f"{name}: {error}", remedy)
        return
    yield good(area, f"{name}: {provider.url} answers with {len(refs.branches)} branch(es)")
    try:
        refused = probe_write(remote)
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


def probe_write(remote: Remote) -> str:
    """Why a push would be refused, or nothing. Raises RemoteUnavailable where that cannot be told."""
    with tempfile.TemporaryDirectory(prefix="reverser-doctor-") as folder, remote.environment() as network:
        local = {**base_environment(), **_PROBE}
        git, place = git_binary(), Path(folder)

        def local_git(*arguments: str, data: bytes = b"") -> str:
            done = run([git, *arguments], env=local, deadline=DEADLINE, cwd=place, data=data)
            if not done.ok:
                raise RemoteUnavailable(
                    f"git {arguments[0]} does not work here: {done.stderr.decode('utf-8', 'replace')[:200]}"
                )
            return done.stdout.decode().strip()

        local_git("init", "-q", "--bare", ".")
        local_git("hash-object", "-t", "tree", "-w", "--stdin")
        commit = local_git("commit-tree", EMPTY_TREE, "-m", "probe")
        argv = [git, "push", "--dry-run", "--porcelain", "--", remote.url.text]
        done = run(
            [*argv, f"{commit}:refs/heads/{PROBE_BRANCH}"], env=dict(network), deadline=DEADLINE, cwd=place
        )
    if done.ok:
        return ""
    return redact(done.stderr.decode("utf-8", "replace"), remote.secrets, limit=400) or "no reason was given"


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
        yield problem(area, f"{name}: {stalled.reason}: {stalled.message}", "do what the message says")
    elif ready.status != TRUE:
        yield note(area, f"{name}: {ready.reason}: {ready.message}")
    else:
        yield good(area, f"{name}: ready, {ready.message}")
    yield from _domain(target)
    if target.meta.uid not in holders:
        yield note(area, f"{name}: no watcher holds it now")


def _domain(target: GitTarget) -> Iterable[Finding]:
    for kind in ("PushSucceeding", "DeletionsApplied"):
        item = find(target.conditions, kind)
        if item is not None and item.status == "False":
            text = f"{target.meta.key}: {kind} is False: {item.message}"
            yield problem("target", text, "do what the message says")
