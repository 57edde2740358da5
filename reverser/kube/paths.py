"""URL paths of the Kubernetes API.

Every path in the project is made here, so that escaping is done once: a name that came from a spec can
never leave its path segment.
"""

from __future__ import annotations

from urllib.parse import quote

from reverser.kinds.model import API_GROUP, API_VERSION


def resource_path(
    group: str,
    version: str,
    resource: str,
    *,
    namespace: str = "",
    name: str = "",
    subresource: str = "",
) -> str:
    """The path of a collection, of one object (``name``), or of a subresource of it.

    ``group`` is empty for the core group. Without ``namespace`` the path spans all namespaces, or is
    that of a cluster-scoped resource. Raises ValueError for a part that cannot be one path segment.
    """
    parts = ["apis", group, version] if group else ["api", version]
    if namespace:
        parts += ["namespaces", namespace]
    parts.append(resource)
    if name:
        parts.append(name)
    if subresource:
        if not name:
            raise ValueError("a subresource needs the name of its object")
        parts.append(subresource)
    return "/" + "/".join(_segment(part) for part in parts)


def own_path(resource: str, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The path of one of the project's own kinds (``gittargets``, ``watchrules`` and so on)."""
    return resource_path(
        API_GROUP, API_VERSION, resource, namespace=namespace, name=name, subresource=subresource
    )


def core_path(resource: str, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The path of a resource of the core group, version v1."""
    return resource_path("", "v1", resource, namespace=namespace, name=name, subresource=subresource)


def _segment(text: str) -> str:
    if not text or text in {".", ".."}:
        raise ValueError(f"{text!r} cannot be a part of an API path")
    return quote(text, safe="")
