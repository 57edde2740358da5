"""Writes: what the server sets, what it refuses, and the words it refuses with."""

import re

import pytest

from reverser.sandbox.thread import SandboxServer
from tests.sandbox.client import Client

CMS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def configmap(name: str = "app", **data: str) -> dict[str, object]:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data or {"k": "v"}}


def deployment() -> dict[str, object]:
    """A Deployment of two replicas."""
    pod = {"containers": [{"name": "c", "image": "lab/app:1"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "api"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "api"}},
            "template": {"metadata": {"labels": {"app": "api"}}, "spec": pod},
        },
    }


def test_create(admin: Client) -> None:
    """The server sets uid, version, time and the field manager, and answers 201."""
    status, made = admin.request("POST", CMS, configmap())
    metadata = made["metadata"]
    assert status == 201
    assert (metadata["name"], metadata["namespace"]) == ("app", "default")
    assert re.fullmatch(r"[0-9a-f-]{36}", metadata["uid"])
    assert int(metadata["resourceVersion"]) > 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    [entry] = metadata["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("python-urllib3", "Update")
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:k": {}}}
    assert "generation" not in metadata


def test_generate_name(admin: Client) -> None:
    """`generateName` gets five letters; names are unique."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}}
    names = {admin.ok("POST", CMS, body)["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(re.fullmatch(r"gen-[bcdfghjklmnpqrstvwxz2-9]{5}", name) for name in names)


def test_updates(admin: Client) -> None:
    """A change gets a new version, a repetition keeps it, an old version is refused."""
    made = admin.ok("POST", CMS, configmap())
    changed = admin.ok("PUT", f"{CMS}/app", made | {"data": {"k": "v2"}})
    assert int(changed["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert admin.ok("PUT", f"{CMS}/app", changed) == changed
    status, answer = admin.request("PUT", f"{CMS}/app", made)
    assert (status, answer["reason"]) == (409, "Conflict")
    assert answer["message"] == (
        'Operation cannot be fulfilled on configmaps "app": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert answer["details"] == {"name": "app", "kind": "configmaps"}
    forced = admin.ok("PUT", f"{CMS}/app", configmap(k="v3"))
    assert (forced["data"], forced["metadata"]["uid"]) == ({"k": "v3"}, made["metadata"]["uid"])


@pytest.mark.parametrize(
    ("asked", "code", "reason", "text"),
    [
        (
            ("POST", CMS, configmap("Bad_Name")),
            422,
            "Invalid",
            'ConfigMap "Bad_Name" is invalid: metadata.name',
        ),
        (("GET", f"{CMS}/absent", None), 404, "NotFound", 'configmaps "absent" not found'),
        (("DELETE", f"{CMS}/absent", None), 404, "NotFound", 'configmaps "absent" not found'),
        (
            ("POST", CMS.replace("default", "absent"), configmap()),
            404,
            "NotFound",
            'namespaces "absent" not found',
        ),
        (
            ("POST", CMS, configmap() | {"kind": "Secret"}),
            400,
            "BadRequest",
            'Secret in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (("POST", CMS, "{not json"), 400, "BadRequest", "the object provided is unrecognized"),
        (("GET", f"{CMS}?labelSelector=a%20b%20c", None), 400, "BadRequest", "unable to parse requirement"),
        (
            ("GET", f"{CMS}?fieldSelector=data.k%3Dv", None),
            400,
            "BadRequest",
            '"data.k" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (
            ("GET", "/api/v1/secrets?fieldSelector=data.k%3Dv", None),
            400,
            "BadRequest",
            "field label not supported: data.k",
        ),
        (("GET", f"{CMS}?limit=many", None), 400, "BadRequest", 'parsing "many": invalid syntax'),
        (("GET", f"{CMS}?resourceVersion=abc", None), 400, "BadRequest", "invalid resource version"),
        (("POST", f"{CMS}?dryRun=Some", configmap()), 422, "Invalid", 'supported values: "All"'),
        (("PUT", f"{CMS}/other", configmap()), 404, "NotFound", 'configmaps "other" not found'),
        (("PATCH", DEPLOYMENTS + "/absent", {}), 404, "NotFound", 'deployments.apps "absent" not found'),
    ],
)
def test_refusals(admin: Client, asked: tuple[str, str, object], code: int, reason: str, text: str) -> None:
    """Errors are Status objects whose code, reason and text clients know."""
    method, path, body = asked
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    status, answer = admin.request(method, path, body, content_type=kind)
    assert (status, answer["code"], answer["reason"]) == (code, code, reason)
    assert text in answer["message"]


def test_unknown_paths(admin: Client) -> None:
    """A group that does not exist is no Status; an unknown type of a group that does is one about nothing."""
    assert admin.request("GET", "/apis/absent.example.com/v1") == (404, "404 page not found\n")
    assert admin.request("GET", "/apis/absent.example.com/v1/things") == (404, "404 page not found\n")
    for path in ("/api/v1/namespaces/default/nothings", "/apis/apps/v1/nothings", "/apis/apps/v9/things"):
        status, answer = admin.request("GET", path)
        assert (status, answer["reason"], answer["details"]) == (404, "NotFound", {})
        assert answer["message"] == "the server could not find the requested resource"


def test_list_from_the_watch_cache_comes_whole(admin: Client) -> None:
    """`limit` counts only where the list may not be any state there is (resourceVersion 0)."""
    for name in ("a", "b", "c"):
        admin.ok("POST", CMS, configmap(name))
    assert len(admin.ok("GET", f"{CMS}?limit=2&resourceVersion=0")["items"]) == 3
    page = admin.ok("GET", f"{CMS}?limit=2")
    assert (len(page["items"]), "continue" in page["metadata"]) == (2, True)


def test_dry_run(admin: Client, sandbox: SandboxServer) -> None:
    """A dry run answers as the real thing and stores nothing."""
    before = sandbox.resource_version()
    made = admin.ok("POST", f"{CMS}?dryRun=All", configmap())
    assert "uid" in made["metadata"]
    assert "resourceVersion" not in made["metadata"]
    assert admin.request("GET", f"{CMS}/app")[0] == 404
    assert sandbox.resource_version() == before
    admin.ok("POST", CMS, configmap())
    before = sandbox.resource_version()
    asked = {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}
    for path in (f"{CMS}/app", CMS):
        admin.ok("DELETE", path, asked)
    assert admin.ok("GET", f"{CMS}/app")["metadata"]["name"] == "app"
    assert sandbox.resource_version() == before


def test_finalizers(admin: Client) -> None:
    """A held object is marked, goes on living, and goes when the last finalizer goes."""
    body = configmap()
    body["metadata"] = {"name": "app", "finalizers": ["example.com/hold"]}
    admin.ok("POST", CMS, body)
    marked = admin.ok("DELETE", f"{CMS}/app")
    assert marked["kind"] == "ConfigMap"
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    merge = {"content_type": "application/merge-patch+json"}
    status, answer = admin.request(
        "PATCH", f"{CMS}/app", {"metadata": {"finalizers": ["example.com/hold", "b.com/c"]}}, **merge
    )
    assert (status, answer["reason"]) == (422, "Invalid")
    alive = admin.ok("PATCH", f"{CMS}/app", {"data": {"k": "w"}}, **merge)
    last = admin.ok("PATCH", f"{CMS}/app", {"metadata": {"finalizers": None}}, **merge)
    assert last["metadata"]["resourceVersion"] == alive["metadata"]["resourceVersion"]
    assert admin.request("GET", f"{CMS}/app")[0] == 404


def test_delete_preconditions(admin: Client) -> None:
    """A delete for another uid or version is refused, one that fits goes through."""
    made = admin.ok("POST", CMS, configmap())["metadata"]
    status, answer = admin.request("DELETE", f"{CMS}/app", {"preconditions": {"uid": "other"}})
    assert (status, answer["reason"]) == (409, "Conflict")
    assert (
        f"UID in the precondition (other) does not match the UID in record ({made['uid']})"
        in (answer["message"])
    )
    assert answer["details"] == {"name": "app", "kind": "ConfigMap"}
    done = admin.ok("DELETE", f"{CMS}/app", {"preconditions": {"resourceVersion": made["resourceVersion"]}})
    assert (done["status"], done["details"]["uid"]) == ("Success", made["uid"])


def test_delete_collection(admin: Client) -> None:
    """Selectors choose; the answer lists what there was."""
    for name, tier in (("a", "1"), ("b", "1"), ("c", "2")):
        body = configmap(name)
        body["metadata"] = {"name": name, "labels": {"t": tier}}
        admin.ok("POST", CMS, body)
    gone = admin.ok("DELETE", f"{CMS}?labelSelector=t%3D1")
    assert (gone["kind"], [i["metadata"]["name"] for i in gone["items"]]) == ("ConfigMapList", ["a", "b"])
    assert [i["metadata"]["name"] for i in admin.ok("GET", CMS)["items"]] == ["c"]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("t=1", ["a"]),
        ("t!=1", ["b", "c"]),
        ("t in (1,2)", ["a", "b"]),
        ("t notin (1)", ["b", "c"]),
        ("t", ["a", "b"]),
        ("!t", ["c"]),
        ("t,u=x", ["b"]),
    ],
)
def test_label_selectors(admin: Client, selector: str, names: list[str]) -> None:
    """All forms of label selectors choose as kubectl documents them."""
    for name, labels in (("a", {"t": "1"}), ("b", {"t": "2", "u": "x"}), ("c", {})):
        body = configmap(name)
        body["metadata"] = {"name": name, "labels": labels}
        admin.ok("POST", CMS, body)
    query = selector.replace(" ", "%20").replace("=", "%3D").replace("!", "%21")
    assert [i["metadata"]["name"] for i in admin.ok("GET", f"{CMS}?labelSelector={query}")["items"]] == names


def test_pages(admin: Client, sandbox: SandboxServer) -> None:
    """Pages of one list show one moment; a token is too old once history is gone."""
    for number in range(5):
        admin.ok("POST", CMS, configmap(f"c{number}"))
    first = admin.ok("GET", f"{CMS}?limit=2")
    assert first["metadata"]["remainingItemCount"] == 3
    admin.ok("DELETE", f"{CMS}/c3")
    second = admin.ok("GET", f"{CMS}?limit=2&continue={first['metadata']['continue']}")
    assert [i["metadata"]["name"] for i in second["items"]] == ["c2", "c3"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    last = admin.ok("GET", f"{CMS}?limit=2&continue={second['metadata']['continue']}")
    assert [i["metadata"]["name"] for i in last["items"]] == ["c4"]
    assert "continue" not in last["metadata"]
    sandbox.call(sandbox.server.storage.compact)
    status, answer = admin.request("GET", f"{CMS}?limit=2&continue={first['metadata']['continue']}")
    assert (status, answer["reason"]) == (410, "Expired")


def test_lists_at_a_version(admin: Client) -> None:
    """An exact version shows the past; a future one is an error that asks to come back."""
    made = admin.ok("POST", CMS, configmap())["metadata"]["resourceVersion"]
    admin.ok("DELETE", f"{CMS}/app")
    past = admin.ok("GET", f"{CMS}?resourceVersion={made}&resourceVersionMatch=Exact")
    assert [i["metadata"]["name"] for i in past["items"]] == ["app"]
    status, answer = admin.request("GET", f"{CMS}?resourceVersion=99999999")
    assert (status, answer["reason"]) == (504, "Timeout")


def test_generation_and_subresources(admin: Client) -> None:
    """Spec changes are counted, status changes are not; status and scale have their own doors."""
    made = admin.ok("POST", DEPLOYMENTS, deployment() | {"status": {"replicas": 9}})
    assert (made["metadata"]["generation"], made["status"]) == (1, {})
    merge = {"content_type": "application/merge-patch+json"}
    ignored = admin.ok("PATCH", f"{DEPLOYMENTS}/api", {"status": {"replicas": 9}}, **merge)
    assert ignored == made
    shown = admin.ok("PATCH", f"{DEPLOYMENTS}/api/status", {"status": {"replicas": 2}}, **merge)
    assert (shown["metadata"]["generation"], shown["status"]["replicas"]) == (1, 2)
    scale = admin.ok("PATCH", f"{DEPLOYMENTS}/api/scale", {"spec": {"replicas": 5}}, **merge)
    assert scale["spec"] == {"replicas": 5}
    assert scale["status"] == {"replicas": 2, "selector": "app=api"}
    found = admin.ok("GET", f"{DEPLOYMENTS}/api")
    assert (found["metadata"]["generation"], found["spec"]["replicas"]) == (2, 5)
    scale["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    assert admin.request("PUT", f"{DEPLOYMENTS}/api/scale", scale)[0] == 409


def test_namespaces(admin: Client) -> None:
    """A deleted namespace ends, takes nothing new, and the system's own cannot go."""
    made = admin.ok(
        "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    )
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "shop"}
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    ended = admin.ok("DELETE", "/api/v1/namespaces/shop")
    assert ended["status"] == {"phase": "Terminating"}
    status, answer = admin.request("POST", "/api/v1/namespaces/shop/configmaps", configmap())
    assert (status, answer["reason"]) == (403, "Forbidden")
    assert "because it is being terminated" in answer["message"]
    assert admin.request("DELETE", "/api/v1/namespaces/default")[0] == 403
    names = {i["metadata"]["name"] for i in admin.ok("GET", "/api/v1/namespaces")["items"]}
    assert names == {"default", "kube-node-lease", "kube-public", "kube-system", "shop"}


def test_finished_namespaces() -> None:
    """Told to finish namespaces, the sandbox empties and removes them."""
    with SandboxServer(finish_namespaces=True) as server:
        admin = Client(server)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        admin.ok("POST", "/api/v1/namespaces", body)
        admin.ok("POST", "/api/v1/namespaces/shop/configmaps", configmap())
        admin.ok("DELETE", "/api/v1/namespaces/shop")
        assert admin.request("GET", "/api/v1/namespaces/shop")[0] == 404
        assert [o["metadata"]["namespace"] for o in server.objects("", "configmaps")] == ["kube-system"] * 2


def test_metadata_only(admin: Client) -> None:
    """Metadata informers get metadata only."""
    admin.ok("POST", CMS, configmap())
    accept = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    found = admin.ok("GET", CMS, headers=accept)
    assert found["kind"] == "PartialObjectMetadataList"
    assert found["items"][0].keys() == {"kind", "apiVersion", "metadata"}
    assert admin.request("GET", CMS, headers={"Accept": "application/cbor"})[0] == 406


def test_empty_fields(admin: Client) -> None:
    """Empty maps and lists vanish as a typed server drops them, empty structures stay."""
    body = configmap()
    body["metadata"] = {"name": "app", "labels": {}, "annotations": None}
    body["data"] = {}
    assert admin.ok("POST", CMS, body).keys() == {"kind", "apiVersion", "metadata"}
    assert not {"labels", "annotations"} & admin.ok("GET", f"{CMS}/app")["metadata"].keys()
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "all"},
        "spec": {"podSelector": {}, "ingress": []},
    }
    made = admin.ok("POST", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", policy)
    assert made["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}


def test_service_addresses(admin: Client) -> None:
    """Each Service has its own address and keeps it; a deleted one's is given out again."""
    path = "/api/v1/namespaces/default/services"

    def service(name: str) -> dict[str, object]:
        spec = {"selector": {"a": "b"}, "ports": [{"port": 80}]}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}

    first, second = admin.ok("POST", path, service("a")), admin.ok("POST", path, service("b"))
    assert first["spec"]["clusterIP"] != second["spec"]["clusterIP"]
    again = admin.ok("PUT", f"{path}/a", service("a"))
    assert again["spec"]["clusterIP"] == first["spec"]["clusterIP"]
    admin.ok("DELETE", f"{path}/a")
    assert admin.ok("POST", path, service("c"))["spec"]["clusterIP"] == first["spec"]["clusterIP"]


@pytest.mark.parametrize(
    ("patch", "code", "text"),
    [
        ({"kind": "Secret"}, 400, "(v1.Secret)"),
        ({"metadata": {"name": "other"}}, 400, "does not match the name on the URL"),
        ({"metadata": {"namespace": "other"}}, 400, "does not match the namespace sent on the request"),
        ({"metadata": None}, 400, "name must be provided"),
        ({"metadata": {"resourceVersion": "1"}}, 409, "the object has been modified"),
        ({"metadata": {"uid": "other"}}, 422, "metadata.uid"),
        ({"metadata": {"labels": {"a": 5}}}, 422, "cannot unmarshal number"),
        ({"data": {"k": 5}}, 422, "cannot unmarshal number"),
        ([], 400, "cannot unmarshal array"),
    ],
)
def test_patches_keep_identity(admin: Client, patch: object, code: int, text: str) -> None:
    """A patch cannot turn an object into another one, and can name the version it is meant for."""
    made = admin.ok("POST", CMS, configmap())
    status, answer = admin.request("PATCH", f"{CMS}/app", patch, content_type="application/merge-patch+json")
    assert status == code
    assert text in answer["message"]
    assert admin.ok("GET", f"{CMS}/app") == made


def test_key_order(admin: Client) -> None:
    """Keys come in the order of the Go types, for people who read JSON."""
    made = admin.ok("POST", CMS, configmap())
    assert list(made) == ["kind", "apiVersion", "metadata", "data"]
    assert list(made["metadata"]) == [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
    ]
