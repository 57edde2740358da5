"""The admin in a real browser on a whole run: each page and each action, and what the action does in Git.

Nothing here is planted: the rows come from the pipeline, the remote is a repository on disk, and whatever a
person asks for is seen to happen there and on the page, which is never loaded anew to see it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reverser.kube.sync import Kube
from reverser.rest.peopleroles import plant
from reverser.supervision.gitview import GitView
from tests.browser import VIEWS, Visitor, running_chromium
from tests.e2e.audited import Installation
from tests.e2e.cluster import ROOT
from tests.e2e.operator import Operator
from tests.e2e.workspace import CONFIGMAPS, Workspace, until

PASSWORD = "correct horse battery"
PEOPLE = """
from django.contrib.auth.models import Group, User
for name, group in (("vera", "viewer"), ("olga", "operator")):
    user = User.objects.filter(username=name).first() or User(username=name, is_staff=True)
    user.set_password({password!r})
    user.save()
    user.groups.set([Group.objects.get(name=group)])
"""
PREFIX = "gitops-reverser:"
OLGA = f"{PREFIX}olga"
"""The operator, as the cluster knows her: with authors attributed she saves what she changed herself."""
SECONDS = 90.0
SERVICES = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"]}
CHART = {"charts/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n"}
FROZEN = """case "$1" in
refs/heads/env/frozen) echo "ask the platform team first" >&2; exit 1;;
esac"""


def staff(operator: Operator, kube: Kube) -> str:
    """A viewer and an operator with their rights in the cluster; the address of the admin."""
    code = PEOPLE.format(password=PASSWORD)
    subprocess.run(
        [sys.executable, "manage.py", "shell", "--verbosity", "0", "-c", code],
        cwd=ROOT,
        env=operator.environment,
        check=True,
    )
    plant(kube, PREFIX)
    return f"http://{operator.http}"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with running_chromium() as browser:
        yield browser


def target_page(visitor: Visitor, space: Workspace, name: str = "gt") -> None:
    """From the overview to a target, as a person goes."""
    visitor.go(f"/admin/?q={space.namespace}/{name}")
    visitor.see(f"#live a >> text={space.namespace}/{name}").click()
    visitor.see("h2 .gr-badge")


def state(visitor: Visitor, words: str) -> None:
    """Wait until the page says so by itself."""
    visitor.see(f".gr-head h2 >> text={words}")


def confirmed(visitor: Visitor, title: str, told: str, *, choice: str = "") -> None:
    """Press an action's button, confirm it, read what was told."""
    visitor.page.get_by_role("link", name=title, exact=False).first.click()
    visitor.see("form.gr-confirm")
    if choice:
        visitor.page.select_option("#type", choice)
    visitor.page.locator("form.gr-confirm button[type=submit]").click()
    visitor.see(f"text={told}")


def save(visitor: Visitor, message: str) -> None:
    """*Save now* with the keyboard alone."""
    visitor.press_to("a[href$='/do/save/']")
    visitor.page.keyboard.press("Enter")
    visitor.press_to("#message")
    visitor.page.keyboard.type(message)
    visitor.press_to("form.gr-confirm button[type=submit]")
    visitor.page.keyboard.press("Enter")
    visitor.see("text=was created")


def request_of(visitor: Visitor, message: str) -> Any:
    """The link to a request on the page of its target, once it is there."""
    return visitor.see(f'#live li:has-text("{message}") a[id^=request-]')


def pushed(space: Workspace, message: str) -> None:
    """Wait for the commit on the remote."""
    until(lambda: message in space.subjects(), f"the commit {message!r} is on the remote", SECONDS)


def refused(visitor: Visitor, path: str) -> None:
    """An action that is not offered is not done either, though the request is a good one."""
    token = visitor.page.locator("input[name=csrfmiddlewaretoken]").first.get_attribute("value")
    answer = visitor.page.request.post(
        visitor.url + path,
        form={"csrfmiddlewaretoken": token},
        headers={"Referer": visitor.url + "/admin/"},
    )
    assert answer.status == 403, path
    assert "CSRF" not in answer.text()


def test_save_now_from_the_overview(space: Workspace, operator: Operator, kube: Kube, chromium: Any) -> None:
    """A change waits in its window; an operator saves it by keyboard on a small screen, sees it arrive."""
    url = staff(operator, kube)
    space.base(window="300s")
    space.wait_ready()
    visitor = Visitor(chromium, url, "narrow")
    visitor.log_in("olga", PASSWORD)
    visitor.go(f"/admin/?q={space.namespace}")
    visitor.see(f"#live a >> text={space.namespace}/gt").focus()
    focused = visitor.page.evaluate("document.activeElement.id")
    space.configmap("menu", {"soup": "leek"})
    visitor.see("#live td >> text=Writing")
    assert visitor.page.evaluate("document.activeElement.id") == focused
    assert visitor.page.locator("[name=q]").input_value() == space.namespace
    visitor.page.keyboard.press("Enter")
    state(visitor, "Writing")
    visitor.see(f"li >> text=ConfigMap {space.namespace}/menu")
    save(visitor, "Menu for spring")
    pushed(space, "Menu for spring")
    visitor.see("#live >> text=Menu for spring")
    state(visitor, "Up to date")
    visitor.see("li .gr-badge >> text=pushed")
    visitor.picture("live-target")
    visitor.leave()


@dataclass
class Scene:
    """A run with three targets: one in order, one whose folder is refused, one whose branch is."""

    lab: Installation
    space: Workspace
    hook: Path
    url: str


@pytest.fixture
def scene(lab: Installation, tmp_path: Path) -> Iterator[Scene]:
    space = Workspace(lab.kube, f"admin-{tmp_path.parent.name[-3:]}{tmp_path.name[-3:]}".lower(), tmp_path)
    try:
        space.base(window="300s", rules=[CONFIGMAPS, SERVICES])
        space.seed(CHART, branch="env/chart")
        hook = space.hook("update", FROZEN)
        space.target("chart", path="charts", branch="env/chart")
        space.rule(name="wr-chart", target="chart")
        space.target("frozen", path="frozen", branch="env/frozen")
        space.rule(name="wr-frozen", target="frozen")
        for target in ("chart", "frozen"):
            space.wait_streams(target)
        yield Scene(lab, space, hook, staff(lab.operator, lab.kube))
    finally:
        space.remove()


@pytest.mark.acceptance
@pytest.mark.timeout(600)
def test_every_page_and_action(scene: Scene, chromium: Any) -> None:
    """Overview, target, commits, diffs, requests, incidents, branches; save, check again, replay, wake."""
    space = scene.space
    scene.lab.person(OLGA).configmap(space, "menu", "1")
    _looks_on(scene, chromium)
    visitor = Visitor(chromium, scene.url)
    visitor.log_in("olga", PASSWORD)
    _saves(scene, visitor)
    _finds(scene, visitor)
    _replays(scene, visitor)
    _checks_again(scene, visitor)
    _wakes(scene, visitor)
    visitor.leave()
    _is_remembered(scene, chromium)
    for view in VIEWS:
        _pictures(scene, chromium, view)


def _looks_on(scene: Scene, chromium: Any) -> None:
    """A viewer sees every page and no action, and what is not offered is refused."""
    visitor = Visitor(chromium, scene.url)
    visitor.log_in("vera", PASSWORD)
    target_page(visitor, scene.space)
    assert visitor.page.locator(".gr-actions").count() == 0
    assert visitor.page.locator("a[href*='/do/']").count() == 0
    path = visitor.page.url.removeprefix(scene.url).removesuffix("change/")
    for action in ("save", "recheck", "replay"):
        refused(visitor, f"{path}do/{action}/")
    visitor.see("#branch").click()
    visitor.see("#live .gr-head")
    assert visitor.page.locator(".gr-actions").count() == 0
    refused(visitor, visitor.page.url.removeprefix(scene.url) + "wake/")
    visitor.leave()


def _saves(scene: Scene, visitor: Visitor) -> None:
    """The open window and its due time; the request, in the operator's name, to its end on its own page."""
    space = scene.space
    target_page(visitor, space)
    visitor.see(f"text=Open window of {OLGA}")
    save(visitor, "Menu for spring")
    request_of(visitor, "Menu for spring").click()
    state(visitor, "committed and pushed")
    facts = visitor.see(".gr-facts").inner_text()
    assert OLGA in facts and "closed because a CommitRequest asked for it" in facts
    visitor.picture("live-request")
    pushed(space, "Menu for spring")
    visitor.see(".gr-facts a.gr-mono").click()
    visitor.see("h3 >> text=Objects")
    visitor.see(f"#diff summary >> text=live/{space.namespace}/configmaps/menu.yaml")
    assert visitor.page.locator("#diff td.gr-add >> text=kind: ConfigMap").count() == 1
    visitor.picture("live-commit")
    visitor.page.locator("#diff-side").click()
    visitor.see("#diff table.gr-side")
    assert "kind: ConfigMap" in visitor.page.locator("#diff").inner_text()
    visitor.picture("live-commit-side")


def _finds(scene: Scene, visitor: Visitor) -> None:
    """Commits by words, object, author, namespace, time and request; requests by outcome and namespace."""
    space, page = scene.space, visitor.page
    scene.lab.person("bob").set(space, "menu", "2")
    target_page(visitor, space)
    visitor.see("text=Open window of bob")
    save(visitor, "Menu of somebody else")
    request_of(visitor, "Menu of somebody else").click()
    state(visitor, "nothing was committed: the open window holds the changes of another author")
    scene.lab.person(OLGA).set(space, "menu", "3")
    target_page(visitor, space)
    visitor.see(f"text=Open window of {OLGA}")
    save(visitor, "Menu for summer")
    pushed(space, "Menu for summer")
    assert "Menu of somebody else" not in space.subjects()

    def found(query: str, model: str = "commit") -> set[str]:
        visitor.go(f"/admin/history/{model}/?{query}")
        text = page.locator("#changelist").inner_text()
        return {season for season in ("spring", "summer") if f"Menu for {season}" in text}

    here = f"namespace={space.namespace}"
    until(lambda: found(here) == {"spring", "summer"}, "both commits are in the history", SECONDS)
    assert found(f"{here}&q=summer") == {"summer"}
    assert found(f"{here}&q=olga") == {"spring", "summer"}
    assert found(f"{here}&q=bob") == set()
    assert found(f"{here}&q=configmaps+menu") == {"spring", "summer"}
    assert found(f"{here}&q=services") == set()
    assert found(f"{here}&asked=yes") == {"spring", "summer"}
    assert found(f"{here}&asked=no") == set()
    assert found(f"{here}&pushed_at_from_0=2000-01-01") == {"spring", "summer"}
    assert found(f"{here}&pushed_at_to_0=2000-01-01") == set()
    assert found("namespace=elsewhere") == set()
    assert found(f"{here}&outcome=pushed", "saverequest") == {"spring", "summer"}
    assert found(f"{here}&outcome=waiting", "saverequest") == set()
    visitor.go("/admin/history/saverequest/")
    visitor.press_to("[x-on\\:click='filterOpen = true']")
    page.keyboard.press("Enter")
    visitor.see("#changelist-filter >> text=pushed").click()
    page.wait_for_url("**outcome=pushed*")
    visitor.see("h1 >> text=Show all")
    visitor.picture("live-requests")


def _replays(scene: Scene, visitor: Visitor) -> None:
    """A file that somebody deleted in Git is back after a replay: of one type, then of everything."""
    space = scene.space
    menu, till = space.file("menu"), space.file("till", "services")
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "till"}}
    scene.lab.person(OLGA).request(
        "POST", space.path("services"), {**service, "spec": {"ports": [{"port": 80}]}}
    )
    target_page(visitor, space)
    visitor.see(f"li >> text=Service {space.namespace}/till")
    save(visitor, "A till")
    pushed(space, "A till")
    space.seed({menu: None}, "a mistake")
    target_page(visitor, space)
    row = visitor.page.locator("tr", has=visitor.page.locator("td >> text=configmaps")).filter(
        has=visitor.page.locator("a >> text=replay")
    )
    row.locator("a >> text=replay").click()
    assert visitor.see("#type").input_value() == "configmaps"
    visitor.page.locator("form.gr-confirm button[type=submit]").click()
    visitor.see("text=1 stream(s) read the cluster again: configmaps.")
    space.in_git("menu", seconds=SECONDS)
    space.seed({menu: None, till: None}, "a larger mistake")
    confirmed(visitor, "Replay", "2 stream(s) read the cluster again")
    space.in_git("menu", seconds=SECONDS)
    space.in_git("till", resource="services", seconds=SECONDS)
    state(visitor, "Up to date")


def _checks_again(scene: Scene, visitor: Visitor) -> None:
    """A folder that was refused, and why; it is looked at again once somebody has put it in order."""
    target_page(visitor, scene.space, "chart")
    state(visitor, "Failing")
    visitor.see(".gr-head >> text=Git path refused at Chart.yaml")
    visitor.picture("live-refused")
    scene.space.seed(dict.fromkeys(CHART), "no chart here", branch="env/chart")
    confirmed(visitor, "Check folder again", "looked at again")
    state(visitor, "Up to date")
    path = scene.space.file("menu", root="charts")
    git = GitView(scene.space.repository, "env/chart")
    until(lambda: git.read(path), f"{path} is in Git", SECONDS)


def _wakes(scene: Scene, visitor: Visitor) -> None:
    """A branch that the remote refuses, in the remote's words; woken once the remote has changed its mind."""
    space = scene.space
    visitor.go("/admin/")
    visitor.see("#live tr.gr-failing >> text=ask the platform team first")
    visitor.picture("live-overview")
    visitor.go("/admin/branches/")
    visitor.see(f"a >> text={space.namespace}/gp/env/frozen").click()
    visitor.see(f"td >> text=ConfigMap {space.namespace}/menu")
    visitor.see("dt >> text=Next try")
    visitor.picture("live-branch")
    scene.hook.write_text("#!/bin/sh\n")
    confirmed(visitor, "Wake branch", "is due now")
    until(
        lambda: space.git._git("rev-parse", "-q", "--verify", "env/frozen").returncode == 0,
        "it is pushed",
        SECONDS,
    )
    visitor.see(".gr-head.gr-current >> text=Last push")


def _is_remembered(scene: Scene, chromium: Any) -> None:
    """Every action of the operator stands in the trail, with her name and what she was told."""
    password = (scene.lab.operator.state / "admin-password").read_text()
    visitor = Visitor(chromium, scene.url)
    visitor.log_in("admin", password)
    visitor.go("/admin/admin/logentry/")
    rows = visitor.page.locator("#result_list tbody tr").all_inner_texts()
    told = json.dumps([row for row in rows if "olga" in row])
    for title in ("Save now", "Replay", "Check folder again", "Wake branch"):
        assert f"{title}: " in told, title
    assert "vera" not in json.dumps(rows)
    visitor.picture("live-trail")
    visitor.leave()


def _pictures(scene: Scene, chromium: Any, view: str) -> None:
    """Every page as it is after all that, on this screen."""
    visitor = Visitor(chromium, scene.url, view)
    visitor.go("/admin/login/")
    visitor.picture("live-login")
    visitor.log_in("olga", PASSWORD)
    visitor.picture("live-overview")
    target_page(visitor, scene.space)
    visitor.picture("live-target")
    visitor.see("#live a[id^=commit-]").click()
    visitor.see("#diff summary")
    visitor.picture("live-commit")
    for name, path in {
        "targets": "/admin/history/targetstate/",
        "commits": "/admin/history/commit/",
        "requests": "/admin/history/saverequest/",
        "incidents": "/admin/history/incident/",
        "branches": "/admin/branches/",
        "api": "/api/docs/",
    }.items():
        visitor.go(path)
        visitor.page.wait_for_load_state("networkidle") if name == "api" else visitor.see("h1")
        visitor.picture(f"live-{name}")
    visitor.leave()
