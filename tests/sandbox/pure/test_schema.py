"""Custom resources are defaulted, pruned and refused as the API server does it."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from reverser.sandbox.causes import join
from reverser.sandbox.celrules import RuleError, compile_rule, parse_duration
from reverser.sandbox.crdcheck import validate_crd
from reverser.sandbox.defaults import apply_defaults
from reverser.sandbox.mergekeys import ListStrategy
from reverser.sandbox.schema import CompiledCRD, version_rank
from reverser.sandbox.status import invalid

CRDS = Path(__file__).resolve().parents[3] / "deploy" / "crds"


def definition(spec_schema: dict[str, Any], **version: Any) -> dict[str, Any]:
    """A CRD `things.lab.test` whose spec has the given schema."""
    root = {"type": "object", "properties": {"spec": spec_schema}}
    raw = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}, **version}
    manifest = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.lab.test"},
        "spec": {
            "group": "lab.test",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [raw],
        },
    }
    return apply_defaults("apiextensions.k8s.io", "v1", "CustomResourceDefinition", manifest)


def compiled(spec_schema: dict[str, Any], **version: Any) -> CompiledCRD:
    manifest = definition(spec_schema, **version)
    assert validate_crd(manifest) == []
    return CompiledCRD.from_manifest(manifest)


def thing(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "lab.test/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}


def messages(crd: CompiledCRD, obj: Any, old: Any = None) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in crd.validate("v1", obj, old)]


WIDGET = {
    "type": "object",
    "required": ["path"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "default": 1},
        "path": {
            "type": "string",
            "minLength": 1,
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "path is immutable"}],
        },
    },
}


def test_several_complaints_in_one_status() -> None:
    """A missing field beside a wrong value gives three causes, and says that rules were not checked."""
    causes = compiled(WIDGET).validate("v1", thing(size=0))
    assert invalid("lab.test", "Thing", "t", causes).body() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Thing.lab.test "t" is invalid: [spec.size: Invalid value: 0: spec.size in body should be '
        "greater than or equal to 1, spec.path: Required value, <nil>: Invalid value: null: some validation "
        "rules were not checked because the object was invalid; correct the existing errors to complete "
        "validation]",
        "reason": "Invalid",
        "details": {
            "name": "t",
            "group": "lab.test",
            "kind": "Thing",
            "causes": [
                {
                    "reason": "FieldValueInvalid",
                    "message": "Invalid value: 0: spec.size in body should be greater than or equal to 1",
                    "field": "spec.size",
                },
                {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.path"},
                {
                    "reason": "FieldValueInvalid",
                    "message": "Invalid value: null: some validation rules were not checked because the "
                    "object was invalid; correct the existing errors to complete validation",
                    "field": "<nil>",
                },
            ],
        },
        "code": 422,
    }


def test_transition_rules_hold_on_update_only() -> None:
    """A rule that names oldSelf says nothing about a new object and refuses a changed one."""
    crd = compiled(WIDGET)
    assert messages(crd, thing(path="a")) == []
    assert messages(crd, thing(path="a", size=2), thing(path="a")) == []
    assert messages(crd, thing(path="b"), thing(path="a")) == [
        'spec.path: Invalid value: "b": path is immutable'
    ]


def test_object_rules_name_the_type_instead_of_the_value() -> None:
    """A rule on an object shows the word object, and its own text where it has no message."""
    schema = {**WIDGET, "x-kubernetes-validations": [{"rule": "self.size < 5"}]}
    assert messages(compiled(schema), thing(path="a", size=9)) == [
        'spec: Invalid value: "object": failed rule: self.size < 5'
    ]


def test_unchanged_values_are_not_held_against_an_update() -> None:
    """A stored value that a later schema forbids may stay, a changed one may not (ratcheting)."""
    crd = compiled(
        {"type": "object", "properties": {"a": {"type": "integer", "maximum": 3}, "b": {"type": "integer"}}}
    )
    assert messages(crd, thing(a=9, b=2), thing(a=9, b=1)) == []
    assert messages(crd, thing(a=8), thing(a=9)) != []


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "string"}, 3, 'Invalid value: "integer": spec.f in body must be of type string: "integer"'),
        (
            {"type": "integer"},
            1.5,
            'Invalid value: "number": spec.f in body must be of type integer: "number"',
        ),
        ({"type": "boolean"}, None, 'Invalid value: "null": spec.f in body must be of type boolean: "null"'),
        ({"type": "string", "maxLength": 2}, "abc", "Too long: may not be more than 2 bytes"),
        (
            {"type": "string", "minLength": 2},
            "a",
            'Invalid value: "a": spec.f in body should be at least 2 chars long',
        ),
        (
            {"type": "string", "pattern": "^a+$"},
            "b",
            "Invalid value: \"b\": spec.f in body should match '^a+$'",
        ),
        ({"type": "string", "enum": ["a", "b"]}, "c", 'Unsupported value: "c": supported values: "a", "b"'),
        (
            {"type": "integer", "maximum": 5},
            6,
            "Invalid value: 6: spec.f in body should be less than or equal to 5",
        ),
        (
            {"type": "array", "items": {"type": "string"}, "maxItems": 1},
            ["a", "b"],
            "Too many: 2: must have at most 1 items",
        ),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            [],
            "Invalid value: 0: spec.f in body should have at least 1 items",
        ),
        (
            {"x-kubernetes-int-or-string": True},
            True,
            'Invalid value: "boolean": spec.f in body must be of type integer,string: "boolean"',
        ),
        (
            {"type": "string", "format": "date-time"},
            "x",
            'Invalid value: "x": spec.f in body must be of type date-time: "x"',
        ),
    ],
)
def test_value_validation_texts(schema: dict[str, Any], value: Any, expected: str) -> None:
    """Each kind of wrong value is refused in the server's words."""
    crd = compiled({"type": "object", "properties": {"f": schema}})
    assert messages(crd, thing(f=value)) == [f"spec.f: {expected}"]


def test_int_or_string_takes_both() -> None:
    """Both forms pass, and neither is converted."""
    crd = compiled({"type": "object", "properties": {"f": {"x-kubernetes-int-or-string": True}}})
    assert messages(crd, thing(f=1)) == messages(crd, thing(f="25%")) == []


def test_alternatives() -> None:
    """anyOf, oneOf and not are judged on the whole value."""
    alternatives = [{"required": ["a"]}, {"required": ["b"]}]
    properties = {"a": {"type": "string"}, "b": {"type": "string"}}
    crd = compiled({"type": "object", "properties": properties, "oneOf": alternatives})
    assert messages(crd, thing(a="1")) == []
    assert messages(crd, thing()) == [
        '<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid'
    ]
    assert "Found 2 valid alternatives" in messages(crd, thing(a="1", b="2"))[0]


def test_list_map_keys_are_unique() -> None:
    """Two items with the same keys are a duplicate, named by their keys."""
    item = {"type": "object", "properties": {"name": {"type": "string"}, "v": {"type": "integer"}}}
    listed = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    crd = compiled({"type": "object", "properties": {"l": listed}})
    assert messages(crd, thing(l=[{"name": "a", "v": 1}, {"name": "a", "v": 2}])) == [
        'spec.l[1]: Duplicate value: {"name":"a"}'
    ]


def test_defaults_fill_what_is_absent() -> None:
    """Defaults are filled at every level that exists; a null that means nothing is dropped or defaulted."""
    nested = {"type": "object", "properties": {"x": {"type": "integer", "default": 7}}}
    crd = compiled(
        {
            "type": "object",
            "properties": {
                "n": nested,
                "l": {"type": "array", "items": nested},
                "d": {"type": "string", "default": "d"},
                "plain": {"type": "string"},
                "nul": {"type": "string", "nullable": True},
            },
        }
    )
    given = thing(n={}, l=[{}, {"x": 1}], d=None, plain=None, nul=None)
    before = copy.deepcopy(given)
    assert crd.default("v1", given)["spec"] == {
        "n": {"x": 7},
        "l": [{"x": 7}, {"x": 1}],
        "d": "d",
        "nul": None,
    }
    assert given == before
    assert crd.default("v1", thing())["spec"] == {"d": "d"}


def test_pruning_keeps_what_the_schema_preserves() -> None:
    """Unknown fields vanish unless preserved; embedded objects keep their type and metadata."""
    crd = compiled(
        {
            "type": "object",
            "properties": {
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "tpl": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"spec": {"type": "object"}},
                },
                "l": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            },
        }
    )
    template = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "n"}, "spec": {"gone": 1}}
    given = thing(free={"any": 1}, map={"k": "v"}, tpl=template, l=[{"a": "1", "b": 2}], nope=1)
    given["extra"] = 1
    given["metadata"]["odd"] = 1
    assert crd.unknown_fields("v1", given) == [
        "extra",
        "metadata.odd",
        "spec.l[0].b",
        "spec.nope",
        "spec.tpl.spec.gone",
    ]
    pruned = crd.prune("v1", given)
    assert pruned == thing(free={"any": 1}, map={"k": "v"}, tpl={**template, "spec": {}}, l=[{"a": "1"}])


@pytest.mark.parametrize(
    ("rule", "value", "holds"),
    [
        ("self.size() <= 2", "é😀", True),
        ("self.lowerAscii() == 'abc'", "ABC", True),
        ("self.split(',').all(p, p.trim() != '')", "a, b", True),
        ("self.substring(1, 3) == 'bc'", "abcd", True),
        ("self.matches('^[a-z]+$') && !self.contains('z')", "abc", True),
        ("quantity(self).isLessThan(quantity('2Gi'))", "1500Mi", True),
        ("isURL(self)", "https://x.test/a", True),
        ("self.find('[0-9]+') == '12'", "ab12", True),
        ("self.undefined == 1", "x", False),
        ("size('size(x)') == 7 && self == 'size('", "size(", True),
    ],
)
def test_rule_library(rule: str, value: Any, holds: bool) -> None:
    """The functions Kubernetes adds to CEL are there; a rule that fails to evaluate does not hold."""
    assert compile_rule({"rule": rule}).holds(value)[0] is holds


def test_numbers_and_formats_have_their_cel_types() -> None:
    """A number written as an integer is a double, durations and date-times compare as such."""
    rules = [
        {"rule": "self.ratio < 1.5"},
        {"rule": "self.wait < duration('2m')"},
        {"rule": "self.at > timestamp('2020-01-01T00:00:00Z')"},
        {"rule": "self.__namespace__ == 'x' && self.a__dash__b == 'y'"},
    ]
    properties = {
        "ratio": {"type": "number"},
        "wait": {"type": "string", "format": "duration"},
        "at": {"type": "string", "format": "date-time"},
        "namespace": {"type": "string"},
        "a-b": {"type": "string"},
    }
    crd = compiled({"type": "object", "properties": properties, "x-kubernetes-validations": rules})
    good = thing(ratio=1, wait="90s", at="2021-01-01T00:00:00Z", namespace="x", **{"a-b": "y"})
    assert messages(crd, good) == []
    bad = thing(ratio=2, wait="3m", at="2019-01-01T00:00:00Z", namespace="z", **{"a-b": "y"})
    assert len(messages(crd, bad)) == 4


def test_durations() -> None:
    """Go durations are read with all their units; other text is none."""
    found = parse_duration("1h30m0.5s")
    assert found is not None
    assert found.total_seconds() == 5400.5
    assert parse_duration("10") is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda crd: crd["metadata"].update(name="x"),
            'metadata.name: Invalid value: "x": must be spec.names.plural+"."+spec.group',
        ),
        (lambda crd: crd["spec"].pop("scope"), "spec.scope: Required value"),
        (
            lambda crd: crd["spec"]["versions"][0].update(storage=False),
            "must have exactly one version marked as storage version",
        ),
        (lambda crd: crd["spec"]["versions"][0].pop("schema"), "schemas are required"),
        (
            lambda crd: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].pop(
                "type"
            ),
            "properties[spec].type: Required value: must not be empty for specified object fields",
        ),
        (
            lambda crd: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].update(
                {"x-kubernetes-validations": [{"rule": "self.("}]}
            ),
            "compilation failed",
        ),
        (
            lambda crd: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].update(
                default={"size": "x"}
            ),
            "spec].default.size: Invalid value",
        ),
    ],
)
def test_definitions_that_cannot_be_served_are_refused(change: Any, expected: str) -> None:
    """A wrong name, version, schema, rule or default is refused with the path of the fault."""
    crd = definition({"type": "object", "properties": {"size": {"type": "integer"}}})
    change(crd)
    assert expected in join(validate_crd(crd))


def test_unknown_functions_do_not_compile() -> None:
    """A rule that calls what nobody defines is refused when it is written, not when it runs."""
    with pytest.raises(RuleError, match="undeclared reference to 'frob'"):
        compile_rule({"rule": "frob(self)"})


def test_versions_are_ordered_as_discovery_orders_them() -> None:
    """GA before beta before alpha, newer before older, odd names last."""
    names = ["v1alpha1", "foo", "v2", "v1beta2", "v11", "v1beta10", "v1"]
    assert sorted(names, key=version_rank) == ["v11", "v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "foo"]


def test_list_types_decide_how_apply_merges() -> None:
    """Map lists merge by their keys, sets unite, everything else is replaced; metadata merges as always."""
    item = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "p": {"type": "string", "default": "TCP"}},
    }
    mapped = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name", "p"],
    }
    names = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    properties = {"m": mapped, "s": names, "l": {"type": "array", "items": {"type": "string"}}}
    tree = compiled({"type": "object", "properties": properties}).merge_schema("v1")
    spec = tree.child("spec")
    assert (spec.child("m").keys, dict(spec.child("m").key_defaults)) == (("name", "p"), {"p": "TCP"})
    assert spec.child("s").strategy is ListStrategy.SET
    assert spec.child("l").strategy is ListStrategy.ATOMIC
    assert tree.child("metadata").child("finalizers").strategy is ListStrategy.SET


def test_scale_paths_and_columns() -> None:
    """Subresources and columns are read from the version; without columns there is the age."""
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    crd = compiled(
        {"type": "object", "properties": {"n": {"type": "integer"}}},
        subresources={"status": {}, "scale": scale},
    )
    paths = crd.scale_paths("v1")
    assert paths is not None
    assert (paths.spec, paths.status, paths.selector) == (("spec", "n"), ("status", "n"), None)
    assert [column.name for column in crd.printer_columns("v1")] == ["Age"]
    assert messages(crd, thing(n=-1)) == ["spec.n: Invalid value: -1: should be a non-negative integer"]
    assert crd.resource_types()[0].subresources == {"status", "scale"}


@pytest.mark.parametrize("path", sorted(CRDS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_definitions_we_ship_compile(path: Path) -> None:
    """Every definition in deploy/crds passes the validation of definitions."""
    manifest = yaml.safe_load(path.read_text())
    manifest = apply_defaults("apiextensions.k8s.io", "v1", "CustomResourceDefinition", manifest)
    assert validate_crd(manifest) == []
    assert CompiledCRD.from_manifest(manifest).versions
