"""The OpenAPI documents hold together and say what kubectl looks for."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from reverser.sandbox.openapi import openapi_v2_document, openapi_v3_document, openapi_v3_index
from reverser.sandbox.types import BUILTIN_TYPES, group_versions
from tests.sandbox.pure.test_schema import WIDGET, compiled

CRD = compiled(WIDGET)
TYPES = [*BUILTIN_TYPES, *CRD.resource_types()]


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, below in value.items():
            if key == "$ref":
                yield below
            else:
                yield from references(below)
    elif isinstance(value, list):
        for below in value:
            yield from references(below)


def test_every_reference_leads_somewhere() -> None:
    """In each group's document and in version 2 every $ref names a schema of the same document."""
    for group, versions in group_versions(TYPES).items():
        for version in versions:
            document = openapi_v3_document(group, version, TYPES, [CRD])
            known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
            assert set(references(document)) <= known
    document = openapi_v2_document(TYPES, [CRD])
    assert set(references(document)) <= {f"#/definitions/{name}" for name in document["definitions"]}


def test_the_index_names_every_group_version_by_a_hash_of_its_content() -> None:
    """A changed definition changes the address of its own document only."""
    with_crd, without = openapi_v3_index(TYPES, [CRD])["paths"], openapi_v3_index(BUILTIN_TYPES)["paths"]
    assert set(with_crd) - set(without) == {"apis/lab.test/v1"}
    assert with_crd["api/v1"] == without["api/v1"]
    assert with_crd["apis/apps/v1"]["serverRelativeURL"].startswith("/openapi/v3/apis/apps/v1?hash=")
    changed = compiled({**WIDGET, "description": "changed"})
    assert openapi_v3_index(TYPES, [changed])["paths"]["apis/lab.test/v1"] != with_crd["apis/lab.test/v1"]


@pytest.mark.parametrize(
    ("group", "version", "path", "kind"),
    [
        ("apps", "v1", "/apis/apps/v1/namespaces/{namespace}/deployments/{name}", "Deployment"),
        ("", "v1", "/api/v1/namespaces/{name}", "Namespace"),
        ("lab.test", "v1", "/apis/lab.test/v1/namespaces/{namespace}/things/{name}", "Thing"),
    ],
)
def test_patches_offer_field_validation(group: str, version: str, path: str, kind: str) -> None:
    """kubectl lets the server validate where the patch of a kind takes the fieldValidation parameter."""
    patch = openapi_v3_document(group, version, TYPES, [CRD])["paths"][path]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": group, "kind": kind, "version": version}
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]


def test_schemas_of_both_kinds() -> None:
    """A built-in type has its fields with merge keys, a custom one the schema of its definition."""
    schemas = openapi_v3_document("apps", "v1", TYPES)["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert (containers["x-kubernetes-patch-merge-key"], containers["x-kubernetes-patch-strategy"]) == (
        "name",
        "merge",
    )
    assert schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["replicas"]["format"] == "int32"
    thing = openapi_v3_document("lab.test", "v1", TYPES, [CRD])["components"]["schemas"]["test.lab.v1.Thing"]
    assert thing["properties"]["spec"]["properties"]["size"]["minimum"] == 1
    assert thing["x-kubernetes-group-version-kind"] == [
        {"group": "lab.test", "kind": "Thing", "version": "v1"}
    ]


def test_documents_are_plain_json() -> None:
    """Nothing in a document needs an encoder of its own."""
    assert json.loads(json.dumps(openapi_v2_document(TYPES, [CRD]))) == openapi_v2_document(TYPES, [CRD])
