"""Validating webhooks: which writes they see, what their answers do, and what happens when they fail."""

from typing import Any

import pytest

from tests.sandbox.client import Client
from tests.sandbox.test_custom_resources import CRDS, GIZMOS, crd, gizmo
from tests.sandbox.test_objects import CMS, DEPLOYMENTS, configmap, deployment
from tests.sandbox.webhook import Webhook

CONFIGS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MERGE = "application/merge-patch+json"


def configuration(webhook: Webhook, **changes: Any) -> dict[str, Any]:
    """Everything that is written, and what `changes` says."""
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    hook = {
        "name": "v.lab.test",
        "clientConfig": {"url": webhook.url, "caBundle": webhook.ca},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "lab"},
        "webhooks": [hook | changes],
    }


def operations(webhook: Webhook) -> list[tuple[str, str]]:
    """Operation and name of each review."""
    requests = [r["request"]["request"] for r in webhook.reviews]
    return [(r["operation"], r.get("name", "")) for r in requests]


def test_what_is_reviewed(admin: Client, webhook: Webhook) -> None:
    """Creates, updates, deletes and dry runs; a collection one by one, nameless; never subresources."""
    admin.ok("POST", CONFIGS, configuration(webhook))
    admin.ok("POST", CMS, configmap())
    admin.ok("POST", f"{CMS}?dryRun=All", configmap("dry"))
    admin.ok("PATCH", f"{CMS}/app", {"data": {"k": "2"}}, content_type=MERGE)
    admin.ok("DELETE", CMS)
    admin.ok("POST", DEPLOYMENTS, deployment())
    admin.ok("PATCH", f"{DEPLOYMENTS}/api/scale", {"spec": {"replicas": 5}}, content_type=MERGE)
    assert operations(webhook) == [
        ("CREATE", "app"),
        ("CREATE", "dry"),
        ("UPDATE", "app"),
        ("DELETE", ""),
        ("CREATE", "api"),
    ]
    create, dry, update, delete, _ = [r["request"]["request"] for r in webhook.reviews]
    assert create["options"] == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
    assert "resourceVersion" not in create["object"]["metadata"]
    assert create["object"]["metadata"]["uid"]
    assert create["oldObject"] is None
    assert (dry["dryRun"], dry["options"]["dryRun"]) == (True, ["All"])
    assert (update["object"]["data"], update["oldObject"]["data"]) == ({"k": "2"}, {"k": "v"})
    assert update["options"]["kind"] == "UpdateOptions"
    assert (delete["object"], delete["oldObject"]["metadata"]["name"]) == (None, "app")
    assert webhook.reviews[0]["path"] == "/validate?timeout=10s"


def test_denied(admin: Client, webhook: Webhook) -> None:
    """A refusal is a 403 in the webhook's words, and nothing is stored."""
    admin.ok("POST", CONFIGS, configuration(webhook))
    status, answer = admin.request("POST", CMS, configmap("deny-me"))
    assert status == 403
    assert answer["message"] == 'admission webhook "v.lab.test" denied the request: denied by the lab'
    assert admin.request("GET", f"{CMS}/deny-me")[0] == 404


def test_order_of_checks(admin: Client, webhook: Webhook) -> None:
    """An invalid object or a stale update never reaches the webhook; a name that is taken does."""
    admin.ok("POST", CONFIGS, configuration(webhook))
    made = admin.ok("POST", CMS, configmap())
    admin.ok("PUT", f"{CMS}/app", made | {"data": {"k": "2"}})
    webhook.reviews.clear()
    assert admin.request("POST", CMS, configmap("Bad_Name"))[0] == 422
    assert admin.request("PUT", f"{CMS}/app", made)[0] == 409
    assert webhook.reviews == []
    assert admin.request("POST", CMS, configmap())[0] == 409
    assert operations(webhook) == [("CREATE", "app")]


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
@pytest.mark.parametrize("failure", ["status", "timeout", "refused", "service"])
def test_failures(admin: Client, webhook: Webhook, policy: str, code: int, failure: str) -> None:
    """The failure policy decides when a webhook does not answer."""
    changes: dict[str, Any] = {"failurePolicy": policy}
    if failure == "status":
        webhook.code = 500
    elif failure == "timeout":
        webhook.delay = 2.0
        changes["timeoutSeconds"] = 1
    elif failure == "refused":
        changes["clientConfig"] = {"url": "https://127.0.0.1:1/", "caBundle": webhook.ca}
    else:
        changes["clientConfig"] = {"service": {"name": "absent", "namespace": "default"}}
    admin.ok("POST", CONFIGS, configuration(webhook, **changes))
    status, answer = admin.request("POST", CMS, configmap())
    assert status == code
    if code == 500:
        assert answer["reason"] == "InternalError"
        assert 'failed calling webhook "v.lab.test"' in answer["message"]


def test_selection(admin: Client, webhook: Webhook) -> None:
    """Selectors on namespace and object choose what a webhook sees."""
    selectors = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
        "objectSelector": {"matchExpressions": [{"key": "seen", "operator": "Exists"}]},
    }
    admin.ok("POST", CONFIGS, configuration(webhook, **selectors))
    seen = configmap("seen")
    seen["metadata"] = {"name": "seen", "labels": {"seen": "1"}}
    admin.ok("POST", CMS, configmap())
    admin.ok("POST", CMS.replace("default", "kube-system"), seen)
    admin.ok("POST", CMS, seen)
    assert operations(webhook) == [("CREATE", "seen")]
    assert webhook.reviews[0]["request"]["request"]["namespace"] == "default"


def test_annotations_and_warnings(admin: Client, webhook: Webhook) -> None:
    """What a webhook notes reaches the audit event, what it warns of reaches the client."""
    webhook.extra = {"auditAnnotations": {"who": "lab"}, "warnings": ["mind the gap"]}
    admin.ok("POST", CONFIGS, configuration(webhook))
    _, _, headers = admin.request_full("POST", CMS, configmap())
    assert headers["Warning"] == '299 - "mind the gap"'
    assert admin.server.audit_events()[-1]["annotations"]["v.lab.test/who"] == "lab"


@pytest.mark.parametrize(("policy", "versions"), [("Equivalent", ["v1"]), ("Exact", [])])
def test_other_versions(admin: Client, webhook: Webhook, policy: str, versions: list[str]) -> None:
    """With matchPolicy Equivalent a webhook for v1 sees writes through v1beta1, as v1."""
    admin.ok("POST", CRDS, crd(beta=True))
    rule = {"operations": ["*"], "apiGroups": ["lab.test"], "apiVersions": ["v1"], "resources": ["gizmos"]}
    admin.ok("POST", CONFIGS, configuration(webhook, rules=[rule], matchPolicy=policy))
    body = gizmo() | {"apiVersion": "lab.test/v1beta1"}
    admin.ok("POST", GIZMOS.replace("v1", "v1beta1"), body)
    requests = [r["request"]["request"] for r in webhook.reviews]
    assert [r["kind"]["version"] for r in requests] == versions
    assert [r["requestKind"]["version"] for r in requests] == ["v1beta1"] * len(versions)
    assert [r["object"]["apiVersion"] for r in requests] == ["lab.test/v1"] * len(versions)
