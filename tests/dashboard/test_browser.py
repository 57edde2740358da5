"""The pages in a real browser: no script is refused, nothing overflows, the keyboard is enough.

Pictures of every page go to ``build/screens``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reverser.store import Store
from reverser.store.model import BranchHealth, StreamState
from tests import needs
from tests.dashboard import world

SCREENS = Path(__file__).resolve().parents[2] / "build" / "screens"
PASSWORD = "correct horse battery"
VIEWS = {
    "wide": {"viewport": {"width": 1366, "height": 850}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1366, "height": 850}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    found = needs.program("chromium")
    from playwright.sync_api import sync_playwright

    # The driver keeps an event loop in this thread, which Django would take for an asynchronous view.
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
            yield browser
            browser.close()
    finally:
        if before is None:
            del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
        else:
            os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = before


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


def _open(chromium: Any, live_server: Any, view: str) -> tuple[Any, list[str]]:
    """A page of a person who has logged in, and what its console complains of."""
    context = chromium.new_context(**VIEWS[view])
    page = context.new_page()
    page.set_default_timeout(30_000)
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{live_server.url}/admin/login/")
    page.fill("[name=username]", "olga")
    page.fill("[name=password]", PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_selector("#headline")
    return page, complaints


# The narrow screen is where things break; the others are taken in the full run.
TAKEN = sorted(VIEWS) if needs.everything() else ["narrow"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("view", TAKEN)
def test_every_page(pages: dict[str, str], chromium: Any, live_server: Any, view: str) -> None:
    """Nothing is wider than the screen, no script is refused, no file is missing."""
    SCREENS.mkdir(parents=True, exist_ok=True)
    page, complaints = _open(chromium, live_server, view)
    for name, address in pages.items():
        page.goto(live_server.url + address, wait_until="load")
        page.wait_for_timeout(300)
        page.screenshot(path=str(SCREENS / f"{name}-{view}.png"), full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= VIEWS[view]["viewport"]["width"], name
    assert complaints == []
    page.context.close()


def test_refresh_keeps_the_place(pages: dict[str, str], chromium: Any, live_server: Any, web: Store) -> None:
    """The page renews itself: what is new shows, filters, focus and scroll stay."""
    page, complaints = _open(chromium, live_server, "narrow")
    page.goto(f"{live_server.url}/admin/?q=billing")
    link = page.locator("#live a.gr-strong").first
    link.focus()
    before = link.get_attribute("id")
    page.evaluate("window.scrollTo(0, 120)")
    at = page.evaluate("window.scrollY")
    with page.expect_response(
        lambda answer: answer.request.headers.get("hx-request") == "true", timeout=30_000
    ):
        pass
    page.wait_for_timeout(500)

    assert page.evaluate("document.activeElement.id") == before
    assert page.evaluate("window.scrollY") == at
    assert page.locator("#live tbody tr").count() == 1
    assert complaints == []
    page.context.close()


def test_save_with_the_keyboard(pages: dict[str, str], chromium: Any, live_server: Any) -> None:
    """From the target to its confirmation and back, without a mouse."""
    page, complaints = _open(chromium, live_server, "wide")
    page.goto(live_server.url + pages["target"])
    page.get_by_role("link", name=re.compile("Save now")).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#message:focus")
    page.keyboard.type("from the keyboard")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    page.wait_for_selector("text=was created")
    assert complaints == []
    page.context.close()


def test_diff_is_loaded_on_demand(pages: dict[str, str], chromium: Any, live_server: Any) -> None:
    """Without the clone the page says where the diff is to be had."""
    page, complaints = _open(chromium, live_server, "wide")
    page.goto(live_server.url + pages["commit"])

    page.wait_for_selector("#diff >> text=git show")
    assert complaints == []
    page.context.close()
