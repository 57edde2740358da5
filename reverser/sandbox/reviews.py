"""Requests that are answered but not stored: token reviews, access reviews, and who am I."""

from typing import Any

from reverser.sandbox import managed, objects
from reverser.sandbox.authn import Tokens, User
from reverser.sandbox.call import Call, check_place, decode_object
from reverser.sandbox.mergekeys import merge_schema
from reverser.sandbox.rbac import Action, Authorizer

Obj = dict[str, Any]

KINDS = frozenset(
    {
        "TokenReview",
        "SubjectAccessReview",
        "LocalSubjectAccessReview",
        "SelfSubjectAccessReview",
        "SelfSubjectRulesReview",
        "SelfSubjectReview",
    }
)


def answer(call: Call, tokens: Tokens, authorizer: Authorizer, audience: str) -> Obj:
    """The review in the body with its status filled in."""
    obj = decode_object(call)
    if call.resource.rtype.namespaced:
        check_place(call, obj)
    spec = obj.get("spec") or {}
    kind = call.resource.rtype.kind
    shown: Obj = dict(obj)
    if kind.endswith("AccessReview"):
        shown["status"] = {"allowed": False}
    call.draft.request_object = shown
    entries = managed.track(
        None,
        {key: value for key, value in obj.items() if key != "status"},
        manager=call.manager,
        api_version=call.resource.group_version,
        subresource="",
        time=objects.now(),
        schema=merge_schema(call.resource.rtype.group, kind),
    )
    result = obj | {"metadata": obj["metadata"] | ({"managedFields": entries} if entries else {})}
    result["status"] = _status(
        kind, spec, asker=call.user, tokens=tokens, authorizer=authorizer, audience=audience
    )
    return result


def _status(
    kind: str, spec: Obj, *, asker: User, tokens: Tokens, authorizer: Authorizer, audience: str
) -> Obj:
    if kind == "TokenReview":
        user = tokens.find(str(spec.get("token") or ""))
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": user.info(), "audiences": [audience]}
    if kind == "SelfSubjectReview":
        return {"userInfo": asker.info()}
    if kind == "SelfSubjectRulesReview":
        rules = authorizer.rules(asker, str(spec.get("namespace") or ""))
        return {
            "resourceRules": [r for r in rules if "resources" in r],
            "nonResourceRules": [
                {"verbs": r.get("verbs"), "nonResourceURLs": r["nonResourceURLs"]}
                for r in rules
                if "nonResourceURLs" in r
            ],
            "incomplete": False,
        }
    user = asker
    if kind != "SelfSubjectAccessReview":
        extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
        user = User(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()), extra)
    verdict = authorizer.decide(user, _action(spec))
    status: Obj = {"allowed": verdict.allowed}
    if verdict.reason:
        status["reason"] = verdict.reason
    return status


def _action(spec: Obj) -> Action:
    path = spec.get("nonResourceAttributes")
    if path:
        return Action(verb=path.get("verb") or "", path=path.get("path") or "")
    wanted = spec.get("resourceAttributes") or {}
    return Action(
        verb=wanted.get("verb") or "",
        group=wanted.get("group") or "",
        version=wanted.get("version") or "",
        resource=wanted.get("resource") or "",
        subresource=wanted.get("subresource") or "",
        namespace=wanted.get("namespace") or "",
        name=wanted.get("name") or "",
    )
