"""Known server defaults become pointers; what a person chose does not."""

from __future__ import annotations

from typing import Any

from watchers.defaults import builtin_table, optional_pointers, schema_table


def deployment(**container: Any) -> dict[str, Any]:
    return {
        "spec": {
            "replicas": 1,
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
            },
            "template": {
                "spec": {
                    "restartPolicy": "Always",
                    "securityContext": {},
                    "containers": [{"name": "c", "image": "nginx:1", **container}],
                }
            },
        }
    }


def test_a_deployment_with_nothing_but_defaults() -> None:
    """Leaves and the mappings that consist of defaults alone are optional."""
    found = optional_pointers(
        deployment(
            imagePullPolicy="IfNotPresent", resources={}, ports=[{"containerPort": 80, "protocol": "TCP"}]
        ),
        builtin_table("apps", "Deployment"),
    )
    container = "/spec/template/spec/containers/0"
    assert found == (
        "/spec/replicas",
        "/spec/strategy",
        "/spec/strategy/type",
        "/spec/strategy/rollingUpdate",
        "/spec/strategy/rollingUpdate/maxSurge",
        "/spec/strategy/rollingUpdate/maxUnavailable",
        "/spec/template/spec/restartPolicy",
        "/spec/template/spec/securityContext",
        f"{container}/imagePullPolicy",
        f"{container}/resources",
        f"{container}/ports/0/protocol",
    )


def test_values_that_are_no_defaults() -> None:
    """Another value, another type, or a pull policy that does not fit the tag is no default."""
    obj = deployment(imagePullPolicy="Always", resources={"limits": {}}, terminationMessagePath="/x")
    obj["spec"]["replicas"] = True
    obj["spec"]["strategy"] = {"type": "Recreate"}
    found = optional_pointers(obj, builtin_table("apps", "Deployment"))
    assert found == ("/spec/template/spec/restartPolicy", "/spec/template/spec/securityContext")


def test_pull_policy_follows_the_tag() -> None:
    """No tag or latest: Always; any other tag or a digest: IfNotPresent."""
    expected = {
        "nginx": "Always",
        "r:5000/nginx": "Always",
        "nginx:latest": "Always",
        "nginx@sha256:1": "IfNotPresent",
    }
    for image, policy in expected.items():
        obj = deployment(image=image, imagePullPolicy=policy)
        pointer = "/spec/template/spec/containers/0/imagePullPolicy"
        assert pointer in optional_pointers(obj, builtin_table("apps", "Deployment")), image


def test_a_target_port_equal_to_its_port() -> None:
    """The server copies port to targetPort; as a name or another number it is a wish."""
    ports = [
        {"port": 80, "targetPort": 80},
        {"port": 80, "targetPort": 8080},
        {"port": 80, "targetPort": "80"},
    ]
    found = optional_pointers({"spec": {"ports": ports}}, builtin_table("", "Service"))
    assert found == ("/spec/ports/0/targetPort",)


def test_defaults_of_a_custom_resource_come_from_its_schema() -> None:
    """Nested properties and list items; names are escaped as JSON pointers."""
    schema = {
        "properties": {
            "spec": {
                "properties": {
                    "a/b": {"default": 1},
                    "mode": {"type": "string", "default": "fast"},
                    "inner": {"default": {}, "properties": {"x": {"default": False}}},
                    "matches": {
                        "default": [{"path": "/"}],
                        "items": {"properties": {"path": {"default": "/"}, "method": {}}},
                    },
                    "other": {"default": [{"a": 1}], "items": {"properties": {"a": {"default": 2}}}},
                    "list": {"items": {"properties": {"y": {"default": "d"}, "z": {}}}},
                }
            }
        }
    }
    crd = {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}
    obj = {"spec": {"a/b": 1, "mode": "slow", "inner": {"x": False}, "list": [{"y": "d", "z": 1}]}}
    obj["spec"] |= {"matches": [{"path": "/"}], "other": [{"a": 2}]}
    assert optional_pointers(obj, schema_table(crd, "v1")) == (
        "/spec/a~1b",
        "/spec/inner",
        "/spec/inner/x",
        "/spec/list/0/y",
        "/spec/matches",
        "/spec/matches/0/path",
        "/spec/other/0/a",
    )
    assert schema_table(crd, "v2") is None
    assert optional_pointers(obj, None) == ()


def test_lists_that_the_server_fills_in() -> None:
    """The metric of an autoscaler and the policy types of a network policy, as far as nobody chose them."""
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    scaler = {
        "spec": {
            "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": metric}],
            "behavior": {
                "scaleDown": {
                    "selectPolicy": "Max",
                    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
                    "stabilizationWindowSeconds": 60,
                }
            },
        }
    }
    assert optional_pointers(scaler, builtin_table("autoscaling", "HorizontalPodAutoscaler")) == (
        "/spec/metrics",
        "/spec/behavior/scaleDown/selectPolicy",
        "/spec/behavior/scaleDown/policies",
    )
    table = builtin_table("networking.k8s.io", "NetworkPolicy")
    both = {"policyTypes": ["Ingress", "Egress"]}
    assert optional_pointers({"spec": {**both, "egress": [{}]}}, table) == ("/spec/policyTypes",)
    assert optional_pointers({"spec": both}, table) == ()
    one = {"podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": ["Ingress"]}
    assert optional_pointers({"spec": one}, table) == ("/spec/policyTypes",)
