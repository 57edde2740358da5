"""The remote that a command may talk to, and how its secrets reach git.

Secrets enter as memory files: a git configuration with the authorization header and the TLS material, an
ssh configuration with the key and the trusted host keys. Neither argv, nor the environment, nor the
clone's configuration, nor a disk ever holds one, and they end with the command.
"""

from __future__ import annotations

import base64
import logging
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from gitwriter.git.environment import base_environment
from gitwriter.git.httpstatus import asked_delay
from reverser.errors import SecretMalformed
from reverser.trust.credentials import ANONYMOUS, Basic, Bearer, Credentials, GitHubApp, SshKey
from reverser.trust.github import TokenSource
from reverser.trust.hosts import KnownHosts
from reverser.trust.memfile import MemoryFiles
from reverser.trust.urls import RepositoryUrl, Scheme, parse_repository_url
from reverser.trust.values import SecretValue

_log = logging.getLogger(__name__)

APP_USER = "x-access-token"
"""The user name that goes with an installation token of a GitHub App."""

_PROXIES = ("http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")

# Read as git's "global" configuration, which also reaches the receiving side of a file:// remote; that
# side may belong to another user, so ownership checks are off. Nothing that concerns hooks may stand here:
# the remote's own hooks must run.
_SHARED = "[safe]\n\tdirectory = *\n"


@dataclass(frozen=True, slots=True)
class Remote:
    """A repository to talk to: validated URL, credentials, and the host keys to trust (ssh only)."""

    url: RepositoryUrl
    credentials: Credentials = ANONYMOUS
    known_hosts: KnownHosts | None = None
    tokens: TokenSource | None = field(default=None, compare=False)
    """Mints GitHub App tokens; needed only for those credentials."""

    @classmethod
    def of(
        cls, url: str, credentials: Credentials = ANONYMOUS, known_hosts: KnownHosts | None = None
    ) -> Remote:
        """A remote from the text of a URL. Raises ConfigInvalid for a URL that is not allowed."""
        return cls(parse_repository_url(url), credentials, known_hosts)

    @property
    def secrets(self) -> tuple[SecretValue, ...]:
        """Values to redact from the remote's output."""
        values = self.credentials.secrets
        if self.tokens is not None and isinstance(self.credentials.login, GitHubApp):
            token = self.tokens.known(self.credentials.login)
            if token is not None:
                values += (token, Basic(APP_USER, token).pair)
        return values

    def trust_note(self) -> str:
        """What is pinned for the host, to stand beside an ssh failure; empty where nothing is."""
        if self.known_hosts is None or not self.known_hosts.verify:
            return ""
        name = self.url.host_key_name
        pinned = self.known_hosts.fingerprints(name)
        if not pinned:
            return f" ({self.known_hosts.source} holds no host key for {name})"
        return f" (host keys pinned for {name}: {', '.join(pinned)})"

    def asked_delay(self) -> float | None:
        """After a failed command: seconds that an http remote asks to wait, or None."""
        if not self.url.web or isinstance(self.credentials.login, GitHubApp):
            return None  # an App's token was just discarded, and minting another asks the same forge
        return asked_delay(self.url, authorization=self._authorization(), tls=self.credentials.tls)

    def login_failed(self) -> None:
        """A command failed, perhaps for its login: what was minted is not used again."""
        if self.tokens is not None and isinstance(self.credentials.login, GitHubApp):
            self.tokens.forget(self.credentials.login)

    @contextmanager
    def environment(self) -> Iterator[Mapping[str, str]]:
        """The environment for one network command; its memory files end with the block.

        Raises SecretMalformed for credentials that cannot serve this URL, RemoteUnavailable where a token
        cannot be minted now.
        """
        environment = base_environment()
        with MemoryFiles() as files:
            config = _SHARED
            if self.url.web:
                environment.update({name: os.environ[name] for name in _PROXIES if name in os.environ})
                config += self._http(files)
            elif self.url.scheme is Scheme.SSH:
                environment["GIT_SSH_VARIANT"] = "ssh"
                environment["GIT_SSH_COMMAND"] = shlex.join(["ssh", "-F", self._ssh(files)])
            environment["GIT_CONFIG_GLOBAL"] = files.add(config.encode())
            yield environment

    def _http(self, files: MemoryFiles) -> str:
        tls, lines = self.credentials.tls, []
        header = self._authorization()
        if header:
            lines.append(f'extraHeader = "{_quoted(header)}"')
        if tls.ca:
            lines.append(f"sslCAInfo = {files.add(tls.ca)}")
        if tls.client_cert:
            lines.append(f"sslCert = {files.add(tls.client_cert)}")
            lines.append(f"sslKey = {files.add(tls.client_key.reveal())}")
        if header or tls.client_cert:
            # git would send the login to wherever the first answer redirects
            lines.append("followRedirects = false")
        host = f"[{self.url.host}]" if ":" in self.url.host else self.url.host
        port = f":{self.url.port}" if self.url.port else ""
        section = f'[http "{self.url.scheme}://{host}{port}/"]\n'  # never sent to another host
        return section + "".join(f"\t{line}\n" for line in lines)

    def _authorization(self) -> str:
        login = self.credentials.login
        if isinstance(login, Basic):
            return _basic(login)
        if isinstance(login, Bearer):
            return f"Authorization: Bearer {login.token.reveal().decode()}"
        if isinstance(login, GitHubApp):
            tokens = self.tokens if self.tokens is not None else TokenSource()
            return _basic(Basic(APP_USER, tokens.token(login)))
        return ""

    def _ssh(self, files: MemoryFiles) -> str:
        login, hosts = self.credentials.login, self.known_hosts
        if hosts is None:
            raise SecretMalformed(
                "no SSH host keys were resolved for this repository; set spec.knownHostsRef"
            )
        lines = [
            "User git" if not self.url.user else "",
            "BatchMode yes",
            "IdentitiesOnly yes",
            "IdentityAgent none",
            "PreferredAuthentications publickey",
            "UserKnownHostsFile " + (files.add(hosts.content) if hosts.content else "/dev/null"),
            "GlobalKnownHostsFile /dev/null",
            "UpdateHostKeys no",
            "VerifyHostKeyDNS no",
            "CheckHostIP no",
            "ForwardAgent no",
            "ForwardX11 no",
            "ControlMaster no",
            "ControlPath none",
            "ProxyCommand none",
            "PermitLocalCommand no",
            "LogLevel ERROR",
            "ConnectTimeout 20",
            "ServerAliveInterval 15",
            "ServerAliveCountMax 3",
        ]
        if hosts.verify:
            lines.append("StrictHostKeyChecking yes")
        else:
            _log.warning(
                "SSH host keys of %s are NOT verified: --insecure-allow-missing-known-hosts is set",
                self.url.host,
            )
            lines.append("StrictHostKeyChecking no")
        # else ssh would try the keys of the user who runs this process
        key = files.add(login.private_key.reveal()) if isinstance(login, SshKey) else "none"
        lines.append(f"IdentityFile {key}")
        return files.add(("Host *\n" + "".join(f"  {line}\n" for line in lines if line)).encode())


def _basic(login: Basic) -> str:
    return f"Authorization: Basic {base64.b64encode(login.pair.reveal()).decode()}"


def _quoted(value: str) -> str:
    """A value inside double quotes of a git configuration file."""
    return value.replace("\\", "\\\\").replace('"', '\\"')
