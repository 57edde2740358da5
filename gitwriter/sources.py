"""What the writer reads from the cluster: its provider, its targets, and the Secrets they name.

Everything is read by name, each time it is needed: nothing is listed, watched or cached, so a rotated
credential serves the next attempt and no Secret outlives the call that needed it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from gitwriter.git.remote import Remote
from reverser.config import Config
from reverser.errors import KubeNotFound, SecretMalformed, SecretMissing
from reverser.kinds.model import GitProvider, GitTarget
from reverser.kinds.parse import parse_git_provider, parse_git_target
from reverser.kube.paths import core_path, own_path
from reverser.kube.sync import Kube
from reverser.store.model import BranchKey, TargetRef
from reverser.trust.credentials import ANONYMOUS, Credentials, parse_credentials
from reverser.trust.github import TokenSource
from reverser.trust.hosts import KnownHosts, resolve_known_hosts
from reverser.trust.signing import SigningKey, load_signing_key
from reverser.trust.urls import RepositoryUrl, Scheme, parse_repository_url


class Sources:
    """Reads the objects behind a branch."""

    def __init__(self, kube: Kube, config: Config, tokens: TokenSource) -> None:
        self._kube = kube
        self._config = config
        self._tokens = tokens

    def provider(self, branch: BranchKey) -> GitProvider | None:
        """The branch's GitProvider, or None when it is gone. Raises the error tree's class otherwise."""
        try:
            raw = self._kube.get(own_path("gitproviders", namespace=branch.namespace, name=branch.provider))
        except KubeNotFound:
            return None
        return parse_git_provider(raw)

    def target(self, ref: TargetRef) -> GitTarget | None:
        """The GitTarget, or None when it is gone or another one has its name (J22)."""
        try:
            raw = self._kube.get(own_path("gittargets", namespace=ref.namespace, name=ref.name))
        except KubeNotFound:
            return None
        target = parse_git_target(raw)
        return target if target.meta.uid == ref.uid else None

    def remote(self, provider: GitProvider) -> Remote:
        """The remote with its credentials as they are now.

        Raises ConfigInvalid (URL), SecretMissing or SecretMalformed, and the error tree's classes for a
        cluster that does not answer.
        """
        url = parse_repository_url(provider.url)
        credentials = self._credentials(provider, url)
        hosts = self._known_hosts(provider, credentials) if url.scheme is Scheme.SSH else None
        return Remote(url, credentials, hosts, self._tokens)

    def signer(self, namespace: str, secret_name: str) -> SigningKey:
        """The signing key of a provider. Raises SecretMissing or SecretMalformed."""
        return load_signing_key(self._secret(namespace, secret_name), name=f"{namespace}/{secret_name}")

    def _credentials(self, provider: GitProvider, url: RepositoryUrl) -> Credentials:
        if not provider.secret_name:
            return ANONYMOUS
        data = self._secret(provider.meta.namespace, provider.secret_name)
        return parse_credentials(data, url, secret=provider.secret_name)

    def _known_hosts(self, provider: GitProvider, credentials: Credentials) -> KnownHosts:
        reference, name = None, "spec.knownHostsRef"
        if provider.known_hosts is not None:
            name = f"{provider.known_hosts.kind} {provider.meta.namespace}/{provider.known_hosts.name}"
            reference = self._hosts_data(
                provider.meta.namespace, provider.known_hosts.kind, name=provider.known_hosts.name
            )
        default = None
        if self._config.default_known_hosts_configmap:
            try:
                default = self._hosts_data(
                    self._config.command_namespace,
                    "ConfigMap",
                    name=self._config.default_known_hosts_configmap,
                )
            except SecretMissing:
                default = None
        return resolve_known_hosts(
            credentials.known_hosts,
            reference=reference,
            reference_name=name,
            default=default,
            allow_missing=self._config.insecure_allow_missing_known_hosts,
        )

    def _hosts_data(self, namespace: str, kind: str, *, name: str) -> Mapping[str, bytes]:
        if kind == "Secret":
            return self._secret(namespace, name)
        try:
            raw = self._kube.get(core_path("configmaps", namespace=namespace, name=name))
        except KubeNotFound as error:
            raise SecretMissing(f"ConfigMap {namespace}/{name} with SSH host keys does not exist") from error
        data = raw.get("data") or {}
        return {key: value.encode() for key, value in data.items() if isinstance(value, str)}

    def _secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        try:
            raw = self._kube.get(core_path("secrets", namespace=namespace, name=name))
        except KubeNotFound as error:
            raise SecretMissing(f"Secret '{name}' not found in namespace '{namespace}'") from error
        return decode_secret(raw, name=name)


def decode_secret(raw: Mapping[str, Any], *, name: str) -> dict[str, bytes]:
    """The decoded ``data`` of a Secret. Raises SecretMalformed naming the entry that is not base64."""
    decoded = {}
    for key, value in (raw.get("data") or {}).items():
        try:
            decoded[key] = base64.b64decode(value, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise SecretMalformed(f"Secret '{name}' malformed: entry {key!r} is not base64") from None
    return decoded
