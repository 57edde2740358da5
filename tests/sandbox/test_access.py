"""Who may do what, and what the audit log hears of it."""

from pathlib import Path

import pytest

from reverser.errors import SettingsInvalid
from reverser.sandbox.authn import Tokens
from reverser.sandbox.thread import SandboxServer
from tests.sandbox.client import Client
from tests.sandbox.test_objects import CMS, configmap

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MERGE = "application/merge-patch+json"


@pytest.fixture
def edit(admin: Client, sandbox: SandboxServer) -> Client:
    """alice, carol and the service account robot may do everything with ConfigMaps in default."""
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}
    admin.ok(
        "POST",
        f"{RBAC}/namespaces/default/roles",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "edit"},
            "rules": [rule],
        },
    )
    subjects = [
        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"},
        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "carol"},
        {"kind": "ServiceAccount", "name": "robot", "namespace": "default"},
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "edit"}
    admin.ok(
        "POST",
        f"{RBAC}/namespaces/default/rolebindings",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "edit"},
            "subjects": subjects,
            "roleRef": role,
        },
    )
    sandbox.add_user("alice-token", "alice", groups=("team-a",), uid="alice-uid")
    sandbox.add_user("ci-token", "ci")
    return Client(sandbox, "alice-token")


def test_credentials(sandbox: SandboxServer) -> None:
    """A wrong token is 401, none at all is the anonymous user."""
    status, answer = Client(sandbox, "wrong").request("GET", CMS)
    assert (status, answer["reason"], answer["message"]) == (401, "Unauthorized", "Unauthorized")
    nobody = Client(sandbox, "")
    status, answer = nobody.request("GET", CMS)
    assert (status, answer["reason"]) == (403, "Forbidden")
    assert 'User "system:anonymous" cannot list resource "configmaps"' in answer["message"]
    assert nobody.request("GET", "/readyz") == (200, "ok")
    assert nobody.request("GET", "/version")[0] == 200
    assert nobody.request("GET", "/apis")[0] == 403


def test_roles(edit: Client, sandbox: SandboxServer) -> None:
    """A binding allows where it says, and a refusal names user, verb, resource and place."""
    edit.ok("POST", CMS, configmap())
    status, answer = edit.request("GET", "/api/v1/namespaces/kube-system/configmaps")
    assert (status, answer["details"]) == (403, {"kind": "configmaps"})
    status, answer = Client(sandbox, "ci-token").request(
        "PATCH", f"{CMS}/app", {"data": {}}, content_type=MERGE
    )
    assert answer["message"] == (
        'configmaps "app" is forbidden: User "ci" cannot patch resource "configmaps" in API group "" '
        'in the namespace "default"'
    )
    event = sandbox.audit_events()[-1]
    assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert event["responseStatus"]["code"] == 403
    assert "requestObject" not in event


def test_audit_events(edit: Client, sandbox: SandboxServer) -> None:
    """An event names who, what, the bodies, and why it was allowed; reading leaves no trace."""
    made = edit.ok("POST", CMS, configmap())
    edit.ok("GET", f"{CMS}/app")
    edit.ok("PUT", f"{CMS}/app", made | {"data": {"k": "2"}})
    edit.ok("DELETE", f"{CMS}/app", {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    create, update, delete = sandbox.audit_events()[-3:]
    assert [e["verb"] for e in (create, update, delete)] == ["create", "update", "delete"]
    assert create["user"] == {
        "username": "alice",
        "uid": "alice-uid",
        "groups": ["team-a", "system:authenticated"],
    }
    assert create["objectRef"] == {
        "resource": "configmaps",
        "namespace": "default",
        "name": "app",
        "apiVersion": "v1",
    }
    assert create["requestObject"] == configmap()
    assert create["responseObject"] == made
    assert create["annotations"]["authorization.k8s.io/reason"] == (
        'RBAC: allowed by RoleBinding "edit/default" of Role "edit" to User "alice"'
    )
    assert update["objectRef"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert update["objectRef"]["uid"] == made["metadata"]["uid"]
    assert delete["requestObject"]["apiVersion"] == "meta.k8s.io/__internal"
    assert delete["responseStatus"]["details"]["uid"] == made["metadata"]["uid"]


def test_impersonation(edit: Client, admin: Client, sandbox: SandboxServer) -> None:
    """The administrator may act as others, with extras; others may not."""
    extra = {
        "Impersonate-User": "carol",
        "Impersonate-Group": "team-a",
        "Impersonate-Extra-configbutler.ai%2Fclaims%2Femail": "carol@lab.test",
    }
    admin.ok("POST", CMS, configmap(), headers=extra)
    event = sandbox.audit_events()[-1]
    assert event["user"]["username"] == "admin"
    assert event["impersonatedUser"] == {
        "username": "carol",
        "groups": ["team-a", "system:authenticated"],
        "extra": {"configbutler.ai/claims/email": ["carol@lab.test"]},
    }
    robot = {"Impersonate-User": "system:serviceaccount:default:robot"}
    admin.ok("PATCH", f"{CMS}/app", {"data": {"k": "r"}}, content_type=MERGE, headers=robot)
    assert sandbox.audit_events()[-1]["impersonatedUser"]["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ]
    status, answer = edit.request("GET", CMS, headers={"Impersonate-User": "carol"})
    assert status == 403
    assert 'User "alice" cannot impersonate resource "users"' in answer["message"]


def test_reviews(edit: Client, admin: Client) -> None:
    """Token and access reviews answer from the same users and roles, and token reviews are not audited."""
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "alice-token"}}
    status = admin.ok("POST", path, body)["status"]
    assert (status["authenticated"], status["user"]["username"]) == (True, "alice")
    body["spec"] = {"token": "wrong"}
    assert admin.ok("POST", path, body)["status"] == {"user": {}, "error": "invalid bearer token"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "alice",
            "resourceAttributes": {"namespace": "default", "verb": "create", "resource": "configmaps"},
        },
    }
    access = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert admin.ok("POST", access, review)["status"]["allowed"] is True
    review["spec"]["user"] = "ci"  # type: ignore[index]
    assert admin.ok("POST", access, review)["status"] == {"allowed": False}
    assert not [e for e in admin.server.audit_events() if "tokenreviews" in e["requestURI"]]


def test_token_file(tmp_path: Path) -> None:
    """Users come from a static token file; a line that is none is named."""
    path = tmp_path / "tokens.csv"
    path.write_text('abc,dora,dora-uid,"team-a,team-b"\nxyz,emil,\n')
    tokens = Tokens()
    tokens.load(path)
    found = tokens.find("abc")
    assert found is not None
    assert found.info() == {
        "username": "dora",
        "uid": "dora-uid",
        "groups": ["team-a", "team-b", "system:authenticated"],
    }
    path.write_text("abc\n")
    with pytest.raises(SettingsInvalid, match="line 1"):
        Tokens().load(path)
