"""How a repository is reached: which Secrets and ConfigMaps are read, in which order, and what they say.

The readiness check waits on an event loop and the writer on a thread, but both must read the very same
objects and judge them alike: a provider must not be shown as Ready on other evidence than the writer's. So
the reading is a generator that both drive: it yields one object to read at a time and is sent its data. What
an earlier source settles is not read, so an object that nobody needs cannot fail anything.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass

from reverser.errors import SecretMissing
from reverser.kinds.model import GitProvider
from reverser.trust.credentials import ANONYMOUS, Credentials, parse_credentials
from reverser.trust.hosts import REFERENCE_KEYS, KnownHosts, resolve_known_hosts
from reverser.trust.urls import RepositoryUrl, Scheme, parse_repository_url

SECRET = "Secret"  # noqa: S105 - a kind
CONFIG_MAP = "ConfigMap"


@dataclass(frozen=True, slots=True)
class Wanted:
    """An object to read by name; its decoded data is sent back, None where it does not exist."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Access:
    """A validated URL, how to log in, and the host keys to trust (ssh only)."""

    url: RepositoryUrl
    credentials: Credentials
    known_hosts: KnownHosts | None


Data = Mapping[str, bytes]
Reading = Generator[Wanted, Data | None, Access]


def read_access(
    provider: GitProvider, *, command_namespace: str, default_hosts: str, allow_missing_hosts: bool
) -> Reading:
    """Reads a provider's access. ``default_hosts`` names the ConfigMap with the installation's host keys
    (empty: there is none).

    Raises ConfigInvalid (URL), SecretMissing and SecretMalformed; a driver's own errors pass through.
    """
    url = parse_repository_url(provider.url)
    credentials = ANONYMOUS
    namespace, name = provider.meta.namespace, provider.secret_name
    if name:
        data = yield Wanted(SECRET, namespace, name)
        if data is None:
            raise SecretMissing(f"Secret '{name}' not found in namespace '{namespace}': create it")
        credentials = parse_credentials(data, url, secret=name)
    if url.scheme is not Scheme.SSH:
        return Access(url, credentials, None)
    reference: Data | None = None
    default: Data | None = None
    reference_name = "spec.knownHostsRef"
    if provider.known_hosts is not None and not credentials.known_hosts.strip():
        wanted = Wanted(provider.known_hosts.kind, namespace, provider.known_hosts.name)
        reference_name = f"{wanted.kind} {namespace}/{wanted.name}"
        reference = yield wanted
        if reference is None:
            raise SecretMissing(
                f"{wanted.kind} '{wanted.name}' of spec.knownHostsRef not found in namespace '{namespace}': "
                "create it"
            )
    settled = credentials.known_hosts.strip() or _has_hosts(reference)
    if default_hosts and not settled:
        default = yield Wanted(CONFIG_MAP, command_namespace, default_hosts)
    hosts = resolve_known_hosts(
        credentials.known_hosts,
        reference=reference,
        reference_name=reference_name,
        default=default,
        default_name=f"ConfigMap {command_namespace}/{default_hosts}",
        allow_missing=allow_missing_hosts,
    )
    return Access(url, credentials, hosts)


def _has_hosts(data: Data | None) -> bool:
    return any((data or {}).get(key, b"").strip() for key in REFERENCE_KEYS)
