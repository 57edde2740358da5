"""Validation of built-in objects: names, required fields, and fields that may not change.

Not everything a real server checks is checked here, but what is refused is refused with the server's path,
reason and words. Objects arrive defaulted. Custom resources get their metadata checked here and the rest by
their schema.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from reverser.sandbox import causes as c
from reverser.sandbox import names
from reverser.sandbox.causes import Cause
from reverser.sandbox.objectmeta import check_metadata, check_selector
from reverser.sandbox.podvalidate import (
    IMMUTABLE,
    NOT_NEGATIVE,
    PORT_RANGE,
    check_pod_spec,
    check_template,
    check_workload,
)
from reverser.sandbox.policyvalidate import (
    changed,
    check_api_service,
    check_autoscaler,
    check_binding,
    check_definition,
    check_disruption_budget,
    check_lease,
    check_priority_class,
    check_role,
    check_webhooks,
    spec_of,
)

__all__ = ["Cause", "validate_builtin"]

Object = dict[str, Any]

_DATA_LIMIT = 1024 * 1024
_IMMUTABLE_DATA = "field is immutable when `immutable` is set"


def validate_builtin(group: str, kind: str, obj: Object, old: Object | None = None) -> list[Cause]:
    """Every complaint about a built-in object; `old` is the stored object on update.

    For a kind without rules (custom resources among them) only the metadata is checked.
    """
    found = list(check_metadata(group, kind, obj))
    check = _CHECKS.get((group, kind))
    if check is not None:
        found.extend(check(obj, old))
    return found


# --- data ---------------------------------------------------------------------------------------------


def _immutable_data(obj: Object, old: Object | None, *keys: str) -> Iterator[Cause]:
    if old is None or not old.get("immutable"):
        return
    if not obj.get("immutable"):
        yield c.forbidden("immutable", _IMMUTABLE_DATA)
    for key in keys:
        if (obj.get(key) or {}) != (old.get(key) or {}):
            yield c.forbidden(key, _IMMUTABLE_DATA)


def _config_map(obj: Object, old: Object | None) -> Iterator[Cause]:
    yield from _immutable_data(obj, old, "data", "binaryData")
    total = 0
    for field in ("data", "binaryData"):
        for key, value in sorted((obj.get(field) or {}).items()):
            for message in names.config_key_errors(key):
                yield c.invalid(f"{field}[{key}]", key, message)
            if field == "data" and key in (obj.get("binaryData") or {}):
                yield c.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
            total += len(str(value).encode())
    if total > _DATA_LIMIT:
        yield c.too_long("", _DATA_LIMIT)


_SECRET_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def _secret(obj: Object, old: Object | None) -> Iterator[Cause]:
    if changed(obj, old, "type"):
        yield c.invalid("type", obj.get("type"), IMMUTABLE)
    yield from _immutable_data(obj, old, "data")
    data = obj.get("data") or {}
    for key in sorted(data):
        for message in names.config_key_errors(key):
            yield c.invalid(f"data[{key}]", key, message)
    if sum(len(str(value)) * 3 // 4 for value in data.values()) > _DATA_LIMIT:
        yield c.too_long("data", _DATA_LIMIT)
    for key in _SECRET_KEYS.get(obj.get("type", ""), ()):
        if key not in data:
            yield c.required(f"data[{key}]")
    if obj.get("type") == "kubernetes.io/service-account-token":
        annotation = "kubernetes.io/service-account.name"
        if not ((obj.get("metadata") or {}).get("annotations") or {}).get(annotation):
            yield c.required(f"metadata.annotations[{annotation}]")


# --- workloads ----------------------------------------------------------------------------------------


def _pod(obj: Object, old: Object | None) -> Iterator[Cause]:
    if old is None:
        yield from check_pod_spec(obj.get("spec"), "spec")
        return
    if _frozen_pod(spec_of(obj)) != _frozen_pod(spec_of(old)):
        yield c.forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions "
            "to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it "
            "was previously negative)",
        )


def _frozen_pod(spec: Object) -> Object:
    fixed = {k: v for k, v in spec.items() if k not in ("activeDeadlineSeconds", "tolerations", "nodeName")}
    for group in ("containers", "initContainers"):
        fixed[group] = [{k: v for k, v in item.items() if k != "image"} for item in spec.get(group) or ()]
    return fixed


def _workload(obj: Object, old: Object | None) -> Iterator[Cause]:
    yield from check_workload(obj, old)


_STATEFUL_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def _stateful_set(obj: Object, old: Object | None) -> Iterator[Cause]:
    yield from check_workload(obj, old, selector_fixed=False)
    if old is not None:
        fixed, before = (
            {key: value for key, value in spec_of(item).items() if key not in _STATEFUL_MUTABLE}
            for item in (obj, old)
        )
        if fixed != before:
            shown = ", ".join(f"'{key}'" for key in _STATEFUL_MUTABLE[:-1])
            yield c.forbidden(
                "spec",
                f"updates to statefulset spec for fields other than {shown} and 'minReadySeconds' are "
                "forbidden",
            )


_JOB_POLICIES = ("OnFailure", "Never")


def _job(obj: Object, old: Object | None) -> Iterator[Cause]:
    spec = spec_of(obj)
    for key in ("parallelism", "completions", "backoffLimit"):
        if isinstance(spec.get(key), int) and spec[key] < 0:
            yield c.invalid(f"spec.{key}", spec[key], NOT_NEGATIVE)
    yield from check_template(spec, restart_policies=_JOB_POLICIES)
    for key in ("selector", "template", "completions", "completionMode"):
        mutable = key == "template" and spec_of(old).get("suspend")
        if changed(obj, old, "spec", key) and not mutable:
            yield c.invalid(f"spec.{key}", spec.get(key), IMMUTABLE)


_CRON_FIELD = re.compile(r"[\d*/,?LW#-]+|[A-Za-z]{3}([-,][A-Za-z]{3})*")


def _cron_job(obj: Object, _old: Object | None) -> Iterator[Cause]:
    name = (obj.get("metadata") or {}).get("name") or ""
    if len(name) > 52:
        yield c.invalid("metadata.name", name, "must be no more than 52 characters")
    spec = spec_of(obj)
    schedule = spec.get("schedule") or ""
    if not schedule:
        yield c.required("spec.schedule")
    elif not schedule.startswith("@") and (
        len(schedule.split()) != 5 or not all(_CRON_FIELD.fullmatch(part) for part in schedule.split())
    ):
        found = len(schedule.split())
        yield c.invalid("spec.schedule", schedule, f"expected exactly 5 fields, found {found}: [{schedule}]")
    policy = spec.get("concurrencyPolicy")
    if policy not in ("Allow", "Forbid", "Replace"):
        yield c.not_supported("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace"))
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    yield from check_template(template, "spec.jobTemplate.spec.template", restart_policies=_JOB_POLICIES)


# --- networking ---------------------------------------------------------------------------------------


def _service(obj: Object, old: Object | None) -> Iterator[Cause]:
    spec = spec_of(obj)
    kind, ports = spec.get("type"), spec.get("ports") or []
    kinds = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    if kind not in kinds:
        yield c.not_supported("spec.type", kind, kinds)
    if kind == "ExternalName":
        if not spec.get("externalName"):
            yield c.required("spec.externalName")
    elif not ports and spec.get("clusterIP") != "None":
        yield c.required("spec.ports")
    seen: set[Any] = set()
    taken: set[Any] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        number = port.get("port")
        if not isinstance(number, int) or not 0 < number < 65536:
            yield c.invalid(f"{path}.port", number or 0, PORT_RANGE)
        name = port.get("name") or ""
        if not name and len(ports) > 1:
            yield c.required(f"{path}.name")
        elif name and name in seen:
            yield c.duplicate(f"{path}.name", name)
        seen.add(name)
        key = (port.get("protocol"), number)
        if key in taken:
            yield c.duplicate(path, port)
        taken.add(key)
    before = spec_of(old)
    fixed = before.get("clusterIP") and "ExternalName" not in (kind, before.get("type"))
    if fixed and spec.get("clusterIP") != before["clusterIP"]:
        yield c.invalid("spec.clusterIPs[0]", spec.get("clusterIPs"), "may not change once set")


def _ingress(obj: Object, _old: Object | None) -> Iterator[Cause]:
    spec = spec_of(obj)
    if not spec.get("rules") and not spec.get("defaultBackend"):
        yield c.invalid(
            "spec", spec.get("rules") or [], "either `defaultBackend` or `rules` must be specified"
        )
    for index, rule in enumerate(spec.get("rules") or ()):
        for number, path in enumerate((rule.get("http") or {}).get("paths") or ()):
            where = f"spec.rules[{index}].http.paths[{number}]"
            kind = path.get("pathType")
            if not kind:
                yield c.required(f"{where}.pathType", "pathType must be specified")
            elif kind not in ("Exact", "ImplementationSpecific", "Prefix"):
                yield c.not_supported(
                    f"{where}.pathType", kind, ("Exact", "ImplementationSpecific", "Prefix")
                )
            if kind in ("Exact", "Prefix") and not str(path.get("path") or "").startswith("/"):
                yield c.invalid(f"{where}.path", path.get("path") or "", "must be an absolute path")
            service = (path.get("backend") or {}).get("service") or {}
            if service and not service.get("name"):
                yield c.required(f"{where}.backend.service.name")


def _network_policy(obj: Object, _old: Object | None) -> Iterator[Cause]:
    spec = spec_of(obj)
    yield from check_selector(spec.get("podSelector"), "spec.podSelector")
    for index, kind in enumerate(spec.get("policyTypes") or ()):
        if kind not in ("Ingress", "Egress"):
            yield c.not_supported(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress"))


# --- storage ------------------------------------------------------------------------------------------


def _claim(obj: Object, old: Object | None) -> Iterator[Cause]:
    spec = spec_of(obj)
    if not spec.get("accessModes"):
        yield c.required("spec.accessModes", "at least 1 access mode is required")
    if not ((spec.get("resources") or {}).get("requests") or {}).get("storage"):
        yield c.required("spec.resources[storage]")
    mutable = ("resources", "volumeAttributesClassName", "volumeName", "storageClassName")
    if old is not None:
        fixed, before = ({k: v for k, v in spec_of(item).items() if k not in mutable} for item in (obj, old))
        late = any(spec_of(old).get(k) and changed(obj, old, "spec", k) for k in mutable[2:])
        if fixed != before or late:
            yield c.forbidden(
                "spec",
                "spec is immutable after creation except resources.requests and volumeAttributesClassName "
                "for bound claims",
            )


def _volume(obj: Object, _old: Object | None) -> Iterator[Cause]:
    spec = spec_of(obj)
    if not spec.get("accessModes"):
        yield c.required("spec.accessModes")
    if not spec.get("capacity"):
        yield c.required("spec.capacity")


def _storage_class(obj: Object, old: Object | None) -> Iterator[Cause]:
    if not obj.get("provisioner"):
        yield c.required("provisioner")
    for key in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        if changed(obj, old, key):
            if key == "volumeBindingMode":
                yield c.invalid(key, obj.get(key), IMMUTABLE)
            else:
                yield c.forbidden(key, f"updates to {key} are forbidden.")


_CHECKS: dict[tuple[str, str], Callable[[Object, Object | None], Iterator[Cause]]] = {
    ("", "ConfigMap"): _config_map,
    ("", "Secret"): _secret,
    ("", "Pod"): _pod,
    ("", "Service"): _service,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "PersistentVolume"): _volume,
    ("apps", "Deployment"): _workload,
    ("apps", "ReplicaSet"): _workload,
    ("apps", "DaemonSet"): _workload,
    ("apps", "StatefulSet"): _stateful_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("networking.k8s.io", "Ingress"): _ingress,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
    ("storage.k8s.io", "StorageClass"): _storage_class,
    ("rbac.authorization.k8s.io", "Role"): check_role,
    ("rbac.authorization.k8s.io", "ClusterRole"): check_role,
    ("rbac.authorization.k8s.io", "RoleBinding"): check_binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): check_binding,
    ("autoscaling", "HorizontalPodAutoscaler"): check_autoscaler,
    ("policy", "PodDisruptionBudget"): check_disruption_budget,
    ("coordination.k8s.io", "Lease"): check_lease,
    ("scheduling.k8s.io", "PriorityClass"): check_priority_class,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): check_webhooks,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): check_webhooks,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): check_definition,
    ("apiregistration.k8s.io", "APIService"): check_api_service,
}
