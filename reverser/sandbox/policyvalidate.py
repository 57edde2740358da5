"""Validation of the kinds that govern others: RBAC, budgets, webhooks, definitions, API services."""

from collections.abc import Iterator
from typing import Any

from reverser.sandbox import causes as c
from reverser.sandbox import names
from reverser.sandbox.causes import Cause
from reverser.sandbox.crdcheck import validate_crd
from reverser.sandbox.objectmeta import check_selector
from reverser.sandbox.podvalidate import IMMUTABLE, NOT_NEGATIVE

Object = dict[str, Any]


def spec_of(obj: Object | None) -> Object:
    """The spec, empty where there is none."""
    return (obj or {}).get("spec") or {}


def changed(obj: Object, old: Object | None, *path: str) -> bool:
    """Whether an update changes the field at a path of keys."""
    if old is None:
        return False
    now: Any = obj
    before: Any = old
    for key in path:
        now = now.get(key) if isinstance(now, dict) else None
        before = before.get(key) if isinstance(before, dict) else None
    return bool(now != before)


# --- rbac ---------------------------------------------------------------------------------------------


def check_role(obj: Object, _old: Object | None) -> Iterator[Cause]:
    """Rules of a Role or ClusterRole."""
    cluster = obj.get("kind") == "ClusterRole"
    for index, rule in enumerate(obj.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            yield c.required(f"{path}.verbs", "verbs must contain at least one value")
        if rule.get("nonResourceURLs"):
            if not cluster:
                yield c.invalid(
                    f"{path}.nonResourceURLs",
                    rule["nonResourceURLs"],
                    "namespaced rules cannot apply to non-resource URLs",
                )
            continue
        if not rule.get("apiGroups"):
            yield c.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield c.required(f"{path}.resources", "resource rules must supply at least one resource")


def check_binding(obj: Object, old: Object | None) -> Iterator[Cause]:
    """Reference and subjects of a binding; the reference never changes."""
    ref = obj.get("roleRef") or {}
    kinds = ("ClusterRole",) if obj.get("kind") == "ClusterRoleBinding" else ("ClusterRole", "Role")
    if ref.get("kind") not in kinds:
        yield c.not_supported("roleRef.kind", ref.get("kind") or "", kinds)
    if not ref.get("name"):
        yield c.required("roleRef.name")
    for index, subject in enumerate(obj.get("subjects") or ()):
        path = f"subjects[{index}]"
        if not subject.get("name"):
            yield c.required(f"{path}.name")
        if subject.get("kind") == "ServiceAccount":
            if not subject.get("namespace"):
                yield c.required(f"{path}.namespace")
        elif subject.get("kind") not in ("User", "Group"):
            yield c.not_supported(
                f"{path}.kind", subject.get("kind") or "", ("Group", "ServiceAccount", "User")
            )
    if changed(obj, old, "roleRef"):
        yield c.invalid("roleRef", ref, "cannot change roleRef")


# --- the rest -----------------------------------------------------------------------------------------


def check_autoscaler(obj: Object, _old: Object | None) -> Iterator[Cause]:
    """Target and limits of an autoscaler."""
    spec = spec_of(obj)
    ref = spec.get("scaleTargetRef") or {}
    for key in ("kind", "name"):
        if not ref.get(key):
            yield c.required(f"spec.scaleTargetRef.{key}")
    least, most = spec.get("minReplicas", 1), spec.get("maxReplicas") or 0
    if least < 1:
        yield c.invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield c.invalid("spec.maxReplicas", most, "must be greater than 0")
    elif most < least:
        yield c.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")


def check_disruption_budget(obj: Object, _old: Object | None) -> Iterator[Cause]:
    """A disruption budget states one of its two limits."""
    spec = spec_of(obj)
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield c.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    yield from check_selector(spec.get("selector"), "spec.selector")


def check_lease(obj: Object, _old: Object | None) -> Iterator[Cause]:
    """Durations and counts of a lease."""
    spec = spec_of(obj)
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield c.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        yield c.invalid("spec.leaseTransitions", transitions, NOT_NEGATIVE)


def check_priority_class(obj: Object, old: Object | None) -> Iterator[Cause]:
    """A priority never changes."""
    for key in ("value", "preemptionPolicy"):
        if changed(obj, old, key):
            text = (
                "may not be changed in an update." if key == "value" else "is immutable, may not be changed."
            )
            yield c.forbidden(key, text)


def check_webhooks(obj: Object, _old: Object | None) -> Iterator[Cause]:
    """The webhooks of a configuration."""
    for index, hook in enumerate(obj.get("webhooks") or ()):
        path = f"webhooks[{index}]"
        name = hook.get("name") or ""
        if len(name.split(".")) < 3 or names.subdomain_errors(name):
            yield c.invalid(
                f"{path}.name", name, "should be a domain with at least three segments separated by dots"
            )
        config = hook.get("clientConfig") or {}
        if bool(config.get("url")) == bool(config.get("service")):
            yield c.required(f"{path}.clientConfig", "exactly one of url or service is required")
        elif config.get("url") and not str(config["url"]).startswith("https://"):
            yield c.invalid(
                f"{path}.clientConfig.url",
                config["url"],
                "'https' is the only allowed URL scheme; desired format: https://host[/path]",
            )
        if hook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            if hook.get("sideEffects") is None:
                yield c.required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
            else:
                yield c.not_supported(f"{path}.sideEffects", hook["sideEffects"], ("None", "NoneOnDryRun"))
        if not hook.get("admissionReviewVersions"):
            yield c.required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1")
        if not 1 <= hook.get("timeoutSeconds", 10) <= 30:
            yield c.invalid(
                f"{path}.timeoutSeconds",
                hook["timeoutSeconds"],
                "the timeout value must be between 1 and 30 seconds",
            )


_CRD_FIXED = (("spec", "group"), ("spec", "names", "plural"), ("spec", "names", "kind"), ("spec", "scope"))


def check_definition(obj: Object, old: Object | None) -> Iterator[Cause]:
    """A CustomResourceDefinition, and what of it never changes."""
    yield from validate_crd(obj)
    for path in _CRD_FIXED:
        if changed(obj, old, *path):
            value: Any = obj
            for key in path:
                value = value.get(key) if isinstance(value, dict) else None
            yield c.invalid(".".join(path), value, IMMUTABLE)


def check_api_service(obj: Object, _old: Object | None) -> Iterator[Cause]:
    """Name and priorities of an APIService."""
    spec = spec_of(obj)
    name = (obj.get("metadata") or {}).get("name")
    wanted = f"{spec.get('version') or ''}.{spec.get('group') or ''}"
    if name != wanted:
        text = f'must be `spec.version+"."+spec.group`: {c.go_value(wanted)}'
        yield c.invalid("metadata.name", name, text)
    for key in ("groupPriorityMinimum", "versionPriority"):
        if not 0 < (spec.get(key) or 0) <= (20000 if key[0] == "g" else 1000):
            limit = "20000" if key[0] == "g" else "1000"
            yield c.invalid(f"spec.{key}", spec.get(key) or 0, f"must be positive and less than {limit}")
