"""From an HTTP request to an answer: who, what, allowed, done, and what the audit log hears of it."""

import time
import uuid
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from reverser.sandbox import authn
from reverser.sandbox.audit import AuditDraft, AuditLog, stamp, wanted
from reverser.sandbox.authn import Tokens, User
from reverser.sandbox.call import Call
from reverser.sandbox.causes import Cause
from reverser.sandbox.managed import manager_of
from reverser.sandbox.rbac import Action, Authorizer, Verdict
from reverser.sandbox.registry import Registry
from reverser.sandbox.represent import negotiated
from reverser.sandbox.requestinfo import RequestInfo, parse
from reverser.sandbox.resources import Resources
from reverser.sandbox.status import ApiError, PageNotFound, forbidden, invalid
from reverser.sandbox.surface import Surface

Obj = dict[str, Any]
_TRUE = ("1", "true", "True")


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request, free of the library that received it. `path` is still percent-encoded."""

    method: str
    path: str
    query_string: str
    query: dict[str, str]
    headers: tuple[tuple[str, str], ...]
    body: bytes
    client_cert: bytes | None
    peer: str
    host: str

    def header(self, name: str) -> str:
        """The first header of a name (lower case), or an empty string."""
        return next((v for k, v in self.headers if k.lower() == name), "")

    @property
    def target(self) -> str:
        """Path and query, as sent."""
        return f"{self.path}?{self.query_string}" if self.query_string else self.path


@dataclass(slots=True)
class Answer:
    """What to send back; `watch` is set instead of a body where the answer is a stream."""

    code: int
    body: Obj | str
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    watch: Call | None = None


class Pipeline:
    """Handles requests."""

    def __init__(
        self,
        *,
        registry: Registry,
        tokens: Tokens,
        authorizer: Authorizer,
        resources: Resources,
        surface: Surface,
        audit: AuditLog,
    ) -> None:
        self._registry = registry
        self._tokens = tokens
        self._authorizer = authorizer
        self._resources = resources
        self._surface = surface
        self._audit = audit

    def identify(self, request: Request) -> User:
        """The authenticated user, before impersonation. Raises 401."""
        return authn.authenticate(self._tokens, request.header("authorization"), request.client_cert)

    async def handle(self, request: Request) -> Answer:
        """The answer to a request; never raises for what a client did wrong."""
        received = time.time()
        audit_id = request.header("audit-id") or str(uuid.uuid4())
        watching = request.query.get("watch", "") in _TRUE
        info = parse(request.method, request.path, watch=watching)
        record = _Record(received, audit_id, info)
        try:
            answer = await self._serve(request, info, record)
        except ApiError as error:
            answer = Answer(error.code, error.body(), headers=tuple(error.headers.items()))
        except PageNotFound:
            answer = Answer(404, "404 page not found\n", "text/plain; charset=utf-8")
        if record.user is not None and wanted(info.verb, info.group, info.resource):
            self._audit.add(record.event(request, answer))
        answer.headers = (*answer.headers, ("Audit-Id", audit_id), ("Cache-Control", "no-cache, private"))
        answer.headers += tuple(("Warning", _warning(w)) for w in record.warnings)
        return answer

    async def _serve(self, request: Request, info: RequestInfo, record: "_Record") -> Answer:
        real = self.identify(request)
        record.user = user = real
        assumed = authn.impersonation(request.headers)
        if assumed is not None:
            self._check_impersonation(real, assumed)
            record.impersonated, record.constraint = assumed.user, assumed.constraint
            user = assumed.user
        self._authorize(user, info, record)
        if not info.resource:
            return self._plain(request)
        self._surface.check_backend(info.group, info.version)
        resource = self._registry.find(info.group, info.version, info.resource)
        if resource is None and self._registry.is_builtin(info.group):
            raise ApiError(404, "NotFound", "the server could not find the requested resource", details={})
        if resource is None or (info.verb == "create" and resource.rtype.namespaced and not info.namespace):
            raise PageNotFound
        if info.namespace and not resource.rtype.namespaced and info.resource != "namespaces":
            raise PageNotFound
        if info.name and resource.rtype.namespaced and not info.namespace:
            raise PageNotFound
        self._registry.check_reachable(resource)
        call = Call(
            info=info,
            resource=resource,
            user=user,
            query=request.query,
            content_type=request.header("content-type").split(";")[0].strip(),
            body=request.body,
            manager=manager_of(request.query.get("fieldManager", ""), request.header("user-agent")),
            draft=record.draft,
            warnings=record.warnings,
        )
        dry_run = request.query.get("dryRun")
        if dry_run not in (None, "", "All"):
            cause = Cause(
                "dryRun",
                "FieldValueNotSupported",
                f'Unsupported value: ["{dry_run}"]: supported values: "All"',
            )
            options = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
            raise invalid("meta.k8s.io", options.get(info.verb, "DeleteOptions"), "", [cause])
        form = negotiated(request.header("accept"))
        if info.verb == "watch":
            return Answer(200, "", watch=call)
        code, body = await self._resources.serve(call, form)
        return Answer(code, body)

    def _plain(self, request: Request) -> Answer:
        if request.method not in ("GET", "HEAD"):
            raise PageNotFound
        content_type, body = self._surface.answer(request.path, request.header("accept"), request.host)
        return Answer(200, body, content_type)

    def _check_impersonation(self, real: User, assumed: authn.Impersonation) -> None:
        for group, resource, sub, name in assumed.checks:
            namespace = assumed.user.name.split(":")[2] if resource == "serviceaccounts" else ""
            action = Action(
                "impersonate", group=group, resource=resource, subresource=sub, namespace=namespace, name=name
            )
            if not self._authorizer.decide(real, action).allowed:
                raise forbidden(group, resource, name, action.describe(real.name))

    def _authorize(self, user: User, info: RequestInfo, record: "_Record") -> None:
        if info.resource:
            action = Action(
                info.verb,
                info.group,
                info.version,
                info.resource,
                info.subresource,
                info.namespace,
                info.name,
            )
        else:
            action = Action(info.verb, path=urlsplit(info.path).path)
        verdict = self._authorizer.decide(user, action)
        record.verdict = verdict
        if verdict.allowed:
            return
        why = action.describe(user.name)
        if info.resource:
            raise forbidden(info.group, info.resource, info.name, why)
        raise ApiError(403, "Forbidden", f"forbidden: {why}", details={})


class _Record:
    """What an audit event needs to know."""

    def __init__(self, received: float, audit_id: str, info: RequestInfo) -> None:
        self.received = received
        self.audit_id = audit_id
        self.info = info
        self.user: User | None = None
        self.impersonated: User | None = None
        self.constraint = ""
        self.verdict: Verdict | None = None
        self.draft = AuditDraft()
        self.warnings: list[str] = []

    def event(self, request: Request, answer: Answer) -> Obj:
        """The ResponseComplete event."""
        user = self.user.info() if self.user is not None else {}
        event: Obj = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "RequestResponse",
            "auditID": self.audit_id,
            "stage": "ResponseComplete",
            "requestURI": request.target,
            "verb": self.info.verb,
            "user": user,
        }
        if self.impersonated is not None:
            event["impersonatedUser"] = self.impersonated.info()
            event["authenticationMetadata"] = {"impersonationConstraint": self.constraint}
        event["sourceIPs"] = [request.peer]
        if request.header("user-agent"):
            event["userAgent"] = request.header("user-agent")
        event["objectRef"] = self._reference()
        body = answer.body
        if isinstance(body, dict) and body.get("kind") == "Status" and body.get("apiVersion") == "v1":
            event["responseStatus"] = {k: v for k, v in body.items() if k not in ("kind", "apiVersion")}
            event["responseStatus"]["code"] = answer.code
        else:
            event["responseStatus"] = {"metadata": {}, "code": answer.code}
        if self.draft.request_object is not None:
            event["requestObject"] = self.draft.request_object
        if isinstance(body, dict):
            event["responseObject"] = body
        event["requestReceivedTimestamp"] = stamp(self.received)
        event["stageTimestamp"] = stamp(time.time())
        if self.verdict is not None:
            event["annotations"] = {
                "authorization.k8s.io/decision": "allow" if self.verdict.allowed else "forbid",
                "authorization.k8s.io/reason": self.verdict.reason,
            } | self.draft.annotations
        return event

    def _reference(self) -> Obj:
        info, draft = self.info, self.draft
        parts = {
            "resource": info.resource,
            "namespace": info.namespace,
            "name": info.name or draft.name,
            "uid": draft.uid,
            "apiGroup": info.group,
            "apiVersion": info.version,
            "resourceVersion": draft.resource_version,
            "subresource": info.subresource,
        }
        return {key: value for key, value in parts.items() if value}


def _warning(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'299 - "{quoted}"'
