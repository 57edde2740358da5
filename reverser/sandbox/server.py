"""The HTTP face of the sandbox, and the one place where its parts are put together."""

import asyncio
import secrets
import ssl
import sys
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from reverser.errors import SettingsInvalid
from reverser.sandbox import bootstrap
from reverser.sandbox.admission import Admission
from reverser.sandbox.audit import AuditLog
from reverser.sandbox.authn import MASTERS, Tokens, User
from reverser.sandbox.config import SandboxConfig
from reverser.sandbox.faults import Faults, Rule
from reverser.sandbox.lifecycle import Lifecycle
from reverser.sandbox.persist import Journal
from reverser.sandbox.pipeline import Answer, Pipeline, Request
from reverser.sandbox.pki import Authority, kubeconfig, write_private
from reverser.sandbox.rbac import Authorizer
from reverser.sandbox.registry import Registry, Resource
from reverser.sandbox.represent import dumps, negotiated
from reverser.sandbox.resources import Resources
from reverser.sandbox.status import ApiError
from reverser.sandbox.storage import Event, Storage
from reverser.sandbox.surface import Surface
from reverser.sandbox.watch import CutStream, Stream, plan

Obj = dict[str, Any]

_MAX_BODY = 3 * 1024 * 1024
_FAULTS_PATH = "/sandbox/faults"
#: How long open streams may take to end when the server stops, in seconds.
_SHUTDOWN = 2.0


class ApiServer:
    """One sandbox API server on the running event loop."""

    def __init__(self, config: SandboxConfig) -> None:
        self.config = config
        self.storage = Storage(history_limit=config.history_limit)
        self.registry = Registry(definition_delay=config.definition_delay)
        self.faults = Faults()
        self.tokens = Tokens()
        self.audit = AuditLog(config.audit_webhooks, keep=config.audit_keep)
        self.record: list[Event] = []
        self.url = ""
        self._journal: Journal | None = None
        self._streams: set[Stream] = set()
        self._runner: web.ServerRunner | None = None
        self._listener: asyncio.Server | None = None
        self._admission = Admission(self.storage, self.registry)
        self._lifecycle = Lifecycle(self.storage, self.registry, finish_namespaces=config.finish_namespaces)
        self._lifecycle.close_watches = self._close_watches
        authorizer = Authorizer(self.storage)
        self._resources = Resources(
            self.storage,
            self._admission,
            self._lifecycle,
            tokens=self.tokens,
            authorizer=authorizer,
            audience=config.audience,
        )
        self._surface = Surface(self.storage, self.registry, self.faults)
        self.pipeline = Pipeline(
            registry=self.registry,
            tokens=self.tokens,
            authorizer=authorizer,
            resources=self._resources,
            surface=self._surface,
            audit=self.audit,
        )
        pki = config.state_dir / "pki" if config.state_dir is not None else None
        try:
            self.authority = Authority(pki)
        except OSError as error:
            raise SettingsInvalid(
                [f"the state directory {config.state_dir} cannot be used ({error.strerror}); choose another"]
            ) from error
        self.admin_token = self._admin_token()
        self.tokens.add(self.admin_token, User("admin", "admin-uid", (MASTERS,)))
        if config.token_file is not None:
            self.tokens.load(config.token_file)

    async def start(self) -> None:
        """Load the state, open the port, write the kubeconfig. Raises SettingsInvalid where that cannot
        work.
        """
        if self.config.state_dir is not None:
            self._journal = Journal(self.config.state_dir)
            self._journal.load(self.storage)
        await self.audit.start()
        if self.config.record:
            self.storage.on_event.append(self.record.append)
        bootstrap.seed(self.storage, self.registry, ca=self.authority.pair.cert)
        self._lifecycle.restore()
        self._resources.restore()
        loop = asyncio.get_running_loop()

        def compact() -> None:
            loop.call_soon_threadsafe(self.storage.compact)

        def drop(rule: Rule, clean: bool) -> None:
            loop.call_soon_threadsafe(self._drop, rule, clean)

        self.faults.on_compact, self.faults.on_drop = compact, drop
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN)
        await self._runner.setup()
        self._listener = await self._listen(server)
        host, port = self._listener.sockets[0].getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if self.config.tls else 'http'}://{shown}:{port}"
        if self.config.kubeconfig_out is not None:
            write_private(self.config.kubeconfig_out, self.kubeconfig(token=self.admin_token))

    async def _listen(self, server: web.Server) -> asyncio.Server:
        """Open the port that is asked for; where any will do, the one of the last start if it is free."""
        config, loop = self.config, asyncio.get_running_loop()
        memory = config.state_dir / "port" if config.state_dir is not None else None
        ports = [config.port]
        if not config.port and memory is not None and memory.exists():
            ports.insert(0, int(memory.read_text()))
        for port in ports:
            try:
                listener = await loop.create_server(server, config.host, port, ssl=self._tls(), backlog=1024)
                break
            except OSError as error:
                if port != ports[-1]:
                    continue
                await self.stop()
                raise SettingsInvalid(
                    [f"cannot listen on {config.host}:{port} ({error.strerror}); choose another port"]
                ) from error
        if memory is not None:
            write_private(memory, str(listener.sockets[0].getsockname()[1]).encode())
        return listener

    async def stop(self) -> None:
        """End all streams, close the port, send the last audit events."""
        for stream in list(self._streams):
            stream.end()
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._listener is not None and sys.version_info >= (3, 13):
            self._listener.abort_clients()  # whoever shakes hands still is not known to the runner
        await self._admission.stop()
        await self.audit.stop()
        self._release()

    def kubeconfig(self, *, token: str = "", user: str = "", groups: tuple[str, ...] = ()) -> bytes:
        """A kubeconfig for a token, or (with `user`) for a fresh client certificate."""
        client = self.authority.client(user, groups) if user else None
        ca = self.authority.pair.cert if self.config.tls else None
        return kubeconfig(server=self.url, ca=ca, token=token, client=client)

    def _release(self) -> None:
        if self._journal is not None:
            self._journal.close()

    def _admin_token(self) -> str:
        if self.config.admin_token:
            return self.config.admin_token
        if self.config.state_dir is None:
            return secrets.token_urlsafe(24)
        path: Path = self.config.state_dir / "pki" / "admin-token"
        if not path.exists():
            write_private(path, secrets.token_urlsafe(24).encode())
        return path.read_text().strip()

    def _tls(self) -> ssl.SSLContext | None:
        if not self.config.tls:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self.authority.pair.cert.decode())
        return _with_pair(context, self.authority)

    def _close_watches(self, resources: list[Resource]) -> None:
        closing = {(r.rtype.group, r.rtype.version, r.rtype.resource) for r in resources}
        for stream in list(self._streams):
            rtype = stream.resource.rtype
            if (rtype.group, rtype.version, rtype.resource) in closing:
                stream.end()

    def _drop(self, rule: Rule, clean: bool) -> None:
        for stream in list(self._streams):
            if rule.meets("GET", stream.target):
                stream.end(clean=clean)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = await _received(request)
        if raw.path == _FAULTS_PATH:
            return _response(self._fault_order(raw))
        delay = self.faults.delay_of(raw.method, raw.target)
        if delay:
            await asyncio.sleep(delay)
        fault = self.faults.take_answer(raw.method, raw.target)
        if fault is not None:
            return _response(_fault_answer(fault.code, fault.retry_after))
        answer = await self.pipeline.handle(raw)
        if answer.watch is None:
            return _response(answer)
        try:
            form = negotiated(raw.header("accept"))
            chosen = plan(answer.watch, form, self.faults, watch_list=self.config.watch_list)
        except ApiError as error:
            return _response(Answer(error.code, error.body()))
        stream = Stream(
            self.storage,
            self.faults,
            chosen,
            target=raw.target,
            bookmark_interval=self.config.bookmark_interval,
            watch_cache=self.config.watch_cache,
        )
        return await self._stream(request, stream, answer)

    async def _stream(self, request: web.BaseRequest, stream: Stream, answer: Answer) -> web.StreamResponse:
        response = web.StreamResponse(headers=dict(answer.headers))
        response.content_type = "application/json"
        response.enable_chunked_encoding()
        await response.prepare(request)
        self._streams.add(stream)
        try:
            await stream.run(response.write)
        except CutStream:
            if request.transport is not None:
                request.transport.abort()
            return response
        except ConnectionError:
            return response
        finally:
            self._streams.discard(stream)
        await response.write_eof()
        return response

    def _fault_order(self, request: Request) -> Answer:
        """`GET` shows the faults in force, `POST` carries out an order; for administrators only."""
        try:
            user = self.pipeline.identify(request)
        except ApiError as error:
            return Answer(error.code, error.body())
        if MASTERS not in user.groups:
            return Answer(
                403, ApiError(403, "Forbidden", f"forbidden: {_FAULTS_PATH} is for {MASTERS}").body()
            )
        if request.method == "GET":
            return Answer(200, self.faults.state())
        try:
            order = orjson.loads(request.body)
            if not isinstance(order, dict):
                raise ValueError("an order is an object")
            return Answer(200, self.faults.command(order))
        except ValueError as error:
            return Answer(400, ApiError(400, "BadRequest", str(error)).body())


def _with_pair(context: ssl.SSLContext, authority: Authority) -> ssl.SSLContext:
    """Load the serving certificate; the ssl module takes it from files only, so it passes through a private
    one.
    """
    import tempfile

    pair = authority.serving()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "serving.pem"
        write_private(path, pair.cert + pair.key)
        context.load_cert_chain(path)
    return context


async def _received(request: web.BaseRequest) -> Request:
    body = b""
    if request.can_read_body:
        body = await request.content.read(_MAX_BODY + 1)
        while len(body) <= _MAX_BODY and not request.content.at_eof():
            body += await request.content.read(_MAX_BODY + 1 - len(body))
    tls = request.transport.get_extra_info("ssl_object") if request.transport is not None else None
    query: dict[str, str] = {}
    for key, value in request.rel_url.query.items():
        query.setdefault(key, value)
    return Request(
        method=request.method,
        path=request.rel_url.raw_path,
        query_string=request.rel_url.raw_query_string,
        query=query,
        headers=tuple(request.headers.items()),
        body=body,
        client_cert=tls.getpeercert(binary_form=True) if tls is not None else None,
        peer=str(request.remote or "127.0.0.1"),
        host=request.host,
    )


def _response(answer: Answer) -> web.Response:
    body = dumps(answer.body) if isinstance(answer.body, dict) else answer.body.encode()
    response = web.Response(status=answer.code, body=body)
    for name, value in answer.headers:
        response.headers.add(name, value)
    response.headers["Content-Type"] = answer.content_type
    return response


def _fault_answer(code: int, retry_after: int | None) -> Answer:
    known = {
        401: ("Unauthorized", "Unauthorized"),
        403: ("Forbidden", "forbidden"),
        404: ("NotFound", "the server could not find the requested resource"),
        429: ("TooManyRequests", "too many requests, please try again later"),
        500: ("InternalError", "Internal error occurred: fault on demand"),
        503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    }
    reason, message = known.get(code, ("", "fault on demand"))
    details: Obj | None = {"retryAfterSeconds": retry_after} if retry_after is not None else None
    headers = (("Retry-After", str(retry_after)),) if retry_after is not None else ()
    return Answer(code, ApiError(code, reason, message, details=details).body(), headers=headers)
