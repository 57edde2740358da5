"""A real browser for tests: Debian's chromium, and pages that remember everything that went wrong on them.

Pictures go to ``build/screens``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import needs

SCREENS = Path(__file__).resolve().parents[1] / "build" / "screens"
DEADLINE_MS = 90_000
VIEWS = {
    "wide": {"viewport": {"width": 1366, "height": 850}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1366, "height": 850}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
}


@contextmanager
def running_chromium() -> Iterator[Any]:
    """The browser; the test is skipped where the package is missing."""
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


class Visitor:
    """One person's browser window.

    ``complaints`` collects what a page must not have: errors of scripts and of the console (a violated
    Content-Security-Policy is one), answers of 400 and above, requests that failed. A request that the next
    page cut short is none.
    """

    def __init__(self, browser: Any, url: str, view: str = "wide") -> None:
        self.url = url
        self.view = view
        self._context = browser.new_context(**VIEWS[view])
        self.page = self._context.new_page()
        self.page.set_default_timeout(DEADLINE_MS)
        self.complaints: list[str] = []
        self.page.on("console", lambda said: self._complain(said.text, said.type == "error"))
        self.page.on("pageerror", lambda error: self._complain(str(error)))
        self.page.on(
            "response", lambda answer: self._complain(f"{answer.status} {answer.url}", answer.status >= 400)
        )
        self.page.on(
            "requestfailed",
            lambda asked: self._complain(f"{asked.failure} {asked.url}", asked.failure != "net::ERR_ABORTED"),
        )

    def _complain(self, text: str, wrong: bool = True) -> None:
        if wrong:
            self.complaints.append(text)

    def log_in(self, name: str, password: str) -> None:
        """To the overview."""
        self.go("/admin/login/?next=/admin/")
        self.page.fill("[name=username]", name)
        self.page.fill("[name=password]", password)
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector("#headline")

    def go(self, path: str) -> None:
        """Open a page by its address."""
        self.page.goto(self.url + path, wait_until="load")

    def see(self, selector: str) -> Any:
        """Wait for something to be visible; what it is. Raises AssertionError with what is seen instead."""
        from playwright.sync_api import TimeoutError as Late

        found = self.page.locator(f"{selector} >> visible=true").first
        try:
            found.wait_for(state="visible")
        except Late as error:
            SCREENS.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=str(SCREENS / f"missed-{self.view}.png"), full_page=True)
            text = self.page.locator("body").inner_text()[:3000]
            raise AssertionError(f"{selector} is not seen at {self.page.url}:\n{text}") from error
        return found

    def press_to(self, selector: str) -> None:
        """Move the focus with the tabulator until it is on such an element. Raises AssertionError."""
        self.see(selector)
        for _ in range(120):
            if self.page.evaluate("wanted => document.activeElement.matches(wanted)", selector):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"the tabulator does not reach {selector}")

    def picture(self, name: str) -> None:
        """Keep the whole page as it looks, and hold it against the width of the screen."""
        SCREENS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(SCREENS / f"{name}-{self.view}.png"), full_page=True)
        width = self.page.evaluate("document.documentElement.scrollWidth")
        assert width <= VIEWS[self.view]["viewport"]["width"], f"{name} is wider than the screen: {width}"  # type: ignore[index]

    def leave(self) -> None:
        """Close the window; nothing may have gone wrong in it."""
        self._context.close()
        assert self.complaints == []
