"""The URLs that name no resource: discovery, OpenAPI, version, health."""

from typing import Any

from reverser.sandbox import discovery, openapi
from reverser.sandbox.faults import Faults
from reverser.sandbox.registry import Registry
from reverser.sandbox.status import ApiError, PageNotFound
from reverser.sandbox.storage import Storage

Obj = dict[str, Any]

VERSION: Obj = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2",
    "gitCommit": "$Format:%H$",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "go1.26.4",
    "compiler": "gc",
    "platform": "linux/amd64",
}
_HEALTH = ("/healthz", "/livez", "/readyz")


class Surface:
    """Answers GET requests outside the resources."""

    def __init__(self, storage: Storage, registry: Registry, faults: Faults) -> None:
        self._storage = storage
        self._registry = registry
        self._faults = faults
        self._openapi: dict[str, tuple[int, Obj]] = {}

    def broken(self) -> list[tuple[str, str]]:
        """Group versions that are registered but do not answer."""
        found = set(self._faults.failed_groups)
        for service in self._storage.items(("apiregistration.k8s.io", "apiservices"), None):
            spec = service.get("spec") or {}
            if spec.get("service"):
                found.add((spec.get("group") or "", spec.get("version") or ""))
        return sorted(found)

    def answer(self, path: str, accept: str, server: str) -> tuple[str, Obj | str]:
        """Content type and body. Raises PageNotFound, and 503 for a group that is down."""
        if path.startswith(_HEALTH):
            return "text/plain; charset=utf-8", "ok"
        parts = [part for part in path.split("/") if part]
        types, broken = self._registry.types(), self.broken()
        match parts:
            case ["version"]:
                return "application/json", VERSION
            case ["api"] | ["apis"] if discovery.AGGREGATED_V2 in accept.replace(" ", ""):
                core = parts == ["api"]
                return discovery.AGGREGATED_V2, discovery.aggregated(types, broken, core=core)
            case ["api"]:
                return "application/json", discovery.api_versions(server)
            case ["apis"]:
                return "application/json", discovery.group_list(types, broken)
            case ["api", version]:
                return "application/json", self._resources("", version)
            case ["apis", group]:
                document = discovery.one_group(types, broken, group)
                if document is None:
                    raise PageNotFound
                return "application/json", document
            case ["apis", group, version]:
                return "application/json", self._resources(group, version)
            case ["openapi", "v2"]:
                return "application/json", self._cached("v2")
            case ["openapi", "v3", *_]:
                return "application/json", self._cached(path)
            case []:
                return "application/json", {"paths": ["/api", "/apis", "/healthz", "/openapi/v3", "/version"]}
        raise PageNotFound

    def check_backend(self, group: str, version: str) -> None:
        """Raises 503 where the group version is down."""
        if (group, version) in self.broken():
            raise ApiError(503, "ServiceUnavailable", "the server is currently unable to handle the request")

    def _resources(self, group: str, version: str) -> Obj:
        self.check_backend(group, version)
        document = discovery.resource_list(
            self._registry.types(), group, version, self._registry.storage_hashes(group)
        )
        if document is None:
            raise PageNotFound
        return document

    def _cached(self, path: str) -> Obj:
        held = self._openapi.get(path)
        if held is not None and held[0] == self._registry.revision:
            return held[1]
        document = self._document(path)
        self._openapi[path] = (self._registry.revision, document)
        return document

    def _document(self, path: str) -> Obj:
        types, crds = self._registry.types(), self._registry.compiled()
        match [part for part in path.split("/") if part]:
            case ["v2"]:
                return openapi.openapi_v2_document(types, crds)
            case ["openapi", "v3"]:
                return openapi.openapi_v3_index(types, crds)
            case ["openapi", "v3", "api", version]:
                return openapi.openapi_v3_document("", version, types, crds)
            case ["openapi", "v3", "apis", group, version]:
                return openapi.openapi_v3_document(group, version, types, crds)
        raise PageNotFound
