"""Where Redis is: one address, or the Sentinels that know which server is the current primary.

``redis+sentinel://user:password@host:26379,host:26379/primary-name?db=0&sentinel_password=...``

With TLS: ``rediss://user:password@host:6379/0?ssl_ca_certs=FILE&ssl_certfile=FILE&ssl_keyfile=FILE``, and
``rediss+sentinel://`` with the same options, where Sentinels and servers speak TLS. The certificate and
name of whoever answers are always checked unless the address itself says otherwise.

Each new connection asks the Sentinels, and a connection whose server says that it is a replica now is closed,
so after a fail-over the very next attempt finds the new primary. The driver's own pool for Sentinel fails
instead of waiting when all connections are in use, so its connections are used in our pool.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

if TYPE_CHECKING:
    RedisClient = redis.Redis

# The driver has no types for these.
_Sentinel: Any = redis.sentinel.Sentinel
_AsyncSentinel: Any = redis.asyncio.sentinel.Sentinel

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
    found: dict[str, Any] = {"ssl_cert_reqs": "required"}
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
    if not primary or not hosts or set(options) - {"db", "sentinel_password"} - set(tls or ()):
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
        connection_class=(
            redis.sentinel.SentinelManagedConnection
            if place.tls is None
            else redis.sentinel.SentinelManagedSSLConnection
        ),
        connection_pool=_Primary(place, finder),
        **{**options, **place.login},
    )


def awaiting_pool(url: str, **options: Any) -> redis.asyncio.BlockingConnectionPool:
    """As ``blocking_pool``, for asyncio."""
    place = parse_sentinels(url)
    if place is None:
        return redis.asyncio.BlockingConnectionPool.from_url(url, **options)
    once = AsyncRetry(NoBackoff(), 0)
    finder = _AsyncSentinel(list(place.hosts), sentinel_kwargs={**place.sentinel_options, "retry": once})
    return redis.asyncio.BlockingConnectionPool(
        connection_class=(
            redis.asyncio.sentinel.SentinelManagedConnection
            if place.tls is None
            else redis.asyncio.sentinel.SentinelManagedSSLConnection
        ),
        connection_pool=_Primary(place, finder),
        **{**options, **place.login},
    )


def blocking_client(url: str, **options: Any) -> RedisClient:
    """A client of its own for ``url``. Raises ValueError for an address that cannot be read."""
    return redis.Redis.from_pool(blocking_pool(url, **options))
