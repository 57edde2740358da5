"""How lists and maps of the built-in types merge: the `patchMergeKey` facts of the Kubernetes API types.

One tree of facts serves strategic merge patch, server-side apply and the OpenAPI documents, so the three
cannot disagree. A path that is not named here merges as the default does: maps by key, lists replaced as a
whole.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from reverser.sandbox.builtinfields import Field, json_fields, type_name


class ListStrategy(enum.Enum):
    """ATOMIC lists are replaced, SET lists united, MAP lists merged by key."""

    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


@dataclass(frozen=True, slots=True)
class MergeNode:
    """The merge behaviour of one field.

    `merge_key` is what strategic merge compares; `keys` is the complete identity that server-side apply uses
    (a container port is merged by `containerPort`, but owned by port and protocol). `key_defaults` fills in
    keys that a client may leave out.
    """

    strategy: ListStrategy = ListStrategy.ATOMIC
    merge_key: str = ""
    keys: tuple[str, ...] = ()
    key_defaults: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    replace_map: bool = False
    #: Of a whole object: its maps are no structures, so an owner of a field owns the maps it made too.
    schemaless: bool = False
    children: Mapping[str, "MergeNode"] = field(default_factory=lambda: MappingProxyType({}))

    def child(self, name: str) -> "MergeNode":
        """The behaviour of the field `name` of this map (or of this list's items)."""
        return self.children.get(name, PLAIN)

    def item(self) -> "MergeNode":
        """The behaviour of one item of a MAP list, seen as a map."""
        return MergeNode(children=self.children)


PLAIN = MergeNode()


# Keys beyond the merge key that identify an item to server-side apply, and what they are when left out.
_FURTHER_KEYS: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "core/v1.ContainerPort": (("protocol",), {"protocol": "TCP"}),
    "core/v1.ServicePort": (("protocol",), {"protocol": "TCP"}),
    "core/v1.TopologySpreadConstraint": (("whenUnsatisfiable",), {}),
}


@cache
def _structure(name: str) -> MergeNode:
    """The merge behaviour of a Go structure, below which only fields that merge specially are named."""
    children: dict[str, MergeNode] = {}
    for key, fact in json_fields(name).items():
        node = _field(fact)
        if node is not PLAIN:
            children[key] = node
    return MergeNode(children=MappingProxyType(children)) if children else PLAIN


def _field(fact: Field) -> MergeNode:
    strategies = fact.strategy.split(",")
    item = fact.type.removeprefix("[]").removeprefix("@")
    below = _structure(item).children if fact.type.startswith(("@", "[]@")) else MappingProxyType({})
    if fact.type.startswith("[]") and "merge" in strategies:
        if not fact.merge_key:
            return MergeNode(strategy=ListStrategy.SET)
        further, defaults = _FURTHER_KEYS.get(item, ((), {}))
        return MergeNode(
            strategy=ListStrategy.MAP,
            merge_key=fact.merge_key,
            keys=(fact.merge_key, *further),
            key_defaults=MappingProxyType(dict(defaults)),
            children=below,
        )
    if fact.type.startswith("[]"):
        return PLAIN
    replace = "replace" in strategies
    if not below and not replace:
        return PLAIN
    return MergeNode(replace_map=replace, children=below)


# Kinds that the table of types does not have.
_OTHER_KINDS = {
    ("apiextensions.k8s.io", "CustomResourceDefinition"): ("status",),
    ("apiregistration.k8s.io", "APIService"): ("status",),
}
_CONDITIONS = MergeNode(strategy=ListStrategy.MAP, merge_key="type", keys=("type",))


@cache
def merge_schema(group: str, kind: str) -> MergeNode:
    """The merge behaviour of a built-in kind; of any other kind that of its metadata only."""
    name = type_name(group, "v2" if group == "autoscaling" else "v1", kind)
    if name is not None:
        return _structure(name)
    children = {"metadata": _structure("meta/v1.ObjectMeta")}
    for key in _OTHER_KINDS.get((group, kind), ()):
        children[key] = MergeNode(children=MappingProxyType({"conditions": _CONDITIONS}))
    return MergeNode(children=MappingProxyType(children))


def merge_schema_of_crd(schema: Mapping[str, Any]) -> MergeNode:
    """The merge behaviour that an OpenAPI schema states by its list types, metadata included."""
    node = _openapi(schema)
    children = {**node.children, "metadata": _structure("meta/v1.ObjectMeta")}
    return MergeNode(children=MappingProxyType(children), schemaless=True)


def _openapi(schema: Mapping[str, Any]) -> MergeNode:
    items = schema.get("items")
    described = items if isinstance(items, dict) else schema
    children = {
        name: node
        for name, sub in (described.get("properties") or {}).items()
        if (node := _openapi(sub or {})) is not PLAIN
    }
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set":
        return MergeNode(strategy=ListStrategy.SET)
    if kind == "map":
        keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        properties = described.get("properties") or {}
        defaults = {key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})}
        return MergeNode(
            strategy=ListStrategy.MAP,
            merge_key=keys[0] if keys else "",
            keys=keys,
            key_defaults=MappingProxyType(defaults),
            children=MappingProxyType(children),
        )
    if not children or isinstance(items, dict):
        return PLAIN
    return MergeNode(children=MappingProxyType(children))
