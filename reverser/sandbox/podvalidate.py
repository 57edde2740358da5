"""Validation of pod specs and of the workloads that embed them."""

from collections.abc import Iterator
from typing import Any

from reverser.sandbox import causes as c
from reverser.sandbox import names
from reverser.sandbox.causes import Cause
from reverser.sandbox.objectmeta import check_selector

Object = dict[str, Any]

IMMUTABLE = "field is immutable"
NOT_NEGATIVE = "must be greater than or equal to 0"
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
PORT_RANGE = "must be between 1 and 65535, inclusive"


def check_pod_spec(
    spec: Any,
    path: str,
    *,
    restart_policies: tuple[str, ...] = _RESTART_POLICIES,
    claims: frozenset[str] = frozenset(),
) -> Iterator[Cause]:
    """Complaints about a (defaulted) pod spec at `path`; `claims` are volumes that a controller adds."""
    spec = spec if isinstance(spec, dict) else {}
    volumes: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        where = f"{path}.volumes[{index}]"
        name = volume.get("name") or ""
        if not name:
            yield c.required(f"{where}.name")
        elif name in volumes:
            yield c.duplicate(f"{where}.name", name)
        else:
            for message in names.label_errors(name):
                yield c.invalid(f"{where}.name", name, message)
        volumes.add(name)
        sources = [key for key, value in volume.items() if key != "name" and value is not None]
        if not sources:
            yield c.required(where, "must specify a volume type")
        for extra in sorted(sources)[1:]:
            yield c.forbidden(f"{where}.{extra}", "may not specify more than 1 volume type")
    if not spec.get("containers"):
        yield c.required(f"{path}.containers")
    seen: set[str] = set()
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            yield from _container(container, f"{path}.{group}[{index}]", seen, volumes | claims)
    policy = spec.get("restartPolicy")
    if policy is not None and policy not in restart_policies:
        yield c.not_supported(f"{path}.restartPolicy", policy, restart_policies)
    if spec.get("serviceAccountName"):
        for message in names.subdomain_errors(spec["serviceAccountName"]):
            yield c.invalid(f"{path}.serviceAccountName", spec["serviceAccountName"], message)


def _container(container: Object, path: str, seen: set[str], volumes: set[str]) -> Iterator[Cause]:
    name = container.get("name") or ""
    if not name:
        yield c.required(f"{path}.name")
    else:
        for message in names.label_errors(name):
            yield c.invalid(f"{path}.name", name, message)
        if name in seen:
            yield c.duplicate(f"{path}.name", name)
        seen.add(name)
    image = container.get("image") or ""
    if not image:
        yield c.required(f"{path}.image")
    elif image != image.strip():
        yield c.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    if container.get("imagePullPolicy") not in (None, *_PULL_POLICIES):
        yield c.not_supported(f"{path}.imagePullPolicy", container["imagePullPolicy"], _PULL_POLICIES)
    for index, port in enumerate(container.get("ports") or ()):
        number = port.get("containerPort")
        if not number:
            yield c.required(f"{path}.ports[{index}].containerPort")
        elif not isinstance(number, int) or not 0 < number < 65536:
            yield c.invalid(f"{path}.ports[{index}].containerPort", number, PORT_RANGE)
        if port.get("protocol") not in (None, *_PROTOCOLS):
            yield c.not_supported(f"{path}.ports[{index}].protocol", port["protocol"], _PROTOCOLS)
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            yield c.required(f"{path}.env[{index}].name")
    mounted: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where = f"{path}.volumeMounts[{index}]"
        if not mount.get("name"):
            yield c.required(f"{where}.name")
        elif mount["name"] not in volumes:
            yield Cause(f"{where}.name", "FieldValueNotFound", f"Not found: {c.go_value(mount['name'])}")
        target = mount.get("mountPath") or ""
        if not target:
            yield c.required(f"{where}.mountPath")
        elif target in mounted:
            yield c.invalid(f"{where}.mountPath", target, "must be unique")
        mounted.add(target)


def check_template(
    spec: Object, path: str = "spec.template", *, restart_policies: tuple[str, ...] = ("Always",)
) -> Iterator[Cause]:
    """Complaints about the pod template of a workload's spec."""
    template = spec.get("template") or {}
    claims = frozenset(
        str((claim.get("metadata") or {}).get("name")) for claim in spec.get("volumeClaimTemplates") or ()
    )
    yield from check_pod_spec(
        template.get("spec"), f"{path}.spec", restart_policies=restart_policies, claims=claims
    )


def check_workload(obj: Object, old: Object | None, *, selector_fixed: bool = True) -> Iterator[Cause]:
    """Deployment, ReplicaSet, StatefulSet, DaemonSet: replicas, selector against template, template."""
    spec: Object = obj.get("spec") or {}
    replicas = spec.get("replicas")
    if isinstance(replicas, int) and replicas < 0:
        yield c.invalid("spec.replicas", replicas, NOT_NEGATIVE)
    selector = spec.get("selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if selector is None:
        yield c.required("spec.selector")
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield c.invalid("spec.selector", selector, "empty selector is invalid for deployment")
    else:
        yield from check_selector(selector, "spec.selector")
        if not selector_matches(selector, labels):
            yield c.invalid(
                "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
            )
    yield from check_template(spec)
    if old is not None and selector_fixed:
        before = (old.get("spec") or {}).get("selector")
        if before != selector:
            yield c.invalid("spec.selector", selector, IMMUTABLE)


def selector_matches(selector: Object, labels: Object) -> bool:
    """Whether a label selector selects the labels."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for term in selector.get("matchExpressions") or ():
        key, operator, values = term.get("key"), term.get("operator"), term.get("values") or ()
        matches = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if not matches.get(operator, False):
            return False
    return True
