"""``manage.py save`` is a CommitRequest from a terminal."""

from __future__ import annotations

import threading
import time
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from reverser.errors import KubeUnavailable
from reverser.kube.paths import own_path
from reverser.kube.sync import Kube
from reverser.rest.saves import Wish, result_of
from reverser.store import Store
from reverser.wiring import kube

PATH = own_path("commitrequests", namespace="shop")


def _save(*arguments: str) -> str:
    out = StringIO()
    call_command("save", *arguments, stdout=out)
    return out.getvalue()


def _finish(client: Kube, message: str, condition: dict[str, str]) -> None:
    """End the request with this message, as a controller would, once it is there."""
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        for found in client.list(PATH).items:
            if found["spec"].get("message") == message:
                found["status"] = {
                    "conditions": [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
                }
                client.update_status(f"{PATH}/{found['metadata']['name']}", found)
                return
        time.sleep(0.05)


@pytest.mark.parametrize("arguments", [("shop/live",), ("live", "-n", "shop")])
def test_asks(web: Store, arguments: tuple[str, ...]) -> None:
    """Both ways to name a target."""
    told = _save(*arguments, "-m", "why", "--delay", "3")

    name = told.split()[1].removeprefix("shop/")
    made = kube().get(f"{PATH}/{name}")
    assert (made["spec"]["message"], made["spec"]["closeDelaySeconds"]) == ("why", 3)


@pytest.mark.parametrize(
    ("condition", "failure"),
    [
        ({"type": "Ready", "status": "True", "reason": "Committed", "message": "it is there"}, ""),
        (
            {"type": "Stalled", "status": "True", "reason": "FinalizeFailed", "message": "no"},
            "FinalizeFailed",
        ),
    ],
)
def test_waits_for_the_end(web: Store, condition: dict[str, str], failure: str) -> None:
    """Success is told, failure is the exit code."""
    message = f"wait for {condition['reason']}"
    ready = {**condition, "type": "Ready", "status": "False"}
    helper = threading.Thread(target=_finish, args=(kube(), message, condition))
    helper.start()
    try:
        if failure:
            with pytest.raises(CommandError):
                _save("shop/live", "-m", message, "--wait", "60")
        else:
            assert "Committed: it is there" in _save("shop/live", "-m", message, "--wait", "60")
    finally:
        helper.join()
    assert ready["status"] == "False"


@pytest.mark.parametrize(
    ("broken", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "not waited for any longer; it goes on"),
        (KubeUnavailable("the API server does not answer"), 1, "the request was made and it goes on"),
    ],
)
def test_waiting_that_breaks_off(
    web: Store, monkeypatch: pytest.MonkeyPatch, broken: BaseException, code: int, words: str
) -> None:
    """Ctrl-C, or a cluster that is away, ends the waiting and not the request, and the last words say so."""

    def wait(*_args: object, **_rest: object) -> None:
        raise broken

    monkeypatch.setattr("reverser.management.commands.save.follow", wait)

    with pytest.raises(CommandError, match=words) as ended:
        _save("shop/live", "-m", f"broken off with {code}", "--wait")

    assert ended.value.returncode == code
    made = [item for item in kube().list(PATH).items if item["spec"].get("message", "").endswith(f" {code}")]
    assert len(made) == 1 and made[0]["metadata"]["name"] in str(ended.value)


def test_does_not_wait_for_ever(web: Store) -> None:
    """It says how to look further."""
    with pytest.raises(CommandError, match="kubectl -n shop get commitrequest"):
        _save("shop/live", "-m", "nobody ends this", "--wait", "1")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("live",), "namespace/name"),
        (("shop/live", "-n", "depot"), "namespace/name"),
        (("shop/none",), "not"),
        (("shop/live", "-m", "x" * 1025), "1024"),
        (("shop/live", "-m", "a\x07"), "control"),
        (("shop/live", "--delay", "301"), "300"),
        (("shop/live", "--wait", "0"), "whole number"),
    ],
)
def test_refuses(web: Store, arguments: tuple[str, ...], word: str) -> None:
    """Unusable arguments end the command with a message that names what is wrong."""
    with pytest.raises(CommandError, match=word):
        _save(*arguments)


def test_long_names() -> None:
    """A generated name fits and is valid, however long the target's is."""
    name = Wish("shop", "a" * 199 + "." + "b" * 53).manifest()["metadata"]["name"]

    assert len(name) <= 253
    assert not result_of({"metadata": {"name": name}}).finished
