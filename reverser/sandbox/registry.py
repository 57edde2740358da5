"""Which resources are served now: the built-in ones, and those of established CustomResourceDefinitions.

All versions of a resource share one storage key. The registry is the only place that knows which versions
exist, so routing, discovery and OpenAPI can never disagree.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from reverser.sandbox.schema import CompiledCRD, ScalePaths, version_rank
from reverser.sandbox.status import ApiError, PageNotFound
from reverser.sandbox.storage import ResourceKey
from reverser.sandbox.types import BUILTIN_TYPES, PrinterColumn, ResourceType

Obj = dict[str, Any]


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


def _resources_of(manifest: Obj) -> Iterable[Resource]:
    compiled = CompiledCRD.from_manifest(manifest)
    for rtype in compiled.resource_types():
        yield Resource(rtype, compiled, compiled.storage_version, compiled.scale_paths(rtype.version))
