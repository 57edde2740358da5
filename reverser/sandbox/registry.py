"""Which resources are served now: the built-in ones, and those of established CustomResourceDefinitions.

All versions of a resource share one storage key. The registry is the only place that knows which versions
exist, so routing, discovery and OpenAPI can never disagree.
"""

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from reverser.sandbox.schema import CompiledCRD
from reverser.sandbox.status import ApiError, PageNotFound
from reverser.sandbox.storage import ResourceKey
from reverser.sandbox.types import BUILTIN_TYPES, CUSTOM_RESOURCE_VERBS, PrinterColumn, ResourceType

Obj = dict[str, Any]

_VERSION = re.compile(r"^v(\d+)(?:(alpha|beta)(\d+))?$")


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a resource keeps what its scale subresource shows; paths are key tuples."""

    spec: tuple[str, ...]
    status: tuple[str, ...]
    selector: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Resource:
    """One served version of a resource."""

    rtype: ResourceType
    crd: CompiledCRD | None = None
    storage_version: str = ""
    scale: ScalePaths | None = None

    @property
    def key(self) -> ResourceKey:
        """Where its objects are stored."""
        return (self.rtype.group, self.rtype.resource)

    @property
    def group_version(self) -> str:
        """The `apiVersion` of its objects."""
        return self.rtype.group_version

    @property
    def has_status(self) -> bool:
        """Whether status is written through its own subresource only."""
        return "status" in self.rtype.subresources

    def columns(self) -> ResourceType | tuple[PrinterColumn, ...]:
        """What Table rendering needs."""
        if self.crd is None:
            return self.rtype
        return tuple(self.crd.printer_columns(self.rtype.version))

    def view(self, obj: Obj) -> Obj:
        """A stored object as this version shows it; shares everything that is not different."""
        if obj["apiVersion"] == self.group_version:
            return obj
        shown = obj | {"apiVersion": self.group_version}
        if self.crd is not None:
            version = self.rtype.version
            shown = self.crd.default(version, self.crd.prune(version, shown))
        return shown

    def stored(self, obj: Obj) -> Obj:
        """The inverse of `view`: the object as the storage version keeps it."""
        if not self.storage_version or self.storage_version == self.rtype.version:
            return obj
        return obj | {"apiVersion": f"{self.rtype.group}/{self.storage_version}"}


_BUILTIN_GROUPS = frozenset(rtype.group for rtype in BUILTIN_TYPES)
_DEFAULT_SCALE = ScalePaths(("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))


class Registry:
    """The resources served now; `revision` grows with every change.

    A definition is established, and in discovery, before its objects can be reached: for `definition_delay`
    seconds they answer 404 (where it is new), then 429 (while their storage is being made anew).
    """

    def __init__(self, *, definition_delay: float = 0.0) -> None:
        self.revision = 0
        self._delay = definition_delay
        self._installed: dict[str, tuple[float, bool]] = {}
        self._found: dict[tuple[str, str, str], Resource] = {}
        self._by_crd: dict[str, list[Resource]] = {}
        for rtype in BUILTIN_TYPES:
            scale = _DEFAULT_SCALE if "scale" in rtype.subresources else None
            self._found[rtype.group, rtype.version, rtype.resource] = Resource(rtype, scale=scale)

    def find(self, group: str, version: str, resource: str) -> Resource | None:
        """The resource at a URL, or None."""
        return self._found.get((group, version, resource))

    @staticmethod
    def is_builtin(group: str) -> bool:
        """Whether the server itself has the group, and not a CustomResourceDefinition."""
        return group in _BUILTIN_GROUPS

    def of_key(self, key: ResourceKey) -> Resource | None:
        """The storage version (or first version) of a stored resource."""
        found = None
        for resource in self._found.values():
            if resource.key == key:
                if resource.storage_version in ("", resource.rtype.version):
                    return resource
                found = resource
        return found

    def types(self) -> list[ResourceType]:
        """Every served type: built-in ones first, then custom groups by name, best version first."""
        custom = [r.rtype for rs in self._by_crd.values() for r in rs]
        custom.sort(key=lambda t: (t.group, version_rank(t.version), t.resource))
        return [*BUILTIN_TYPES, *custom]

    def storage_hashes(self, group: str) -> dict[str, str]:
        """Plural name to the discovery hash of the storage version, for custom resources of a group."""
        return {
            r.rtype.resource: r.rtype.storage_version_hash
            for resources in self._by_crd.values()
            for r in resources
            if r.rtype.group == group and r.rtype.version == r.storage_version
        }

    def compiled(self) -> list[CompiledCRD]:
        """The CustomResourceDefinitions in force."""
        return [rs[0].crd for rs in self._by_crd.values() if rs and rs[0].crd is not None]

    def install(self, manifest: Obj) -> None:
        """Serve a CustomResourceDefinition, in place of an older state of it."""
        known = manifest["metadata"]["name"] in self._by_crd
        self.remove(manifest["metadata"]["name"])
        self._installed[manifest["metadata"]["name"]] = (time.monotonic(), known)
        resources = list(_resources_of(manifest))
        self._by_crd[manifest["metadata"]["name"]] = resources
        for resource in resources:
            self._found[resource.rtype.group, resource.rtype.version, resource.rtype.resource] = resource
        self.revision += 1

    def check_reachable(self, resource: Resource) -> None:
        """Raises PageNotFound or 429 while the objects of a definition cannot be reached yet."""
        if not self._delay or resource.crd is None:
            return
        since, known = self._installed[f"{resource.rtype.resource}.{resource.rtype.group}"]
        age = time.monotonic() - since
        if age < self._delay / 2 and not known:
            raise PageNotFound
        if age < self._delay:
            raise ApiError(
                429,
                "TooManyRequests",
                "storage is (re)initializing",
                details={"retryAfterSeconds": 1},
                headers={"Retry-After": "1"},
            )

    def remove(self, crd_name: str) -> None:
        """Stop serving a CustomResourceDefinition; nothing happens where it was not served."""
        for resource in self._by_crd.pop(crd_name, []):
            self._found.pop((resource.rtype.group, resource.rtype.version, resource.rtype.resource), None)
            self.revision += 1


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sort key that puts the preferred version first: v2, v1, v1beta2, v1beta1, v1alpha1, others by name."""
    found = _VERSION.match(version)
    if found is None:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[found.group(2)]
    return (stage, -int(found.group(1)), -int(found.group(3) or 0), version)


def _resources_of(manifest: Obj) -> Iterable[Resource]:
    spec = manifest["spec"]
    names = spec["names"]
    compiled = CompiledCRD.from_manifest(manifest)
    served = sorted((v for v in spec["versions"] if v.get("served")), key=lambda v: version_rank(v["name"]))
    storage = next(v["name"] for v in spec["versions"] if v.get("storage"))
    for position, version in enumerate(served):
        declared = version.get("subresources") or {}
        subresources = frozenset(name for name in ("status", "scale") if declared.get(name) is not None)
        rtype = ResourceType(
            group=spec["group"],
            version=version["name"],
            resource=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            kind=names["kind"],
            namespaced=spec["scope"] == "Namespaced",
            verbs=CUSTOM_RESOURCE_VERBS,
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=subresources,
            preferred=position == 0,
            list_kind=names.get("listKind") or f"{names['kind']}List",
        )
        scale = None
        if "scale" in subresources:
            paths = declared["scale"]
            selector = paths.get("labelSelectorPath")
            scale = ScalePaths(
                _path(paths["specReplicasPath"]),
                _path(paths["statusReplicasPath"]),
                _path(selector) if selector else None,
            )
        yield Resource(rtype, compiled, storage, scale)


def _path(json_path: str) -> tuple[str, ...]:
    return tuple(part for part in json_path.split(".") if part)
