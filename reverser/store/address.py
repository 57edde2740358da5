"""Where Redis is: one address, or the Sentinels that know which server is the current primary.

``redis+sentinel://user:password@host:26379,host:26379/primary-name?db=0&sentinel_password=...``

With TLS: ``rediss://user:password@host:6379/0?ssl_ca_certs=FILE&ssl_certfile=FILE&ssl_keyfile=FILE``, and
``rediss+sentinel://`` with the same options, where Sentinels and servers speak TLS. The certificate and
name of whoever answers are always checked unless the address itself says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from reverser.trust.tls import TOO_STRICT

SCHEME = "redis+sentinel"
TLS_SCHEME = "rediss+sentinel"
SENTINEL_SCHEMES = frozenset({SCHEME, TLS_SCHEME})
SENTINEL_PORT = 26379
SENTINEL_SECONDS = 2.0
SCHEMES = frozenset({"redis", "rediss", "unix"}) | SENTINEL_SCHEMES
TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
TLS_OPTIONS = frozenset({*TLS_FILES, "ssl_ca_path", "ssl_cert_reqs", "ssl_check_hostname"})
CERTIFICATE_CHECKS = frozenset({"required", "optional", "none"})
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
FORMS = (
    "write redis://host:6379/0, rediss://host:6379/0, unix:///path, "
    "redis+sentinel://host:26379,host:26379/primary-name or the same with rediss+sentinel://"
)
HELP = "write redis+sentinel://:password@host:26379,host:26379/primary-name"


def address_problem(url: str) -> str:
    """Why an address is unusable, or an empty text. The address is never repeated: it may hold a password."""
    scheme = url.partition("://")[0]
    if scheme not in SCHEMES:
        return FORMS
    try:
        if problem := _tls_problem(_options(url)):
            return problem
        if parse_sentinels(url) is None:
            redis.ConnectionPool.from_url(url).make_connection()
    except ValueError as error:
        return str(error) if scheme in SENTINEL_SCHEMES else f"it cannot be read; {FORMS}"
    except (TypeError, redis.RedisError):
        return f"an option in it is not known; {FORMS}"
    return ""


def _options(url: str) -> dict[str, str]:
    """What stands behind the question mark; of an option that is given twice, the last."""
    return {
        name: values[-1] for name, values in parse_qs(url.partition("?")[2], keep_blank_values=True).items()
    }


def _tls_problem(options: dict[str, str]) -> str:
    """What is wrong with the options of an address that are about TLS, or an empty text."""
    unknown = sorted(name for name in options if name.startswith("ssl_") and name not in TLS_OPTIONS)
    if unknown:
        return f"there is no option {unknown[0]}; there are {', '.join(sorted(TLS_OPTIONS))}"
    if options.get("ssl_cert_reqs", "required") not in CERTIFICATE_CHECKS:
        return "ssl_cert_reqs is required, optional or none"
    if options.get("ssl_check_hostname", "true").lower() not in BOOLEANS:
        return "ssl_check_hostname is true or false"
    return ""


def missing_tls_file(url: str) -> str:
    """Which file that an address names cannot be read, and why, or an empty text."""
    options = _options(url)
    for name in TLS_FILES:
        if path := options.get(name):
            try:
                Path(path).open("rb").close()
            except OSError as error:
                return f"{name} names {path}, which cannot be read: {(error.strerror or str(error)).lower()}"
    return ""


def tls_options(url: str) -> dict[str, Any] | None:
    """What Celery's driver must be told about TLS, or None where there is none. Read from the address it
    would leave the check of the certificate out, and take the word ``false`` for true.
    """
    return _tls(_options(url)) if url.partition("://")[0] in {"rediss", TLS_SCHEME} else None


def without_tls_options(url: str) -> str:
    """The address of one server as Celery's driver may see it beside ``tls_options``."""
    place, _, query = url.partition("?")
    kept = "&".join(part for part in query.split("&") if part and not part.startswith("ssl_"))
    return f"{place}?{kept}" if kept else place


def _tls(options: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"ssl_cert_reqs": "required", "ssl_exclude_verify_flags": [TOO_STRICT]}
    found |= {name: value for name, value in options.items() if name in TLS_OPTIONS}
    if "ssl_check_hostname" in found:
        found["ssl_check_hostname"] = BOOLEANS.get(found["ssl_check_hostname"].lower(), True)
    return found


@dataclass(frozen=True, slots=True)
class Sentinels:
    """The parts of a Sentinel address."""

    hosts: tuple[tuple[str, int], ...]
    primary: str
    database: int = 0
    username: str = ""
    password: str = field(default="", repr=False)
    sentinel_password: str = field(default="", repr=False)
    tls: dict[str, Any] | None = None
    """The driver's options for TLS, to the Sentinels and to the primary; None for neither."""

    @property
    def login(self) -> dict[str, Any]:
        """How to log in to the primary."""
        found = {"username": self.username, "password": self.password}
        return {
            "db": self.database,
            **{name: value for name, value in found.items() if value},
            **(self.tls or {}),
        }

    @property
    def sentinel_options(self) -> dict[str, Any]:
        """How to talk to the Sentinels. One that does not answer is asked once: the next may know, while the
        driver by itself would stay with the dead one for several seconds.
        """
        options: dict[str, Any] = {
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": SENTINEL_SECONDS,
            "socket_connect_timeout": SENTINEL_SECONDS,
            **({"ssl": True, **self.tls} if self.tls is not None else {}),
        }
        return {**options, **({"password": self.sentinel_password} if self.sentinel_password else {})}


def parse_sentinels(url: str) -> Sentinels | None:
    """The parts of a Sentinel address; None for an address of another form. Raises ValueError, which does not
    repeat the address, for one that lacks a part.
    """
    scheme, _, rest = url.partition("://")
    if scheme not in SENTINEL_SCHEMES:
        return None
    place, _, primary = rest.partition("?")[0].partition("/")
    login, _, hosts = place.rpartition("@")
    username, _, password = login.partition(":")
    options, tls = _options(url), tls_options(url)
    known = {"db", "sentinel_password"} | (set() if tls is None else TLS_OPTIONS)
    if not primary or not hosts or set(options) - known:
        raise ValueError(HELP)
    database = options.get("db", "0")
    if not database.isdigit():
        raise ValueError("db is not a number")
    return Sentinels(
        hosts=tuple(_host(part) for part in hosts.split(",")),
        primary=unquote(primary),
        database=int(database),
        username=unquote(username),
        password=unquote(password),
        sentinel_password=options.get("sentinel_password", ""),
        tls=tls,
    )


def _host(text: str) -> tuple[str, int]:
    name, colon, port = text.strip().rpartition(":")
    if not colon or text.endswith("]"):
        name, port = text.strip(), str(SENTINEL_PORT)
    if not name or not port.isdigit():
        raise ValueError(HELP)
    return name.strip("[]"), int(port)
