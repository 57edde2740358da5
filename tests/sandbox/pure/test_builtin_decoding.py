"""Built-in objects are decoded as the Go types of Kubernetes decode them, from JSON and from protobuf."""

import json
from pathlib import Path
from typing import Any

import pytest

from reverser.sandbox import builtinfields, wire
from reverser.sandbox.builtindecode import DecodeError, decode_builtin
from reverser.sandbox.types import BUILTIN_TYPES
from tests import needs
from tests.sandbox.pure import gotypes


def test_the_table_is_what_kubectl_is_built_from() -> None:
    """Every type, field, number and merge key is the one in the kubectl executable."""
    shipped = json.loads(Path(builtinfields.__file__).with_name("builtin_fields.json").read_text())
    assert shipped == gotypes.table(Path(needs.kubectl()))


def test_all_builtin_kinds_are_known() -> None:
    """Only the kinds of two groups that kubectl does not compile in are missing."""
    missing = {t.kind for t in BUILTIN_TYPES if builtinfields.type_name(t.group, t.version, t.kind) is None}
    assert missing == {"APIService", "CustomResourceDefinition"}


def test_unknown_fields_are_dropped_and_named() -> None:
    """Unknown fields vanish at every depth, inlined structures are looked through."""
    volume = {"name": "v", "emptyDir": {"odd": 1}}
    container = {
        "name": "c",
        "odd": True,
        "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s"}}}],
    }
    template = {"spec": {"containers": [container], "volumes": [volume]}}
    obj = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": template}, "odd": {}}
    decoded, unknown = decode_builtin("apps", "v1", "Deployment", obj)
    assert unknown == [
        "spec.template.spec.containers[0].odd",
        "spec.template.spec.volumes[0].emptyDir.odd",
        "odd",
    ]
    clean = {
        "containers": [{k: v for k, v in container.items() if k != "odd"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    }
    assert decoded == {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": clean}}}


@pytest.mark.parametrize(
    ("group", "kind", "obj", "message"),
    [
        (
            "apps",
            "Deployment",
            {"spec": {"replicas": "x"}},
            "cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "apps",
            "Deployment",
            {"spec": {"replicas": 1 << 40}},
            "cannot unmarshal number 1099511627776 into Go struct field DeploymentSpec.spec.replicas",
        ),
        (
            "",
            "ConfigMap",
            {"data": {"a": 1}},
            "cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "",
            "ConfigMap",
            {"data": ["a"]},
            "cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
        ),
        ("", "Secret", {"data": {"a": "not base64!"}}, "illegal base64 data at input byte 3"),
        (
            "",
            "Service",
            {"spec": {"ports": {}}},
            "cannot unmarshal object into Go struct field ServiceSpec.spec.ports of type []v1.ServicePort",
        ),
        (
            "",
            "Pod",
            {"spec": "x"},
            "cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec",
        ),
    ],
)
def test_values_of_the_wrong_type(group: str, kind: str, obj: Any, message: str) -> None:
    """A value of another type is refused in the words of the Go decoder."""
    with pytest.raises(DecodeError) as caught:
        decode_builtin(group, "v1", kind, obj)
    assert message in str(caught.value)


# --- protobuf: a minimal encoder, to have something to decode ------------------------------------------


def varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def entry(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    meta = entry(1, api_version) + entry(2, kind)
    return b"k8s\x00" + entry(1, meta) + entry(2, raw) + entry(3, "") + entry(4, "")


def test_a_deployment_in_protobuf() -> None:
    """Scalars, maps, lists, structures, inlined structures and special types arrive as JSON has them."""
    metadata = entry(1, "d") + entry(2, "") + entry(8, b"") + entry(11, entry(1, "a") + entry(2, "b"))
    quantity = entry(1, entry(1, "cpu") + entry(2, entry(1, "500m")))
    container = (
        entry(1, "c") + entry(2, "i:1") + entry(8, quantity) + entry(6, entry(3, 8080) + entry(4, "TCP"))
    )
    volume = entry(1, "v") + entry(2, entry(2, b""))
    template = entry(2, entry(1, volume) + entry(2, container) + entry(4, 30))
    strategy = entry(1, "") + entry(2, entry(1, entry(1, 1) + entry(2, 0) + entry(3, "25%")))
    spec = entry(1, 0) + entry(3, template) + entry(4, strategy)
    raw = entry(1, metadata) + entry(2, spec) + entry(3, entry(1, 0))
    assert wire.decode_object(envelope("apps/v1", "Deployment", raw)) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"a": "b"}},
        "spec": {
            "replicas": 0,
            "template": {
                "spec": {
                    "volumes": [{"name": "v", "emptyDir": {}}],
                    "containers": [
                        {
                            "name": "c",
                            "image": "i:1",
                            "resources": {"limits": {"cpu": "500m"}},
                            "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                        }
                    ],
                    "terminationGracePeriodSeconds": 30,
                }
            },
            "strategy": {"rollingUpdate": {"maxUnavailable": "25%"}},
        },
    }


def test_bytes_times_and_negative_numbers() -> None:
    """Bytes become base64, a time RFC 3339, a negative number keeps its sign."""
    secret = entry(1, entry(8, entry(1, 0))) + entry(2, entry(1, "k") + entry(2, b"\x00\xff"))
    decoded = wire.decode_object(envelope("v1", "Secret", secret))
    assert decoded["data"] == {"k": "AP8="}
    assert decoded["metadata"] == {"creationTimestamp": "1970-01-01T00:00:00Z"}
    priority = wire.decode_object(envelope("scheduling.k8s.io/v1", "PriorityClass", entry(2, -5)))
    assert priority["value"] == -5


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"k8s\x00\x0a\xff", envelope("v1", "Nope", b""), envelope("v1", "ConfigMap", b"\x0a\x7fx")],
)
def test_what_is_no_object_is_refused(body: bytes) -> None:
    """Cut, foreign and unknown messages are an error of the client, never a crash."""
    with pytest.raises(wire.WireError):
        wire.decode_object(body)
