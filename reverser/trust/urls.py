"""Repository URLs: which are allowed, and which mean the same repository.

Git runs programs for some URLs (``ext::``) and reads a leading dash as an option, so only four forms
pass: https, http, ssh (also as ``user@host:path``) and file. The canonical form is for comparison alone:
two GitProviders whose forms are equal push to one repository, whatever protocol or spelling they use.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from reverser.errors import ConfigInvalid

_SCP = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9._-]*)@)?(?P<host>\[[^]/@\s]+\]|[A-Za-z0-9_][^/:@\s]*):(?P<path>[^:].*)"
)
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_.])?|[0-9A-Fa-f:.]+")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
_DEFAULT_PORTS = {"https": 443, "http": 80}


class Scheme(StrEnum):
    """How a repository is reached."""

    HTTPS = "https"
    HTTP = "http"
    SSH = "ssh"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class RepositoryUrl:
    """A validated URL. ``text`` is what git gets: never with a password in it."""

    text: str
    scheme: Scheme
    host: str
    port: int | None
    user: str
    path: str

    @property
    def web(self) -> bool:
        return self.scheme in (Scheme.HTTPS, Scheme.HTTP)

    @property
    def host_key_name(self) -> str:
        """The host as known_hosts spells it."""
        if self.port in (None, 22):
            return self.host
        return f"[{self.host}]:{self.port}"


def parse_repository_url(url: str) -> RepositoryUrl:
    """Validate a URL. Raises ConfigInvalid with what is wrong; the message never repeats userinfo."""
    text = url.strip()
    if not text:
        raise ConfigInvalid("spec.url is empty: give an https, http or ssh URL")
    if text.startswith("-"):
        raise ConfigInvalid("spec.url must not begin with '-'")
    if any(ord(char) < 33 or ord(char) == 127 for char in text):
        raise ConfigInvalid("spec.url must not contain white space or control characters")
    head = text.split("/", 1)[0]
    if "::" in head and not head.rpartition("@")[2].startswith("["):
        raise ConfigInvalid("spec.url names a transport helper ('::'); use https, http or ssh")
    if "://" not in text:
        return _parse_scp(text)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ConfigInvalid("spec.url is not a valid URL: check host and port") from None
    try:
        scheme = Scheme(parts.scheme.lower())
    except ValueError:
        raise ConfigInvalid(
            f"spec.url scheme {parts.scheme!r} is not supported; use https, http or ssh"
        ) from None
    if scheme is Scheme.FILE:
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise ConfigInvalid("a file URL needs an absolute path: file:///path/to/repository.git")
        return RepositoryUrl(text, scheme, "", None, "", parts.path)
    if parts.password is not None:
        raise ConfigInvalid("spec.url must not contain a password: put it into the Secret of spec.secretRef")
    host = parts.hostname or ""
    if not _HOST.fullmatch(host):
        raise ConfigInvalid("spec.url has no valid host name")
    if parts.path in ("", "/"):
        raise ConfigInvalid("spec.url names no repository after the host")
    user = parts.username or ""
    if user and not _USER.fullmatch(unquote(user)):
        raise ConfigInvalid("spec.url has an invalid user name")
    bracketed = f"[{host}]" if ":" in host else host
    if scheme is not Scheme.SSH:
        user = ""  # a token written as a user name must not reach argv; the Secret is the place for it
        text = f"{scheme}://{bracketed}{f':{port}' if port else ''}{parts.path}"
        if parts.query:
            text += f"?{parts.query}"
    return RepositoryUrl(text, scheme, host, port, user, parts.path)


def _parse_scp(text: str) -> RepositoryUrl:
    match = _SCP.fullmatch(text)
    if match is None:
        raise ConfigInvalid("spec.url is neither a URL nor user@host:path; use https, http or ssh")
    host, port = match["host"].strip("[]"), None
    if match["host"].startswith("[") and host.count(":") == 1:  # [host:port], as git reads it
        host, _, number = host.partition(":")
        if not number.isdigit() or not 0 < int(number) < 65536:
            raise ConfigInvalid("spec.url is not a valid URL: check host and port")
        port = int(number)
    if not _HOST.fullmatch(host) or match["path"].startswith("-") or host.lower() in set(Scheme):
        raise ConfigInvalid("spec.url has no valid host name or path")
    return RepositoryUrl(text, Scheme.SSH, host, port, match["user"] or "", match["path"])


@lru_cache(maxsize=4096)
def canonical_url(url: str) -> str:
    """A form that is equal for equivalent URLs: protocol, user, port of ssh, default port of https and http,
    case, ``.git``, ``.`` and slashes do not count. Total: text that is no valid URL is returned stripped.

    Where one host might take two spellings for two repositories (case, a second SSH port) they count as
    one: two writers of one folder are worse than a conflict that can be read in a status.
    """
    try:
        parsed = parse_repository_url(url)
    except ConfigInvalid:
        return url.strip()
    path = "/".join(part for part in unquote(parsed.path).split("/") if part not in {"", "."})
    path = path.removeprefix("~/").removesuffix(".git").rstrip("/")
    if parsed.scheme is Scheme.FILE:
        return f"file:///{path}"
    standard = parsed.scheme is Scheme.SSH or parsed.port == _DEFAULT_PORTS.get(parsed.scheme)
    port = "" if standard or parsed.port is None else f":{parsed.port}"
    return f"{parsed.host.lower().rstrip('.')}{port}/{path.casefold()}"
