"""The discovery documents, legacy and aggregated, derived from the registry at each request.

A group version whose backend is down (an APIService without a reachable Service, or a fault on demand) is
listed as `Stale` in the aggregated form and answers 503 in the legacy form, as a real aggregator does.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from reverser.sandbox.schema import version_rank
from reverser.sandbox.types import CUSTOM_RESOURCE_VERBS, ResourceType, subresources_of

Obj = dict[str, Any]

AGGREGATED_V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def api_versions(server: str) -> Obj:
    """`GET /api`."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server}],
    }


def group_list(types: Iterable[ResourceType], broken: Iterable[tuple[str, str]]) -> Obj:
    """`GET /apis`."""
    found = _versions(types, broken)
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(name, versions) for name, versions in found.items() if name],
    }


def one_group(types: Iterable[ResourceType], broken: Iterable[tuple[str, str]], group: str) -> Obj | None:
    """`GET /apis/<group>`, or None where the group does not exist."""
    versions = _versions(types, broken).get(group)
    if not group or versions is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)}


def resource_list(
    types: Iterable[ResourceType], group: str, version: str, storage_hashes: Mapping[str, str]
) -> Obj | None:
    """`GET /apis/<group>/<version>`, or None where it does not exist.

    `storage_hashes` names the hash by plural where the storage version is not the type's own.
    """
    chosen = [t for t in types if (t.group, t.version) == (group, version)]
    if not chosen:
        return None
    document: Obj = {"kind": "APIResourceList"}
    if group:
        document["apiVersion"] = "v1"
    document["groupVersion"] = chosen[0].group_version
    document["resources"] = [entry for rtype in chosen for entry in _legacy_entries(rtype, storage_hashes)]
    return document


def aggregated(types: Iterable[ResourceType], broken: Iterable[tuple[str, str]], *, core: bool) -> Obj:
    """`GET /api` (core) or `/apis` with the aggregated media type."""
    chosen = [t for t in types if (t.group == "") is core]
    stale = [b for b in broken if (b[0] == "") is core]
    items = []
    for group, versions in _versions(chosen, stale).items():
        entries: list[Obj] = []
        for version in versions:
            if (group, version) in stale:
                entries.append({"version": version, "freshness": "Stale"})
                continue
            resources = [_aggregated_entry(t) for t in chosen if (t.group, t.version) == (group, version)]
            entries.append({"version": version, "resources": resources, "freshness": "Current"})
        items.append({"metadata": {"name": group} if group else {}, "versions": entries})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _versions(types: Iterable[ResourceType], broken: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for rtype in types:
        versions = found.setdefault(rtype.group, [])
        if rtype.version not in versions:
            versions.append(rtype.version)
    for group, version in broken:
        versions = found.setdefault(group, [])
        if version not in versions:
            versions.append(version)
            versions.sort(key=version_rank)
    return found


def _group(name: str, versions: list[str]) -> Obj:
    entries = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _legacy_entries(rtype: ResourceType, storage_hashes: Mapping[str, str]) -> Iterable[Obj]:
    entry: Obj = {
        "name": rtype.resource,
        "singularName": rtype.singular,
        "namespaced": rtype.namespaced,
        "kind": rtype.kind,
        "verbs": list(rtype.verbs),
    }
    if rtype.short_names:
        entry["shortNames"] = list(rtype.short_names)
    if rtype.categories:
        entry["categories"] = list(rtype.categories)
    if "watch" in rtype.verbs:
        entry["storageVersionHash"] = storage_hashes.get(rtype.resource, rtype.storage_version_hash)
    yield entry
    for sub in subresources_of(rtype):
        entry = {"name": f"{rtype.resource}/{sub.name}", "singularName": "", "namespaced": rtype.namespaced}
        if sub.group:
            entry |= {"group": sub.group, "version": sub.version}
        yield entry | {"kind": sub.kind, "verbs": list(sub.verbs)}


def _aggregated_entry(rtype: ResourceType) -> Obj:
    # For built-in types a server leaves group and version of the kind empty; for custom ones it names them.
    custom = rtype.verbs == CUSTOM_RESOURCE_VERBS
    own = {"group": rtype.group, "version": rtype.version} if custom else {"group": "", "version": ""}
    entry: Obj = {
        "resource": rtype.resource,
        "responseKind": own | {"kind": rtype.kind},
        "scope": "Namespaced" if rtype.namespaced else "Cluster",
        "singularResource": rtype.singular,
        "verbs": list(rtype.verbs),
    }
    if rtype.short_names:
        entry["shortNames"] = list(rtype.short_names)
    if rtype.categories:
        entry["categories"] = list(rtype.categories)
    subs = [
        {
            "subresource": sub.name,
            "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind},
            "verbs": list(sub.verbs),
        }
        for sub in subresources_of(rtype)
    ]
    if subs:
        entry["subresources"] = subs
    return entry
