"""What is read to reach a repository: the same objects in the same order, whoever reads."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from reverser.errors import ConfigInvalid, SecretMalformed, SecretMissing
from reverser.kinds.model import GitProvider
from reverser.kinds.parse import parse_git_provider
from reverser.trust.access import Access, Wanted, read_access
from reverser.trust.credentials import SshKey

KEY = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
LINE = b"git.example.test ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl\n"
SSH = "ssh://git@git.example.test/a/b.git"
Objects = Mapping[tuple[str, str, str], Mapping[str, bytes]]
CREDENTIALS = ("Secret", "shop", "cred")
REFERENCE = ("ConfigMap", "shop", "hosts")
DEFAULT = ("ConfigMap", "ops", "all-hosts")


def provider(url: str = SSH, **spec: object) -> GitProvider:
    spec = {"url": url, "secretRef": {"name": "cred"}, **spec}
    return parse_git_provider(
        {
            "metadata": {"name": "gp", "namespace": "shop", "uid": "u"},
            "spec": {"allowedBranches": ["main"], **spec},
        }
    )


def reached(objects: Objects, found: GitProvider, *, insecure: bool = False) -> tuple[Access, list[Wanted]]:
    """Drives the reading; also what it asked for."""
    reading = read_access(
        found, command_namespace="ops", default_hosts="all-hosts", allow_missing_hosts=insecure
    )
    asked: list[Wanted] = []
    try:
        wanted = next(reading)
        while True:
            asked.append(wanted)
            wanted = reading.send(objects.get((wanted.kind, wanted.namespace, wanted.name)))
    except StopIteration as end:
        return end.value, asked


def keys_of(asked: list[Wanted]) -> list[tuple[str, str, str]]:
    return [(wanted.kind, wanted.namespace, wanted.name) for wanted in asked]


def test_only_what_is_needed_is_read() -> None:
    """K1, K6, K10: host keys of the Secret settle it; a reference is not even asked for."""
    objects = {CREDENTIALS: {"identity": KEY, "known_hosts": LINE}}
    found, asked = reached(objects, provider(knownHostsRef={"name": "hosts"}))
    assert isinstance(found.credentials.login, SshKey)
    assert found.known_hosts is not None
    assert found.known_hosts.content == LINE
    assert keys_of(asked) == [CREDENTIALS]
    _, asked = reached({CREDENTIALS: {"bearerToken": b"t"}}, provider("https://git.example.test/a.git"))
    assert keys_of(asked) == [CREDENTIALS]
    assert keys_of(reached({}, provider("https://git.example.test/a.git", secretRef=None))[1]) == []


def test_sources_of_host_keys_in_order() -> None:
    """K6: reference before default; without either key it falls through; the default may be absent."""
    base = {CREDENTIALS: {"identity": KEY}}
    referring = provider(knownHostsRef={"name": "hosts"})
    found, asked = reached(base | {REFERENCE: {"ssh_known_hosts": LINE}}, referring)
    assert found.known_hosts is not None
    assert found.known_hosts.source == "key 'ssh_known_hosts' of ConfigMap shop/hosts"
    assert keys_of(asked) == [CREDENTIALS, REFERENCE]
    found, asked = reached(base | {REFERENCE: {"other": b"x"}, DEFAULT: {"known_hosts": LINE}}, referring)
    assert found.known_hosts is not None
    assert found.known_hosts.source == "key 'known_hosts' of ConfigMap ops/all-hosts"
    assert keys_of(asked) == [CREDENTIALS, REFERENCE, DEFAULT]
    with pytest.raises(SecretMissing, match=r"'hosts' of spec\.knownHostsRef not found") as caught:
        reached(base | {DEFAULT: {"known_hosts": LINE}}, referring)
    assert caught.value.reason == "SecretNotFound"
    with pytest.raises(SecretMalformed, match="no SSH host keys"):
        reached(base, provider())
    insecure = reached(base, provider(), insecure=True)[0].known_hosts
    assert insecure is not None
    assert insecure.verify is False


def test_broken_host_keys_are_an_error_with_the_flag_too() -> None:
    """K7, A06 (c): in whichever source they stand, and the source is named."""
    base = {CREDENTIALS: {"identity": KEY}}
    broken = {"known_hosts": b"nonsense CANARY"}
    for objects, found, source in (
        ({CREDENTIALS: {"identity": KEY, **broken}}, provider(), "credentials Secret"),
        (base | {REFERENCE: broken}, provider(knownHostsRef={"name": "hosts"}), "ConfigMap shop/hosts"),
        (base | {DEFAULT: broken}, provider(), "ConfigMap ops/all-hosts"),
        (
            base | {("Secret", "shop", "hosts"): broken},
            provider(knownHostsRef={"name": "hosts", "kind": "Secret"}),
            "Secret shop/hosts",
        ),
    ):
        with pytest.raises(SecretMalformed) as caught:
            reached(objects, found, insecure=True)
        assert source in str(caught.value)
        assert "CANARY" not in str(caught.value)


def test_a_missing_secret_and_a_bad_url() -> None:
    """A03: the Secret and its namespace are named; a URL is judged before anything is read."""
    with pytest.raises(SecretMissing, match="Secret 'cred' not found in namespace 'shop'"):
        reached({}, provider())
    with pytest.raises(ConfigInvalid):
        next(
            read_access(provider("ext::x"), command_namespace="", default_hosts="", allow_missing_hosts=False)
        )
