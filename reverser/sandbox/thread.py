"""A sandbox in a background thread, for tests and for programs that are not asynchronous themselves."""

import asyncio
import tempfile
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from reverser.sandbox.audit import AuditWebhook
from reverser.sandbox.authn import User
from reverser.sandbox.config import SandboxConfig
from reverser.sandbox.faults import Faults
from reverser.sandbox.server import ApiServer
from reverser.sandbox.storage import Event

Obj = dict[str, Any]
T = TypeVar("T")
_DEADLINE = 30.0


class SandboxServer:
    """Starts with `start()` or `with`; all attributes are valid from then on.

    Everything but `faults` is read through the server's own loop, so what a test sees is consistent.
    """

    def __init__(
        self,
        state_dir: Path | None = None,
        *,
        port: int = 0,
        tls: bool = True,
        audit_webhooks: tuple[AuditWebhook, ...] = (),
        history_limit: int = 20_000,
        bookmark_interval: float = 60.0,
        watch_cache: bool = True,
        watch_list: bool = True,
        finish_namespaces: bool = False,
        definition_delay: float = 0.0,
        record: bool = True,
        audience: str = "https://kubernetes.default.svc.cluster.local",
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sandbox-")
        #: A kubeconfig of the administrator.
        self.kubeconfig_path = Path(self._folder.name) / "kubeconfig"
        self._config = SandboxConfig(
            port=port,
            tls=tls,
            state_dir=state_dir,
            kubeconfig_out=self.kubeconfig_path,
            audit_webhooks=audit_webhooks,
            history_limit=history_limit,
            bookmark_interval=bookmark_interval,
            watch_cache=watch_cache,
            watch_list=watch_list,
            finish_namespaces=finish_namespaces,
            definition_delay=definition_delay,
            record=record,
            audience=audience,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: ApiServer | None = None

    def start(self) -> Self:
        """Start serving. Raises SettingsInvalid where the port or the state directory cannot be used."""
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="sandbox", daemon=True)
        self._thread.start()
        try:
            self._server = self._run(self._started())
        except BaseException:
            self._end_loop()
            self._folder.cleanup()
            raise
        return self

    def stop(self) -> None:
        """End all streams and close the port; the state directory can be used again afterwards."""
        if self._server is not None:
            self._run(self._server.stop())
            self._server = None
        self._end_loop()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """`https://127.0.0.1:<port>`."""
        return self._api.url

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._api.url.rsplit(":", 1)[1])

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self._api.admin_token

    @property
    def ca_cert(self) -> bytes:
        """The certificate authority, PEM."""
        return self._api.authority.pair.cert

    @property
    def faults(self) -> Faults:
        """Faults on demand; methods may be called from any thread."""
        return self._api.faults

    @property
    def server(self) -> ApiServer:
        """The server itself; use `call` to touch it."""
        return self._api

    def add_user(self, token: str, name: str, *, groups: tuple[str, ...] = (), uid: str = "") -> None:
        """Let a bearer token stand for a user."""
        self.call(lambda: self._api.tokens.add(token, User(name, uid, groups)))

    def kubeconfig(self, *, token: str = "", user: str = "", groups: tuple[str, ...] = ()) -> bytes:
        """A kubeconfig for a token, or for a fresh client certificate of `user` in `groups`."""
        return self.call(lambda: self._api.kubeconfig(token=token, user=user, groups=groups))

    def store_record(self) -> list[Event]:
        """Every change of every object since the start, in the order of versions."""
        return self.call(lambda: list(self._api.record))

    def objects(self, group: str, resource: str) -> list[Obj]:
        """The stored objects of a resource now."""
        return self.call(lambda: self._api.storage.items((group, resource), None))

    def audit_events(self) -> list[Obj]:
        """The audit events so far."""
        return self.call(lambda: list(self._api.audit.events))

    def resource_version(self) -> int:
        """The newest resourceVersion."""
        return self.call(lambda: self._api.storage.rv)

    def call(self, action: Callable[[], T]) -> T:
        """Run a function on the server's loop and return its result."""

        async def run() -> T:
            return action()

        return self._run(run())

    @property
    def _api(self) -> ApiServer:
        if self._server is None:
            raise RuntimeError("the sandbox is not started; call start() or use it in a with statement")
        return self._server

    async def _started(self) -> ApiServer:
        server = ApiServer(self._config)
        await server.start()
        return server

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            raise RuntimeError("the sandbox is not started")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_DEADLINE)

    def _end_loop(self) -> None:
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_DEADLINE)
        self._loop.close()
        self._loop = self._thread = None
