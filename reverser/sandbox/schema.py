"""A CustomResourceDefinition compiled into what serving its objects needs.

One CompiledCRD answers for all versions of the definition: which are served and stored, how an object is
defaulted, pruned and validated, where its scale lives, which columns its Table has. It is built once when the
definition is written and then only read, so it can be shared by concurrent requests.
"""

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from reverser.sandbox.causes import Cause, invalid
from reverser.sandbox.crdcheck import validate_crd
from reverser.sandbox.mergekeys import MergeNode, merge_schema_of_crd
from reverser.sandbox.schemacheck import ABSENT, check
from reverser.sandbox.structural import Node, apply_schema_defaults, compile_node, prune_unknown
from reverser.sandbox.types import CUSTOM_RESOURCE_VERBS, PrinterColumn, ResourceType

__all__ = ["CompiledCRD", "CompiledVersion", "ScalePaths", "validate_crd"]

Object = dict[str, Any]

_AGE = PrinterColumn("Age", "date", ".metadata.creationTimestamp")
_VERSION = re.compile(r"^v(\d+)(?:(alpha|beta)(\d+))?$")


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a resource keeps what its scale subresource shows; paths are key tuples."""

    spec: tuple[str, ...]
    status: tuple[str, ...]
    selector: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class CompiledVersion:
    """One entry of `spec.versions`."""

    name: str
    served: bool
    storage: bool
    has_status: bool
    scale: ScalePaths | None
    columns: tuple[PrinterColumn, ...]
    schema: Mapping[str, Any]
    node: Node
    merge: MergeNode


@dataclass(frozen=True, slots=True)
class CompiledCRD:
    """All versions of a definition; a method given a version that it does not have raises KeyError."""

    name: str
    group: str
    kind: str
    list_kind: str
    plural: str
    singular: str
    namespaced: bool
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    versions: Mapping[str, CompiledVersion]

    @classmethod
    def from_manifest(cls, obj: Object) -> "CompiledCRD":
        """Compile a definition that `validate_crd` had no complaint about."""
        spec = obj["spec"]
        names = spec["names"]
        kind = names["kind"]
        versions = {raw["name"]: _compile_version(raw) for raw in spec["versions"]}
        return cls(
            name=obj["metadata"]["name"],
            group=spec["group"],
            kind=kind,
            list_kind=names.get("listKind") or f"{kind}List",
            plural=names["plural"],
            singular=names.get("singular") or kind.lower(),
            namespaced=spec["scope"] == "Namespaced",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            versions=MappingProxyType(versions),
        )

    @property
    def storage_version(self) -> str:
        """The version objects are stored in."""
        return next(version.name for version in self.versions.values() if version.storage)

    def resource_types(self) -> tuple[ResourceType, ...]:
        """The served versions as discovery lists them, most preferred first."""
        served = sorted((v for v in self.versions.values() if v.served), key=lambda v: version_rank(v.name))
        return tuple(
            ResourceType(
                group=self.group,
                version=version.name,
                resource=self.plural,
                singular=self.singular,
                kind=self.kind,
                namespaced=self.namespaced,
                verbs=CUSTOM_RESOURCE_VERBS,
                short_names=self.short_names,
                categories=self.categories,
                subresources=frozenset(
                    (["status"] if version.has_status else []) + (["scale"] if version.scale else [])
                ),
                preferred=index == 0,
                list_kind=self.list_kind,
            )
            for index, version in enumerate(served)
        )

    def scale_paths(self, version: str) -> ScalePaths | None:
        """Where the version keeps its scale, None without the subresource."""
        return self.versions[version].scale

    def printer_columns(self, version: str) -> tuple[PrinterColumn, ...]:
        """The columns after the name; only the age where the definition names none."""
        return self.versions[version].columns

    def merge_schema(self, version: str) -> MergeNode:
        """How server-side apply merges the version's lists."""
        return self.versions[version].merge

    def default(self, version: str, obj: Object) -> Object:
        """A copy of `obj` with defaults filled in and meaningless nulls removed."""
        result = copy.deepcopy(obj)
        apply_schema_defaults(self.versions[version].node, result)
        return result

    def prune(self, version: str, obj: Object) -> Object:
        """A copy of `obj` without the fields the schema does not know."""
        result = copy.deepcopy(obj)
        prune_unknown(self.versions[version].node, result, resource=True)
        return result

    def unknown_fields(self, version: str, obj: Object) -> list[str]:
        """The paths pruning would drop, as the strict-decoding error names them."""
        return prune_unknown(self.versions[version].node, copy.deepcopy(obj), resource=True)

    def validate(self, version: str, obj: Object, old: Object | None = None) -> list[Cause]:
        """Complaints of schema, list types, scale and CEL rules; `old` is the stored object on update."""
        found = check(self.versions[version].node, obj, ABSENT if old is None else old)
        scale = self.versions[version].scale
        if scale is not None:
            for path in (scale.spec, scale.status):
                value: Any = obj
                for key in path:
                    value = value.get(key) if isinstance(value, dict) else None
                if isinstance(value, int) and value < 0:
                    found.append(invalid(".".join(path), value, "should be a non-negative integer"))
        return found


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sort key that puts the preferred version first: v2, v1, v1beta2, v1beta1, v1alpha1, others by name."""
    found = _VERSION.match(version)
    if found is None:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[found.group(2)]
    return (stage, -int(found.group(1)), -int(found.group(3) or 0), version)


def _keys(json_path: str) -> tuple[str, ...]:
    return tuple(part for part in json_path.split(".") if part)


def _compile_version(raw: Object) -> CompiledVersion:
    subresources = raw.get("subresources") or {}
    scale = subresources.get("scale")
    columns = tuple(
        PrinterColumn(
            name=column["name"],
            type=column["type"],
            json_path=column["jsonPath"],
            priority=column.get("priority", 0),
            format=column.get("format", ""),
            description=column.get("description", ""),
        )
        for column in raw.get("additionalPrinterColumns") or ()
    )
    schema = (raw.get("schema") or {}).get("openAPIV3Schema") or {}
    return CompiledVersion(
        name=raw["name"],
        served=bool(raw.get("served")),
        storage=bool(raw.get("storage")),
        has_status=subresources.get("status") is not None,
        scale=ScalePaths(
            spec=_keys(scale["specReplicasPath"]),
            status=_keys(scale["statusReplicasPath"]),
            selector=_keys(scale.get("labelSelectorPath") or "") or None,
        )
        if scale
        else None,
        columns=columns or (_AGE,),
        schema=schema,
        node=compile_node(schema),
        merge=merge_schema_of_crd(schema),
    )
