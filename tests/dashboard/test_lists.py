"""The lists of the theme: what their headings count, what their filters find, what their columns say."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client

from reverser.history.models import Incident
from reverser.store import Store
from tests.dashboard import world

LISTS = ("targetstate", "commit", "saverequest", "incident")


@pytest.mark.parametrize("model", LISTS)
def test_show_all_only_where_something_is_hidden(viewer: Client, web: Store, model: str) -> None:
    """Without a search or a filter all is shown, and nothing offers to show more."""
    row = world.target()
    world.commit(1, row)
    world.request(row)
    world.incident(row)
    page = f"/admin/history/{model}/"

    assert b"Show all" not in viewer.get(page).content
    searched = viewer.get(page, {"q": "nothing-is-called-so"}).content.decode()
    filtered = viewer.get(page, {"namespace": "shop"}).content.decode()

    for found, count in ((searched, "0 results"), (filtered, "1 result")):
        heading = re.search(r"<h1.*?</h1>", found, re.DOTALL)
        assert heading is not None
        assert count in heading[0] and 'href="?">Show all' in heading[0]


def test_filters_of_commit_requests(viewer: Client, web: Store) -> None:
    """By outcome, those that wait included; by namespace; by time; by words of the message and names."""
    shop, depot = world.target(), world.target(namespace="depot")
    world.request(shop, "menu", message="menu for spring\n\nand more")
    world.request(shop, "open", outcome="", finished_at=None, submitter="")
    world.request(depot, "late", outcome="failed", requested_at=world.NOW - timedelta(days=3))
    everything = {"depot/late", "shop/menu", "shop/open"}

    def found(**query: str) -> set[str]:
        page = viewer.get("/admin/history/saverequest/", query)
        assert page.status_code == 200
        return {name for name in everything if f">{name}<" in page.content.decode()}

    assert found() == everything
    assert found(outcome="waiting") == {"shop/open"}
    assert found(outcome="pushed") == {"shop/menu"}
    assert found(outcome="failed") == {"depot/late"}
    assert found(outcome="refused") == set()
    assert found(namespace="depot") == {"depot/late"}
    assert found(requested_at_from_0=(world.NOW - timedelta(days=1)).strftime("%Y-%m-%d")) == {
        "shop/menu",
        "shop/open",
    }
    assert found(q="spring") == {"shop/menu"}
    assert found(q="bob") == {"shop/menu", "depot/late"}
    assert found(outcome="failed", namespace="shop") == set()


def test_filters_of_commits(viewer: Client, web: Store) -> None:
    """By namespace, by time, and by whether somebody asked for it; also together with a search."""
    shop, depot = world.target(), world.target(namespace="depot")
    noon = world.NOW.replace(hour=12, minute=0, second=0)
    world.commit(1, shop, request_uid="uid-of-a-request", pushed_at=noon)
    world.commit(2, shop, pushed_at=noon - timedelta(days=3))
    world.commit(3, depot, pushed_at=noon)

    def found(**query: str) -> set[str]:
        page = viewer.get("/admin/history/commit/", query)
        assert page.status_code == 200
        return set(re.findall(r"change number (\d)", page.content.decode()))

    yesterday = (noon - timedelta(days=1)).strftime("%Y-%m-%d")
    assert found() == {"1", "2", "3"}
    assert found(asked="yes") == {"1"}
    assert found(asked="no") == {"2", "3"}
    assert found(namespace="depot") == {"3"}
    assert found(pushed_at_from_0=yesterday) == {"1", "3"}
    assert found(pushed_at_to_0=yesterday) == {"2"}
    assert found(pushed_at_from_0=yesterday, pushed_at_to_0=noon.strftime("%Y-%m-%d")) == {"1", "3"}
    assert found(pushed_at_from_0=yesterday, pushed_at_from_1="00:00") == {"1", "3"}
    assert found(pushed_at_from_0="yesterday") == set(), "not everything, as if it were an answer"
    assert found(q="menu", namespace="shop", asked="no") == {"2"}


def test_filters_of_incidents(viewer: Client, web: Store) -> None:
    """By kind and namespace."""
    world.incident(world.target())
    world.incident(world.target(namespace="depot"))
    Incident.objects.filter(target_namespace="depot").update(kind="held")

    def found(**query: str) -> set[str]:
        page = viewer.get("/admin/history/incident/", query).content.decode()
        return {name for name in ("shop/live", "depot/live") if f">{name}<" in page}

    assert found(kind="held") == {"depot/live"}
    assert found(namespace="shop") == {"shop/live"}


def test_a_request_says_how_it_ended(viewer: Client, web: Store) -> None:
    """In words, with the window and its reason; while it waits its page renews itself, then no more."""
    row = world.target()
    asked = world.request(row, outcome="", finished_at=None, submitter="bob", message="why")
    page = f"/admin/history/saverequest/{asked.pk}/change/"
    waiting = viewer.get(page).content.decode()
    assert "waiting for its commit" in waiting and 'hx-trigger="every 5s"' in waiting
    assert viewer.get(page, headers={"HX-Request": "true"}).status_code == 200

    asked.outcome, asked.sha, asked.finished_at = "pushed", f"{7:040x}", world.NOW
    asked.save()
    early = viewer.get(page, headers={"HX-Request": "true"})
    assert early.status_code == 200, "the commit's row is still on its way"
    seen = world.NOW - timedelta(seconds=5)
    world.commit(7, row, request_uid=asked.uid, first_seen_at=seen, close_reason="finalize-signal")
    last = viewer.get(page, headers={"HX-Request": "true"})

    assert last.status_code == 286, "the status that ends the polling"
    assert "committed and pushed" in last.content.decode()
    assert "closed because a CommitRequest asked for it" in last.content.decode()
    assert "hx-trigger" not in viewer.get(page).content.decode().split('id="live"')[1].split(">")[0]
