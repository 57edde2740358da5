"""The five CRDs say what `reverser.kinds` reads: fields, defaults, enums, immutability, columns."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reverser.kinds.parse import (
    parse_commit_request,
    parse_git_provider,
    parse_git_target,
    parse_watch_rule,
)

CRD_DIR = Path(__file__).resolve().parents[2] / "deploy" / "crds"
PARSERS: dict[str, Callable[[Any], Any]] = {
    "GitProvider": parse_git_provider,
    "GitTarget": parse_git_target,
    "WatchRule": parse_watch_rule,
    "ClusterWatchRule": parse_watch_rule,
    "CommitRequest": parse_commit_request,
}
CRDS = {
    doc["spec"]["names"]["kind"]: doc
    for doc in (yaml.safe_load(p.read_text()) for p in CRD_DIR.glob("*.yaml"))
}


def version(kind: str) -> dict[str, Any]:
    return CRDS[kind]["spec"]["versions"][0]


def schema(kind: str) -> dict[str, Any]:
    return version(kind)["schema"]["openAPIV3Schema"]


def example(node: dict[str, Any]) -> Any:
    """The fullest valid value of a schema node."""
    if "enum" in node:
        return node["enum"][0]
    if node["type"] == "object":
        if "additionalProperties" in node:
            return {"v1/configmaps": example(node["additionalProperties"])}
        return {name: example(child) for name, child in node.get("properties", {}).items()}
    if node["type"] == "array":
        return [example(node["items"])]
    if node["type"] == "boolean":
        return True
    if node["type"] == "integer":
        return max(node.get("minimum", 0), 1)
    return "/spec" if node.get("pattern") == "^/" else "5s"


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from leaves(child, (*path, key))
    elif isinstance(value, list) and value:
        for index, child in enumerate(value):
            yield from leaves(child, (*path, index))
    else:
        yield path


def full_object(kind: str) -> dict[str, Any]:
    return {
        "apiVersion": "configbutler.ai/v1alpha3",
        "kind": kind,
        "metadata": {"name": "n", "namespace": "" if kind == "ClusterWatchRule" else "ns", "uid": "u"},
        "spec": example(schema(kind)["properties"]["spec"]),
    }


def with_defaults(node: dict[str, Any], value: Any) -> Any:
    """What an API server stores: defaults filled in wherever the parent exists."""
    if isinstance(value, dict):
        out = {
            key: with_defaults(node.get("properties", {}).get(key, {}), child) for key, child in value.items()
        }
        for name, child in node.get("properties", {}).items():
            if name not in out and "default" in child:
                out[name] = child["default"]
        return out
    if isinstance(value, list):
        return [with_defaults(node.get("items", {}), child) for child in value]
    return value


def test_there_are_exactly_the_five_kinds_in_one_served_version() -> None:
    """S1: one served and stored version, no short names, no categories, spec required, status apart."""
    assert set(CRDS) == set(PARSERS)
    for kind, doc in CRDS.items():
        names = doc["spec"]["names"]
        assert doc["metadata"]["name"] == f"{names['plural']}.configbutler.ai"
        assert (names["plural"], names["singular"]) == (f"{kind.lower()}s", kind.lower())
        assert not {"shortNames", "categories"} & set(names)
        assert doc["spec"]["scope"] == ("Cluster" if kind == "ClusterWatchRule" else "Namespaced")
        (only,) = doc["spec"]["versions"]
        assert (only["name"], only["served"], only["storage"]) == ("v1alpha3", True, True)
        assert only["subresources"] == {"status": {}}
        assert "spec" in schema(kind)["required"]


@pytest.mark.parametrize("kind", PARSERS)
def test_a_full_object_parses_without_a_problem(kind: str) -> None:
    """An object with every field of the schema set is understood whole."""
    assert PARSERS[kind](full_object(kind)).problems == ()


@pytest.mark.parametrize("kind", PARSERS)
def test_every_field_of_the_schema_is_read(kind: str) -> None:
    """A wrong type in any field is noticed, so no field of a CRD is without effect."""
    whole = full_object(kind)
    for path in leaves(whole["spec"]):
        broken = copy.deepcopy(whole)
        node = broken["spec"]
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = 1.5
        problems = PARSERS[kind](broken).problems
        names = [str(part) for part in path if isinstance(part, str) and part != "v1/configmaps"]
        assert any(names[-1] in line for line in problems), (path, problems)


@pytest.mark.parametrize("kind", PARSERS)
def test_defaults_of_schema_and_parser_agree(kind: str) -> None:
    """An object written before a default existed reads like one that was defaulted by the API server."""
    spec_schema = schema(kind)["properties"]["spec"]
    whole = full_object(kind)

    def without_defaulted(node: dict[str, Any], value: Any) -> Any:
        if isinstance(value, dict):
            properties = node.get("properties", {})
            return {
                key: without_defaulted(properties.get(key, {}), child)
                for key, child in value.items()
                if "default" not in properties.get(key, {})
            }
        if isinstance(value, list):
            return [without_defaulted(node["items"], child) for child in value]
        return value

    bare = {**whole, "spec": without_defaulted(spec_schema, whole["spec"])}
    defaulted = {**bare, "spec": with_defaults(spec_schema, bare["spec"])}
    assert PARSERS[kind](defaulted) == PARSERS[kind](bare)


@pytest.mark.parametrize(
    ("kind", "path", "rule", "message"),
    [
        ("GitProvider", (), "self.url == oldSelf.url", "spec.url is immutable"),
        ("GitTarget", ("providerRef",), "self == oldSelf", "spec.providerRef is immutable"),
        ("GitTarget", ("branch",), "self == oldSelf", "spec.branch is immutable"),
        ("GitTarget", ("path",), "self == oldSelf", "spec.path is immutable"),
        ("CommitRequest", (), "self == oldSelf", "spec is immutable"),
    ],
)
def test_immutability_has_the_agreed_words(kind: str, path: tuple[str, ...], rule: str, message: str) -> None:
    """I16 and sheet section 2: the transition rule and the text of its error."""
    node = schema(kind)["properties"]["spec"]
    for part in path:
        node = node["properties"][part]
    assert node["x-kubernetes-validations"] == [{"rule": rule, "message": message}]


def test_message_and_delay_bounds() -> None:
    """I18: newline is allowed, other control characters are not; the delay is 0 to 300."""
    spec = schema("CommitRequest")["properties"]["spec"]["properties"]
    pattern = re.compile(spec["message"]["pattern"])
    assert pattern.search("Menu for spring\n\n- soup")
    assert not any(pattern.search(text) for text in ("a\tb", "a\rb", "a\x00b", "a\x7fb"))
    assert (spec["message"]["minLength"], spec["message"]["maxLength"]) == (1, 1024)
    delay = spec["closeDelaySeconds"]
    assert (delay["minimum"], delay["maximum"], delay["default"], delay["type"]) == (0, 300, 0, "integer")


def test_path_values_of_the_schema() -> None:
    """B03: omitted and empty are rejected by the schema; the rest is judged in status."""
    spec = schema("GitTarget")["properties"]["spec"]
    path = spec["properties"]["path"]
    assert "path" in spec["required"]
    assert path["minLength"] == 1
    for good in (".", "a//b/./c/", "deep/ü/ø", "/abs", "../up", "a\\b"):
        assert re.search(path["pattern"], good)
    assert not re.search(path["pattern"], "a\nb")


@pytest.mark.parametrize(
    ("kind", "columns", "wide"),
    [
        ("GitProvider", ["URL", "Ready", "Reason", "Age"], ["Status"]),
        (
            "GitTarget",
            ["Provider", "Branch", "Path", "Ready", "Reason", "Streams", "Age"],
            ["GitPathAccepted", "StreamsRunning", "Status", "Encryption"],
        ),
        ("WatchRule", ["Target", "Ready", "Reason", "Streams", "Age"], ["GitTargetReady", "StreamsRunning"]),
        (
            "ClusterWatchRule",
            ["Target", "Ready", "Reason", "Streams", "Age"],
            ["GitTargetReady", "StreamsRunning"],
        ),
        (
            "CommitRequest",
            ["GitTarget", "Ready", "Reason", "SHA", "Age"],
            ["AuthorAttributed", "Pushed", "Branch"],
        ),
    ],
)
def test_printer_columns(kind: str, columns: list[str], wide: list[str]) -> None:
    """Sheet 2.6: what `kubectl get` shows, and what `-o wide` adds."""
    found = version(kind)["additionalPrinterColumns"]
    assert [c["name"] for c in found if not c.get("priority")] == columns
    assert [c["name"] for c in found if c.get("priority") == 1] == wide


def walk(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        if "type" in node and isinstance(node["type"], str):
            yield path, node
        for name, child in node.get("properties", {}).items():
            yield from walk(child, f"{path}.{name}")
        for name in ("items", "additionalProperties"):
            if name in node:
                yield from walk(node[name], f"{path}[]")


@pytest.mark.parametrize("kind", PARSERS)
def test_schemas_are_structural_and_bounded(kind: str) -> None:
    """Every node has a type and a description, and whatever a spec can hold has an upper bound."""
    for path, node in walk(schema(kind)):
        if path.startswith(".spec"):
            if node["type"] == "array":
                assert "maxItems" in node, path
            if node["type"] == "string" and "enum" not in node:
                assert "maxLength" in node, path
        if node["type"] == "object":
            assert ("properties" in node) != ("additionalProperties" in node) or path == ".metadata", path
        if "default" in node:
            assert "enum" not in node or node["default"] in node["enum"], path
        if "pattern" in node:
            re.compile(node["pattern"])
    conditions = schema(kind)["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


COST_LIMIT = 10_000_000
"""What an API server lets one rule cost by its own estimate; all rules together ten times that."""
COST_PER_BYTE = 0.1
BYTES = 4
"""Of a character, at worst."""


def most_bytes(node: dict[str, Any]) -> int:
    """The largest value of a node, in bytes. Fails where there is no upper bound."""
    kind = node["type"]
    if "enum" in node:
        return max(len(str(value)) for value in node["enum"]) * BYTES
    if kind == "string":
        return int(node["maxLength"]) * BYTES
    if kind == "array":
        return int(node["maxItems"]) * most_bytes(node["items"])
    if "additionalProperties" in node:
        return int(node["maxProperties"]) * (most_bytes(node["additionalProperties"]) + 256)
    if kind == "object":
        return sum(most_bytes(child) for child in node["properties"].values())
    return 8


@pytest.mark.parametrize("kind", PARSERS)
def test_rules_cost_far_less_than_an_api_server_allows(kind: str) -> None:
    """A rule over anything unbounded is refused with the whole definition. Each of ours compares bounded
    values once, outside every list and map.
    """
    total = 0.0
    for path, node in walk(schema(kind)):
        for rule in node.get("x-kubernetes-validations", ()):
            assert "[]" not in path, path
            compared = node
            for name in rule["rule"].partition(" == ")[0].split(".")[1:]:
                compared = compared["properties"][name]
            cost = 2 * most_bytes(compared) * COST_PER_BYTE
            assert cost < COST_LIMIT / 1000, (path, cost)
            total += cost
    assert total < COST_LIMIT / 1000


@pytest.mark.parametrize("kind", PARSERS)
def test_an_immutable_field_cannot_be_left_out(kind: str) -> None:
    """A transition rule is not asked for a field that comes or goes: what is immutable is required."""
    for path, node in walk(schema(kind)):
        for rule in node.get("x-kubernetes-validations", ()):
            fields = rule["rule"].partition(" == ")[0].split(".")[1:]
            assert set(fields) <= set(node.get("required", ())), path
            parent = schema(kind)
            for name in path.strip(".").split("."):
                assert name in parent.get("required", ()), path
                parent = parent["properties"][name]


KEYWORDS = {
    "additionalProperties", "default", "description", "enum", "format", "items", "maximum", "maxItems",
    "maxLength", "maxProperties", "minimum", "minItems", "minLength", "pattern", "properties", "required",
    "type", "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-validations",
}  # fmt: skip


def accepts(node: dict[str, Any], value: Any) -> bool:
    """Whether a default passes its own node."""
    types = {"string": str, "boolean": bool, "integer": int, "array": list, "object": dict}
    if not isinstance(value, types[node["type"]]):
        return False
    if "enum" in node and value not in node["enum"]:
        return False
    if isinstance(value, str):
        long = not node.get("minLength", 0) <= len(value) <= node.get("maxLength", 1 << 20)
        return not long and bool(re.search(node.get("pattern", ""), value))
    if isinstance(value, int):
        return bool(node.get("minimum", value) <= value <= node.get("maximum", value))
    return True


@pytest.mark.parametrize("kind", PARSERS)
def test_the_rules_of_structural_schemas(kind: str) -> None:
    """What an API server refuses in a definition, beyond what a newer or laxer one lets pass."""
    for path, node in walk(schema(kind)):
        assert set(node) <= KEYWORDS, path
        assert not {"properties", "additionalProperties"} <= set(node), path
        assert set(node.get("required", ())) <= set(node.get("properties", {})) or path == "", path
        if "default" in node:
            assert accepts(node, node["default"]), path
            assert path.startswith(".spec"), "defaults in a status would be written by the API server"
        if node["type"] == "array" and node.get("x-kubernetes-list-type") == "map":
            for key in node["x-kubernetes-list-map-keys"]:
                item = node["items"]
                assert item["properties"][key]["type"] in {"string", "integer", "boolean"}, path
                assert key in item["required"] or "default" in item["properties"][key], path
        if "pattern" in node:
            assert not re.search(r"\(\?[=!<P]|\\[1-9]", node["pattern"]), f"{path}: not a pattern of RE2"
        if path == ".metadata":
            assert node == {"type": "object"}
    assert set(schema(kind)["properties"]) == {"apiVersion", "kind", "metadata", "spec", "status"}


@pytest.mark.parametrize("kind", PARSERS)
def test_a_required_field_never_has_a_default(kind: str) -> None:
    """It could never be missing, and an update by an old client would change it silently."""
    for path, node in walk(schema(kind)):
        for name in node.get("required", ()):
            assert "default" not in node.get("properties", {}).get(name, {}), f"{path}.{name}"
