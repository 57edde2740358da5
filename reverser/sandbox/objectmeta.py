"""Validation of `metadata`, which is the same for built-in objects and custom resources."""

import enum
from collections.abc import Callable, Iterator
from typing import Any

from reverser.sandbox import causes as c
from reverser.sandbox import names
from reverser.sandbox.causes import Cause

Object = dict[str, Any]

_ANNOTATIONS_LIMIT = 256 * 1024
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


class NameRule(enum.Enum):
    """Which names a kind allows."""

    SUBDOMAIN = "subdomain"
    LABEL = "label"
    PATH_SEGMENT = "path segment"


_NAME_RULES: dict[tuple[str, str], NameRule] = {
    ("", "Namespace"): NameRule.LABEL,
    ("", "Service"): NameRule.LABEL,
    ("apiregistration.k8s.io", "APIService"): NameRule.PATH_SEGMENT,
    **{
        ("rbac.authorization.k8s.io", kind): NameRule.PATH_SEGMENT
        for kind in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
    },
}
_CHECKS: dict[NameRule, Callable[[str], list[str]]] = {
    NameRule.SUBDOMAIN: names.subdomain_errors,
    NameRule.LABEL: names.label_errors,
    NameRule.PATH_SEGMENT: names.path_segment_errors,
}


def name_rule(group: str, kind: str) -> NameRule:
    """The naming rule of a kind; whatever is not special is named by a subdomain."""
    return _NAME_RULES.get((group, kind), NameRule.SUBDOMAIN)


def check_metadata(group: str, kind: str, obj: Object) -> Iterator[Cause]:
    """Complaints about the metadata of a new or changed object."""
    metadata = obj.get("metadata") or {}
    check = _CHECKS[name_rule(group, kind)]
    name, prefix = metadata.get("name") or "", metadata.get("generateName") or ""
    if prefix:
        # The prefix must be able to become a name once a suffix follows it.
        for message in check(prefix.removesuffix("-") + "a" if prefix.endswith("-") else prefix):
            yield c.invalid("metadata.generateName", prefix, message)
    if not name:
        if not prefix:
            yield c.required("metadata.name", "name or generateName is required")
    else:
        for message in check(name):
            yield c.invalid("metadata.name", name, message)
    yield from _labels(metadata.get("labels") or {}, "metadata.labels")
    annotations = metadata.get("annotations") or {}
    for key in sorted(annotations):
        for message in names.qualified_name_errors(key.lower()):
            yield c.invalid("metadata.annotations", key, message)
    if sum(len(k.encode()) + len(str(v).encode()) for k, v in annotations.items()) > _ANNOTATIONS_LIMIT:
        yield c.too_long("metadata.annotations", _ANNOTATIONS_LIMIT)
    yield from _finalizers(metadata.get("finalizers") or ())
    yield from _owners(metadata.get("ownerReferences") or ())


def _labels(labels: Object, path: str) -> Iterator[Cause]:
    for key in sorted(labels):
        for message in names.qualified_name_errors(key):
            yield c.invalid(path, key, message)
        for message in names.label_value_errors(str(labels[key])):
            yield c.invalid(path, labels[key], message)


def check_selector(selector: Any, path: str) -> Iterator[Cause]:
    """Complaints about a label selector."""
    if not isinstance(selector, dict):
        return
    yield from _labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, term in enumerate(selector.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{index}]"
        operator, values = term.get("operator"), term.get("values") or ()
        if operator in ("In", "NotIn") and not values:
            yield c.required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist") and values:
            yield c.forbidden(
                f"{where}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
        elif operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            yield c.invalid(f"{where}.operator", operator, "not a valid selector operator")
        for message in names.qualified_name_errors(str(term.get("key") or "")):
            yield c.invalid(f"{where}.key", term.get("key"), message)


def _finalizers(finalizers: Any) -> Iterator[Cause]:
    for index, name in enumerate(finalizers):
        for message in names.qualified_name_errors(name):
            yield c.invalid(f"metadata.finalizers[{index}]", name, message)
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            yield c.invalid(
                f"metadata.finalizers[{index}]",
                name,
                "name is neither a standard finalizer name nor is it fully qualified",
            )


def _owners(owners: Any) -> Iterator[Cause]:
    controllers = 0
    for index, owner in enumerate(owners):
        path = f"metadata.ownerReferences[{index}]"
        for key, message in (
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ):
            if not owner.get(key):
                yield c.invalid(f"{path}.{key}", owner.get(key) or "", message)
        controllers += bool(owner.get("controller"))
    if controllers > 1:
        yield c.invalid(
            "metadata.ownerReferences",
            owners,
            "Only one reference can have Controller set to true",
        )
