"""Where Redis is: one address, or the Sentinels that know which server is the current primary.

``redis+sentinel://user:password@host:26379,host:26379/primary-name?db=0&sentinel_password=...``

With TLS: ``rediss://user:password@host:6379/0?ssl_ca_certs=FILE&ssl_certfile=FILE&ssl_keyfile=FILE``. The
server's certificate and name are checked unless the address itself says otherwise.

Each new connection asks the Sentinels, and a connection whose server says that it is a replica now is closed,
so after a fail-over the very next attempt finds the new primary. The driver's own pool for Sentinel fails
instead of waiting when all connections are in use, so its connections are used in our pool.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel

if TYPE_CHECKING:
    RedisClient = redis.Redis

# The driver has no types for these.
_Sentinel: Any = redis.sentinel.Sentinel
_AsyncSentinel: Any = redis.asyncio.sentinel.Sentinel

SCHEME = "redis+sentinel"
SENTINEL_PORT = 26379
SENTINEL_SECONDS = 2.0
SCHEMES = frozenset({"redis", "rediss", "unix", SCHEME})
TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
TLS_OPTIONS = frozenset({*TLS_FILES, "ssl_ca_path", "ssl_cert_reqs", "ssl_check_hostname"})
FORMS = (
    "write redis://host:6379/0, rediss://host:6379/0, unix:///path or "
    "redis+sentinel://host:26379,host:26379/primary-name"
)
HELP = "write redis+sentinel://:password@host:26379,host:26379/primary-name"


def address_problem(url: str) -> str:
    """Why an address is unusable, or an empty text. The address is never repeated: it may hold a password."""
    scheme = url.partition("://")[0]
    if scheme == f"rediss+{SCHEME.partition('+')[2]}":
        return "TLS to servers behind Sentinel is not supported; name one server with rediss://"
    if scheme not in SCHEMES:
        return FORMS
    try:
        if parse_sentinels(url) is None:
            options = parse_qs(urlsplit(url).query)
            unknown = sorted(name for name in options if name.startswith("ssl_") and name not in TLS_OPTIONS)
            if unknown:
                return f"there is no option {unknown[0]}; there are {', '.join(sorted(TLS_OPTIONS))}"
            if options.get("ssl_cert_reqs", ["required"])[-1] not in {"required", "optional", "none"}:
                return "ssl_cert_reqs is required, optional or none"
            redis.ConnectionPool.from_url(url).make_connection()
    except ValueError as error:
        return str(error) if scheme == SCHEME else f"it cannot be read; {FORMS}"
    except (TypeError, redis.RedisError):
        return f"an option in it is not known; {FORMS}"
    return ""


def missing_tls_file(url: str) -> str:
    """Which file that an address names cannot be read, and why, or an empty text."""
    options = parse_qs(urlsplit(url).query)
    for name in TLS_FILES:
        for path in options.get(name, []):
            try:
                Path(path).open("rb").close()
            except OSError as error:
                return f"{name} names {path}, which cannot be read: {(error.strerror or str(error)).lower()}"
    return ""


def checked_tls(url: str) -> str:
    """``url`` with the check of the server's certificate spelt out: Celery's driver leaves it out where the
    address does not name it.
    """
    parts = urlsplit(url)
    if parts.scheme != "rediss" or "ssl_cert_reqs" in parse_qs(parts.query):
        return url
    return f"{url}{'&' if parts.query else '?'}ssl_cert_reqs=required"


@dataclass(frozen=True, slots=True)
class Sentinels:
    """The parts of a Sentinel address."""

    hosts: tuple[tuple[str, int], ...]
    primary: str
    database: int = 0
    username: str = ""
    password: str = field(default="", repr=False)
    sentinel_password: str = field(default="", repr=False)

    @property
    def login(self) -> dict[str, Any]:
        """How to log in to the primary."""
        found = {"username": self.username, "password": self.password}
        return {"db": self.database, **{name: value for name, value in found.items() if value}}

    @property
    def sentinel_options(self) -> dict[str, Any]:
        """How to talk to the Sentinels."""
        options: dict[str, Any] = {
            "socket_timeout": SENTINEL_SECONDS,
            "socket_connect_timeout": SENTINEL_SECONDS,
        }
        return {**options, **({"password": self.sentinel_password} if self.sentinel_password else {})}


def parse_sentinels(url: str) -> Sentinels | None:
    """The parts of a Sentinel address; None for an address of another form. Raises ValueError, which does not
    repeat the address, for one that lacks a part.
    """
    scheme, _, rest = url.partition("://")
    if scheme != SCHEME:
        return None
    rest, _, query = rest.partition("?")
    place, _, primary = rest.partition("/")
    login, _, hosts = place.rpartition("@")
    username, _, password = login.partition(":")
    options = {name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}
    if not primary or not hosts or set(options) - {"db", "sentinel_password"}:
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
    )


def _host(text: str) -> tuple[str, int]:
    name, colon, port = text.strip().rpartition(":")
    if not colon or text.endswith("]"):
        name, port = text.strip(), str(SENTINEL_PORT)
    if not name or not port.isdigit():
        raise ValueError(HELP)
    return name.strip("[]"), int(port)


class _Primary:
    """What the driver's Sentinel connections ask their pool."""

    is_master = True
    check_connection = False

    def __init__(self, place: Sentinels, finder: Any) -> None:
        self.service_name = place.primary
        self._finder = finder

    def get_master_address(self) -> Any:
        """Host and port of the primary now, or a coroutine of them. Raises the driver's ConnectionError."""
        return self._finder.discover_master(self.service_name)


def blocking_pool(url: str, **options: Any) -> redis.BlockingConnectionPool:
    """A pool for ``url`` whose callers wait for a connection. Raises ValueError for an address that cannot be
    read.
    """
    place = parse_sentinels(url)
    if place is None:
        return redis.BlockingConnectionPool.from_url(url, **options)
    finder = _Sentinel(place.hosts, sentinel_kwargs=place.sentinel_options)
    return redis.BlockingConnectionPool(  # type: ignore[no-untyped-call]
        connection_class=redis.sentinel.SentinelManagedConnection,
        connection_pool=_Primary(place, finder),
        **{**options, **place.login},
    )


def awaiting_pool(url: str, **options: Any) -> redis.asyncio.BlockingConnectionPool:
    """As ``blocking_pool``, for asyncio."""
    place = parse_sentinels(url)
    if place is None:
        return redis.asyncio.BlockingConnectionPool.from_url(url, **options)
    finder = _AsyncSentinel(list(place.hosts), sentinel_kwargs=place.sentinel_options)
    return redis.asyncio.BlockingConnectionPool(
        connection_class=redis.asyncio.sentinel.SentinelManagedConnection,
        connection_pool=_Primary(place, finder),
        **{**options, **place.login},
    )


def blocking_client(url: str, **options: Any) -> RedisClient:
    """A client of its own for ``url``. Raises ValueError for an address that cannot be read."""
    return redis.Redis.from_pool(blocking_pool(url, **options))
