"""The recorded traces: what they prove, that they can be made again, and how differences are told."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from reverser.lab import corpus
from reverser.lab.facts import FACTS, broken
from reverser.lab.normalise import normalise
from reverser.lab.scenarios import SCENARIOS

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = corpus.read(corpus.CORPUS)


def test_every_fact_holds_on_the_shipped_corpus() -> None:
    """H13: what attribution takes for granted is proved by a recorded scenario."""
    assert SHIPPED.keys() == {scenario.id for scenario in SCENARIOS}
    assert broken(SHIPPED) == []
    assert {fact.scenario for fact in FACTS} <= SHIPPED.keys()
    for fact in FACTS:
        assert (ROOT / fact.used_in).exists(), fact.used_in


def test_recording_again_changes_nothing(tmp_path: Path) -> None:
    """H13: a recording of the sandbox equals the shipped one, text for text."""
    names = ("update", "delete-held", "delete-collection", "rejected", "expired")
    only = [word for name in names for word in ("--only", name)]
    call_command("lab", "record", "--out", str(tmp_path), *only, stdout=io.StringIO())
    assert corpus.read(tmp_path) == {name: SHIPPED[name] for name in names}


def changed(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    traces = {name: copy.deepcopy(SHIPPED[name])}
    return traces, traces[name]


def test_differences_are_named() -> None:
    """A changed verb, order, body or fan-out is told in words, then line by line."""
    before = {"delete-collection": SHIPPED["delete-collection"]}
    after, trace = changed("delete-collection")
    (event,) = [event for event in trace["audit"] if event["verb"] == "deletecollection"]
    event["responseObject"]["items"].pop()
    lines = list(corpus.differences(before, after))
    assert "delete-collection: deletecollection lists 2 object(s), formerly 3" in lines
    assert "delete-collection: audit: the same events with other bodies" in lines
    assert broken(after) != []
    after, trace = changed("delete-collection")
    trace["watch"].reverse()
    assert "the same events in another order" in next(corpus.differences(before, after))
    after, trace = changed("delete-collection")
    trace["admission"].clear()
    assert "became nothing" in next(corpus.differences(before, after))
    assert list(corpus.differences(before, {})) == ["delete-collection: not recorded"]
    assert list(corpus.differences({}, before)) == ["delete-collection: new"]


def test_relations_survive_normalising() -> None:
    """Equal values stay equal, versions keep their order, and what differs from run to run is gone."""
    record = {
        "audit": [
            {"auditID": "x1", "metadata": {"uid": "u-9", "resourceVersion": "900", "namespace": "lab-1"}},
            {"auditID": "x2", "metadata": {"uid": "u-9", "resourceVersion": "1000", "managedFields": []}},
        ],
        "time": "at 2026-01-01T10:00:00.123Z in lab-1",
        "made": {"generateName": "gen-", "name": "gen-x7f2"},
        "path": "/api/gen-x7f2",
    }
    first, second = normalise(record, "lab-1")["audit"]
    assert first["metadata"] == {"uid": "<uid:1>", "resourceVersion": "<rv:1>", "namespace": "<namespace>"}
    assert second == {"auditID": "<auditID:2>", "metadata": {"uid": "<uid:1>", "resourceVersion": "<rv:2>"}}
    found = normalise(record, "lab-1")
    assert found["time"] == "at <time> in <namespace>"
    assert found["path"] == "/api/gen-<generated>"


def test_the_recorder_leaves_no_trace() -> None:
    """Who recorded, in which order fields came, and which versions were too old say nothing of a server."""

    def trace(recorder: str, current: int) -> dict[str, Any]:
        event = {
            "user": {"username": recorder, "groups": ["system:masters"]},
            "impersonatedUser": {"username": "alice"},
            "authenticationMetadata": {"impersonationConstraint": "impersonate:user-info"},
        }
        error = {"message": f"too old resource version: 1 ({current})"}
        return normalise({"watch": [{"type": "ERROR", "object": error}], "audit": [event]}, "lab-1")

    assert trace("admin", 20) == trace("root", 4711)
    assert trace("root", 1)["audit"] == [
        {"user": {"username": "<recorder>"}, "impersonatedUser": {"username": "alice"}}
    ]
    before, after = ({"x": {"watch": [], "audit": [event]}} for event in ({"a": 1, "b": 1}, {"b": 2, "a": 1}))
    changes = [line for line in corpus.differences(before, after) if line.startswith(("    -", "    +"))]
    assert [line.strip() for line in changes] == ["--- before", "+++ after", "-  b: 1", "+  b: 2"]


def test_commands(tmp_path: Path) -> None:
    """``diff`` and ``facts`` end well on the shipped corpus, and with a difference they do not."""
    out = io.StringIO()
    call_command("lab", "diff", str(corpus.CORPUS), stdout=out)
    call_command("lab", "facts", stdout=out)
    assert out.getvalue().startswith("no difference\nok")
    corpus.write({"create": SHIPPED["delete"]}, tmp_path)
    with pytest.raises(SystemExit):
        call_command("lab", "diff", str(tmp_path), stdout=io.StringIO())
    with pytest.raises(CommandError, match="holds no recording"):
        call_command("lab", "diff", str(tmp_path / "none"))
    with pytest.raises(CommandError, match="no such scenario"):
        call_command("lab", "record", "--out", str(tmp_path), "--only", "nonsense")
