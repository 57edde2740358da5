"""Defaults of pod specs and pod templates, shared by every workload kind that embeds one."""

from typing import Any

Object = dict[str, Any]

_PULL_ALWAYS_TAGS = ("", "latest")


def set_default(obj: Object, key: str, value: Any) -> None:
    """Set `obj[key]` where it is absent or null."""
    if obj.get(key) is None:
        obj[key] = value


def default_template(spec: Object) -> None:
    """Default `spec.template` in place where there is one."""
    template = spec.get("template")
    if not isinstance(template, dict):
        return
    # The Go type has no omitempty here: a template always shows its metadata.
    set_default(template, "metadata", {})
    if isinstance(template.get("spec"), dict):
        default_pod_spec(template["spec"])


def default_pod_spec(spec: Object, *, pod: bool = False) -> None:
    """Default a pod spec in place; `pod` adds what only a Pod itself gets (admission plugins included)."""
    set_default(spec, "restartPolicy", "Always")
    set_default(spec, "terminationGracePeriodSeconds", 30)
    set_default(spec, "dnsPolicy", "ClusterFirst")
    if spec.get("serviceAccountName"):
        set_default(spec, "serviceAccount", spec["serviceAccountName"])
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    set_default(spec, "securityContext", {})
    set_default(spec, "schedulerName", "default-scheduler")
    if pod:
        set_default(spec, "enableServiceLinks", True)
        set_default(spec, "preemptionPolicy", "PreemptLowerPriority")
        set_default(spec, "priority", 0)
        _tolerations(spec)
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(group) or ():
            _container(container, pod=pod)
    if pod and spec.get("hostNetwork"):
        for group in ("initContainers", "containers"):
            for container in spec.get(group) or ():
                for port in container.get("ports") or ():
                    set_default(port, "hostPort", port.get("containerPort"))
    for volume in spec.get("volumes") or ():
        _volume(volume)
    for constraint in spec.get("topologySpreadConstraints") or ():
        if pod:
            set_default(constraint, "nodeAffinityPolicy", "Honor")
            set_default(constraint, "nodeTaintsPolicy", "Ignore")


def _tolerations(spec: Object) -> None:
    """The DefaultTolerationSeconds admission plugin: five minutes for an unready or unreachable node."""
    tolerations = spec.get("tolerations") or []
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        covered = any(
            item.get("key") in (key, None, "") and item.get("effect") in ("NoExecute", None, "")
            for item in tolerations
        )
        if not covered:
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            )
    spec["tolerations"] = tolerations


def image_pull_policy(image: str) -> str:
    """`Always` for an image that names the tag latest or neither tag nor digest, else `IfNotPresent`."""
    if "@" in image:
        return "IfNotPresent"
    last = image.rsplit("/", 1)[-1]
    tag = last.partition(":")[2]
    return "Always" if tag in _PULL_ALWAYS_TAGS else "IfNotPresent"


def _container(container: Object, *, pod: bool) -> None:
    for port in container.get("ports") or ():
        set_default(port, "protocol", "TCP")
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        if source.get("fieldRef"):
            set_default(source["fieldRef"], "apiVersion", "v1")
        if source.get("resourceFieldRef"):
            set_default(source["resourceFieldRef"], "divisor", "0")
        if source.get("fileKeyRef"):
            set_default(source["fileKeyRef"], "optional", False)
    # A resource with a limit and no request is requested at its limit, in a Pod but not in a template of one.
    resources = container.get("resources") or {}
    if pod and resources.get("limits"):
        requests = resources.setdefault("requests", {}) or {}
        resources["requests"] = {**resources["limits"], **requests}
    container["resources"] = resources
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(probe):
            _probe(container[probe])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _http_get(hook)
    set_default(container, "terminationMessagePath", "/dev/termination-log")
    set_default(container, "terminationMessagePolicy", "File")
    set_default(container, "imagePullPolicy", image_pull_policy(container.get("image") or ""))


def _http_get(handler: Object) -> None:
    if handler.get("httpGet"):
        set_default(handler["httpGet"], "path", "/")
        set_default(handler["httpGet"], "scheme", "HTTP")
    if handler.get("grpc"):
        set_default(handler["grpc"], "service", "")


def _probe(probe: Object) -> None:
    _http_get(probe)
    set_default(probe, "timeoutSeconds", 1)
    set_default(probe, "periodSeconds", 10)
    set_default(probe, "successThreshold", 1)
    set_default(probe, "failureThreshold", 3)


_SOURCES_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")


def _volume(volume: Object) -> None:
    sources = [key for key in volume if key != "name" and volume[key] is not None]
    if not sources:
        volume["emptyDir"] = {}
        return
    for source in _SOURCES_WITH_MODE:
        if volume.get(source) is not None:
            set_default(volume[source], "defaultMode", 420)
    if volume.get("hostPath"):
        set_default(volume["hostPath"], "type", "")
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        _downward_item(item)
    for source in (volume.get("projected") or {}).get("sources") or ():
        if source.get("serviceAccountToken"):
            set_default(source["serviceAccountToken"], "expirationSeconds", 3600)
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _downward_item(item)
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if claim and isinstance(claim.get("spec"), dict):
        set_default(claim["spec"], "volumeMode", "Filesystem")


def _downward_item(item: Object) -> None:
    if item.get("fieldRef"):
        set_default(item["fieldRef"], "apiVersion", "v1")
    if item.get("resourceFieldRef"):
        set_default(item["resourceFieldRef"], "divisor", "0")
