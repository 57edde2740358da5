"""The defaults a Kubernetes 1.36 API server fills into built-in objects before it stores them.

What a reader of the cluster sees is the defaulted object, so a sandbox without defaulting would hide exactly
the differences that a mirror of the cluster has to cope with. Defaulting is idempotent: a defaulted object
passes unchanged. Fields are only added where they are absent; null counts as absent, as it does for the Go
decoder.
"""

import base64
import copy
from collections.abc import Callable
from typing import Any

from reverser.sandbox.poddefaults import default_pod_spec, default_template, set_default
from reverser.sandbox.services import ServiceAllocator, default_service

Object = dict[str, Any]


def apply_defaults(
    group: str,
    version: str,
    kind: str,
    obj: Object,
    *,
    allocator: ServiceAllocator | None = None,
    old: Object | None = None,
) -> Object:
    """A defaulted copy of `obj`; kinds without rules come back as a plain copy.

    `allocator` gives Services their addresses and node ports (without one, Services keep what they bring);
    `old` is the stored object on update, from which a Service keeps what was allocated to it.
    """
    obj = copy.deepcopy(obj)
    if (group, kind) == ("", "Service"):
        default_service(obj, allocator, old)
        return obj
    rule = _RULES.get((group, kind))
    if rule is not None:
        rule(obj, version)
    return obj


def _spec(obj: Object) -> Object:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        spec = obj["spec"] = {}
    return spec


# --- core ---------------------------------------------------------------------------------------------


def _secret(obj: Object, _version: str) -> None:
    strings = obj.pop("stringData", None) or {}
    data = obj.get("data")
    if strings:
        data = obj["data"] = dict(data or {})
        for key, text in strings.items():
            data[key] = base64.b64encode(text.encode()).decode()
    set_default(obj, "type", "Opaque")


def _namespace(obj: Object, _version: str) -> None:
    metadata = obj.setdefault("metadata", {})
    name = metadata.get("name")
    if name:
        metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": name}
    set_default(_spec(obj), "finalizers", ["kubernetes"])
    status = obj.get("status")
    if not isinstance(status, dict):
        status = obj["status"] = {}
    set_default(status, "phase", "Active")


def _pod(obj: Object, _version: str) -> None:
    spec = _spec(obj)
    default_pod_spec(spec, pod=True)
    status = obj.setdefault("status", {})
    if isinstance(status, dict):
        set_default(status, "phase", "Pending")
        set_default(status, "qosClass", _qos_class(spec))


def _qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, from the requests and limits of CPU and memory."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    guaranteed, any_set = True, False
    for container in containers:
        resources = container.get("resources") or {}
        for resource in ("cpu", "memory"):
            limit = (resources.get("limits") or {}).get(resource)
            request = (resources.get("requests") or {}).get(resource)
            any_set = any_set or limit is not None or request is not None
            guaranteed = guaranteed and limit is not None and request in (None, limit)
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _persistent_volume_claim(obj: Object, _version: str) -> None:
    set_default(_spec(obj), "resources", {})
    set_default(_spec(obj), "volumeMode", "Filesystem")
    set_default(obj, "status", {})
    set_default(obj["status"], "phase", "Pending")


def _persistent_volume(obj: Object, _version: str) -> None:
    spec = _spec(obj)
    set_default(spec, "persistentVolumeReclaimPolicy", "Retain")
    set_default(spec, "volumeMode", "Filesystem")
    if isinstance(spec.get("hostPath"), dict):
        set_default(spec["hostPath"], "type", "")
    set_default(obj, "status", {})
    set_default(obj["status"], "phase", "Pending")


def _endpoints(obj: Object, _version: str) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            set_default(port, "protocol", "TCP")


def _replication_controller(obj: Object, _version: str) -> None:
    spec = _spec(obj)
    set_default(spec, "replicas", 1)
    if spec.get("template"):
        default_template(spec)
        labels = (spec["template"].get("metadata") or {}).get("labels")
        if labels:
            set_default(spec, "selector", dict(labels))
    set_default(obj, "status", {"replicas": 0})


# --- apps ---------------------------------------------------------------------------------------------


def _deployment(obj: Object, _version: str) -> None:
    spec = _spec(obj)
    set_default(spec, "replicas", 1)
    default_template(spec)
    strategy = spec.setdefault("strategy", {}) or {}
    spec["strategy"] = strategy
    set_default(strategy, "type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        strategy["rollingUpdate"] = rolling
        set_default(rolling, "maxUnavailable", "25%")
        set_default(rolling, "maxSurge", "25%")
    set_default(spec, "revisionHistoryLimit", 10)
    set_default(spec, "progressDeadlineSeconds", 600)
    set_default(obj, "status", {})


def _stateful_set(obj: Object, _version: str) -> None:
    spec = _spec(obj)
    set_default(spec, "replicas", 1)
    default_template(spec)
    for claim in spec.get("volumeClaimTemplates") or ():
        set_default(claim, "apiVersion", "v1")
        set_default(claim, "kind", "PersistentVolumeClaim")
        _persistent_volume_claim(claim, "v1")
    # The Go type has no omitempty here, so an absent name is stored and shown as an empty one.
    set_default(spec, "serviceName", "")
    set_default(spec, "podManagementPolicy", "OrderedReady")
    strategy = spec.get("updateStrategy") or {}
    spec["updateStrategy"] = strategy
    set_default(strategy, "type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = strategy.get("rollingUpdate") or {}
        set_default(strategy["rollingUpdate"], "partition", 0)
    set_default(spec, "revisionHistoryLimit", 10)
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    spec["persistentVolumeClaimRetentionPolicy"] = retention
    set_default(retention, "whenDeleted", "Retain")
    set_default(retention, "whenScaled", "Retain")
    set_default(obj, "status", {"replicas": 0, "availableReplicas": 0})


def _daemon_set(obj: Object, _version: str) -> None:
    spec = _spec(obj)
    default_template(spec)
    strategy = spec.get("updateStrategy") or {}
    spec["updateStrategy"] = strategy
    set_default(strategy, "type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = strategy.get("rollingUpdate") or {}
        set_default(strategy["rollingUpdate"], "maxUnavailable", 1)
        set_default(strategy["rollingUpdate"], "maxSurge", 0)
    set_default(spec, "revisionHistoryLimit", 10)
    counts = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    set_default(obj, "status", dict.fromkeys(counts, 0))


def _replica_set(obj: Object, _version: str) -> None:
    spec = _spec(obj)
    set_default(spec, "replicas", 1)
    if spec.get("template"):
        default_template(spec)
    set_default(obj, "status", {"replicas": 0})


# --- batch --------------------------------------------------------------------------------------------


def _resource_quota(obj: Object, _version: str) -> None:
    set_default(obj, "status", {})


def _job_spec(spec: Object) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = spec["parallelism"] = 1
    set_default(spec, "parallelism", 1)
    backoff = 6 if spec.get("backoffLimitPerIndex") is None else 2147483647
    set_default(spec, "backoffLimit", backoff)
    set_default(spec, "completionMode", "NonIndexed")
    set_default(spec, "suspend", False)
    set_default(spec, "manualSelector", False)
    policy = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    set_default(spec, "podReplacementPolicy", policy)
    default_template(spec)


def _job(obj: Object, _version: str) -> None:
    spec = _spec(obj)
    _job_spec(spec)
    metadata = obj.setdefault("metadata", {})
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not metadata.get("labels"):
        metadata["labels"] = dict(labels)
    uid = metadata.get("uid")
    if uid and not spec["manualSelector"] and not spec.get("selector") and spec.get("template"):
        _generate_job_selector(obj, spec, uid)
    set_default(obj, "status", {})


def _generate_job_selector(obj: Object, spec: Object, uid: str) -> None:
    """The selector and labels that tie a Job's pods to it, as the server generates them."""
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    metadata = spec["template"].setdefault("metadata", {})
    name = obj["metadata"].get("name", "")
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }


def _cron_job(obj: Object, _version: str) -> None:
    spec = _spec(obj)
    set_default(spec, "concurrencyPolicy", "Allow")
    set_default(spec, "suspend", False)
    set_default(spec, "successfulJobsHistoryLimit", 3)
    set_default(spec, "failedJobsHistoryLimit", 1)
    template = spec.get("jobTemplate")
    if isinstance(template, dict):
        # Of the Job's defaults only those of its pod template apply before the Job exists.
        template.setdefault("metadata", {})
        if isinstance(template.get("spec"), dict):
            default_template(template["spec"])
    set_default(obj, "status", {})


# --- networking, policy, storage, rbac ----------------------------------------------------------------


def _ingress(obj: Object, _version: str) -> None:
    set_default(obj, "status", {})
    set_default(obj["status"], "loadBalancer", {})


def _network_policy(obj: Object, _version: str) -> None:
    spec = _spec(obj)
    set_default(spec, "podSelector", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in [*(spec.get("ingress") or ()), *(spec.get("egress") or ())]:
        for port in rule.get("ports") or ():
            set_default(port, "protocol", "TCP")


def _pod_disruption_budget(obj: Object, _version: str) -> None:
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    set_default(obj, "status", dict.fromkeys(counts, 0))


def _storage_class(obj: Object, _version: str) -> None:
    set_default(obj, "reclaimPolicy", "Delete")
    set_default(obj, "volumeBindingMode", "Immediate")


def _role(obj: Object, _version: str) -> None:
    # `rules` has no omitempty: an absent or empty list is stored as none and shown as null.
    obj["rules"] = obj.get("rules") or None


def _role_binding(obj: Object, _version: str) -> None:
    ref = obj.setdefault("roleRef", {})
    set_default(ref, "apiGroup", "rbac.authorization.k8s.io")
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            set_default(subject, "apiGroup", "rbac.authorization.k8s.io")


def _autoscaler(obj: Object, version: str) -> None:
    spec = _spec(obj)
    set_default(spec, "minReplicas", 1)
    if version == "v1":
        set_default(obj, "status", {"currentReplicas": 0, "desiredReplicas": 0})
        return
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior:
        _scaling_rules(behavior, "scaleUp", [("Pods", 4, 15), ("Percent", 100, 15)], window=0)
        _scaling_rules(behavior, "scaleDown", [("Percent", 100, 15)], window=None)
    set_default(obj, "status", {"desiredReplicas": 0, "currentMetrics": None})


def _scaling_rules(
    behavior: Object, direction: str, policies: list[tuple[str, int, int]], *, window: int | None
) -> None:
    rules = behavior.get(direction) or {}
    behavior[direction] = rules
    if window is not None:
        set_default(rules, "stabilizationWindowSeconds", window)
    set_default(rules, "selectPolicy", "Max")
    set_default(
        rules,
        "policies",
        [{"type": kind, "value": value, "periodSeconds": period} for kind, value, period in policies],
    )


def _priority_class(obj: Object, _version: str) -> None:
    set_default(obj, "preemptionPolicy", "PreemptLowerPriority")


def _ingress_class(obj: Object, _version: str) -> None:
    parameters = (obj.get("spec") or {}).get("parameters")
    if parameters:
        set_default(parameters, "scope", "Cluster")


# --- extension points ---------------------------------------------------------------------------------


def _webhook_configuration(obj: Object, _version: str) -> None:
    mutating = obj.get("kind") == "MutatingWebhookConfiguration"
    for hook in obj.get("webhooks") or ():
        set_default(hook, "failurePolicy", "Fail")
        set_default(hook, "matchPolicy", "Equivalent")
        set_default(hook, "namespaceSelector", {})
        set_default(hook, "objectSelector", {})
        set_default(hook, "timeoutSeconds", 10)
        if mutating:
            set_default(hook, "reinvocationPolicy", "Never")
        for rule in hook.get("rules") or ():
            set_default(rule, "scope", "*")
        service = (hook.get("clientConfig") or {}).get("service")
        if service:
            set_default(service, "port", 443)


def _custom_resource_definition(obj: Object, _version: str) -> None:
    spec = _spec(obj)
    names = spec.setdefault("names", {})
    kind = names.get("kind")
    if kind:
        set_default(names, "singular", kind.lower())
        set_default(names, "listKind", f"{kind}List")
    conversion = spec.get("conversion") or {}
    spec["conversion"] = conversion
    set_default(conversion, "strategy", "None")
    status = obj.get("status") or {}
    obj["status"] = status
    if "conditions" not in status:
        status["conditions"] = None
    set_default(status, "acceptedNames", {"plural": "", "kind": ""})
    stored = [v["name"] for v in spec.get("versions") or () if v.get("storage")]
    set_default(status, "storedVersions", stored)


def _api_service(obj: Object, _version: str) -> None:
    service = _spec(obj).get("service")
    if service:
        set_default(service, "port", 443)
    set_default(obj, "status", {})


def _certificate_signing_request(obj: Object, _version: str) -> None:
    usages = _spec(obj).get("usages")
    if not usages:
        _spec(obj)["usages"] = ["digital signature", "key encipherment"]
    set_default(obj, "status", {})


_RULES: dict[tuple[str, str], Callable[[Object, str], None]] = {
    ("", "Secret"): _secret,
    ("", "Namespace"): _namespace,
    ("", "Pod"): _pod,
    ("", "PersistentVolumeClaim"): _persistent_volume_claim,
    ("", "PersistentVolume"): _persistent_volume,
    ("", "Endpoints"): _endpoints,
    ("", "ResourceQuota"): _resource_quota,
    ("", "ReplicationController"): _replication_controller,
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "ReplicaSet"): _replica_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("networking.k8s.io", "Ingress"): _ingress,
    ("networking.k8s.io", "IngressClass"): _ingress_class,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
    ("policy", "PodDisruptionBudget"): _pod_disruption_budget,
    ("storage.k8s.io", "StorageClass"): _storage_class,
    ("rbac.authorization.k8s.io", "Role"): _role,
    ("rbac.authorization.k8s.io", "ClusterRole"): _role,
    ("rbac.authorization.k8s.io", "RoleBinding"): _role_binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _role_binding,
    ("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _webhook_configuration,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _webhook_configuration,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _custom_resource_definition,
    ("apiregistration.k8s.io", "APIService"): _api_service,
    ("certificates.k8s.io", "CertificateSigningRequest"): _certificate_signing_request,
}
