"""Watch streams: how they begin, what they carry, how they end, and what can go wrong on demand."""

import time

import pytest

from reverser.sandbox.thread import SandboxServer
from tests.sandbox.client import Client, eventually
from tests.sandbox.test_objects import CMS, configmap

STREAMING = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
MERGE = "application/merge-patch+json"


def patch(admin: Client, value: str, name: str = "app") -> None:
    """Change a ConfigMap."""
    admin.ok("PATCH", f"{CMS}/{name}", {"data": {"k": value}}, content_type=MERGE)


def test_streaming_list(admin: Client) -> None:
    """Initial events, the end marker, then live events on the same connection."""
    admin.ok("POST", CMS, configmap())
    watch = admin.watch(CMS, STREAMING)
    first, marker = watch.wait(2)
    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "app")
    assert marker["type"] == "BOOKMARK"
    assert marker["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert marker["object"].keys() == {"kind", "apiVersion", "metadata"}
    patch(admin, "2")
    admin.ok("DELETE", f"{CMS}/app")
    assert [e["type"] for e in watch.wait(4)] == ["ADDED", "BOOKMARK", "MODIFIED", "DELETED"]
    assert int(watch.events[3]["object"]["metadata"]["resourceVersion"]) > int(
        watch.events[2]["object"]["metadata"]["resourceVersion"]
    )


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        (
            "sendInitialEvents=true",
            422,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "resourceVersionMatch=NotOlderThan",
            422,
            "forbidden for watch unless sendInitialEvents is provided",
        ),
        ("resourceVersion=abc", 500, 'Invalid value: "abc"'),
    ],
)
def test_refused_parameters(admin: Client, query: str, code: int, text: str) -> None:
    """Parameters that do not fit together are refused before the stream."""
    watch = admin.watch(CMS, query)
    assert watch.status == code
    assert text in watch.body["message"]


def test_resume(admin: Client, sandbox: SandboxServer) -> None:
    """A version resumes behind it; a compacted one is an ERROR with 410, then the end."""
    made = admin.ok("POST", CMS, configmap())["metadata"]["resourceVersion"]
    patch(admin, "2")
    patch(admin, "3")
    watch = admin.watch(CMS, f"resourceVersion={made}")
    assert [e["object"]["data"]["k"] for e in watch.wait(2)] == ["2", "3"]
    sandbox.faults.compact()
    eventually(lambda: sandbox.server.storage.bucket(("", "configmaps")).compacted > int(made), "compaction")
    late = admin.watch(CMS, f"resourceVersion={made}")
    late.wait_end()
    [event] = late.events
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    patch(admin, "4")
    assert watch.wait(3)[2]["object"]["data"]["k"] == "4"


def test_future_version_waits(admin: Client) -> None:
    """A version from the future opens and stays silent."""
    watch = admin.watch(CMS, "resourceVersion=99999999")
    assert watch.status == 200
    admin.ok("POST", CMS, configmap())
    other = admin.watch(CMS, "")
    other.wait(1)
    assert watch.events == []


def test_timeout(admin: Client) -> None:
    """`timeoutSeconds` ends the stream properly."""
    watch = admin.watch(CMS, "timeoutSeconds=1")
    watch.wait_end()
    assert not watch.broken


def test_selectors(admin: Client) -> None:
    """An object that comes to fit is ADDED, one that stops fitting is DELETED."""
    admin.ok("POST", CMS, configmap())
    watch = admin.watch(CMS, "labelSelector=a%3Db")
    for labels in ({"a": "b"}, {"a": "b", "c": "d"}, {"a": None}):
        admin.ok("PATCH", f"{CMS}/app", {"metadata": {"labels": labels}}, content_type=MERGE)
    assert [e["type"] for e in watch.wait(3)] == ["ADDED", "MODIFIED", "DELETED"]
    named = admin.watch(CMS, "fieldSelector=metadata.name%3Dother")
    admin.ok("POST", CMS, configmap("other"))
    assert named.wait(1)[0]["object"]["metadata"]["name"] == "other"


def test_bookmarks() -> None:
    """Bookmarks come at intervals, to those who asked, and can be dropped."""
    with SandboxServer(bookmark_interval=0.05) as server:
        admin = Client(server)
        asked, silent = admin.watch(CMS, "allowWatchBookmarks=true"), admin.watch(CMS, "")
        asked.wait(2)
        assert set(asked.types()) == {"BOOKMARK"}
        assert silent.events == []
        server.faults.drop_bookmarks = True
        admin.ok("POST", CMS, configmap("first"))
        time.sleep(0.2)
        admin.ok("POST", CMS, configmap("second"))
        asked.wait_for(lambda event: event["object"]["metadata"].get("name") == "second")
        assert asked.types()[-2:] == ["ADDED", "ADDED"], "no bookmark between them"


def test_dropped_watches(admin: Client, sandbox: SandboxServer) -> None:
    """Streams can be ended cleanly or torn down."""
    clean, torn = admin.watch(CMS, ""), admin.watch("/api/v1/secrets", "")
    sandbox.faults.drop_watches("configmaps")
    clean.wait_end()
    sandbox.faults.drop_watches("secrets", clean=False)
    torn.wait_end()
    assert (clean.broken, torn.broken) == (False, True)


def test_broken_lines(admin: Client, sandbox: SandboxServer) -> None:
    """A line can be cut in the middle, or be no JSON at all."""
    sandbox.faults.garble_next_line("configmaps")
    sandbox.faults.cut_next_line("configmaps")
    watch = admin.watch(CMS, "")
    admin.ok("POST", CMS, configmap())
    eventually(lambda: len(watch.events) >= 2, "the garbage")
    patch(admin, "2")
    watch.wait_end()
    assert watch.types() == ["GARBAGE", "ADDED"]
    assert watch.broken
    assert watch.raw[-1].startswith(b'{"type":"MODIFIED"')


def test_streaming_list_faults(admin: Client, sandbox: SandboxServer) -> None:
    """The end marker can be withheld, and streaming lists refused as old servers do."""
    sandbox.faults.withhold_end_marker = True
    admin.ok("POST", CMS, configmap())
    watch = admin.watch(CMS, STREAMING)
    patch(admin, "2")
    assert [e["type"] for e in watch.wait(2)] == ["ADDED", "MODIFIED"]
    sandbox.faults.refuse_streaming_lists = True
    refused = admin.watch(CMS, STREAMING)
    assert refused.status == 422
    assert "unless the WatchList feature gate is enabled" in refused.body["message"]


def test_tables(admin: Client) -> None:
    """A watch in table form sends the columns once."""
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    admin.ok("POST", CMS, configmap())
    watch = admin.watch(CMS, "", headers=accept)
    patch(admin, "2")
    first, second = watch.wait(2)
    assert first["object"]["kind"] == "Table"
    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    assert not second["object"]["columnDefinitions"]
    assert second["object"]["rows"][0]["cells"][0] == "app"


def test_slow_history() -> None:
    """A watch that history has left behind is told so when it resumes."""
    with SandboxServer(history_limit=10) as server:
        admin = Client(server)
        made = admin.ok("POST", CMS, configmap())["metadata"]["resourceVersion"]
        for number in range(40):
            patch(admin, str(number))
        late = admin.watch(CMS, f"resourceVersion={made}")
        late.wait_end()
        assert late.events[0]["object"]["code"] == 410
        assert late.events[0]["object"]["message"].startswith(f"too old resource version: {made} (")


def test_hanging_up(admin: Client, sandbox: SandboxServer) -> None:
    """A client that goes away leaves nothing behind."""
    watch = admin.watch(CMS, STREAMING)
    watch.wait(1)
    bucket = sandbox.server.storage.bucket(("", "configmaps"))
    assert len(bucket.listeners) == 1
    watch.close()
    eventually(lambda: not bucket.listeners, "the end of the stream")
