"""What the cells of built-in types' Tables say: small functions from an object to a word.

Every function copes with an object of which half is missing, because status is filled by controllers that
may not run.
"""

import datetime
from collections.abc import Callable
from typing import Any

from reverser.sandbox.times import age, human_duration

Object = dict[str, Any]
Cell = Callable[[Object], Any]


def at(obj: Any, *path: str, default: Any = None) -> Any:
    """The value at a path of keys, `default` where there is none or it is null."""
    for key in path:
        obj = obj.get(key) if isinstance(obj, dict) else None
    return default if obj is None else obj


def none(text: Any) -> Any:
    """The text, `<none>` where it is empty."""
    return text if text not in ("", None) else "<none>"


def labels_text(labels: Any) -> str:
    """Labels as kubectl prints a selector, `<none>` where there are none."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


def selector_text(selector: Any) -> str:
    """A label selector in its string form."""
    parts = [f"{key}={value}" for key, value in sorted(at(selector, "matchLabels", default={}).items())]
    for term in at(selector, "matchExpressions", default=[]):
        operator, key, values = (
            term.get("operator"),
            term.get("key"),
            ",".join(sorted(term.get("values") or ())),
        )
        if operator == "Exists":
            parts.append(key)
        elif operator == "DoesNotExist":
            parts.append(f"!{key}")
        else:
            parts.append(f"{key} {'in' if operator == 'In' else 'notin'} ({values})")
    return ",".join(parts) or "<none>"


# --- core ---------------------------------------------------------------------------------------------


def pod_status(obj: Object) -> str:
    """What a person reads as the state of a pod."""
    if at(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    return str(at(obj, "status", "reason") or at(obj, "status", "phase", default=""))


def pod_ready(obj: Object) -> str:
    """Ready containers of all."""
    statuses = at(obj, "status", "containerStatuses", default=[])
    total = len(at(obj, "spec", "containers", default=[]))
    return f"{sum(bool(status.get('ready')) for status in statuses)}/{total}"


def restarts(obj: Object) -> str:
    """Restarts of all containers together."""
    return str(sum(s.get("restartCount", 0) for s in at(obj, "status", "containerStatuses", default=[])))


def service_ports(obj: Object) -> str:
    """Port, node port and protocol of each port."""
    shown = []
    for port in at(obj, "spec", "ports", default=[]):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or "<none>"


def external_ip(obj: Object) -> str:
    """Where a Service is reached from outside."""
    given = at(obj, "spec", "externalIPs", default=[])
    kind = at(obj, "spec", "type", default="ClusterIP")
    if kind == "ExternalName":
        return str(at(obj, "spec", "externalName", default=""))
    if kind == "LoadBalancer":
        found = load_balancer(obj)
        return ",".join([*([found] if found else []), *given]) or "<pending>"
    return ",".join(given) or "<none>"


def load_balancer(obj: Object) -> str:
    """The addresses a load balancer was given."""
    entries = at(obj, "status", "loadBalancer", "ingress", default=[])
    return ",".join(entry.get("ip") or entry.get("hostname") or "" for entry in entries)


def node_status(obj: Object) -> str:
    """Readiness and schedulability of a node."""
    ready = [c for c in at(obj, "status", "conditions", default=[]) if c.get("type") == "Ready"]
    words = ["Ready" if ready[0].get("status") == "True" else "NotReady"] if ready else ["Unknown"]
    if at(obj, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def node_roles(obj: Object) -> str:
    """The roles in a node's labels."""
    prefix = "node-role.kubernetes.io/"
    roles = [
        key.removeprefix(prefix)
        for key in at(obj, "metadata", "labels", default={})
        if key.startswith(prefix)
    ]
    return ",".join(sorted(roles)) or "<none>"


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def access_modes(*path: str) -> Cell:
    """A cell of access modes in short form."""
    return lambda obj: ",".join(_MODES.get(mode, mode) for mode in at(obj, *path, default=[]))


def claim(obj: Object) -> str:
    """The claim a volume is bound to."""
    ref = at(obj, "spec", "claimRef", default={})
    return f"{ref.get('namespace', '')}/{ref.get('name', '')}" if ref else ""


def endpoint_addresses(obj: Object) -> str:
    """The first three addresses with port."""
    shown = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in at(obj, "subsets", default=[])
        for address in subset.get("addresses") or ()
        for port in subset.get("ports") or ()
    ]
    extra = f" + {len(shown) - 3} more..." if len(shown) > 3 else ""
    return ",".join(shown[:3]) + extra or "<none>"


def event_object(obj: Object) -> str:
    """What an event is about."""
    ref = at(obj, "involvedObject") or at(obj, "regarding", default={})
    return f"{str(ref.get('kind', '')).lower()}/{ref.get('name', '')}"


def last_seen(obj: Object, now: datetime.datetime) -> str:
    """When an event happened last."""
    seen = at(obj, "lastTimestamp") or at(obj, "eventTime") or at(obj, "metadata", "creationTimestamp")
    return age(seen, now)


# --- workloads ----------------------------------------------------------------------------------------


def ready_of_desired(obj: Object) -> str:
    """Ready replicas of desired."""
    return f"{at(obj, 'status', 'readyReplicas', default=0)}/{at(obj, 'spec', 'replicas', default=0)}"


def job_status(obj: Object) -> str:
    """The state of a job in one word."""
    conditions = {c.get("type"): c.get("status") for c in at(obj, "status", "conditions", default=[])}
    for kind in ("Complete", "Failed"):
        if conditions.get(kind) == "True":
            return kind
    if at(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    return "Suspended" if conditions.get("Suspended") == "True" else "Running"


def completions(obj: Object) -> str:
    """Succeeded pods of wanted."""
    done, wanted = at(obj, "status", "succeeded", default=0), at(obj, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallelism = at(obj, "spec", "parallelism", default=0)
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def job_duration(obj: Object, now: datetime.datetime) -> str:
    """How long a job runs or ran."""
    started, ended = at(obj, "status", "startTime"), at(obj, "status", "completionTime")
    if not started:
        return ""
    if not ended:
        return age(started, now)
    begin, end = (datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (started, ended))
    return human_duration((end - begin).total_seconds())


def last_schedule(obj: Object, now: datetime.datetime) -> str:
    """How long ago a cron job last started one."""
    last = at(obj, "status", "lastScheduleTime")
    return age(last, now) if last else "<none>"


def hosts(obj: Object) -> str:
    """The first three hosts of an ingress."""
    hosts = [rule["host"] for rule in at(obj, "spec", "rules", default=[]) if rule.get("host")]
    extra = f" + {len(hosts) - 3} more..." if len(hosts) > 3 else ""
    return ",".join(hosts[:3]) + extra or "*"


def targets(obj: Object) -> str:
    """The metrics of an autoscaler, current and wanted."""
    shown = []
    for metric in at(obj, "spec", "metrics", default=[]):
        target = at(metric, "resource", "target", default={})
        wanted = target.get("averageUtilization")
        text = f"{wanted}%" if wanted is not None else str(target.get("averageValue", "<auto>"))
        shown.append(f"{at(metric, 'resource', 'name', default=metric.get('type'))}: <unknown>/{text}")
    wanted = at(obj, "spec", "targetCPUUtilizationPercentage")
    if wanted is not None:
        shown.append(f"cpu: <unknown>/{wanted}%")
    return ", ".join(shown) or "<none>"


def reference(obj: Object) -> str:
    """What an autoscaler scales."""
    ref = at(obj, "spec", "scaleTargetRef", default={})
    return f"{ref.get('kind', '')}/{ref.get('name', '')}"


def subjects(kind: str) -> Cell:
    """A cell of the subjects of one kind."""

    def shown(obj: Object) -> str:
        return ", ".join(
            f"{item.get('namespace', '')}/{item['name']}" if kind == "ServiceAccount" else item["name"]
            for item in at(obj, "subjects", default=[])
            if item.get("kind") == kind
        )

    return shown


def webhook_count(obj: Object) -> int:
    """How many webhooks a configuration has."""
    return len(at(obj, "webhooks", default=[]))


def service_of(obj: Object) -> str:
    """The service behind an APIService."""
    service = at(obj, "spec", "service")
    return f"{service.get('namespace')}/{service.get('name')}" if service else "Local"


def available(obj: Object) -> str:
    """Whether an APIService answers."""
    for condition in at(obj, "status", "conditions", default=[]):
        if condition.get("type") == "Available":
            good = condition.get("status") == "True"
            return "True" if good else f"{condition.get('status')} ({condition.get('reason')})"
    return "Unknown"
