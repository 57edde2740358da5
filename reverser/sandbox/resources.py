"""Carrying out a request on a resource, once it is known who asks and that it is allowed."""

from typing import Any

from reverser.sandbox import reviews, scale
from reverser.sandbox.admission import Admission
from reverser.sandbox.authn import Tokens
from reverser.sandbox.call import Call, method_not_allowed
from reverser.sandbox.deletes import Deleter
from reverser.sandbox.lifecycle import Lifecycle
from reverser.sandbox.rbac import Authorizer
from reverser.sandbox.reads import Reader
from reverser.sandbox.represent import Form, one
from reverser.sandbox.status import PageNotFound
from reverser.sandbox.storage import Storage
from reverser.sandbox.writes import Writer

Obj = dict[str, Any]

#: Subresources that read and write the object itself, or a view of it.
_SUBRESOURCES = frozenset({"status", "scale", "finalize", "approval"})


class Resources:
    """The verbs of every resource but `watch`."""

    def __init__(
        self,
        storage: Storage,
        admission: Admission,
        lifecycle: Lifecycle,
        *,
        tokens: Tokens,
        authorizer: Authorizer,
        audience: str,
    ) -> None:
        self._reader = Reader(storage)
        self._writer = Writer(storage, admission, lifecycle)
        self._deleter = Deleter(storage, admission, lifecycle)
        self._tokens = tokens
        self._authorizer = authorizer
        self._audience = audience

    def restore(self) -> None:
        """Learn what a restored storage implies."""
        self._writer.restore()

    async def serve(self, call: Call, form: Form) -> tuple[int, Obj]:
        """The status code and body. Raises ApiError and PageNotFound."""
        sub, rtype, verb = call.info.subresource, call.resource.rtype, call.info.verb
        if sub:
            if sub not in rtype.subresources or sub not in _SUBRESOURCES:
                raise PageNotFound
            return await self._subresource(call, form)
        if verb not in rtype.verbs:
            raise method_not_allowed(call)
        if rtype.kind in reviews.KINDS:
            return 201, reviews.answer(call, self._tokens, self._authorizer, self._audience)
        include = call.query.get("includeObject", "")
        match verb:
            case "get":
                return 200, one(call.resource, form, self._reader.get(call), include)
            case "list":
                return 200, self._reader.collection(call, form)
            case "create":
                if call.info.name:
                    raise method_not_allowed(call)
                return 201, one(call.resource, form, await self._writer.create(call), include)
            case "update":
                return 200, one(call.resource, form, await self._writer.update(call), include)
            case "patch":
                code, obj = await self._writer.patch(call)
                return code, one(call.resource, form, obj, include)
            case "delete":
                return 200, await self._deleter.delete(call)
            case "deletecollection":
                return 200, await self._deleter.collection(call)
        raise method_not_allowed(call)

    async def _subresource(self, call: Call, form: Form) -> tuple[int, Obj]:
        verb, sub = call.info.verb, call.info.subresource
        if sub == "scale":
            if call.resource.scale is None:
                raise PageNotFound
            if verb == "get":
                return 200, scale.scale_of(call.resource.scale, self._reader.get(call))
            if verb in ("update", "patch"):
                return 200, await scale.write(call, self._reader, self._writer)
            raise method_not_allowed(call)
        if verb == "get" and sub != "finalize":
            return 200, one(call.resource, form, self._reader.get(call), "")
        if verb == "update":
            return 200, await self._writer.update(call)
        if verb == "patch" and sub != "finalize":
            return await self._writer.patch(call)
        raise method_not_allowed(call)
