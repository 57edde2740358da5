"""The recorded traces: what they prove, that they can be made again, and how differences are told."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.core.management import CommandError, call_command

from reverser.errors import KubeInvalid
from reverser.kube.paths import core_path
from reverser.kube.sync import Kube
from reverser.lab import corpus
from reverser.lab.capabilities import Capabilities, Type, _aggregated, probe
from reverser.lab.facts import FACTS, broken, unproved
from reverser.lab.normalise import normalise
from reverser.lab.recorder import Receiver, record, served, skipped
from reverser.lab.scenarios import SCENARIOS
from reverser.quantities import parse_address
from reverser.sandbox.audit import AuditWebhook
from reverser.sandbox.thread import SandboxServer

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
    names = (
        "update",
        "field-managers",
        "delete-held",
        "delete-collection",
        "rejected",
        "expired",
        "two-versions",
        "aggregated",
    )
    only = [word for name in names for word in ("--only", name)]
    call_command("lab", "record", "--out", str(tmp_path), *only, stdout=io.StringIO())
    assert corpus.read(tmp_path) == {name: SHIPPED[name] for name in names}


def test_what_a_server_cannot_run_is_said(tmp_path: Path) -> None:
    """A scenario that is left out names what it needs, proves nothing, and is no difference to a server that
    has it."""
    scenario = next(one for one in SCENARIOS if one.id == "cascade-orphan")
    assert SHIPPED[scenario.id] == skipped(scenario)
    assert SHIPPED[scenario.id]["skipped"] == "garbage-collection"
    (fact,) = [one for one in FACTS if one.scenario == scenario.id]
    assert unproved(fact, SHIPPED)
    there = {scenario.id: {"id": scenario.id, "watch": [], "audit": [], "admission": []}}
    assert list(corpus.differences({scenario.id: SHIPPED[scenario.id]}, there)) == []
    assert list(corpus.one_sided(SHIPPED, there)) == [(scenario.id, "garbage-collection")]
    corpus.write({**SHIPPED, **there}, tmp_path)
    out = io.StringIO()
    with pytest.raises(SystemExit):  # the fact is judged now, and an empty trace does not prove it
        call_command("lab", "diff", str(tmp_path), stdout=out)
    assert "cascade-orphan: not compared, one of the two servers has no garbage-collection" in out.getvalue()
    assert f"does not hold: {fact.statement}" in out.getvalue()
    call_command("lab", "facts", stdout=out)
    assert "skip cascade-orphan" in out.getvalue()


@contextlib.contextmanager
def collecting(kubeconfig: str) -> Iterator[None]:
    """Somebody who deletes what has lost its owner, as the garbage collector does."""
    kube, ended = Kube.connect(kubeconfig), threading.Event()
    who = {
        "Impersonate-User": "system:serviceaccount:kube-system:generic-garbage-collector",
        "Impersonate-Group": "system:masters",
    }

    def collect() -> None:
        while not ended.wait(0.05):
            found = {obj["metadata"]["uid"]: obj for obj in kube.list("/api/v1/configmaps").items}
            for obj in found.values():
                owners = obj["metadata"].get("ownerReferences") or []
                if any(owner["uid"] not in found for owner in owners):
                    path = core_path(
                        "configmaps", namespace=obj["metadata"]["namespace"], name=obj["metadata"]["name"]
                    )
                    kube.raw("DELETE", path, headers=who)

    thread = threading.Thread(target=collect)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        kube.close()


async def test_a_cascade_is_recorded_where_there_is_a_collector() -> None:
    """R11: the probe finds one, and the trace proves that the child's deletion is the collector's."""
    receiver = Receiver()
    with served(receiver, parse_address("127.0.0.1:0")) as port:
        hook = AuditWebhook(f"http://127.0.0.1:{port}/audit-webhook", max_wait=0.1)
        with SandboxServer(audit_webhooks=(hook,)) as sandbox:
            kubeconfig = str(sandbox.kubeconfig_path)
            kube = Kube.connect(kubeconfig)
            assert await asyncio.to_thread(probe, kube, within=0.2) == Capabilities()
            with collecting(kubeconfig):
                found = await asyncio.to_thread(probe, kube)
                assert found == Capabilities(garbage_collection=True)
                traces = await record(
                    [one for one in SCENARIOS if one.id == "cascade-background"],
                    kubeconfig=kubeconfig,
                    receiver=receiver,
                    run="test",
                    tell=lambda text: None,
                    quiet=2.5,
                    capabilities=found,
                )
            kube.close()
    assert [event["type"] for event in traces["cascade-background"]["watch"]].count("DELETED") == 2
    assert broken(traces) == []


class AggregatingKube:
    """Answers like a server with two aggregated APIs; only one type of the second takes a bare object."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def list(self, path: str) -> Any:
        def service(group: str, status: str) -> dict[str, Any]:
            conditions = [{"type": "Available", "status": status}]
            spec = {"group": group, "version": "v1", "service": {"name": "x"}}
            return {"spec": spec, "status": {"conditions": conditions}}

        local = {"spec": {"group": "apps", "version": "v1"}}
        services = [
            local,
            service("down.test", "False"),
            service("a.test", "True"),
            service("b.test", "True"),
        ]
        return SimpleNamespace(items=services)

    def raw(self, method: str, path: str, **options: Any) -> bytes:
        self.asked.append(f"{method} {path}")
        if method == "GET":
            names = {"/apis/a.test/v1": ["metrics"], "/apis/b.test/v1": ["strict", "flunders", "flunders/x"]}
            verbs = ["list"] if "a.test" in path else ["create", "delete", "watch"]
            found = [
                {"name": name, "kind": name.title(), "namespaced": True, "verbs": verbs}
                for name in names[path]
            ]
            return json.dumps({"resources": found}).encode()
        if path.endswith("/strict"):
            raise KubeInvalid("spec is required")
        return b"{}"


def test_an_aggregated_type_is_found_by_trying() -> None:
    """C21: of the APIs that are up, the first type that a bare object can be made of, in a dry run."""
    kube = AggregatingKube()
    assert _aggregated(cast("Kube", kube), "lab-1") == Type("b.test", "v1", "flunders", "Flunders")
    assert kube.asked == [
        "GET /apis/a.test/v1",
        "GET /apis/b.test/v1",
        "POST /apis/b.test/v1/namespaces/lab-1/strict",
        "POST /apis/b.test/v1/namespaces/lab-1/flunders",
    ]


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
            "annotations": {"apiserver.latency.k8s.io/total": f"{current}ms"},
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
