"""Tables show what kubectl shows on a real cluster."""

import datetime
from typing import Any

import pytest

from reverser.sandbox.defaults import apply_defaults
from reverser.sandbox.jsonpath import compile_path, find
from reverser.sandbox.tables import render_table
from reverser.sandbox.times import human_duration
from reverser.sandbox.types import BUILTIN_TYPES, PrinterColumn

NOW = datetime.datetime(2026, 1, 2, 12, 0, tzinfo=datetime.UTC)
META = {"name": "x", "namespace": "n", "creationTimestamp": "2026-01-02T11:00:00Z"}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (330, "5m30s"),
        (3600, "60m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 1800, "5h30m"),
        (30 * 3600, "30h"),
        (3 * 86400 + 3600, "3d1h"),
        (100 * 86400, "100d"),
        (3 * 365 * 86400, "3y"),
        (10 * 365 * 86400, "10y"),
    ],
)
def test_ages_in_the_words_of_kubectl(seconds: int, text: str) -> None:
    """At most two units, coarser the longer the time."""
    assert human_duration(seconds) == text


DOC = {
    "spec": {"a.b": 1, "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type!='Ready')].status", ["False"]),
        (".spec.list[*].n", ["x", "y"]),
        (".spec.list[1].v", [2]),
        (".spec.list[-1].v", [2]),
        (".spec['a.b']", [1]),
        (r".spec.a\.b", [1]),
        (".spec.list[?(@.v==2)].n", ["y"]),
        ("..n", ["x", "y"]),
        (".nope.at.all", []),
    ],
)
def test_paths_of_columns(path: str, expected: list[Any]) -> None:
    """Fields, indexes, wildcards and filters find what kubectl's JSONPath finds."""
    assert find(path, DOC) == expected


def test_a_path_that_is_none_is_refused() -> None:
    """A path that cannot be read is an error, not an empty result."""
    with pytest.raises(ValueError, match="unrecognized path"):
        compile_path(".a[?(")


def test_custom_columns() -> None:
    """Each type has its form; what is missing or of another type is null."""
    columns = [
        PrinterColumn("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
        PrinterColumn("List", "string", ".spec.list[0]"),
        PrinterColumn("V", "integer", ".spec.list[1].v"),
        PrinterColumn("Missing", "integer", ".spec.list[9].v"),
        PrinterColumn("Age", "date", ".metadata.creationTimestamp", priority=1),
    ]
    table = render_table(columns, [{"metadata": META, **DOC}], list_meta={"resourceVersion": "7"}, now=NOW)
    assert table["rows"] == [{"cells": ["x", "True", '{"n":"x","v":1}', 2, None, "60m"]}]
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Ready", "List", "V", "Missing", "Age"]
    assert (table["kind"], table["metadata"]) == ("Table", {"resourceVersion": "7"})


def cells(group: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    rtype = next(t for t in BUILTIN_TYPES if (t.group, t.kind) == (group, kind))
    obj = apply_defaults(group, rtype.version, kind, {"metadata": dict(META), **spec})
    table = render_table(rtype, [obj], list_meta={}, now=NOW)
    narrow = [i for i, column in enumerate(table["columnDefinitions"]) if column["priority"] == 0]
    return {table["columnDefinitions"][i]["name"]: table["rows"][0]["cells"][i] for i in narrow}


TEMPLATE = {
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
}


@pytest.mark.parametrize(
    ("group", "kind", "spec", "expected"),
    [
        (
            "",
            "ConfigMap",
            {"data": {"a": "1"}, "binaryData": {"b": "Yg=="}},
            {"Name": "x", "Data": 2, "Age": "60m"},
        ),
        ("", "Secret", {"stringData": {"a": "1"}}, {"Name": "x", "Type": "Opaque", "Data": 1, "Age": "60m"}),
        ("", "Namespace", {}, {"Name": "x", "Status": "Active", "Age": "60m"}),
        (
            "",
            "Service",
            {
                "spec": {
                    "clusterIP": "10.0.0.9",
                    "ports": [{"port": 80, "nodePort": 30080}],
                    "type": "NodePort",
                }
            },
            {
                "Name": "x",
                "Type": "NodePort",
                "Cluster-IP": "10.0.0.9",
                "External-IP": "<none>",
                "Port(s)": "80:30080/TCP",
                "Age": "60m",
            },
        ),
        (
            "apps",
            "Deployment",
            {"spec": {"replicas": 3, **TEMPLATE}, "status": {"readyReplicas": 1, "updatedReplicas": 2}},
            {"Name": "x", "Ready": "1/3", "Up-to-date": 2, "Available": 0, "Age": "60m"},
        ),
        (
            "batch",
            "Job",
            {"spec": TEMPLATE},
            {"Name": "x", "Status": "Running", "Completions": "0/1", "Duration": "", "Age": "60m"},
        ),
        (
            "networking.k8s.io",
            "Ingress",
            {"spec": {"rules": [{"host": "a.test"}], "tls": [{}]}},
            {
                "Name": "x",
                "Class": "<none>",
                "Hosts": "a.test",
                "Address": "",
                "Ports": "80, 443",
                "Age": "60m",
            },
        ),
        (
            "networking.k8s.io",
            "NetworkPolicy",
            {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}},
            {"Name": "x", "Pod-Selector": "a=b", "Age": "60m"},
        ),
        ("rbac.authorization.k8s.io", "ClusterRole", {}, {"Name": "x", "Created At": "2026-01-02T11:00:00Z"}),
        ("", "PodTemplate", {}, {"Name": "x", "Age": "60m"}),
    ],
)
def test_builtin_rows(group: str, kind: str, spec: dict[str, Any], expected: dict[str, Any]) -> None:
    """The narrow columns of the usual kinds."""
    assert cells(group, kind, spec) == expected


@pytest.mark.parametrize("rtype", BUILTIN_TYPES, ids=lambda t: f"{t.resource}.{t.group}")
def test_every_type_renders_an_almost_empty_object(rtype: Any) -> None:
    """No cell fails because a controller has not filled in the status."""
    table = render_table(rtype, [{"metadata": {"name": "x"}}], list_meta={}, now=NOW)
    assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"])
