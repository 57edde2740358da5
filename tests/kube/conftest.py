"""A scripted HTTP server on loopback that plays the API server, and kubeconfigs that point at it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml
from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ScriptedServer:
    """Answers every request with ``handler``; remembers what was asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.handler: Handler | None = None
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path_qs, dict(request.headers)))
        assert self.handler is not None
        return await self.handler(request)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    scripted = ScriptedServer()
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{tail:.*}", scripted.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    scripted.url = f"http://127.0.0.1:{port}"
    yield scripted
    await runner.cleanup()


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Callable[..., str]:
    """Writes a kubeconfig for a server URL and returns its path; keywords are fields of the user."""

    def write(url: str, **user: object) -> str:
        path = tmp_path / "kubeconfig"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": user}],
        }
        path.write_text(yaml.safe_dump(document))
        return str(path)

    return write
