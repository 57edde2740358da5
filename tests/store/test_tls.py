"""Redis over TLS: the store and Celery's broker check who answers, and show who they are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kombu import Connection
from kombu.exceptions import OperationalError

from reverser import settings
from reverser.config import load_config
from reverser.errors import SettingsInvalid, StoreUnavailable
from reverser.store import AsyncStore, Store
from reverser.store.address import address_problem, missing_tls_file, tls_options
from reverser.supervision import preflight
from tests.git.servers import Authority, make_authority
from tests.store.sentinels import running_sentinel
from tests.store.tlsfront import tls_front
from tests.valkey import running_valkey


@dataclass(frozen=True, slots=True)
class Servers:
    """One Valkey behind fronts: some have another authority's certificate, some want one of their clients.
    A Sentinel, behind fronts as well, knows two of them by name.
    """

    ours: Authority
    other: Authority
    anybody: int
    known_only: int
    sentinel: int
    strange_sentinel: int

    def url(self, *, host: str = "127.0.0.1", known_only: bool = False, **options: object) -> str:
        port = self.known_only if known_only else self.anybody
        query = "&".join(f"ssl_{name}={value}" for name, value in options.items())
        return f"rediss://{host}:{port}/0{'?' if query else ''}{query}"

    def behind(self, primary: str, *, sentinel: int = 0, **options: object) -> str:
        """The address of a primary by its name at the Sentinel."""
        query = "&".join(f"ssl_{name}={value}" for name, value in options.items())
        port = sentinel or self.sentinel
        return f"rediss+sentinel://127.0.0.1:{port}/{primary}?db=1{'&' if query else ''}{query}"

    @property
    def client(self) -> dict[str, object]:
        return {
            "ca_certs": self.ours.ca,
            "certfile": self.ours.client_cert,
            "keyfile": self.ours.client_key,
        }


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Servers with a certificate of an authority of their own, for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")
    ours, other = make_authority(folder / "ours"), make_authority(folder / "other")
    with (
        running_valkey() as valkey,
        tls_front(valkey.port, ours.context()) as anybody,
        tls_front(valkey.port, ours.context(demand_client=True), plain_too=True) as known_only,
        tls_front(valkey.port, other.context(), plain_too=True) as stranger,
        running_sentinel(folder / "sentinel", {"known": known_only, "stranger": stranger}) as watching,
        tls_front(watching, ours.context(demand_client=True)) as sentinel,
        tls_front(watching, other.context()) as strange_sentinel,
    ):
        yield Servers(ours, other, anybody, known_only, sentinel, strange_sentinel)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver tries again and again where nobody can be trusted; its growing pauses show nothing."""
    monkeypatch.setattr("redis.retry.sleep", lambda seconds: None)
    monkeypatch.setattr(preflight, "REDIS_DEADLINE_SECONDS", 0.1)


async def _time(url: str) -> int:
    store = AsyncStore.connect(url)
    try:
        return await store.time_ms()
    finally:
        await store.close()


def _through_broker(url: str) -> object:
    options = {"socket_timeout": 60, "max_retries": 1, "interval_start": 0, **settings._broker_options(url)}
    broker = settings._broker_url(url)
    with Connection(broker, ssl=tls_options(url), transport_options=options) as connection:
        queue = connection.SimpleQueue("over tls")
        queue.put({"a": 1})
        found = queue.get(timeout=60)
        found.ack()
        queue.close()
        return found.payload


@pytest.mark.parametrize("known_only", [False, True], ids=["anybody", "known clients"])
def test_everything_goes_over_tls(servers: Servers, known_only: bool) -> None:
    """With the authority's file, and a client certificate where the server wants one, both kinds of store
    and the broker work.
    """
    options = servers.client if known_only else {"ca_certs": servers.ours.ca}
    _works(servers.url(known_only=known_only, **options))


def test_the_check_of_the_name_alone_can_be_left_out(servers: Servers) -> None:
    """For a server that is reached by another name than its certificate has, the same for all parts."""
    _works(servers.url(host="localhost", ca_certs=servers.ours.ca, check_hostname="false"))


def _works(url: str) -> None:
    assert preflight.redis_problem(url) == ""
    store = Store.connect(url)
    assert store.time_ms() > 0
    store.close()
    assert asyncio.run(_time(url)) > 0
    assert _through_broker(url) == {"a": 1}


def _refused(servers: Servers) -> dict[str, str]:
    return {
        "nobody vouches for it": servers.url(),
        "another authority": servers.url(ca_certs=servers.other.ca),
        "another name": servers.url(host="localhost", ca_certs=servers.ours.ca),
        "no client certificate": servers.url(known_only=True, ca_certs=servers.ours.ca),
    }


@pytest.mark.parametrize(
    "case", ["nobody vouches for it", "another authority", "another name", "no client certificate"]
)
def test_nobody_talks_to_a_stranger(servers: Servers, case: str) -> None:
    """A server that cannot prove itself, or that does not accept us, gets no command: neither from the store
    nor from the broker, which by itself would look at no certificate where the address names none.
    """
    _gets_nothing(_refused(servers)[case])


def _gets_nothing(url: str) -> None:
    assert preflight.redis_problem(url).startswith("REVERSER_REDIS_URL: no Redis answers there")
    store = Store.connect(url)
    with pytest.raises(StoreUnavailable):
        store.time_ms()
    store.close()
    with pytest.raises(StoreUnavailable):
        asyncio.run(_time(url))
    with pytest.raises(OperationalError):
        _through_broker(url)


def test_sentinels_and_servers_over_tls(servers: Servers) -> None:
    """The Sentinel and the primary that it names are both asked over TLS, and shown who we are."""
    _works(servers.behind("known", **servers.client))


@pytest.mark.parametrize("case", ["sentinel of a stranger", "server of a stranger", "no client certificate"])
def test_nobody_behind_sentinels_is_trusted_unseen(servers: Servers, case: str) -> None:
    """What the Sentinel or the primary is by its certificate counts, not what the Sentinel says."""
    _gets_nothing(
        {
            "sentinel of a stranger": servers.behind(
                "known", sentinel=servers.strange_sentinel, **servers.client
            ),
            "server of a stranger": servers.behind("stranger", **servers.client),
            "no client certificate": servers.behind("known", ca_certs=servers.ours.ca),
        }[case]
    )


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("rediss+sentinel://:hidden@a:1/main?ssl_nope=1", "there is no option ssl_nope"),
        ("rediss+sentinel://:hidden@a:1/main?ssl_cert_reqs=maybe", "ssl_cert_reqs is required"),
        ("rediss://:hidden@a/0?ssl_check_hostname=perhaps", "ssl_check_hostname is true or false"),
        ("redis+sentinel://:hidden@a:1/main?ssl_ca_certs=/ca", "write redis+sentinel://"),
        ("http://:hidden@a", "write redis://host:6379/0"),
        ("rediss://:hidden@a/0?ssl_nope=1", "there is no option ssl_nope"),
        ("rediss://:hidden@a/0?ssl_cert_reqs=maybe", "ssl_cert_reqs is required, optional or none"),
        ("redis://:hidden@a/0?nope=1", "an option in it is not known"),
        ("redis://:hidden@a:port/0", "it cannot be read"),
        ("redis+sentinel://:hidden@a", "write redis+sentinel://"),
    ],
)
def test_addresses_that_cannot_be_meant(url: str, words: str) -> None:
    """Each is told by what is wrong with it, without the password."""
    problem = address_problem(url)
    assert problem.startswith(words)
    assert "hidden" not in problem
    assert preflight.redis_problem(url) == f"REVERSER_REDIS_URL: {problem}"


@pytest.mark.parametrize(
    "url",
    [
        "redis://:p@a:1/0",
        "rediss://a",
        "unix:///a/b?db=1",
        "redis+sentinel://a/main",
        "rediss+sentinel://a:1,[::1]:2/main?ssl_ca_certs=/ca&ssl_check_hostname=no",
    ],
)
def test_addresses_that_can(url: str) -> None:
    """The five forms."""
    assert address_problem(url) == ""


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A wrong path is told as such, not as a server that does not answer."""
    path = tmp_path / "ca.crt"
    url = f"rediss://127.0.0.1:1/0?ssl_ca_certs={path}"
    assert (
        missing_tls_file(url) == f"ssl_ca_certs names {path}, which cannot be read: no such file or directory"
    )
    path.write_text("a certificate")
    assert missing_tls_file(url) == ""


def test_each_address_is_told_by_the_setting_that_holds_it() -> None:
    """A process says which of its addresses is wrong before it starts anything; brokers besides Redis are
    Celery's to judge.
    """
    wrong = "redis+sentinel://:hidden@a"
    with pytest.raises(SettingsInvalid) as caught:
        settings._check_addresses(load_config({"REVERSER_REDIS_URL": wrong, "REVERSER_BROKER_URL": wrong}))
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "REVERSER_REDIS_URL",
        "REVERSER_BROKER_URL",
    ]
    assert "hidden" not in str(caught.value)
    settings._check_addresses(load_config({"REVERSER_BROKER_URL": "amqp://a"}))
