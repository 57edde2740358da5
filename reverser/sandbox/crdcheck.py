"""Validation of CustomResourceDefinitions themselves: names, versions, structural schemas, rules, defaults.

A definition that passes compiles; whatever would make serving its objects fail is refused when it is written.
"""

import re
from collections.abc import Iterator
from typing import Any

from reverser.sandbox import causes as c
from reverser.sandbox.causes import Cause
from reverser.sandbox.celrules import RuleError, compile_rule
from reverser.sandbox.names import LABEL_MESSAGE, SUBDOMAIN_MESSAGE, is_label, is_subdomain
from reverser.sandbox.schemacheck import check
from reverser.sandbox.structural import compile_node, prune_unknown

Json = Any

_KIND = re.compile(r"[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?")
_VERSION_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_PROTECTED = (".k8s.io", ".kubernetes.io")
_APPROVAL = "api-approved.kubernetes.io"


def validate_crd(obj: dict[str, Json]) -> list[Cause]:
    """Every complaint about a (defaulted) CustomResourceDefinition; none means that it can be compiled."""
    return list(_definition(obj))


def _definition(obj: dict[str, Json]) -> Iterator[Cause]:
    spec = obj.get("spec") or {}
    names = spec.get("names") or {}
    metadata = obj.get("metadata") or {}
    group, plural = str(spec.get("group") or ""), str(names.get("plural") or "")
    if metadata.get("name") != f"{plural}.{group}":
        yield c.invalid("metadata.name", metadata.get("name"), 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield c.required("spec.group")
    elif not is_subdomain(group):
        yield c.invalid("spec.group", group, SUBDOMAIN_MESSAGE)
    elif "." not in group:
        yield c.invalid("spec.group", group, "should be a domain with at least one dot")
    elif group.endswith(_PROTECTED) and _APPROVAL not in (metadata.get("annotations") or {}):
        yield c.required(
            f"metadata.annotations[{_APPROVAL}]",
            "protected groups must have approval annotation "
            f'"{_APPROVAL}", see https://github.com/kubernetes/enhancements/pull/1111',
        )
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        missing = not spec.get("scope")
        yield (
            c.required("spec.scope")
            if missing
            else c.not_supported("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
        )
    yield from _names(names)
    yield from _versions(spec.get("versions") or [])


def _names(names: dict[str, Json]) -> Iterator[Cause]:
    for key in ("plural", "singular"):
        value = str(names.get(key) or "")
        if not value:
            yield c.required(f"spec.names.{key}")
        elif not is_label(value):
            yield c.invalid(f"spec.names.{key}", value, LABEL_MESSAGE)
    for key in ("kind", "listKind"):
        value = str(names.get(key) or "")
        if not value:
            yield c.required(f"spec.names.{key}")
        elif not _KIND.fullmatch(value):
            yield c.invalid(
                f"spec.names.{key}",
                value,
                "may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower "
                "case alphanumeric characters or '-', start with an alphabetic character, and end with an "
                "alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
                "'[a-z]([-a-z0-9]*[a-z0-9])?')",
            )
    for index, short in enumerate(names.get("shortNames") or ()):
        if not is_label(short):
            yield c.invalid(f"spec.names.shortNames[{index}]", short, LABEL_MESSAGE)


def _versions(versions: list[dict[str, Json]]) -> Iterator[Cause]:
    if not versions:
        yield c.required("spec.versions", "must have at least one version")
        return
    if sum(bool(version.get("storage")) for version in versions) != 1:
        shown = [version.get("name") for version in versions]
        yield c.invalid("spec.versions", shown, "must have exactly one version marked as storage version")
    seen: set[str] = set()
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        name = str(version.get("name") or "")
        if not name:
            yield c.required(f"{path}.name")
        elif not _VERSION_NAME.fullmatch(name):
            yield c.invalid(f"{path}.name", name, LABEL_MESSAGE)
        elif name in seen:
            yield c.duplicate(f"{path}.name", name)
        seen.add(name)
        yield from _columns(version.get("additionalPrinterColumns") or (), f"{path}.additionalPrinterColumns")
        scale = (version.get("subresources") or {}).get("scale")
        if scale is not None:
            yield from _scale(scale, f"{path}.subresources.scale")
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not isinstance(schema, dict):
            yield c.required(f"{path}.schema.openAPIV3Schema", "schemas are required")
        else:
            yield from _root_schema(schema, f"{path}.schema.openAPIV3Schema")


def _columns(columns: Any, path: str) -> Iterator[Cause]:
    for index, column in enumerate(columns):
        for key in ("name", "jsonPath"):
            if not column.get(key):
                yield c.required(f"{path}[{index}].{key}")
        if column.get("type") not in _COLUMN_TYPES:
            yield c.invalid(
                f"{path}[{index}].type",
                column.get("type"),
                "must be one of " + ",".join(_COLUMN_TYPES),
            )
        if column.get("jsonPath") and not str(column["jsonPath"]).startswith("."):
            yield c.invalid(
                f"{path}[{index}].jsonPath", column["jsonPath"], "must be a simple json path starting with ."
            )


def _scale(scale: dict[str, Json], path: str) -> Iterator[Cause]:
    for key, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        value = str(scale.get(key) or "")
        if not value:
            yield c.required(f"{path}.{key}")
        elif not value.startswith(root):
            yield c.invalid(f"{path}.{key}", value, f"should be a json path under {root.rstrip('.')}")


def _root_schema(schema: dict[str, Json], path: str) -> Iterator[Cause]:
    if schema.get("type") != "object":
        yield (
            c.required(f"{path}.type", "must not be empty at the root")
            if not schema.get("type")
            else c.invalid(f"{path}.type", schema["type"], "must be object at the root")
        )
        return
    complaints = list(_structural(schema, path, root=True))
    yield from complaints
    if not complaints:
        yield from _defaults(schema, path)


def _structural(schema: dict[str, Json], path: str, *, root: bool = False) -> Iterator[Cause]:
    int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    preserve = schema.get("x-kubernetes-preserve-unknown-fields")
    kind = schema.get("type")
    if not kind and not int_or_string and not preserve:
        yield c.required(f"{path}.type", "must not be empty for specified object fields")
    elif kind and kind not in _TYPES:
        yield c.not_supported(f"{path}.type", kind, _TYPES)
    if int_or_string and kind:
        yield c.forbidden(f"{path}.type", "must be empty if x-kubernetes-int-or-string is true")
    if preserve is False:
        yield c.invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    if schema.get("properties") and schema.get("additionalProperties") not in (None, False):
        yield c.forbidden(
            f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive"
        )
    if kind == "array" and not isinstance(schema.get("items"), dict):
        yield c.required(f"{path}.items", "must be specified")
    if schema.get("x-kubernetes-list-type") == "map" and not schema.get("x-kubernetes-list-map-keys"):
        yield c.required(
            f"{path}.x-kubernetes-list-map-keys",
            "must not be empty if x-kubernetes-list-type is map",
        )
    if schema.get("uniqueItems"):
        yield c.forbidden(
            f"{path}.uniqueItems",
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        )
    if schema.get("pattern"):
        try:
            re.compile(schema["pattern"])
        except re.error as error:
            yield c.invalid(
                f"{path}.pattern", schema["pattern"], f"must be a valid regular expression: {error}"
            )
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        where = f"{path}.x-kubernetes-validations[{index}].rule"
        if not str(rule.get("rule") or "").strip():
            yield c.required(where, "rule is not specified")
            continue
        try:
            compile_rule(rule)
        except RuleError as error:
            yield c.invalid(where, rule["rule"], str(error))
    for name, sub in (schema.get("properties") or {}).items():
        if root and name == "metadata":
            continue
        yield from _structural(sub, f"{path}.properties[{name}]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _structural(schema["additionalProperties"], f"{path}.additionalProperties")
    if isinstance(schema.get("items"), dict):
        yield from _structural(schema["items"], f"{path}.items")


def _defaults(schema: dict[str, Json], path: str) -> Iterator[Cause]:
    """A default must be valid under its own schema and may not carry unknown fields."""
    if "default" in schema and not (schema["default"] is None and schema.get("nullable")):
        node = compile_node({key: value for key, value in schema.items() if key != "default"})
        for field in prune_unknown(node, {"default": schema["default"]}["default"]):
            yield c.invalid(f"{path}.default", schema["default"], f"must not have unknown fields: {field}")
        for cause in check(node, schema["default"]):
            inner = "" if cause.field in ("", c.WHOLE) else f".{cause.field}"
            yield Cause(f"{path}.default{inner}", cause.reason, cause.message)
    for name, sub in (schema.get("properties") or {}).items():
        yield from _defaults(sub, f"{path}.properties[{name}]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _defaults(schema["additionalProperties"], f"{path}.additionalProperties")
    if isinstance(schema.get("items"), dict):
        yield from _defaults(schema["items"], f"{path}.items")
