"""Get and list: versions asked for, selectors, pages.

A page token names the version of the first page and the last key shown, so all pages of one list show the
same moment; a token older than the history kept is 410, as is a list at such a version.
"""

import base64
from dataclasses import dataclass
from typing import Any

import orjson

from reverser.sandbox import represent
from reverser.sandbox.call import Call
from reverser.sandbox.represent import Form
from reverser.sandbox.selectors import Predicate, field_selector, label_selector
from reverser.sandbox.status import ApiError, bad_request, expired, invalid_list_options, not_found
from reverser.sandbox.storage import Compacted, Storage, TooLarge

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Selection:
    """What a list or watch asks to see."""

    namespace: str | None
    tests: tuple[Predicate, ...]

    def sees(self, obj: Obj) -> bool:
        """Whether an object of the resource is meant."""
        if self.namespace is not None and obj["metadata"].get("namespace") != self.namespace:
            return False
        return not self.tests or all(test(obj) for test in self.tests)


def selection(call: Call) -> Selection:
    """The selection of a request. Raises 400 for selectors that cannot be read."""
    rtype = call.resource.rtype
    candidates = (
        label_selector(call.query.get("labelSelector", "")),
        field_selector(
            call.query.get("fieldSelector", ""),
            rtype.group,
            rtype.kind,
            custom=call.resource.crd is not None,
        ),
    )
    tests = [test for test in candidates if test is not None]
    if call.info.name and call.info.verb == "watch":
        tests.append(lambda obj: obj["metadata"]["name"] == call.info.name)
    return Selection(call.namespace or None, tuple(tests))


def version_of(text: str) -> int | None:
    """A resourceVersion parameter as a number; None where it is empty. Raises 500 as the server does."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise ApiError(
            500,
            "",
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax',
        )
    return int(text)


class Reader:
    """Answers get and list."""

    def __init__(self, storage: Storage, *, watch_cache: bool = True) -> None:
        self._storage = storage
        self._watch_cache = watch_cache

    def get(self, call: Call) -> Obj:
        """The object of the URL. Raises 404."""
        resource, rtype = call.resource, call.resource.rtype
        found = self._storage.get(resource.key, call.namespace, call.info.name)
        if found is None:
            raise not_found(rtype.group, rtype.resource, call.info.name)
        return resource.view(found)

    def collection(self, call: Call, form: Form) -> Obj:
        """The list body of the URL."""
        resource = call.resource
        chosen = selection(call)
        limit = _limit(call.query.get("limit", ""))
        token = call.query.get("continue", "")
        start: tuple[str, str] | None = None
        if token:
            if call.query.get("resourceVersion") not in (None, "", "0"):
                raise bad_request("specifying resource version is not allowed when using continue")
            version, start = _from_token(token)
            objects = self._at(resource.key, chosen.namespace, version)
        else:
            version, objects = self._moment(call, chosen.namespace)
        items = []
        for obj in objects:
            if start is not None and _key(obj) <= start:
                continue
            if chosen.sees(obj):
                items.append(resource.view(obj))
        metadata: Obj = {"resourceVersion": str(version)}
        # A list that the watch cache may answer with any state comes whole.
        whole = self._watch_cache and not token and call.query.get("resourceVersion") == "0"
        if limit and len(items) > limit and not whole:
            left = len(items) - limit
            items = items[:limit]
            metadata["continue"] = _token(version, _key(items[-1]))
            if not chosen.tests:
                metadata["remainingItemCount"] = left
        return represent.many(resource, form, items, metadata, call.query.get("includeObject", ""))

    def _moment(self, call: Call, namespace: str | None) -> tuple[int, list[Obj]]:
        match = call.query.get("resourceVersionMatch", "")
        text = call.query.get("resourceVersion", "")
        try:
            version = version_of(text)
        except ApiError as error:
            raise bad_request(f"invalid resource version: {error.message}") from error
        if match and version is None:
            raise invalid_list_options(
                "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
            )
        if match == "Exact":
            if version == 0:
                raise invalid_list_options(
                    "resourceVersionMatch",
                    'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
                )
            return version or 0, self._at(call.resource.key, namespace, version or 0)
        if version is not None and version > self._storage.rv:
            raise _too_large(version, self._storage.rv)
        return self._storage.rv, self._storage.items(call.resource.key, namespace)

    def _at(self, key: tuple[str, str], namespace: str | None, version: int) -> list[Obj]:
        try:
            return self._storage.list_at(key, namespace, version)
        except Compacted as error:
            raise expired("The resourceVersion for the provided list is too old.") from error
        except TooLarge as error:
            raise _too_large(version, self._storage.rv) from error


def _too_large(asked: int, current: int) -> ApiError:
    message = f"Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiError(
        504,
        "Timeout",
        f"Timeout: {message}",
        details={"causes": [cause], "retryAfterSeconds": 1},
        headers={"Retry-After": "1"},
    )


def _key(obj: Obj) -> tuple[str, str]:
    return (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _limit(text: str) -> int:
    if text and not text.removeprefix("-").isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return max(0, int(text or "0"))


def _token(version: int, key: tuple[str, str]) -> str:
    raw = orjson.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": list(key)})
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _from_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        raw = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, name = raw["start"]
        return int(raw["rv"]), (str(namespace), str(name))
    except (ValueError, KeyError, TypeError) as error:
        raise bad_request("invalid continue token: continue key is not valid") from error
