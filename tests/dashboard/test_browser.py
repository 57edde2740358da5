"""The pages in a real browser: no script is refused, nothing overflows, the keyboard is enough.

Pictures of every page go to ``build/screens``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from reverser.store import Store
from reverser.store.model import BranchHealth, StreamState
from tests import needs
from tests.browser import VIEWS, Visitor, running_chromium
from tests.dashboard import world

PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with running_chromium() as browser:
        yield browser


@pytest.fixture
def pages(web: Store) -> dict[str, str]:
    """Targets in every state, and the address of every page."""
    user = world.person("olga", "operator", superuser=True)
    user.set_password(PASSWORD)
    user.save()
    fine = world.target()
    broken = world.target(
        "billing",
        branch="release",
        stalled="True",
        ready="False",
        reason="UnsupportedContent",
        message="Git path refused at billing/values.yaml: it is a Helm chart; choose an empty folder",
        conditions=world.conditions("False", Stalled="True"),
        streams_ready=2,
    )
    world.target("fresh", branch="next", ready="Unknown", reconciling="True", reason="Progressing")
    web.open_journal(world.key(broken))
    web.write_branch_health(
        world.key(broken),
        BranchHealth(False, "PushRejected", "protected branch", since_ms=web.time_ms(), attempts=3),
    )
    world.stream(web, fine)
    world.stream(web, broken, StreamState.BLOCKED)
    world.pending(web, fine, b"{}")
    for number in range(1, 40):
        world.commit(number, fine)
    asked = world.request(fine, message="before the holidays")
    world.incident(broken)
    return {
        "overview": "/admin/",
        "target": f"/admin/history/targetstate/{fine.pk}/change/",
        "failing-target": f"/admin/history/targetstate/{broken.pk}/change/",
        "targets": "/admin/history/targetstate/",
        "commits": "/admin/history/commit/?q=menu",
        "commit": f"/admin/history/commit/{world.Commit.objects.order_by('id')[0].pk}/change/",
        "requests": "/admin/history/saverequest/",
        "request": f"/admin/history/saverequest/{asked.pk}/change/",
        "incidents": "/admin/history/incident/",
        "branches": "/admin/branches/",
        "branch": f"/admin/branches/{world.key(fine).id}/",
        "confirm": f"/admin/history/targetstate/{fine.pk}/do/save/",
        "api": "/api/docs/",
    }


def _open(chromium: Any, live_server: Any, view: str) -> Visitor:
    """The window of a person who has logged in."""
    visitor = Visitor(chromium, live_server.url, view)
    visitor.log_in("olga", PASSWORD)
    return visitor


# The narrow screen is where things break; the others are taken in the full run.
TAKEN = sorted(VIEWS) if needs.everything() else ["narrow"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("view", TAKEN)
def test_every_page(pages: dict[str, str], chromium: Any, live_server: Any, view: str) -> None:
    """Nothing is wider than the screen, no script is refused, no file is missing."""
    visitor = _open(chromium, live_server, view)
    for name, address in pages.items():
        visitor.go(address)
        visitor.page.wait_for_timeout(300)
        visitor.picture(name)
    visitor.leave()


def test_refresh_keeps_the_place(pages: dict[str, str], chromium: Any, live_server: Any, web: Store) -> None:
    """The page renews itself: what is new shows, filters, focus and scroll stay."""
    visitor = _open(chromium, live_server, "narrow")
    page = visitor.page
    visitor.go("/admin/?q=billing")
    link = page.locator("#live a.gr-strong").first
    link.focus()
    before = link.get_attribute("id")
    page.evaluate("window.scrollTo(0, 120)")
    at = page.evaluate("window.scrollY")
    page.evaluate("document.addEventListener('htmx:afterSettle', () => { window.renewed = true })")
    page.wait_for_function("window.renewed")

    assert page.evaluate("document.activeElement.id") == before
    assert page.evaluate("window.scrollY") == at
    assert page.locator("#live tbody tr").count() == 1
    visitor.leave()


def test_save_with_the_keyboard(pages: dict[str, str], chromium: Any, live_server: Any) -> None:
    """From the target to its confirmation and back, without a mouse."""
    visitor = _open(chromium, live_server, "wide")
    visitor.go(pages["target"])
    visitor.press_to("a[href$='/do/save/']")
    visitor.page.keyboard.press("Enter")
    visitor.press_to("#message")
    visitor.page.keyboard.type("from the keyboard")
    visitor.press_to("form.gr-confirm button[type=submit]")
    visitor.page.keyboard.press("Enter")

    visitor.see("text=was created")
    visitor.leave()


@pytest.mark.parametrize("view", ["wide", "narrow"])
def test_filter_with_the_keyboard(pages: dict[str, str], chromium: Any, live_server: Any, view: str) -> None:
    """What the theme opens by a click opens by a key, and the focus is in what has opened."""
    visitor = _open(chromium, live_server, view)
    visitor.go("/admin/history/commit/")
    visitor.press_to("[x-on\\:click='filterOpen = true']")
    visitor.page.keyboard.press("Enter")
    visitor.see("#changelist-filter :focus")
    visitor.press_to("#changelist-filter a[href='?asked=no']")
    visitor.page.keyboard.press("Enter")

    visitor.page.wait_for_url("**/commit/?asked=no")
    assert "39 results" in visitor.see("h1").inner_text()
    if view == "narrow":
        visitor.press_to("[aria-label=Menu]")
        visitor.page.keyboard.press("Enter")
        visitor.see("nav >> text=Branches")
    visitor.leave()


def test_a_page_that_cannot_renew_itself_says_so(
    pages: dict[str, str], chromium: Any, live_server: Any
) -> None:
    """What it shows may be old: a note stands above it until an answer comes again."""
    visitor = _open(chromium, live_server, "wide")
    page = visitor.page
    assert not page.locator(".gr-stale-note").is_visible()

    page.context.set_offline(True)
    visitor.see(".gr-stale-note")
    assert "may be old" in page.locator(".gr-stale-note").inner_text()
    assert page.locator("#live").evaluate("shown => getComputedStyle(shown).opacity") != "1"

    page.context.set_offline(False)
    page.locator(".gr-stale-note").wait_for(state="hidden")
    # The console is loud about an outage; that is no fault of the page.
    visitor.complaints.clear()
    visitor.leave()


def test_diff_is_loaded_on_demand(pages: dict[str, str], chromium: Any, live_server: Any) -> None:
    """Without the clone the page says where the diff is to be had."""
    visitor = _open(chromium, live_server, "wide")
    visitor.go(pages["commit"])

    visitor.see("#diff >> text=git show")
    visitor.leave()
