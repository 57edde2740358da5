"""What the API server serves: one full read of discovery, normalised to facts.

A refresh reads the aggregated documents and falls back to one document per group version on servers that
answer the older form. A group version whose document fails, or that is marked stale, counts as failed,
and whatever came for it is ignored. Judgement over time (grace, retention) is the registry's; here are
facts of one moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from reverser.errors import KubeUnavailable, ReverserError

_FORM = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
ACCEPT = ", ".join([_FORM.format("v2"), _FORM.format("v2beta1"), "application/json"])
PARALLEL = 10

GroupVersion = tuple[str, str]


class DiscoveryTransport(Protocol):
    """The part of the Kubernetes client that discovery needs."""

    async def raw(self, method: str, path: str, *, headers: Mapping[str, str] | None = None) -> bytes:
        """The body of a successful answer."""
        ...


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """One top-level resource as one group version serves it; subresources are folded in."""

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool | None
    """None when the server said neither."""
    verbs: tuple[str, ...] = ()
    preferred: bool = False
    subresources: tuple[str, ...] = ()
    subresource_only: bool = False
    aliases: tuple[str, ...] = ()
    """The singular and the short names."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every name of the type, without its group."""
        return (self.resource, self.kind, *self.aliases)

    @property
    def group_version(self) -> GroupVersion:
        return (self.group, self.version)


@dataclass(frozen=True, slots=True)
class Scan:
    """The normalised facts of one refresh; sorted, so that two scans compare without regard to order."""

    resources: tuple[Resource, ...]
    scanned: frozenset[GroupVersion]
    failed: frozenset[GroupVersion]

    @property
    def complete(self) -> bool:
        """No group version failed: what is missing is really absent."""
        return not self.failed

    @property
    def empty(self) -> bool:
        return not self.resources


async def scan(kube: DiscoveryTransport) -> Scan:
    """Reads everything once. Raises the client's error when a root does not answer: nothing is known then."""
    parts = await asyncio.gather(_read_root(kube, "/api"), _read_root(kube, "/apis"))
    found = [resource for part in parts for resource in part.resources]
    return Scan(
        resources=tuple(sorted(set(found), key=lambda r: (r.group, r.version, r.resource, r.kind))),
        scanned=frozenset[GroupVersion]().union(*(part.scanned for part in parts)),
        failed=frozenset[GroupVersion]().union(*(part.failed for part in parts)),
    )


async def _read_root(kube: DiscoveryTransport, root: str) -> Scan:
    """One half of the served surface. An answer without a single group version cannot be right: namespaces
    are in one half, the project's own kinds in the other.
    """
    document = _decode(await kube.raw("GET", root, headers={"Accept": ACCEPT}), root)
    if document.get("kind") == "APIGroupDiscoveryList":
        found = parse_aggregated(document)
    else:
        found = await _read_legacy(kube, root, document)
    if not found.scanned and not found.failed:
        raise KubeUnavailable(f"discovery of {root}: the answer names no group version; it is asked again")
    return found


def parse_aggregated(document: Mapping[str, Any]) -> Scan:
    """Facts of one aggregated document. The first version that is not stale is the preferred one."""
    resources: list[Resource] = []
    scanned: set[GroupVersion] = set()
    failed: set[GroupVersion] = set()
    for item in _mappings(document.get("items")):
        group = _text(_mapping(item.get("metadata")).get("name"))
        preferred = True
        for version in _mappings(item.get("versions")):
            pair = (group, _text(version.get("version")))
            if version.get("freshness") == "Stale":
                failed.add(pair)
                continue
            scanned.add(pair)
            resources += _aggregated_resources(pair, _mappings(version.get("resources")), preferred)
            preferred = False
    return Scan(tuple(resources), frozenset(scanned), frozenset(failed))


def _aggregated_resources(
    pair: GroupVersion, entries: Iterable[Mapping[str, Any]], preferred: bool
) -> Iterable[Resource]:
    for entry in entries:
        name = _text(entry.get("resource")).strip().lower()
        if not name:
            continue
        scope = {"Namespaced": True, "Cluster": False}.get(_text(entry.get("scope")))
        subresources = (_text(sub.get("subresource")) for sub in _mappings(entry.get("subresources")))
        kind = _text(_mapping(entry.get("responseKind")).get("kind"))
        verbs = _strings(entry.get("verbs"))
        yield Resource(
            group=pair[0],
            version=pair[1],
            resource=name,
            kind=kind,
            namespaced=scope,
            verbs=verbs,
            preferred=preferred,
            subresources=tuple(sorted(filter(None, subresources))),
            subresource_only=not verbs and not kind,
            aliases=_aliases(entry, "singularResource"),
        )


async def _read_legacy(kube: DiscoveryTransport, root: str, document: Mapping[str, Any]) -> Scan:
    wanted: list[tuple[GroupVersion, bool]] = []
    if root == "/api":
        wanted = [
            (("", version), index == 0) for index, version in enumerate(_strings(document.get("versions")))
        ]
    else:
        for group in _mappings(document.get("groups")):
            name = _text(group.get("name"))
            preferred = _text(_mapping(group.get("preferredVersion")).get("version"))
            for entry in _mappings(group.get("versions")):
                version = _text(entry.get("version"))
                wanted.append(((name, version), version == preferred))
    gate = asyncio.Semaphore(PARALLEL)

    async def read(pair: GroupVersion, preferred: bool) -> tuple[GroupVersion, list[Resource] | None]:
        path = f"/apis/{pair[0]}/{pair[1]}" if pair[0] else f"/api/{pair[1]}"
        async with gate:
            try:
                answer = _decode(await kube.raw("GET", path), path)
            except ReverserError:
                return pair, None
        return pair, list(parse_legacy(answer, pair, preferred))

    answers = await asyncio.gather(*(read(pair, preferred) for pair, preferred in wanted))
    return Scan(
        resources=tuple(resource for _, found in answers for resource in found or ()),
        scanned=frozenset(pair for pair, found in answers if found is not None),
        failed=frozenset(pair for pair, found in answers if found is None),
    )


def parse_legacy(document: Mapping[str, Any], pair: GroupVersion, preferred: bool) -> Iterable[Resource]:
    """Facts of one APIResourceList; entries named ``parent/sub`` are folded into their parents."""
    tops: dict[str, Mapping[str, Any]] = {}
    subs: dict[str, set[str]] = {}
    for entry in _mappings(document.get("resources")):
        name, _, sub = _text(entry.get("name")).strip().lower().partition("/")
        if not name:
            continue
        if sub:
            subs.setdefault(name, set()).add(sub)
        else:
            tops[name] = entry
    for name in sorted(tops.keys() | subs.keys()):
        entry = tops.get(name, {})
        namespaced = entry.get("namespaced")
        yield Resource(
            group=pair[0],
            version=pair[1],
            resource=name,
            kind=_text(entry.get("kind")),
            namespaced=namespaced if isinstance(namespaced, bool) else None,
            verbs=_strings(entry.get("verbs")),
            preferred=preferred,
            subresources=tuple(sorted(subs.get(name, ()))),
            subresource_only=name not in tops,
            aliases=_aliases(entry, "singularName"),
        )


def _aliases(entry: Mapping[str, Any], singular: str) -> tuple[str, ...]:
    return tuple(sorted({_text(entry.get(singular)), *_strings(entry.get("shortNames"))} - {""}))


def _decode(answer: bytes, path: str) -> Mapping[str, Any]:
    try:
        value = orjson.loads(answer)
    except orjson.JSONDecodeError as error:
        raise KubeUnavailable(f"discovery of {path}: the answer is not JSON") from error
    return _mapping(value)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _strings(value: object) -> tuple[str, ...]:
    return tuple(sorted(item for item in value if isinstance(item, str))) if isinstance(value, list) else ()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
