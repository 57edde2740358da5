"""The chart, rendered by real Helm: every toggle, every refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from helm_python.errors import HelmError

from reverser.config import SETTINGS, variable_name
from reverser.rest.peopleroles import people_roles
from tests.deploy.render import (
    CHART,
    DEPLOY,
    accepted_config,
    by_kind,
    check_pods,
    check_references,
    check_schemas,
    helm,
    kubectl,
    kustomized,
    parsed,
    pods,
)

REPLICATED: dict[str, Any] = {"mode": "replicated", "connections": {"existingSecret": "connections"}}
OWN_CERTIFICATES = {
    "certManager": False,
    "audit": {"secretName": "own-audit"},
    "admission": {"secretName": "own-admission", "caBundle": "Q0E="},
}
DIGEST = f"sha256:{'0a' * 32}"
VARIANTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "single with attribution": {"attribution": {"enabled": True}},
    "single with an own Redis": {"connections": {"existingSecret": "connections"}},
    "single without listeners": {"admission": {"enabled": False}},
    "replicated": REPLICATED,
    "replicated with attribution": {**REPLICATED, "attribution": {"enabled": True, "clientNames": ["api"]}},
    "one replica each": {**REPLICATED, "replicas": {"web": 1, "watcher": 1, "worker": 1}},
    "own certificates": {
        **REPLICATED,
        "attribution": {"enabled": True},
        "certificates": OWN_CERTIFICATES,
    },
    "audit at a pinned address": {
        "attribution": {"enabled": True, "service": {"type": "ClusterIP", "clusterIP": "10.96.0.50"}}
    },
    "narrow rights": {"rbac": {"watchAny": False, "namedSecrets": False}},
    "save in a caller's name": {"rbac": {"impersonate": True}},
    "metrics over TLS": {
        **REPLICATED,
        "metrics": {"tls": True},
        "settings": {"otlp_endpoint": "http://collector:4318"},
        "monitoring": {"serviceMonitor": {"enabled": True}},
    },
    "single, metrics over TLS": {
        "metrics": {"tls": True},
        "certificates": {**OWN_CERTIFICATES, "metrics": {"secretName": "own-metrics"}},
    },
    "roles of people": {"rbac": {"people": True}},
    "single sign-on": {
        **REPLICATED,
        "settings": {
            "oidc_issuer": "https://login.example.com/realms/a",
            "oidc_client_id": "reverser",
            "oidc_viewer_groups": "staff",
            "oidc_operator_groups": "ops",
        },
    },
    "image by its digest": {**REPLICATED, "image": {"tag": "1.2.3", "digest": DIGEST}},
    "servers elsewhere": {"networkPolicy": {"egressPorts": [2222, 8443]}},
    "no network policies": {"networkPolicy": {"enabled": False}},
    "no budgets": {**REPLICATED, "podDisruptionBudget": {"enabled": False}},
    "no definitions": {"crds": {"install": False}},
    "monitored": {
        **REPLICATED,
        "monitoring": {
            "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
            "dashboard": {"enabled": True},
        },
    },
    "texts for people": {"logging": {"format": "text", "level": "debug"}},
    "everything set": {
        **REPLICATED,
        "settings": {"sweep_brake": "50", "noise_filter": "false", "worker_threads": "8"},
        "allowedHosts": ["reverser.example.com"],
        "image": {"repository": "images.example.com/reverser", "tag": "1.2.3", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "pull"}],
        "serviceAccount": {"name": "somebody", "annotations": {"a": "b"}},
        "podAnnotations": {"a": "b"},
        "podLabels": {"team": "platform"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "system-cluster-critical",
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "persistence": {"size": "20Gi", "storageClass": "fast"},
    },
}


@pytest.mark.parametrize("name", list(VARIANTS))
def test_every_toggle_renders(name: str) -> None:
    """Each variant passes the values schema, keeps to Kubernetes' schemas and hangs together."""
    manifests = parsed(helm(VARIANTS[name]))
    check_schemas(m for m in manifests if m["kind"] != "CustomResourceDefinition")
    check_pods(manifests)
    check_references(manifests)


@pytest.mark.parametrize(
    "name", ["defaults", "own certificates", "audit at a pinned address", "monitored", "everything set"]
)
def test_an_api_server_accepts_it(name: str, cluster: Path) -> None:
    """Server-side apply takes every object, without a conflict."""
    text = helm(VARIANTS[name])
    manifests = parsed(text)
    out = kubectl("apply", "--dry-run=server", "--server-side", "-f", "-", stdin=text, kubeconfig=cluster)
    assert out.count("(server dry run)") == len(manifests)


@pytest.mark.parametrize("name", list(VARIANTS))
def test_settings_are_settings(name: str, tmp_path: Path) -> None:
    """Every process' environment is one that the product accepts."""
    manifests = parsed(helm(VARIANTS[name]))
    for workload in pods(manifests):
        config = accepted_config(manifests, workload, tmp_path)
        assert config.author_attribution == bool(VARIANTS[name].get("attribution", {}).get("enabled")), (
            workload
        )


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"mode": "replicated"}, "connections.existingSecret"),
        ({"mode": "twice"}, "mode"),
        ({"replicaCount": 3}, "replicaCount"),
        ({"settings": {"no_such_setting": "1"}}, "no_such_setting"),
        ({"settings": {"redis_url": "redis://x"}}, "redis_url"),
        ({"logging": {"level": "loud"}}, "level"),
        ({"replicas": {"web": 0}}, "web"),
        ({"image": {"digest": "1.2.3"}}, "digest"),
        ({"networkPolicy": {"egressPorts": [70000]}}, "egressPorts"),
        ({"certificates": {"certManager": False}}, "caBundle"),
        ({"extraEnv": [{"name": "REVERSER_LOG_LEVEL", "value": "debug"}]}, "extraEnv"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name"),
        ({"podLabels": {"app.kubernetes.io/component": "web"}}, "podLabels|propertyName"),
    ],
)
def test_mistakes_are_refused(values: dict[str, Any], words: str) -> None:
    """What cannot work is refused while rendering, and the message names the value."""
    with pytest.raises(HelmError, match=words):
        helm(values)


def test_a_digest_counts_instead_of_a_tag() -> None:
    """Every container, of the initialisation too, runs the image that the digest names."""
    images = {
        container["image"]
        for pod in pods(parsed(helm(VARIANTS["image by its digest"]))).values()
        for part in ("initContainers", "containers")
        for container in pod["spec"].get(part, [])
    }
    assert images == {f"gitops-reverser@{DIGEST}"}


def test_pods_may_reach_servers_on_ports_of_their_own() -> None:
    """Ports that are named are opened besides those that every installation has."""
    policies = by_kind(parsed(helm(VARIANTS["servers elsewhere"])), "NetworkPolicy").values()
    (policy,) = [each for each in policies if "egress" in each["spec"]]
    opened = [port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]]
    assert {22, 53, 443, 6443, 6379, 26379, 5432, 2222, 8443} == set(opened)


def test_who_may_reach_the_pods_is_what_is_said() -> None:
    """Labels of one's own replace the ones that count without any; Helm would ask for both."""
    own = {"kubernetes.io/metadata.name": "monitoring"}
    for given, wanted in ((own, own), ({}, {"configbutler.ai/reverser-client": "true"})):
        manifests = parsed(helm({"networkPolicy": {"clientNamespaceLabels": given}}))
        policy = by_kind(manifests, "NetworkPolicy")["mirror"]
        (allowed,) = [source for rule in policy["spec"]["ingress"] for source in rule["from"]]
        assert allowed["namespaceSelector"]["matchLabels"] == wanted


def test_rights_on_the_lease_are_where_it_is_kept() -> None:
    """A setting moves the Lease and the digest key to another namespace; the Role goes with them."""
    manifests = parsed(helm({"settings": {"command_namespace": "elsewhere"}}))
    for kind in ("Role", "RoleBinding"):
        assert by_kind(manifests, kind)["mirror"]["metadata"]["namespace"] == "elsewhere"
    (subject,) = by_kind(manifests, "RoleBinding")["mirror"]["subjects"]
    assert subject["namespace"] == "mirrors"


def test_names_are_names_whatever_they_look_like(cluster: Path) -> None:
    """A release with dots in its name, in a namespace and with Secrets, a class and an account that look like
    numbers, is accepted.
    """
    values = {
        **REPLICATED,
        "connections": {"existingSecret": "123"},
        "serviceAccount": {"name": "1.5"},
        "priorityClassName": "77",
        "certificates": {
            "certManager": False,
            "audit": {"secretName": "7"},
            "admission": {"secretName": "8", "caBundle": "Q0E="},
            "metrics": {"secretName": "9"},
        },
        "attribution": {"enabled": True},
        "metrics": {"tls": True},
    }
    kubectl("create", "namespace", "42", kubeconfig=cluster)
    text = helm(values, name="my.mirror", namespace="42")
    manifests = parsed(text)
    check_schemas(m for m in manifests if m["kind"] != "CustomResourceDefinition")
    check_pods(manifests)
    check_references(manifests)
    assert "my-mirror" in by_kind(manifests, "Service")
    kubectl("apply", "--dry-run=server", "--server-side", "-f", "-", stdin=text, kubeconfig=cluster)
    single = parsed(helm({"persistence": {"storageClass": "10"}}))
    (claim,) = by_kind(single, "StatefulSet")["mirror"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "10"


@pytest.mark.parametrize(("release", "name"), [("123", "r-123"), ("1x", "r-1x"), ("x" * 53, "x" * 40)])
def test_any_name_of_a_release_makes_names_of_objects(release: str, name: str, cluster: Path) -> None:
    """Helm takes a name that begins with a digit, or is all digits, or is long; a Service does not."""
    text = helm({"attribution": {"enabled": True}}, name=release)
    manifests = parsed(text)
    check_references(manifests)
    assert {f"{name}-admission", f"{name}-audit", name} <= set(by_kind(manifests, "Service"))
    for kind, names in (("Service", by_kind(manifests, "Service")), ("ConfigMap", {f"{name}-settings": ""})):
        for each in names:
            labels = by_kind(manifests, kind)[each]["metadata"]["labels"]
            assert labels["app.kubernetes.io/instance"] == release
    kubectl("apply", "--dry-run=server", "--server-side", "-f", "-", stdin=text, kubeconfig=cluster)


def test_environment_of_ones_own_reaches_every_container() -> None:
    """What the connection to a database needs (`PGSSLMODE`, say) is there when its tables are made, too."""
    mine = {"name": "PGSSLMODE", "value": "require"}
    for template in pods(parsed(helm({**REPLICATED, "extraEnv": [mine]}))).values():
        for container in [*template["spec"].get("initContainers", ()), *template["spec"]["containers"]]:
            assert mine in container["env"], container["name"]


def test_the_schema_knows_every_setting() -> None:
    """`settings` takes each setting that the chart does not set itself, and nothing else."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    offered = set(schema["properties"]["settings"]["propertyNames"]["enum"])
    text = "".join(path.read_text() for path in (CHART / "templates").glob("*.yaml"))
    own = {name for name in SETTINGS if variable_name(name) in text.replace("_FILE", "")}
    # Ports are the Services', and these two would weaken or split what the chart sets up.
    fixed = {"audit_addr", "admission_addr", "audit_insecure", "broker_url", "metrics_client_ca"}
    assert offered == set(SETTINGS) - own - fixed


def test_the_schema_covers_the_values() -> None:
    """Every default stands in the schema: what is not there is refused."""

    def walk(schema: dict[str, Any], values: Any, path: str) -> None:
        if not isinstance(values, dict) or "properties" not in schema:
            return
        assert set(values) <= set(schema["properties"]), path
        for key, value in values.items():
            walk(schema["properties"][key], value, f"{path}.{key}")

    schema = json.loads((CHART / "values.schema.json").read_text())
    walk(schema, yaml.safe_load((CHART / "values.yaml").read_text()), "values")


def test_definitions_are_upgraded_and_kept() -> None:
    """The definitions are templates, so that an upgrade brings new ones, and survive an uninstall."""
    definitions = by_kind(parsed(helm()), "CustomResourceDefinition")
    shipped = [yaml.safe_load(path.read_text()) for path in (DEPLOY / "crds").glob("*.yaml")]
    assert len(definitions) == len(shipped)
    for manifest in shipped:
        found = definitions[manifest["metadata"]["name"]]
        assert found["spec"] == manifest["spec"]
        assert found["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_rights_are_those_of_the_kustomization() -> None:
    """Chart and kustomization grant the same, to the release's own ServiceAccount."""
    manifests = parsed(helm({"serviceAccount": {"name": "somebody"}}, name="gitops-reverser", namespace="ns"))
    for path in ("base", "components/named-secrets", "components/watch-any"):
        for wanted in parsed((DEPLOY / "kustomize" / path / "rbac.yaml").read_text()):
            found = by_kind(manifests, wanted["kind"])[wanted["metadata"]["name"]]
            assert found.get("rules") == wanted.get("rules")
            if "subjects" in found:
                assert found["subjects"] == [
                    {"kind": "ServiceAccount", "name": "somebody", "namespace": "ns"}
                ]
    narrow = parsed(helm({"rbac": {"watchAny": False, "namedSecrets": False}}))
    assert set(by_kind(narrow, "ClusterRole")) == {"mirror"}


def test_roles_of_people_follow_the_prefix() -> None:
    """The groups are named as web names them to Kubernetes; the roles are those that the command prints."""
    for settings, prefix in (({}, "gitops-reverser:"), ({"session_user_prefix": "admin:"}, "admin:")):
        manifests = parsed(helm({"rbac": {"people": True}, "settings": settings}, name="gitops-reverser"))
        for wanted in people_roles(prefix):
            found = by_kind(manifests, wanted["kind"])[wanted["metadata"]["name"]]
            assert found.get("rules") == wanted.get("rules")
            assert found.get("subjects") == wanted.get("subjects")
    assert not [name for name in by_kind(parsed(helm()), "ClusterRole") if name.endswith("viewer")]


def test_chart_and_kustomization_run_the_same() -> None:
    """Both start each process with the same words."""

    def words(manifests: list[dict[str, Any]]) -> dict[str, list[str]]:
        return {
            template["metadata"]["labels"]["app.kubernetes.io/component"].replace("single", "all"): [
                *container.get("command", ()),
                *container.get("args", ()),
            ]
            for template in pods(manifests).values()
            for container in template["spec"]["containers"]
        }

    for overlay, values in (("minimal", {}), ("ha", REPLICATED)):
        assert words(kustomized(DEPLOY / "kustomize" / "overlays" / overlay)) == words(parsed(helm(values)))


def test_a_changed_setting_restarts_the_pods() -> None:
    """Pods carry the checksum of their settings."""

    def checksum(values: dict[str, Any]) -> str:
        template = pods(parsed(helm(values)))["mirror"]
        return str(template["metadata"]["annotations"]["checksum/settings"])

    assert checksum({}) == checksum({"replicas": {"web": 3}})
    assert checksum({}) != checksum({"settings": {"sweep_brake": "50"}})
