"""REST: outcomes as a stream of events, and how many streams there may be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from reverser.rest.access import Access
from reverser.rest.events import OutcomeStream
from reverser.rest.identity import Caller
from reverser.rest.throttling import OPEN, OpenRequests
from reverser.store import Store
from reverser.store.model import BranchKey, LeaseKind, Outcome, OutcomeKind, Settlement, TargetRef
from reverser.wiring import kube

from .test_api import PROBLEM, ask


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        self.now += 5.0
        return self.now


@pytest.fixture
def places() -> OpenRequests:
    return OpenRequests(in_all=2, of_one=1)


def _settled(store: Store, namespace: str, number: int) -> None:
    """An outcome in the store, settled the way a writer does."""
    branch = BranchKey(namespace, "repo", "main")
    store.open_journal(branch)
    fence = store.acquire_lease(LeaseKind.BRANCH, branch.id, "w", 60_000, "worker")
    assert fence is not None
    target = TargetRef(f"uid-{namespace}-live", namespace, "live")
    outcome = Outcome(f"o-{namespace}-{number}", OutcomeKind.PUSHED, branch, target, commit="c" * 40)
    assert store.settle(branch, fence, Settlement(outcome, ()))


def _stream(
    store: Store, places: OpenRequests, name: str = "shopper", namespace: str = "shop"
) -> OutcomeStream:
    places.enter(name)
    return OutcomeStream(
        store,
        kube(),
        caller=Caller(name),
        access=Access("list", "gittargets", namespace),
        after="0-0",
        places=places,
        seconds=30,
        clock=_Clock(),
    )


def _events(lines: Iterator[bytes]) -> list[dict[str, Any]]:
    text = b"".join(lines).decode()
    return [json.loads(part.split("data: ", 1)[1]) for part in text.split("\n\n") if part.startswith("id: ")]


def test_outcomes_as_events(rows: object, web: Store, places: OpenRequests) -> None:
    """Only those of the namespace that was asked for, each with its place."""
    _settled(web, "shop", 1)
    _settled(web, "depot", 2)

    found = _events(_stream(web, places))

    assert [(item["id"], item["kind"], item["namespace"]) for item in found] == [
        ("o-shop-1", "pushed", "shop")
    ]


def test_stream_ends_where_the_right_does(rows: object, web: Store, places: OpenRequests) -> None:
    """A caller who may not (any more) is told nothing."""
    _settled(web, "shop", 1)

    lines = list(_stream(web, places, "nobody"))

    assert b"event: end" in lines[-1]
    assert not _events(iter(lines))


def test_places_are_given_back(rows: object, web: Store, places: OpenRequests) -> None:
    """Also by a stream that nobody ever read from."""
    from rest_framework.exceptions import Throttled

    stream = _stream(web, places)
    with pytest.raises(Throttled):
        places.enter("shopper")

    stream.close()
    stream.close()

    places.enter("shopper")
    places.enter("other")
    with pytest.raises(Throttled):
        places.enter("third")


def test_events_over_http(rows: object) -> None:
    """The head of the answer, and refusals as problems."""
    answer = ask("events?namespace=shop", "shopper-token", headers={"Accept": "text/event-stream"})
    assert answer["Content-Type"] == "text/event-stream"
    assert next(iter(answer.streaming_content)).startswith(b"retry:")
    answer.close()

    refused = ask("events", "shopper-token", headers={"Accept": "text/event-stream"})
    odd = ask("events?namespace=shop", "shopper-token", headers={"Last-Event-ID": "x"})
    assert (refused.status_code, refused["Content-Type"]) == (403, PROBLEM)
    assert odd.status_code == 400


def test_head_of_events_takes_no_place(rows: object) -> None:
    """Whoever asks for the head only gets it at once."""
    answer = Client().head("/api/v1/events?namespace=shop", headers={"Authorization": "Bearer shopper-token"})

    assert (answer.status_code, answer["Content-Type"]) == (200, "text/event-stream")
    assert not OPEN._open


def test_no_more_streams_than_places(rows: object) -> None:
    """Beyond the bound a caller is told to come back; the streams that are open go on."""
    held = [ask("events?namespace=shop", "shopper-token") for _ in range(2)]
    try:
        refused = ask("events?namespace=shop", "shopper-token")

        assert (refused.status_code, refused["Content-Type"]) == (429, PROBLEM)
        assert int(refused["Retry-After"]) > 0
        assert next(iter(held[0].streaming_content)).startswith(b"retry:")
    finally:
        for answer in held:
            answer.close()
    assert not OPEN._open


def test_stream_ends_where_the_store_does(rows: object, web: Store, places: OpenRequests) -> None:
    """Redis goes away under an open stream: it ends in words, its place is free, the next one goes on."""
    _settled(web, "shop", 1)
    stream = _stream(web, places)
    assert b"retry" in next(stream)
    first = next(stream)
    place = first.decode().split("\n")[0].removeprefix("id: ")
    away = Store.connect("redis://127.0.0.1:1/0", deadline_s=0.2)
    stream._store = away

    last = list(stream)[-1]
    stream.close()
    away.close()

    assert last.startswith(b"event: end")
    _settled(web, "shop", 2)
    again = OutcomeStream(
        web,
        kube(),
        caller=Caller("shopper"),
        access=Access("list", "gittargets", "shop"),
        after=place,
        places=places,
        seconds=30,
        clock=_Clock(),
    )
    places.enter("shopper")
    assert [item["id"] for item in _events(again)] == ["o-shop-2"]
    again.close()
