"""Discovery, health, faults on demand, and many watches at once."""

import asyncio
import time

import aiohttp
import orjson

from reverser.sandbox.thread import SandboxServer
from tests.sandbox.client import USER_AGENT, Client
from tests.sandbox.test_custom_resources import CRDS, crd
from tests.sandbox.test_objects import CMS, configmap

AGGREGATED = {
    "Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
}


def _groups(document: dict[str, list[dict[str, dict[str, str]]]]) -> list[str]:
    return [item["metadata"].get("name", "") for item in document["items"]]


def test_both_forms_of_discovery_agree(admin: Client) -> None:
    """Every resource of the aggregated documents is in the legacy ones, with the same verbs."""
    admin.ok("POST", CRDS, crd(beta=True))
    for path in ("/api", "/apis"):
        document = admin.ok("GET", path, headers=AGGREGATED)
        assert document["apiVersion"] == "apidiscovery.k8s.io/v2"
        for item in document["items"]:
            group = item["metadata"].get("name", "")
            for version in item["versions"]:
                assert version["freshness"] == "Current"
                root = f"/apis/{group}" if group else "/api"
                legacy = {r["name"]: r for r in admin.ok("GET", f"{root}/{version['version']}")["resources"]}
                for entry in version["resources"]:
                    names = [entry["resource"]]
                    names += [f"{names[0]}/{s['subresource']}" for s in entry.get("subresources", [])]
                    assert all(name in legacy for name in names)
                    assert legacy[names[0]]["verbs"] == entry["verbs"]
    groups = [g["name"] for g in admin.ok("GET", "/apis")["groups"]]
    assert groups == _groups(admin.ok("GET", "/apis", headers=AGGREGATED))
    assert groups[-1] == "lab.test"


def test_failed_group(admin: Client, sandbox: SandboxServer) -> None:
    """A group whose backend is down is Stale in one form of discovery and 503 in the other."""
    sandbox.faults.fail_group("apps", "v1")
    document = admin.ok("GET", "/apis", headers=AGGREGATED)
    [versions] = [i["versions"] for i in document["items"] if i["metadata"]["name"] == "apps"]
    assert versions == [{"version": "v1", "freshness": "Stale"}]
    status, answer = admin.request("GET", "/apis/apps/v1")
    assert (status, answer["reason"]) == (503, "ServiceUnavailable")
    assert admin.request("GET", "/apis/apps/v1/deployments")[0] == 503
    sandbox.faults.clear()
    assert admin.request("GET", "/apis/apps/v1/deployments")[0] == 200


def test_broken_api_service(admin: Client) -> None:
    """An APIService without a Service behind it makes a Stale group."""
    service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1alpha1.broken.test"},
        "spec": {
            "group": "broken.test",
            "version": "v1alpha1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"name": "absent", "namespace": "default"},
        },
    }
    admin.ok("POST", "/apis/apiregistration.k8s.io/v1/apiservices", service)
    document = admin.ok("GET", "/apis", headers=AGGREGATED)
    [versions] = [i["versions"] for i in document["items"] if i["metadata"]["name"] == "broken.test"]
    assert versions == [{"version": "v1alpha1", "freshness": "Stale"}]
    assert admin.request("GET", "/apis/broken.test/v1alpha1")[0] == 503


def test_answers_on_demand(admin: Client, sandbox: SandboxServer) -> None:
    """Errors are given as often as asked, with Retry-After; delays delay."""
    sandbox.faults.answer(429, "configmaps", times=2, retry_after=3)
    status, answer, headers = admin.request_full("GET", CMS)
    assert (status, answer["reason"], headers["Retry-After"]) == (429, "TooManyRequests", "3")
    assert admin.request("GET", "/version")[0] == 200
    assert admin.request("GET", CMS)[0] == 429
    assert admin.request("GET", CMS)[0] == 200
    sandbox.faults.answer(500, methods=("POST",))
    assert admin.request("GET", CMS)[0] == 200
    assert admin.request("POST", CMS, configmap())[0] == 500
    sandbox.faults.delay(0.3, "configmaps")
    began = time.monotonic()
    admin.ok("GET", CMS)
    assert time.monotonic() - began >= 0.3


def test_faults_over_http(admin: Client, sandbox: SandboxServer) -> None:
    """Administrators order faults by POST; others are refused; a wrong order teaches."""
    watch = admin.watch(CMS, "")
    admin.ok("POST", "/sandbox/faults", {"do": "drop_watches", "pattern": "configmaps"})
    watch.wait_end()
    state = admin.ok("POST", "/sandbox/faults", {"do": "set", "drop_bookmarks": True})
    assert state["drop_bookmarks"] is True
    status, answer = admin.request("POST", "/sandbox/faults", {"do": "nothing"})
    assert status == 400
    assert "drop_watches" in answer["message"]
    sandbox.add_user("ci-token", "ci")
    assert Client(sandbox, "ci-token").request("GET", "/sandbox/faults")[0] == 403


def test_health_and_version(admin: Client) -> None:
    """Health is plain text; the version is that of the server imitated."""
    for path in ("/healthz", "/readyz", "/livez"):
        assert admin.request("GET", path) == (200, "ok")
    assert admin.ok("GET", "/version")["gitVersion"] == "v1.36.2"


def test_openapi(admin: Client) -> None:
    """The OpenAPI index names every group version, custom ones too, and each document is there."""
    admin.ok("POST", CRDS, crd())
    paths = admin.ok("GET", "/openapi/v3")["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/lab.test/v1"} <= paths.keys()
    for entry in (paths["api/v1"], paths["apis/lab.test/v1"]):
        assert admin.ok("GET", entry["serverRelativeURL"])["openapi"].startswith("3.")
    assert admin.ok("GET", "/openapi/v2")["swagger"] == "2.0"


def test_many_watches() -> None:
    """Five hundred watches see every one of thirty changes, in order."""
    with SandboxServer(tls=False) as server:
        assert asyncio.run(_crowd(server, watches=500, changes=30)) == {30}


async def _crowd(server: SandboxServer, *, watches: int, changes: int) -> set[int]:
    headers = {"Authorization": f"Bearer {server.token}", "User-Agent": USER_AGENT}
    url = server.url + CMS
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:

        async def follow(opened: asyncio.Event) -> int:
            seen: list[int] = []
            async with session.get(f"{url}?watch=1") as response:
                opened.set()
                async for line in response.content:
                    seen.append(int(orjson.loads(line)["object"]["metadata"]["resourceVersion"]))
                    if len(seen) == changes:
                        break
            assert seen == sorted(set(seen))
            return len(seen)

        events = [asyncio.Event() for _ in range(watches)]
        followers = [asyncio.create_task(follow(event)) for event in events]
        for event in events:
            await event.wait()
        for number in range(changes):
            async with session.post(url, json=configmap(f"c{number}")) as response:
                assert response.status == 201
        return set(await asyncio.wait_for(asyncio.gather(*followers), 60))
