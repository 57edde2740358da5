"""What a URL and a method ask for, before anything is looked up."""

from dataclasses import dataclass
from urllib.parse import unquote

_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_OBJECT_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """`resource` is empty for URLs that name no resource (discovery, health)."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""


def parse(method: str, path: str, *, watch: bool) -> RequestInfo:
    """Split a path as the API conventions define it; every part is percent-decoded."""
    plain = RequestInfo(verb=method.lower(), path=path)
    parts = [unquote(p) for p in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return plain
    if rest[0] == "watch" and len(rest) > 1:
        watch, rest = True, rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 2:
        namespace = rest[1]
        if len(rest) == 2 or (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES):
            rest = ["namespaces", *rest[1:]]
        else:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    verb = (_OBJECT_VERBS if name else _COLLECTION_VERBS).get(method, method.lower())
    if method == "GET" and watch:
        verb = "watch"
    return RequestInfo(
        verb=verb,
        path=path,
        group=group,
        version=version,
        namespace=namespace,
        resource=rest[0],
        name=name,
        subresource="/".join(rest[2:]),
    )
