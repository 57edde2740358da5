"""The checks of the controllers against the world outside their specs: Secrets, keys, the remote.

The only module of the controllers that reads credentials and contacts a remote; it uses exactly the readers
that the writer uses. Nothing read here is kept: a Secret is read again at each pass, and only the fact that a
listing succeeded under the same versions is remembered for a while.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from gitwriter.git.probe import refused_push
from gitwriter.git.remote import Remote
from gitwriter.git.repository import list_remote
from gitwriter.manifests import validate_placement
from reverser.controllers.age_gate import AgeGate
from reverser.controllers.conditions import STEADY
from reverser.controllers.decide_provider import CONNECTION_RETRY, ProviderFindings, Step
from reverser.controllers.events import Happening
from reverser.controllers.reconcile_provider import ProviderReport
from reverser.controllers.reconcile_target import EncryptionReport
from reverser.controllers.remotecalls import RemoteCalls
from reverser.controllers.secret_door import SecretDoor
from reverser.controllers.signing_gate import signing_key
from reverser.errors import (
    ConfigInvalid,
    KubeForbidden,
    KubeInvalid,
    SecretMalformed,
    StalledError,
    TransientError,
)
from reverser.kinds.model import CommitSettings, GitProvider, GitTarget
from reverser.kube.client import AsyncKube
from reverser.trust.access import SECRET, Access, read_access
from reverser.trust.github import TokenSource
from reverser.trust.urls import parse_repository_url

_log = logging.getLogger(__name__)
REMOTES = 8
"""Remotes that are contacted at the same time."""
SENSITIVE = ("secrets",)
"""Types judged here; those that the operator adds are judged at write time."""


class CheckSettings(Protocol):
    """The settings that matter here."""

    @property
    def command_namespace(self) -> str: ...
    @property
    def default_known_hosts_configmap(self) -> str: ...
    @property
    def insecure_allow_missing_known_hosts(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class _Access:
    """How to reach a repository, and the versions of what that was read from."""

    remote: Remote
    versions: tuple[str, ...]


class Checks:
    """ProviderChecks and TargetChecks on a cluster and real remotes."""

    def __init__(
        self,
        kube: AsyncKube,
        settings: CheckSettings,
        *,
        validate_templates: Callable[[CommitSettings], str | None],
        clock: Callable[[], float] = time.monotonic,
        require_lease: Callable[[], None] = lambda: None,
    ) -> None:
        self._door = SecretDoor(kube, require_lease)
        self._age = AgeGate(self._door, clock=clock)
        self._settings = settings
        self._validate_templates = validate_templates
        self._clock = clock
        self._tokens = TokenSource()
        self._remotes = RemoteCalls(REMOTES)
        self._listed: dict[str, tuple[tuple[object, ...], float, str]] = {}

    def check_placement(self, target: GitTarget) -> str:
        """What is wrong with ``spec.placement``; empty when nothing is."""
        placement = target.placement
        problems = validate_placement(placement.by_type, placement.default or None, SENSITIVE)
        return "; ".join(f"spec.{problem}" for problem in problems)

    async def check_encryption(self, target: GitTarget) -> EncryptionReport:
        """The encryption gate; see ``AgeGate``."""
        return await self._age.check(target)

    def keep_targets(self, uids: Set[str]) -> None:
        """Forgets targets that are not among ``uids``."""
        self._age.keep(uids)

    def keep_providers(self, uids: Set[str]) -> None:
        """Forgets providers that are not among ``uids``."""
        for uid in self._listed.keys() - uids:
            del self._listed[uid]

    async def check_provider(self, provider: GitProvider) -> ProviderReport:
        """The steps of ``Step`` up to the first failure. Raises TransientError without an API server."""
        if problem := self._config_problem(provider):
            return ProviderReport(ProviderFindings(Step.CONFIG, *problem))
        key = ""
        happenings: tuple[Happening, ...] = ()
        if provider.commit.signing_configured:
            try:
                key, happenings = await signing_key(self._door, provider)
            except (StalledError, KubeInvalid, ValueError) as error:
                return ProviderReport(ProviderFindings(Step.SIGNING, *_words(error)))
        try:
            access = await self._access(provider)
        except (StalledError, ValueError) as error:
            return _stopped(Step.CREDENTIALS, error, key, happenings)
        return await self._list(provider, access, key, happenings)

    def _config_problem(self, provider: GitProvider) -> tuple[str, str] | None:
        commit_problems = [p for p in provider.problems if p.startswith("spec.commit")]
        template_problem = self._validate_templates(provider.commit)
        if template_problem or commit_problems:
            text = "; ".join(filter(None, [template_problem, *commit_problems]))
            return "CommitConfigInvalid", f"invalid commit configuration: {text}"
        if provider.commit.signing_configured and not provider.commit.signing_secret:
            return "CommitConfigInvalid", "commit.signing.secretRef.name must be set"
        try:
            parse_repository_url(provider.url)
        except ConfigInvalid as error:
            return error.reason, str(error)
        if provider.problems:
            return "InvalidConfig", "; ".join(provider.problems)
        return None

    async def _access(self, provider: GitProvider) -> _Access:
        """Credentials and host keys, as the writer reads them."""
        versions: list[str] = []
        reading = read_access(
            provider,
            command_namespace=self._settings.command_namespace,
            default_hosts=self._settings.default_known_hosts_configmap,
            allow_missing_hosts=self._settings.insecure_allow_missing_known_hosts,
        )
        try:
            wanted = next(reading)
            while True:
                read = self._door.read if wanted.kind == SECRET else self._door.read_config_map
                found = await read(wanted.namespace, wanted.name)
                versions.append(found.version if found is not None else "")
                wanted = reading.send(found.data if found is not None else None)
        except StopIteration as end:
            access: Access = end.value
        remote = Remote(access.url, access.credentials, access.known_hosts, self._tokens)
        return _Access(remote, tuple(versions))

    async def _list(
        self, provider: GitProvider, access: _Access, key: str, happenings: tuple[Happening, ...]
    ) -> ProviderReport:
        """List the refs, unless that succeeded lately with the very same access. What forbids to push is
        mended at the remote, where nothing tells of it: that is asked again sooner."""
        uid, now = provider.meta.uid, self._clock()
        fingerprint = (provider.meta.generation, access.versions)
        known, at, refused = self._listed.get(uid, ((), float("-inf"), ""))
        if known == fingerprint and now - at < (CONNECTION_RETRY if refused else STEADY):
            good = ProviderFindings(signing_public_key=key, push_refused=refused)
            return ProviderReport(good, None, happenings)
        self._listed.pop(uid, None)
        try:
            refs = await self._remotes.run(partial(list_remote, access.remote))
        except SecretMalformed as error:  # only GitHub can judge the key of an App
            named = SecretMalformed(f"Secret '{provider.secret_name}' malformed: {error}")
            return _stopped(Step.CREDENTIALS, named, key, happenings)
        except (TransientError, StalledError) as error:
            secret = (
                f"Secret '{provider.secret_name}'" if provider.secret_name else "spec.secretRef (not set)"
            )
            said = str(error).rstrip(".")
            message = f"Failed to connect to repository: {said}; check spec.url, {secret} and the network"
            failed = ProviderFindings(Step.CONNECTION, "ConnectionFailed", message, key)
            return ProviderReport(failed, None, happenings)
        refused = await self._remotes.run(partial(_push_refused, access.remote))
        self._listed[uid] = (fingerprint, now, refused)
        good = ProviderFindings(signing_public_key=key, push_refused=refused)
        return ProviderReport(good, refs.branches, happenings)


def _push_refused(remote: Remote) -> str:
    """The remote's refusal of a trial push; empty when permitted, or when it did not answer."""
    try:
        return refused_push(remote)
    except (TransientError, StalledError) as error:
        _log.info("could not find out whether pushing is permitted: %s", error)
        return ""


def _stopped(step: Step, error: Exception, key: str, happenings: tuple[Happening, ...]) -> ProviderReport:
    reason, message = _words(error)
    return ProviderReport(ProviderFindings(step, reason, message, key), None, happenings)


def _words(error: Exception) -> tuple[str, str]:
    """Condition reason and message of a failed check."""
    if isinstance(error, KubeForbidden):
        return "SecretForbidden", f"{error}; grant get on secrets (and configmaps) in this namespace"
    if isinstance(error, StalledError):
        return error.reason, str(error)
    return "InvalidConfig", str(error)
