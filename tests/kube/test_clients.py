"""Both clients over real HTTP on loopback: verbs, paging, deadlines, credentials, watches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from reverser.errors import (
    KubeGone,
    KubeNotFound,
    KubeThrottled,
    KubeUnauthenticated,
    KubeUnavailable,
    SettingsInvalid,
)
from reverser.kube.client import AsyncKube, Kube, KubeConfig, Patch
from reverser.sandbox.pki import Authority
from reverser.sandbox.thread import SandboxServer

from .conftest import ScriptedServer

Write = Callable[..., str]
CM = "/api/v1/configmaps"


def reply(value: Any, status: int = 200, **headers: str) -> web.Response:
    return web.json_response(value, status=status, headers=headers)


async def both(path: str, call: str, *args: Any, **kwargs: Any) -> list[Any]:
    """The results (or errors) of one call on the asynchronous and on the blocking client."""
    results: list[Any] = []
    kube = await AsyncKube.connect(path)
    sync = Kube.connect(path)
    try:
        for run in (
            lambda: getattr(kube, call)(*args, **kwargs),
            lambda: asyncio.to_thread(getattr(sync, call), *args, **kwargs),
        ):
            try:
                results.append(await run())
            except Exception as error:
                results.append(error)
    finally:
        await kube.close()
        sync.close()
    return results


async def test_verbs_send_what_they_say(server: ScriptedServer, kubeconfig: Write) -> None:
    """Method, path, content type and body of every verb, from both clients alike."""
    bodies: list[tuple[str, str, str, Any]] = []

    async def handler(request: web.Request) -> web.Response:
        text = await request.text()
        body = json.loads(text) if text else None
        bodies.append((request.method, request.path_qs, request.headers.get("Content-Type", ""), body))
        return reply({"ok": True})

    server.handler = handler
    path = kubeconfig(server.url, token="t0")
    await both(path, "create", CM, {"a": 1})
    await both(path, "update_status", f"{CM}/x", {"a": 2})
    await both(path, "patch", f"{CM}/x", [{"op": "test"}], kind=Patch.JSON, query={"fieldManager": "m"})
    await both(path, "delete", f"{CM}/x", uid="u1")
    assert bodies[0::2] == bodies[1::2]
    assert [(m, p, b) for m, p, _, b in bodies[0::2]] == [
        ("POST", CM, {"a": 1}),
        ("PUT", f"{CM}/x/status", {"a": 2}),
        ("PATCH", f"{CM}/x?fieldManager=m", [{"op": "test"}]),
        ("DELETE", f"{CM}/x", {"preconditions": {"uid": "u1"}}),
    ]
    assert bodies[4][2] == "application/json-patch+json"
    assert all(headers["Authorization"] == "Bearer t0" for _, _, headers in server.requests)


async def test_list_is_paged_and_starts_over_after_410(server: ScriptedServer, kubeconfig: Write) -> None:
    """E10: page 2 answers 410 once; the result is still the full set, with kinds filled in."""
    failed = []

    async def handler(request: web.Request) -> web.Response:
        token = request.query.get("continue")
        assert request.query["limit"] == "500"
        if token is None:
            first = {"resourceVersion": "7", "continue": "p2"}
            return reply(
                {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": first, "items": [{"n": 1}]}
            )
        if not failed:
            failed.append(1)
            return reply({"reason": "Expired", "code": 410}, 410)
        meta = {"resourceVersion": "7"}
        return reply({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": meta, "items": [{"n": 2}]})

    server.handler = handler
    path = kubeconfig(server.url)
    result = (await both(path, "list", CM))[0]
    assert result.items == [
        {"apiVersion": "v1", "kind": "ConfigMap", "n": 1},
        {"apiVersion": "v1", "kind": "ConfigMap", "n": 2},
    ]
    assert result.resource_version == "7"


async def test_errors_are_the_tree(server: ScriptedServer, kubeconfig: Write) -> None:
    """404 is an answer, 429 carries its delay; both clients agree."""
    path = kubeconfig(server.url)

    async def missing(request: web.Request) -> web.Response:
        return reply({"reason": "NotFound"}, 404)

    async def busy(request: web.Request) -> web.Response:
        return reply({}, 429, **{"Retry-After": "5"})

    server.handler = missing
    assert [type(error) for error in await both(path, "get", CM)] == [KubeNotFound] * 2
    server.handler = busy
    errors = await both(path, "get", CM)
    assert [type(error) for error in errors] == [KubeThrottled] * 2
    assert [error.retry_after for error in errors] == [5.0, 5.0]


async def test_a_rotated_token_file_is_read_again_after_one_401(
    server: ScriptedServer, kubeconfig: Write, tmp_path: Path
) -> None:
    """The token file changed, the server answers 401 once: the call succeeds with the new token."""
    token = tmp_path / "token"

    async def handler(request: web.Request) -> web.Response:
        good = request.headers["Authorization"] == "Bearer new"
        return reply({"ok": 1}) if good else reply({}, 401)

    server.handler = handler
    for make in (AsyncKube, Kube):
        token.write_text("old")
        config = KubeConfig.load(kubeconfig(server.url, tokenFile=str(token)))
        token.write_text("new")
        if make is AsyncKube:
            kube = AsyncKube(config)
            assert await kube.get(CM) == {"ok": 1}
            await kube.close()
        else:
            assert await asyncio.to_thread(Kube(config).get, CM) == {"ok": 1}


async def test_a_second_401_is_final(server: ScriptedServer, kubeconfig: Write) -> None:
    """Credentials are read again once per call, not for ever."""

    async def handler(request: web.Request) -> web.Response:
        return reply({}, 401)

    server.handler = handler
    errors = await both(kubeconfig(server.url, token="t"), "get", CM)
    assert [type(error) for error in errors] == [KubeUnauthenticated] * 2
    assert len(server.requests) == 4


async def test_every_call_has_a_deadline(server: ScriptedServer, kubeconfig: Write) -> None:
    """A server that accepts and stays silent costs the timeout, not more."""

    async def handler(request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return reply({})

    server.handler = handler
    errors = await both(kubeconfig(server.url), "get", CM, timeout=0.2)
    assert [type(error) for error in errors] == [KubeUnavailable] * 2


async def test_nobody_listens(kubeconfig: Write) -> None:
    """A refused connection is transient."""
    errors = await both(kubeconfig("http://127.0.0.1:1"), "get", CM)
    assert [type(error) for error in errors] == [KubeUnavailable] * 2


async def stream(request: web.Request, *chunks: bytes, abort: bool = False) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for chunk in chunks:
        await response.write(chunk)
        await asyncio.sleep(0.01)
    if abort:
        assert request.transport is not None
        request.transport.abort()
    return response


def line(kind: str, **fields: Any) -> bytes:
    return json.dumps({"type": kind, "object": fields}, ensure_ascii=False).encode() + b"\n"


async def test_a_watch_yields_whole_events_until_the_server_closes(
    server: ScriptedServer, kubeconfig: Write
) -> None:
    """A character cut across two writes and a 5 MB object arrive exactly; a clean close ends the iterator."""
    text = line("ADDED", a="é\u2028x")
    cut = text.index("é".encode()) + 1
    big = line("MODIFIED", a="x" * 5_000_000)

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.query["watch"] == "1"
        return await stream(request, text[:cut], text[cut:], big)

    server.handler = handler
    kube = await AsyncKube.connect(kubeconfig(server.url))
    async with await kube.watch(CM) as events:
        seen = [event async for event in events]
    await kube.close()
    assert [(event.type, len(event.object["a"])) for event in seen] == [("ADDED", 3), ("MODIFIED", 5_000_000)]
    assert seen[0].object["a"] == "é\u2028x"


@pytest.mark.parametrize("abort", [False, True])
async def test_a_stream_cut_inside_a_line_is_transient(
    server: ScriptedServer, kubeconfig: Write, abort: bool
) -> None:
    """The half line is dropped, the whole ones before it are kept, the error says to reopen."""

    async def handler(request: web.Request) -> web.StreamResponse:
        return await stream(request, line("ADDED", n=1), b'{"type": "ADD', abort=abort)

    server.handler = handler
    kube = await AsyncKube.connect(kubeconfig(server.url))
    seen = []
    with pytest.raises(KubeUnavailable):
        async with await kube.watch(CM) as events:
            async for event in events:
                seen.append(event.object)
    await kube.close()
    assert seen == [{"n": 1}]


async def test_silence_is_taken_for_death(server: ScriptedServer, kubeconfig: Write) -> None:
    """No byte within the silence limit: the watch ends as unavailable."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(30)
        return response

    server.handler = handler
    kube = await AsyncKube.connect(kubeconfig(server.url))
    with pytest.raises(KubeUnavailable):
        async with await kube.watch(CM, silence=0.2) as events:
            async for _ in events:
                pass
    await kube.close()


async def test_a_refused_watch_raises_when_it_is_opened(server: ScriptedServer, kubeconfig: Write) -> None:
    """410 by HTTP status is seen before any event."""

    async def handler(request: web.Request) -> web.StreamResponse:
        return reply({"reason": "Expired", "code": 410}, 410)

    server.handler = handler
    kube = await AsyncKube.connect(kubeconfig(server.url))
    with pytest.raises(KubeGone):
        await kube.watch(CM, {"resourceVersion": "1"})
    await kube.close()


@pytest.mark.parametrize(
    "content",
    [
        "a: [",
        "",
        "just text",
        "[]",
        "current-context: nowhere\ncontexts: []\nclusters: []\nusers: []\n",
        "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\nclusters: []\nusers: []\n",
    ],
)
def test_an_unusable_kubeconfig_stops_the_start(tmp_path: Path, content: str) -> None:
    """Not YAML, empty, no mapping, a missing context or cluster: one clear message with the file's name."""
    path = tmp_path / "broken"
    path.write_text(content)
    with pytest.raises(SettingsInvalid) as caught:
        KubeConfig.load(str(path))
    assert "broken" in str(caught.value)
    assert "KUBECONFIG" in str(caught.value)


def test_a_missing_kubeconfig_stops_the_start(tmp_path: Path) -> None:
    """A path that does not exist is named."""
    with pytest.raises(SettingsInvalid, match="nofile"):
        KubeConfig.load(str(tmp_path / "nofile"))


def test_impersonation_of_the_kubeconfig_is_kept(kubeconfig: Write) -> None:
    """``as`` limits who we are; it must reach the server."""
    config = KubeConfig.load(kubeconfig("http://127.0.0.1:1", token="t", **{"as": "ada", "as-groups": ["g"]}))
    assert config.headers()["Impersonate-User"] == "ada"
    assert config.headers()["Impersonate-Group"] == "g"


async def test_an_authority_that_is_replaced(tmp_path: Path) -> None:
    """The CA file changes under a running process: it is read again when a certificate is not accepted;
    while it is the wrong one, the message says what to look at.
    """
    with SandboxServer() as cluster:
        authority, path = tmp_path / "ca.crt", tmp_path / "kubeconfig"
        document = yaml.safe_load(cluster.kubeconfig_path.read_text())
        document["clusters"][0]["cluster"] = {"server": cluster.url, "certificate-authority": str(authority)}
        document["users"][0]["user"] = {"token": cluster.token}
        path.write_text(yaml.safe_dump(document))
        authority.write_bytes(Authority().pair.cert)
        kube, blocking = AsyncKube(KubeConfig.load(str(path))), Kube(KubeConfig.load(str(path)))
        for call in (kube.get("/api"), asyncio.to_thread(blocking.get, "/api")):
            with pytest.raises(KubeUnavailable, match="check the CA"):
                await call
        authority.write_bytes(cluster.ca_cert)
        assert (await kube.get("/api"))["kind"] == "APIVersions"
        assert (await asyncio.to_thread(blocking.get, "/api"))["kind"] == "APIVersions"
        await kube.close()
        blocking.close()
