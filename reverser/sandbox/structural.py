"""Structural schemas of CustomResourceDefinitions: a compiled tree, and defaulting and pruning along it.

A schema is compiled once into nodes, with its patterns and CEL rules, because every write walks it.
Defaulting and pruning follow the API server: defaults fill absent fields (and nulls where null is not
allowed), nulls that are neither allowed nor defaulted vanish, fields that the schema does not name are
dropped unless the schema preserves them.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reverser.sandbox.celrules import Rule, compile_rule

Json = Any
_NO_DEFAULT = object()

#: What ObjectMeta knows, in the order in which it is written; anything else under `metadata` is dropped.
METADATA_ORDER = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
METADATA_FIELDS = frozenset(METADATA_ORDER)
_TYPE_META = ("apiVersion", "kind", "metadata")


@dataclass(frozen=True, slots=True)
class Node:
    """One schema node; `raw` keeps the plain value validations (minimum, enum, …)."""

    raw: Mapping[str, Json]
    type: str
    nullable: bool
    default: Json
    properties: Mapping[str, "Node"]
    items: "Node | None"
    #: The schema of other keys, True where any value is allowed under them.
    additional: "Node | bool"
    preserve: bool
    embedded: bool
    int_or_string: bool
    list_type: str
    list_keys: tuple[str, ...]
    pattern: "re.Pattern[str] | None"
    rules: tuple[Rule, ...]
    #: Whether this node or one below it has rules.
    has_rules: bool
    all_of: tuple["Node", ...]
    any_of: tuple["Node", ...]
    one_of: tuple["Node", ...]
    negated: "Node | None"

    @property
    def has_default(self) -> bool:
        """Whether the node gives a default (which may be null)."""
        return self.default is not _NO_DEFAULT

    def child(self, key: str) -> "Node | None":
        """The schema of the property or map entry `key`, None where nothing is said about it."""
        found = self.properties.get(key)
        if found is None and isinstance(self.additional, Node):
            return self.additional
        return found


def compile_node(raw: Mapping[str, Json]) -> Node:
    """Compile a schema; raises RuleError for a CEL rule and re.error for a pattern that does not compile."""
    properties = {name: compile_node(sub or {}) for name, sub in (raw.get("properties") or {}).items()}
    items = compile_node(raw["items"]) if isinstance(raw.get("items"), dict) else None
    extra = raw.get("additionalProperties")
    additional: Node | bool = compile_node(extra) if isinstance(extra, dict) else bool(extra)
    rules = tuple(compile_rule(rule) for rule in raw.get("x-kubernetes-validations") or ())
    below = [*properties.values(), *(node for node in (items, additional) if isinstance(node, Node))]
    return Node(
        raw=raw,
        type=str(raw.get("type", "")),
        nullable=bool(raw.get("nullable")),
        default=raw.get("default", _NO_DEFAULT),
        properties=properties,
        items=items,
        additional=additional,
        preserve=bool(raw.get("x-kubernetes-preserve-unknown-fields")),
        embedded=bool(raw.get("x-kubernetes-embedded-resource")),
        int_or_string=bool(raw.get("x-kubernetes-int-or-string")),
        list_type=str(raw.get("x-kubernetes-list-type") or "atomic"),
        list_keys=tuple(raw.get("x-kubernetes-list-map-keys") or ()),
        pattern=re.compile(raw["pattern"]) if raw.get("pattern") else None,
        rules=rules,
        has_rules=bool(rules) or any(node.has_rules for node in below),
        all_of=tuple(compile_node(sub) for sub in raw.get("allOf") or ()),
        any_of=tuple(compile_node(sub) for sub in raw.get("anyOf") or ()),
        one_of=tuple(compile_node(sub) for sub in raw.get("oneOf") or ()),
        negated=compile_node(raw["not"]) if isinstance(raw.get("not"), dict) else None,
    )


def apply_schema_defaults(node: Node, value: Json) -> None:
    """Fill defaults into `value` in place, and drop nulls that are neither allowed nor defaulted."""
    if isinstance(value, dict):
        for key, sub in node.properties.items():
            missing = key not in value or (value[key] is None and not sub.nullable)
            if missing and sub.has_default:
                value[key] = copy.deepcopy(sub.default)
            elif missing:
                value.pop(key, None)
        if isinstance(node.additional, Node) and not node.additional.nullable:
            for key in [key for key, item in value.items() if item is None and key not in node.properties]:
                del value[key]
        for key, item in value.items():
            child = node.child(key)
            if child is not None:
                apply_schema_defaults(child, item)
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            apply_schema_defaults(node.items, item)


def prune_unknown(node: Node, value: Json, *, resource: bool = False, path: str = "") -> list[str]:
    """Drop in place what the schema does not name; the paths of what was dropped, sorted.

    `resource` marks a whole object, whose apiVersion, kind and metadata need no schema.
    """
    return sorted(_prune(node, value, resource=resource, path=path))


def _prune(node: Node, value: Json, *, resource: bool, path: str) -> Iterator[str]:
    if isinstance(value, list):
        if node.items is not None:
            for index, item in enumerate(value):
                yield from _prune(node.items, item, resource=node.items.embedded, path=f"{path}[{index}]")
        return
    if not isinstance(value, dict):
        return
    for key in list(value):
        here = f"{path}.{key}" if path else key
        if resource and key in _TYPE_META:
            if key == "metadata" and isinstance(value[key], dict):
                for unknown in [name for name in value[key] if name not in METADATA_FIELDS]:
                    del value[key][unknown]
                    yield f"{here}.{unknown}"
            continue
        child = node.child(key)
        if child is not None:
            yield from _prune(child, value[key], resource=child.embedded, path=here)
        elif node.additional is not True and not node.preserve:
            del value[key]
            yield here
