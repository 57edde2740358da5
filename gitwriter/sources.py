"""What the writer reads from the cluster: its provider, its targets, and the Secrets they name.

Everything is read by name, each time it is needed: nothing is listed, watched or cached, so a rotated
credential serves the next attempt and no Secret outlives the call that needed it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gitwriter.git.remote import Remote
from gitwriter.patience import patiently
from reverser.config import Config
from reverser.errors import KubeNotFound, SecretMissing
from reverser.kinds.model import GitProvider, GitTarget
from reverser.kinds.parse import parse_git_provider, parse_git_target
from reverser.kube.entries import decode_entries
from reverser.kube.paths import core_path, own_path
from reverser.kube.sync import Kube
from reverser.store.model import BranchKey, TargetRef
from reverser.trust.access import SECRET, Access, Wanted, read_access
from reverser.trust.github import TokenSource
from reverser.trust.signing import SigningKey, load_signing_key


class Sources:
    """Reads the objects behind a branch."""

    def __init__(
        self, kube: Kube, config: Config, tokens: TokenSource, *, given_up: Callable[[], bool] = lambda: False
    ) -> None:
        """Once ``given_up()`` is true, reads raise KubeUnavailable instead of waiting for the cluster."""
        self._kube = kube
        self._given_up = given_up
        self._config = config
        self._tokens = tokens

    def provider(self, branch: BranchKey) -> GitProvider | None:
        """The branch's GitProvider, or None when it is gone. Raises the error tree's class otherwise."""
        try:
            raw = self._get(own_path("gitproviders", namespace=branch.namespace, name=branch.provider))
        except KubeNotFound:
            return None
        return parse_git_provider(raw)

    def target(self, ref: TargetRef) -> GitTarget | None:
        """The GitTarget, or None when it is gone or another one has its name (J22)."""
        try:
            raw = self._get(own_path("gittargets", namespace=ref.namespace, name=ref.name))
        except KubeNotFound:
            return None
        target = parse_git_target(raw)
        return target if target.meta.uid == ref.uid else None

    def remote(self, provider: GitProvider) -> Remote:
        """The remote with its credentials as they are now.

        Raises ConfigInvalid (URL), SecretMissing or SecretMalformed, and the error tree's classes for a
        cluster that does not answer.
        """
        reading = read_access(
            provider,
            command_namespace=self._config.command_namespace,
            default_hosts=self._config.default_known_hosts_configmap,
            allow_missing_hosts=self._config.insecure_allow_missing_known_hosts,
        )
        try:
            wanted = next(reading)
            while True:
                wanted = reading.send(self._data(wanted))
        except StopIteration as end:
            access: Access = end.value
        return Remote(access.url, access.credentials, access.known_hosts, self._tokens)

    def signer(self, namespace: str, secret_name: str) -> SigningKey:
        """The signing key of a provider. Raises SecretMissing or SecretMalformed."""
        return load_signing_key(self._secret(namespace, secret_name), name=f"{namespace}/{secret_name}")

    def _data(self, wanted: Wanted) -> Mapping[str, bytes] | None:
        resource = "secrets" if wanted.kind == SECRET else "configmaps"
        try:
            raw = self._get(core_path(resource, namespace=wanted.namespace, name=wanted.name))
        except KubeNotFound:
            return None
        if wanted.kind == SECRET:
            return decode_entries(raw.get("data"))
        text = {key: str(value).encode() for key, value in (raw.get("data") or {}).items()}
        return {**decode_entries(raw.get("binaryData")), **text}

    def _get(self, path: str) -> dict[str, Any]:
        return patiently(lambda: self._kube.get(path), self._given_up)

    def _secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        data = self._data(Wanted(SECRET, namespace, name))
        if data is None:
            raise SecretMissing(f"Secret '{name}' not found in namespace '{namespace}': create it")
        return data
