"""The Git projection of a live object: what people wrote, without what the server added.

Pure, and the same for replay, LIST and live events. Everything that is not on the strip list stays: all
top-level fields but ``status``; of the metadata name, namespace, labels and annotations. The input is never
changed. ``project`` shares untouched parts with it and is meant to be serialised at once; ``sanitize``
returns a deep copy for every other use.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import orjson

Obj = dict[str, Any]

KUBECTL_LABELS = "kubectl.kubernetes.io/"
"""A tool's own domain: its labels are dropped from Secrets, as they are no reason to encrypt again."""
LABEL_PREFIXES = ("kustomize.toolkit.fluxcd.io/", "kro.run/", "applyset.kubernetes.io/")
ANNOTATION_PREFIXES = (
    "kubectl.kubernetes.io/",
    "control-plane.alpha.kubernetes.io/",
    "deployment.kubernetes.io/",
    "autoscaling.alpha.kubernetes.io/",
    "kustomize.toolkit.fluxcd.io/",
    "applyset.kubernetes.io/",
)
ANNOTATIONS = frozenset({"argocd.argoproj.io/tracking-id"})
"""Marks of a deployment tool; its options (sync waves, hooks) express what people want and stay."""
INJECT_CA_ANNOTATIONS = frozenset(
    {
        "cert-manager.io/inject-ca-from",
        "cert-manager.io/inject-ca-from-secret",
        "cert-manager.io/inject-apiserver-ca",
    }
)
JOB_LABELS = frozenset({"controller-uid", "batch.kubernetes.io/controller-uid"})


def sanitize(obj: Mapping[str, Any]) -> Obj:
    """The projection as a value that shares nothing with ``obj``. Idempotent."""
    result: Obj = orjson.loads(orjson.dumps(project(obj)))
    return result


def canonical(projection: Mapping[str, Any]) -> bytes:
    """Canonical JSON: keys sorted, no blanks. Equal projections give equal bytes.

    Copied, because orjson leaves its result in a buffer of up to twelve times its size, and these wait.
    """
    return bytes(memoryview(orjson.dumps(projection, option=orjson.OPT_SORT_KEYS)))


def group_of(obj: Mapping[str, Any]) -> str:
    """The API group of an object, from its apiVersion."""
    api_version = obj.get("apiVersion")
    group, slash, _ = api_version.rpartition("/") if isinstance(api_version, str) else ("", "", "")
    return group if slash else ""


def project(obj: Mapping[str, Any]) -> Obj:
    """The projection, sharing untouched parts with ``obj``: neither may be changed afterwards."""
    result: Obj = {key: value for key, value in obj.items() if key != "status"}
    meta = obj.get("metadata")
    if isinstance(meta, Mapping):
        result["metadata"] = _metadata(meta)
    for path in _TO_COME:
        result = _without_blank_time(result, path)
    rule = _RULES.get((group_of(obj), str(obj.get("kind"))))
    if rule is not None:
        rule(result)
    return result


def _metadata(meta: Mapping[str, Any]) -> Obj:
    kept: Obj = {key: meta[key] for key in ("name", "namespace") if meta.get(key)}
    labels = meta.get("labels")
    if isinstance(labels, Mapping):
        left = {key: value for key, value in labels.items() if not key.startswith(LABEL_PREFIXES)}
        if left:
            kept["labels"] = left
    annotations = meta.get("annotations")
    if isinstance(annotations, Mapping):
        left = {
            key: value
            for key, value in annotations.items()
            if not key.startswith(ANNOTATION_PREFIXES) and key not in ANNOTATIONS
        }
        if left:
            kept["annotations"] = left
    return kept


_TEMPLATES = (
    ("template",),
    ("spec", "template"),
    ("spec", "jobTemplate"),
    ("spec", "jobTemplate", "spec", "template"),
)
_EACH = "*"
_CLAIMS = ("spec", "volumes", _EACH, "ephemeral", "volumeClaimTemplate")
_TO_COME = (*_TEMPLATES, ("spec", "volumeClaimTemplates", _EACH), *((*path, *_CLAIMS) for path in _TEMPLATES))
"""Where objects carry metadata of objects to come, whose unset creationTimestamp is sent as null."""


def _without_blank_time(value: Any, path: tuple[str, ...]) -> Any:
    """``value`` without the unset time of what stands at ``path``; the same value where there is none."""
    if not path:
        return _timeless(value)
    key, rest = path[0], path[1:]
    if key == _EACH:
        if not isinstance(value, list):
            return value
        items = [_without_blank_time(item, rest) for item in value]
        return value if all(map(operator.is_, items, value)) else items
    if not isinstance(value, Mapping) or key not in value:
        return value
    inner = _without_blank_time(value[key], rest)
    return value if inner is value[key] else {**value, key: inner}


def _timeless(inner: Any) -> Any:
    meta = inner.get("metadata") if isinstance(inner, Mapping) else None
    if (
        not isinstance(meta, Mapping)
        or "creationTimestamp" not in meta
        or meta["creationTimestamp"] is not None
    ):
        return inner
    left = {key: value for key, value in meta.items() if key != "creationTimestamp"}
    if left:
        return {**inner, "metadata": left}
    return {key: value for key, value in inner.items() if key != "metadata"}


def _own(result: Obj, path: tuple[str, ...]) -> Obj:
    """The mapping at ``path``, copied along the way so that it may be changed."""
    here = result
    for key in path:
        here[key] = dict(here[key])
        here = here[key]
    return here


def _spec(result: Obj) -> Obj | None:
    """A spec that may be changed, or None where there is none."""
    return _own(result, ("spec",)) if isinstance(result.get("spec"), Mapping) else None


def _service(result: Obj) -> None:
    spec = _spec(result)
    if spec is None:
        return
    if spec.get("clusterIP") != "None":
        spec.pop("clusterIP", None)
    spec.pop("clusterIPs", None)
    spec.pop("healthCheckNodePort", None)
    if spec.get("ipFamilyPolicy") == "SingleStack" and spec.get("ipFamilies", ["IPv4"]) == ["IPv4"]:
        spec.pop("ipFamilyPolicy", None)
        spec.pop("ipFamilies", None)
    if spec.get("internalTrafficPolicy") == "Cluster":
        del spec["internalTrafficPolicy"]


def _claim(result: Obj) -> None:
    spec = _spec(result)
    if spec is None:
        return
    spec.pop("volumeName", None)
    if spec.get("volumeMode") == "Filesystem":
        del spec["volumeMode"]


def _pod(result: Obj) -> None:
    spec = _spec(result)
    if spec is not None:
        spec.pop("nodeName", None)


def _job(result: Obj) -> None:
    spec = _spec(result)
    if spec is None or spec.get("manualSelector") is True:
        return
    spec.pop("selector", None)
    _strip_labels(result, ("metadata",), JOB_LABELS.__contains__)
    template = spec.get("template")
    if isinstance(template, Mapping) and isinstance(template.get("metadata"), Mapping):
        _strip_labels(result, ("spec", "template", "metadata"), JOB_LABELS.__contains__)
        if not result["spec"]["template"]["metadata"]:
            del result["spec"]["template"]["metadata"]


def _secret(result: Obj) -> None:
    if isinstance(result.get("metadata"), Mapping):
        _strip_labels(result, ("metadata",), lambda key: key.startswith(KUBECTL_LABELS))


def _strip_labels(result: Obj, path: tuple[str, ...], unwanted: Callable[[str], bool]) -> None:
    meta = _own(result, path)
    labels = meta.get("labels")
    if not isinstance(labels, Mapping):
        return
    left = {key: value for key, value in labels.items() if not unwanted(key)}
    if left:
        meta["labels"] = left
    else:
        del meta["labels"]


def _injected(result: Obj) -> bool:
    annotations = result.get("metadata", {}).get("annotations")
    return isinstance(annotations, Mapping) and not INJECT_CA_ANNOTATIONS.isdisjoint(annotations)


def _webhooks(result: Obj) -> None:
    hooks = result.get("webhooks")
    if _injected(result) and isinstance(hooks, list):
        result["webhooks"] = [_without_bundle(hook) for hook in hooks]


def _without_bundle(hook: Any) -> Any:
    client = hook.get("clientConfig") if isinstance(hook, Mapping) else None
    if not isinstance(client, Mapping):
        return hook
    return {**hook, "clientConfig": {key: value for key, value in client.items() if key != "caBundle"}}


def _definition(result: Obj) -> None:
    path = ("spec", "conversion", "webhook", "clientConfig")
    inner: Any = result
    for key in path:
        inner = inner.get(key) if isinstance(inner, Mapping) else None
    if _injected(result) and isinstance(inner, Mapping):
        _own(result, path).pop("caBundle", None)


def _api_service(result: Obj) -> None:
    if _injected(result):
        spec = _spec(result)
        if spec is not None:
            spec.pop("caBundle", None)


_RULES: dict[tuple[str, str], Callable[[Obj], None]] = {
    ("", "Secret"): _secret,
    ("", "Service"): _service,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Pod"): _pod,
    ("batch", "Job"): _job,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _webhooks,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("apiregistration.k8s.io", "APIService"): _api_service,
}
