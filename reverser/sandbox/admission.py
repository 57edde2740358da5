"""Validating webhooks: which ones a write meets, and what they answer.

Only `clientConfig.url` is called (a sandbox has no Services to route to; a Service reference counts as a
failed call, so the failure policy decides). Mutating webhooks are stored but not called.
"""

import asyncio
import base64
import ssl
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from reverser.sandbox.authn import User
from reverser.sandbox.registry import Registry, Resource
from reverser.sandbox.selectors import label_selector_object
from reverser.sandbox.status import ApiError, internal
from reverser.sandbox.storage import Storage

Obj = dict[str, Any]
_CONFIGS = ("admissionregistration.k8s.io", "validatingwebhookconfigurations")
_EXEMPT = frozenset({"validatingwebhookconfigurations", "mutatingwebhookconfigurations"})


@dataclass(frozen=True, slots=True)
class Review:
    """One write about to happen; `name` is empty for each object of a collection delete."""

    operation: str
    resource: Resource
    subresource: str
    namespace: str
    name: str
    user: User
    obj: Obj | None
    old: Obj | None
    dry_run: bool
    options: Obj


@dataclass(slots=True)
class Outcome:
    """What webhooks added to an allowed request."""

    annotations: dict[str, str]
    warnings: list[str]


class Admission:
    """Calls the webhooks of the stored configurations."""

    def __init__(self, storage: Storage, registry: Registry) -> None:
        self._storage = storage
        self._registry = registry
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def stop(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def concerns(self, resource: Resource) -> bool:
        """Whether any webhook may have to be asked; cheap."""
        return bool(self._storage.bucket(_CONFIGS).objects) and resource.rtype.resource not in _EXEMPT

    async def validate(self, review: Review) -> Outcome:
        """Ask every webhook that the write meets. Raises ApiError where one refuses or must not fail."""
        outcome = Outcome({}, [])
        for webhook, resource in self._matching(review):
            await self._ask(webhook, resource, review, outcome)
        return outcome

    def _matching(self, review: Review) -> Iterator[tuple[Obj, Resource]]:
        for config in self._storage.items(_CONFIGS, None):
            for webhook in config.get("webhooks") or []:
                resource = self._matched_version(webhook, review)
                if resource is not None and self._selected(webhook, review):
                    yield webhook, resource

    def _matched_version(self, webhook: Obj, review: Review) -> Resource | None:
        candidates = [review.resource]
        if webhook.get("matchPolicy", "Equivalent") == "Equivalent":
            rtype = review.resource.rtype
            for other in self._registry.types():
                if (other.group, other.resource) == (rtype.group, rtype.resource) and other != rtype:
                    found = self._registry.find(other.group, other.version, other.resource)
                    candidates += [found] if found is not None else []
        for candidate in candidates:
            if any(_rule_meets(rule, candidate, review) for rule in webhook.get("rules") or []):
                return candidate
        return None

    def _selected(self, webhook: Obj, review: Review) -> bool:
        selector = webhook.get("namespaceSelector")
        if selector and review.namespace:
            namespace = self._storage.get(("", "namespaces"), "", review.namespace)
            labels = (namespace or {"metadata": {}})["metadata"].get("labels") or {}
            if not label_selector_object(selector)(labels):
                return False
        selector = webhook.get("objectSelector")
        if selector:
            matches = label_selector_object(selector)
            objects = [o for o in (review.obj, review.old) if o is not None]
            return any(matches(o["metadata"].get("labels") or {}) for o in objects)
        return True

    async def _ask(self, webhook: Obj, resource: Resource, review: Review, outcome: Outcome) -> None:
        name = webhook["name"]
        uid = str(uuid.uuid4())
        try:
            answer = await self._call(webhook, _request(uid, resource, review))
            response = answer.get("response") if isinstance(answer, dict) else None
            if not isinstance(response, dict) or response.get("uid") != uid:
                raise ValueError(f'expected response.uid="{uid}"')
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            if webhook.get("failurePolicy", "Fail") == "Ignore":
                outcome.annotations[f"failed-open.validating.webhook.admission.k8s.io/{name}"] = name
                return
            text = f'failed calling webhook "{name}": failed to call webhook: {error or type(error).__name__}'
            raise internal(text) from error
        for key, value in (response.get("auditAnnotations") or {}).items():
            outcome.annotations[f"{name}/{key}"] = str(value)
        outcome.warnings += [str(w) for w in response.get("warnings") or []]
        if not response.get("allowed"):
            raise _denied(name, response.get("status") or response.get("result") or {})

    async def _call(self, webhook: Obj, review: Obj) -> Any:
        client = webhook.get("clientConfig") or {}
        if not client.get("url"):
            raise ValueError("no clientConfig.url; the sandbox does not route to Services")
        timeout = webhook.get("timeoutSeconds") or 10
        if self._session is None:
            self._session = aiohttp.ClientSession()
        url = f"{client['url']}{'&' if '?' in client['url'] else '?'}timeout={timeout}s"
        async with asyncio.timeout(timeout):
            async with self._session.post(
                url,
                data=orjson.dumps(review),
                headers={"Content-Type": "application/json", "Accept": "application/json, */*"},
                ssl=self._context(client.get("caBundle") or ""),
            ) as response:
                body = await response.read()
                if response.status != 200:
                    raise ValueError(f"the server answered {response.status}")
                return orjson.loads(body)

    def _context(self, bundle: str) -> ssl.SSLContext:
        found = self._contexts.get(bundle)
        if found is None:
            pem = base64.b64decode(bundle).decode() if bundle else None
            found = self._contexts[bundle] = ssl.create_default_context(cadata=pem)
        return found


def _request(uid: str, resource: Resource, review: Review) -> Obj:
    asked, matched = review.resource.rtype, resource.rtype
    request: Obj = {
        "uid": uid,
        "kind": {"group": matched.group, "version": matched.version, "kind": matched.kind},
        "resource": {"group": matched.group, "version": matched.version, "resource": matched.resource},
    }
    if review.subresource:
        request["subResource"] = review.subresource
    request["requestKind"] = {"group": asked.group, "version": asked.version, "kind": asked.kind}
    request["requestResource"] = {"group": asked.group, "version": asked.version, "resource": asked.resource}
    if review.subresource:
        request["requestSubResource"] = review.subresource
    if review.name:
        request["name"] = review.name
    if review.namespace:
        request["namespace"] = review.namespace
    request |= {
        "operation": review.operation,
        "userInfo": review.user.info(),
        "object": resource.view(review.obj) if review.obj is not None else None,
        "oldObject": resource.view(review.old) if review.old is not None else None,
        "dryRun": review.dry_run,
        "options": review.options,
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _rule_meets(rule: Obj, resource: Resource, review: Review) -> bool:
    operations = rule.get("operations") or []
    rtype = resource.rtype
    if "*" not in operations and review.operation not in operations:
        return False
    if not _in(rule.get("apiGroups"), rtype.group) or not _in(rule.get("apiVersions"), rtype.version):
        return False
    scope = rule.get("scope") or "*"
    if scope not in ("*", "Namespaced" if rtype.namespaced else "Cluster"):
        return False
    return any(
        _resource_meets(pattern, rtype.resource, review.subresource)
        for pattern in rule.get("resources") or []
    )


def _resource_meets(pattern: str, resource: str, subresource: str) -> bool:
    """`pods` and `*` mean no subresource, `pods/*` every subresource of pods, `*/*` everything."""
    if pattern == "*/*":
        return True
    main, slash, sub = pattern.partition("/")
    if main not in ("*", resource):
        return False
    return sub in ("*", subresource) if slash and subresource else not slash and not subresource


def _in(patterns: list[str] | None, value: str) -> bool:
    return "*" in (patterns or []) or value in (patterns or [])


def _denied(webhook: str, status: Obj) -> ApiError:
    why = f'admission webhook "{webhook}" denied the request'
    text = status.get("message") or status.get("reason")
    message = f"{why}: {text}" if text else f"{why} without explanation"
    code = max(int(status.get("code") or 0), 400)
    return ApiError(code, str(status.get("reason") or ""), message, details=status.get("details"))
