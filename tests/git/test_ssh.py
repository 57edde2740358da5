"""Against OpenSSH: key types, passphrases, and host trust that fails closed."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitwriter.git.remote import Remote
from gitwriter.git.repository import list_remote
from reverser.errors import RemoteUnavailable, SecretMalformed
from reverser.trust.credentials import parse_credentials
from reverser.trust.hosts import KnownHosts, resolve_known_hosts
from reverser.trust.urls import parse_repository_url
from tests.git.helpers import bare, git
from tests.git.servers import GitSsh, git_ssh, require_sshd, ssh_keygen
from tests.git.test_http import write

KEYS = {
    "ed25519": (["-t", "ed25519"], ""),
    "ed25519-passphrase": (["-t", "ed25519"], "open sesame"),
    "ecdsa": (["-t", "ecdsa", "-b", "384"], ""),
    "ecdsa-pem": (["-t", "ecdsa", "-m", "PEM"], ""),
    "rsa": (["-t", "rsa", "-b", "2048"], ""),
    "rsa-pem-passphrase": (["-t", "rsa", "-b", "2048", "-m", "PEM"], "open sesame"),
    "rsa-pkcs8": (["-t", "rsa", "-b", "2048", "-m", "PKCS8"], ""),
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    require_sshd()
    folder = tmp_path_factory.mktemp("keys")
    return {
        name: ssh_keygen(folder / name, *arguments, passphrase=passphrase)
        for name, (arguments, passphrase) in KEYS.items()
    }


@pytest.fixture(scope="module")
def server(keys: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitSsh]:
    root = tmp_path_factory.mktemp("srv")
    bare(root / "origin.git")
    public = [key.with_name(key.name + ".pub").read_text().strip() for key in keys.values()]
    with git_ssh(tmp_path_factory.mktemp("sshd"), root, public) as running:
        yield running


def remote(
    server: GitSsh, key: bytes, hosts: KnownHosts, *, entry: str = "identity", **more: bytes
) -> Remote:
    url = parse_repository_url(server.url())
    data = {entry: key} | {name.replace("_", "-"): value for name, value in more.items()}
    return Remote(url, parse_credentials(data, url, secret="cred"), hosts)


def pinned(server: GitSsh, *, hashed: bool = False) -> KnownHosts:
    return resolve_known_hosts(server.known_hosts(hashed=hashed))


@pytest.mark.parametrize("name", list(KEYS))
def test_every_kind_of_key(server: GitSsh, keys: dict[str, Path], tmp_path: Path, name: str) -> None:
    """A05, K8: every key type and PEM dress logs in, two of them push; passphrases are opened here."""
    passphrase = KEYS[name][1].encode()
    more = {"ssh_password": passphrase} if passphrase else {}
    target = remote(server, keys[name].read_bytes(), pinned(server), **more)
    if name not in ("ed25519-passphrase", "rsa"):
        assert list_remote(target).head in (None, "main")
        return
    tip = write(target, tmp_path / "c")
    assert git(server.root / "origin.git", "rev-parse", "main") == tip


def test_damaged_but_repairable_key(server: GitSsh, keys: dict[str, Path]) -> None:
    """110: CRLF and a missing final newline are repaired; the key reaches ssh with mode 0600."""
    text = keys["ed25519"].read_bytes().strip().replace(b"\n", b"\r\n")
    assert list_remote(remote(server, text, pinned(server), entry="ssh-privatekey")).head in (None, "main")


def test_hashed_hosts(server: GitSsh, keys: dict[str, Path]) -> None:
    """A06 (e): a hashed [host]:port entry is honoured."""
    list_remote(remote(server, keys["ed25519"].read_bytes(), pinned(server, hashed=True)))


def test_the_short_form_with_a_port(server: GitSsh, keys: dict[str, Path]) -> None:
    """K7: user@[host:port]:path reaches the port and is judged by the host key of that port."""
    url = parse_repository_url(f"{server.user}@[127.0.0.1:{server.port}]:{server.root}/origin.git")
    credentials = parse_credentials({"identity": keys["ed25519"].read_bytes()}, url)
    list_remote(Remote(url, credentials, pinned(server)))


def test_a_certified_host(server: GitSsh, keys: dict[str, Path]) -> None:
    """K7: a host that shows a certificate of the pinned authority is trusted."""
    authority = server.authority.with_suffix(".pub").read_text()
    hosts = resolve_known_hosts(f"@cert-authority [127.0.0.1]:{server.port} {authority}".encode())
    list_remote(remote(server, keys["ed25519"].read_bytes(), hosts))


def test_the_login_name_is_git_unless_the_url_names_one() -> None:
    """K8, Z9: ssh://user@host is honoured, else the user is git."""
    hosts = resolve_known_hosts(b"", allow_missing=True)
    for url, expected in (("git.example.test:a/b", True), ("ssh://deploy@git.example.test/a/b", False)):
        with Remote.of(url, known_hosts=hosts).environment() as environment:
            config = Path(environment["GIT_SSH_COMMAND"].split()[-1]).read_text()
            assert ("User git" in config) is expected


def test_without_a_secret_no_key_of_the_process_is_tried(server: GitSsh) -> None:
    """K1: no secretRef is anonymous; the keys in the home of whoever runs this are nobody's credentials."""
    anonymous = Remote(parse_repository_url(server.url()), known_hosts=pinned(server))
    with anonymous.environment() as environment:
        config = environment["GIT_SSH_COMMAND"].split()[-1]
        shown = subprocess.run(
            ["ssh", "-F", config, "-G", "x"], capture_output=True, check=True, text=True, env=environment
        )
        assert [line for line in shown.stdout.splitlines() if line.startswith("identityfile")] == [
            "identityfile none"
        ]
    before = server.log.read_text().count("Accepted")
    with pytest.raises(RemoteUnavailable):
        list_remote(anonymous)
    assert server.log.read_text().count("Accepted") == before


def test_a_certificate_authority_line_is_no_plain_key(
    server: GitSsh, keys: dict[str, Path], tmp_path: Path
) -> None:
    """K7: the host's own key behind @cert-authority vouches for certificates, not for itself."""
    line = b"@cert-authority * " + server.known_hosts().split(b" ", 1)[1]
    with pytest.raises(RemoteUnavailable):
        list_remote(remote(server, keys["ed25519"].read_bytes(), resolve_known_hosts(line)))


@pytest.mark.parametrize("case", ["wrong key", "other host", "revoked"])
def test_an_unknown_host_is_not_trusted(
    server: GitSsh, keys: dict[str, Path], tmp_path: Path, case: str
) -> None:
    """A06 (b), 109: a host whose key is not pinned, or is revoked, is refused before any login; a key that
    differs is told by its fingerprint beside the pinned one."""
    content = server.known_hosts()
    if case == "wrong key":
        other = ssh_keygen(tmp_path / "other", "-t", "ed25519").with_suffix(".pub").read_text().split()
        content = f"[127.0.0.1]:{server.port} {other[0]} {other[1]}\n".encode()
    elif case == "other host":
        content = content.replace(b"127.0.0.1", b"127.0.0.9")
    else:
        content = b"@revoked " + content
    before = server.log.read_text().count("Accepted publickey")
    with pytest.raises(RemoteUnavailable) as caught:
        list_remote(remote(server, keys["ed25519"].read_bytes(), resolve_known_hosts(content)))
    note = "holds no host key for" if case == "other host" else "host keys pinned for"
    assert f"{note} [127.0.0.1]:{server.port}" in str(caught.value)
    assert ("(revoked)" in str(caught.value)) is (case == "revoked")
    assert "/proc/" not in str(caught.value)
    if case == "wrong key":
        shown = subprocess.run(
            ["ssh-keygen", "-l", "-f", server.host_key.with_suffix(".pub")], capture_output=True, text=True
        )
        assert shown.stdout.split()[1] in str(caught.value)
    assert server.log.read_text().count("Accepted publickey") == before


def test_the_insecure_switch_is_loud(
    server: GitSsh, keys: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    """A06 (d): without any source the switch connects, and warns at each use."""
    hosts = resolve_known_hosts(b"", allow_missing=True)
    target = remote(server, keys["ed25519"].read_bytes(), hosts)
    with caplog.at_level(logging.WARNING):
        list_remote(target)
        list_remote(target)
    assert sum("NOT verified" in record.message for record in caplog.records) == 2


def test_no_hosts_no_connection(server: GitSsh, keys: dict[str, Path]) -> None:
    """A06 (a): a remote without resolved host keys is an error of configuration."""
    url = parse_repository_url(server.url())
    credentials = parse_credentials({"identity": keys["ed25519"].read_bytes()}, url)
    with pytest.raises(SecretMalformed):
        list_remote(Remote(url, credentials, None))


def test_the_key_is_nowhere_to_be_seen(server: GitSsh, keys: dict[str, Path], tmp_path: Path) -> None:
    """A05: while git runs, neither arguments nor environments nor files hold the key; afterwards no
    descriptor does."""
    target = remote(server, keys["ed25519"].read_bytes(), pinned(server))
    needle = keys["ed25519"].read_bytes().splitlines()[2]
    with target.environment() as environment:
        assert not any(needle.decode() in value for value in environment.values())
        config = environment["GIT_SSH_COMMAND"].split()[-1]
        assert Path(config).stat().st_mode & 0o777 == 0o600
        identity = next(
            line.split()[1] for line in Path(config).read_text().splitlines() if "IdentityFile" in line
        )
        shown = subprocess.run(["ssh-keygen", "-y", "-f", identity], capture_output=True, check=True)
        assert shown.stdout.split()[:2] == keys["ed25519"].with_suffix(".pub").read_bytes().split()[:2]
    assert not Path(config).exists()
    write(target, tmp_path / "c")
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or needle not in file.read_bytes()
