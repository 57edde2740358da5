"""The two questions to the cluster: whose token is this, and may they do that. Answers are cached briefly.

RBAC is the only policy: nothing here decides. Because of the cache a revoked permission or token stays valid
for at most ``KEEP_SECONDS``; a refusal is cached for less, so that a new grant takes effect soon. Tokens are
cached as digests only. Both caches are bounded.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from reverser.kinds.model import API_GROUP, API_VERSION
from reverser.kube.paths import resource_path
from reverser.kube.sync import Kube
from reverser.rest.identity import Caller

KEEP_SECONDS = 15.0
KEEP_REFUSED_SECONDS = 3.0
KEPT = 4096
DEADLINE_SECONDS = 5.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Access:
    """One thing that somebody wants to do with the project's own kinds."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""

    def describe(self) -> str:
        """For the message of a refusal."""
        where = f'in namespace "{self.namespace}"' if self.namespace else "in all namespaces"
        return f"{self.verb} {self.resource}.{API_GROUP} {where}"


class Kept(Generic[T]):
    """A bounded cache of answers, each with its own expiry."""

    def __init__(self, size: int = KEPT, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = size
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: OrderedDict[object, tuple[float, T]] = OrderedDict()

    def get(self, key: object) -> T | None:
        """A cached answer, or None."""
        with self._lock:
            found = self._answers.get(key)
            return found[1] if found is not None and self._clock() < found[0] else None

    def put(self, key: object, answer: T, seconds: float) -> T:
        """Cache an answer and return it."""
        with self._lock:
            self._answers[key] = (self._clock() + seconds, answer)
            self._answers.move_to_end(key)
            while len(self._answers) > self._size:
                self._answers.popitem(last=False)
        return answer

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._answers.clear()


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The review of a token; ``caller`` is None for an invalid one."""

    caller: Caller | None


TOKENS: Kept[Reviewed] = Kept()
ACCESS: Kept[bool] = Kept()


def review_token(kube: Kube, token: str) -> Caller | None:
    """Whose token it is; None = invalid. Raises the error tree's class when the cluster does not answer."""
    key = hashlib.sha256(token.encode()).digest()
    kept = TOKENS.get(key)
    if kept is not None:
        return kept.caller
    path = resource_path("authentication.k8s.io", "v1", "tokenreviews")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status = _status(kube.create(path, body, timeout=DEADLINE_SECONDS))
    caller = _caller(status.get("user")) if status.get("authenticated") is True else None
    return TOKENS.put(key, Reviewed(caller), KEEP_SECONDS if caller else KEEP_REFUSED_SECONDS).caller


def may(kube: Kube, caller: Caller, access: Access) -> bool:
    """Whether RBAC lets the caller do that. Raises as ``review_token`` does."""
    attributes = {
        "verb": access.verb,
        "group": API_GROUP,
        "version": API_VERSION,
        "resource": access.resource,
    }
    if access.namespace:
        attributes["namespace"] = access.namespace
    if access.name:
        attributes["name"] = access.name
    return _review(kube, caller, access, {"resourceAttributes": attributes})


def may_get(kube: Kube, caller: Caller, path: str) -> bool:
    """Whether RBAC lets the caller ``get`` a non-resource path. Raises as ``review_token`` does."""
    return _review(kube, caller, path, {"nonResourceAttributes": {"path": path, "verb": "get"}})


def _review(kube: Kube, caller: Caller, what: Access | str, attributes: dict[str, Any]) -> bool:
    """The cluster's answer, cached for a while. ``what`` is the cache key, ``attributes`` the question."""
    key = (caller, what)
    kept = ACCESS.get(key)
    if kept is not None:
        return kept
    spec: dict[str, Any] = {"user": caller.username, "groups": list(caller.groups), **attributes}
    if caller.uid:
        spec["uid"] = caller.uid
    if caller.extra:
        spec["extra"] = {name: list(values) for name, values in caller.extra}
    path = resource_path("authorization.k8s.io", "v1", "subjectaccessreviews")
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    allowed = _status(kube.create(path, body, timeout=DEADLINE_SECONDS)).get("allowed") is True
    return ACCESS.put(key, allowed, KEEP_SECONDS if allowed else KEEP_REFUSED_SECONDS)


def _status(review: dict[str, Any]) -> dict[str, Any]:
    status = review.get("status")
    return status if isinstance(status, dict) else {}


def _caller(user: Any) -> Caller | None:
    if not isinstance(user, dict) or not user.get("username"):
        return None
    extra = user.get("extra") or {}
    return Caller(
        username=str(user["username"]),
        groups=tuple(str(group) for group in user.get("groups") or ()),
        uid=str(user.get("uid") or ""),
        extra=tuple(sorted((str(key), tuple(map(str, values or ()))) for key, values in extra.items())),
    )
