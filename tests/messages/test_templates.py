"""Commit messages: defaults, variables, refusals, and the default as a fallback."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitwriter.messages import (
    EventValues,
    GroupValues,
    ReconcileValues,
    ResourceName,
    TemplateKind,
    compile_template,
    message_bytes,
    render_message,
    validate_templates,
)
from gitwriter.messages.errors import TemplateError
from reverser.kinds.model import CommitSettings

CART = ResourceName("", "v1", "configmaps", "web", "cart")
API = ResourceName("apps", "v1", "deployments", "web", "api")
NODE = ResourceName("rbac.authorization.k8s.io", "v1", "clusterroles", "", "reader")


def event(template: str, resource: ResourceName = CART, operation: str = "UPDATE", user: str = "bob") -> str:
    return compile_template(TemplateKind.EVENT, template).render(
        EventValues(operation, resource, user, "shop")
    )


def group(template: str, *resources: ResourceName) -> str:
    values = GroupValues("bob", "shop", {"UPDATE": 1, "CREATE": 1}, resources or (CART, API))
    return compile_template(TemplateKind.GROUP, template).render(values)


@pytest.mark.parametrize(
    ("resource", "operation", "expected"),
    [
        (ResourceName("", "v1", "configmaps", "shop", "cart"), "CREATE", "[CREATE] v1/configmaps/cart"),
        (API, "UPDATE", "[UPDATE] apps/v1/deployments/api"),
        (ResourceName("", "v1", "namespaces", "", "old"), "DELETE", "[DELETE] v1/namespaces/old"),
    ],
)
def test_default_event_message(resource: ResourceName, operation: str, expected: str) -> None:
    """M1: operation, API version, plural and name."""
    assert event("", resource, operation) == expected


def test_default_group_message() -> None:
    """M1, Z6: who, on which target, how many; never a leading blank for nobody."""
    values = GroupValues("GitOps Reverser", "team-a", {"CREATE": 2}, (CART, API))
    assert (
        render_message(TemplateKind.GROUP, " ", values).message == "GitOps Reverser on team-a: 2 resource(s)"
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            ReconcileValues(6, "t", "", "v1", "secrets", "1331"),
            "reconciled 6 secrets (last resourceVersion: 1331)",
        ),
        (ReconcileValues(2, "t", "", "v1", "secrets"), "reconciled 2 secrets"),
        (ReconcileValues(6, "t"), "reconciled 6 resources"),
    ],
)
def test_default_reconcile_message(values: ReconcileValues, expected: str) -> None:
    """M1: the type and the revision appear where they are known."""
    assert render_message(TemplateKind.RECONCILE, "", values).message == expected


def test_examples_of_the_language() -> None:
    """M2, M3: namespaced and cluster-scoped objects, ranges over maps and lists, whole values printed."""
    template = "{{.Username}}: {{.Operation}} {{if .Namespace}}{{.Namespace}}/{{end}}{{.Name}}"
    assert event(template) == "bob: UPDATE web/cart"
    assert event(template, NODE, "DELETE") == "bob: DELETE reader"
    template = (
        "{{.Count}} by {{.Author}} ({{range $o, $n := .Operations}}{{$o}}={{$n}} {{end}})\n\n"
        "{{range .Resources}}- {{.}}\n{{end}}"
    )
    assert group(template) == (
        "2 by bob (CREATE=1 UPDATE=1 )\n\n- v1/configmaps/web/cart\n- apps/v1/deployments/web/api\n"
    )
    assert group("{{.Resources}} {{.Operations}}") == (
        "[v1/configmaps/web/cart apps/v1/deployments/web/api] map[CREATE:1 UPDATE:1]"
    )


def test_an_absent_operation_is_zero() -> None:
    """M5, Z7: by index and by field alike."""
    assert group('{{index .Operations "DELETE"}}{{.Operations.DELETE}}{{.Operations.CREATE}}') == "001"


def test_rendered_text_is_verbatim() -> None:
    """A13, M6: comment lines, blanks and the missing final newline stay."""
    text = event("# {{.Name}}\n\n  indented  \n#tail")
    assert message_bytes(text) == b"# cart\n\n  indented  \n#tail"


@pytest.mark.parametrize(
    ("kind", "template", "phase", "names"),
    [
        ("event", "{{.Oops}}", "execute", "Oops"),
        ("group", "{{range .Resources}}x", "parse", "range"),
        ("reconcile", "{{if .Group}}{{.Typo}}{{end}}", "execute", "Typo"),
        ("event", "{{call .Name}}", "parse", "call"),
        ("event", '{{define "x"}}{{end}}', "parse", "define"),
        ("event", '{{template "x"}}', "parse", "template"),
        ("event", '{{block "x" .}}{{end}}', "parse", "block"),
        ("event", "{{.Name | html}}", "parse", "html"),
        ("event", "{{js .Name}}", "parse", "js"),
        ("event", "{{urlquery .Name}}", "parse", "urlquery"),
        ("event", "{{slice .Name 1}}", "parse", "slice"),
        ("group", "{{range .Resources}}{{break}}{{end}}", "parse", "break"),
        ("group", "{{range .Resources}}{{continue}}{{end}}", "parse", "continue"),
        ("event", "{{env .Name}}", "parse", "env"),
        ("event", "{{.name}}", "execute", "name"),
        ("event", "{{.Name.Length}}", "execute", "Length"),
        ("event", "{{.Name", "parse", "unclosed"),
        ("event", "{{}}", "parse", "missing value"),
        ("event", "{{end}}", "parse", "end"),
        ("event", "{{if .Name}}a{{else}}b{{else}}c{{end}}", "parse", "else"),
        ("event", "{{$x}}", "parse", "$x"),
        ("event", "{{if $x := .Name}}{{end}}{{$x}}", "parse", "$x"),
        ("event", "{{nil}}", "parse", "nil"),
        ("event", "{{.Name 1}}", "parse", "no function"),
        ("event", "{{1 | .Name}}", "parse", "'|'"),
        ("event", "{{'a'}}", "parse", "character"),
        ("event", "{{1.5}}", "parse", "whole numbers"),
        ("event", '{{printf "%x" .Name}}', "execute", "%x"),
        ("event", '{{printf "%99999d" 1}}', "execute", "99999"),
        ("event", "{{range .Name}}{{end}}", "execute", "range"),
        ("group", "{{range .Count}}{{end}}", "execute", "range"),
        ("group", '{{if eq .Count "2"}}{{end}}x', "execute", "compare"),
        ("group", "{{len .Count}}", "execute", "length"),
        ("group", "{{lt .Resources .Resources}}", "execute", "compare"),
        ("group", '{{index .Resources "a"}}', "execute", "indexed"),
        ("event", "{{not}}", "execute", "arguments"),
        ("event", "{{if false}}text{{end}}", "execute", "empty"),
        ("event", "a\0b", "parse", "NUL"),
        ("event", "x" * 20_000, "parse", "longer"),
        ("event", "{{if .Name}}" * 60 + "{{end}}" * 60, "parse", "nested"),
        ("event", "(" * 3 + "{{" + "(" * 60 + ".Name" + ")" * 60 + "}}", "parse", "nested"),
        ("event", "{{__import__}}", "parse", "__import__"),
        ("event", "{{.__class__}}", "execute", "__class__"),
    ],
)
def test_bad_templates_are_refused_by_name(kind: str, template: str, phase: str, names: str) -> None:
    """A11, M4, M7, Z7: each refusal says which template, in which phase, and what is wrong."""
    problem = validate_templates(CommitSettings(**{f"{kind}_template": template}))
    assert problem is not None
    assert problem.startswith(f"{phase} {kind} commit template: ")
    assert names in problem


def test_every_wrong_template_is_named_at_once() -> None:
    """A11: two mistakes do not take two rounds; one mistake is told once, however many samples meet it."""
    wrong = CommitSettings(
        event_template="{{.Oops}}", group_template="{{range .Resources}}", reconcile_template="{{.Nope}}"
    )
    problem = validate_templates(wrong) or ""
    assert [kind for kind in ("event", "group", "reconcile") if f" {kind} commit template" in problem] == [
        "event",
        "group",
        "reconcile",
    ]
    assert problem.count("Nope") == 1


def test_good_templates_validate() -> None:
    """The defaults, blanks, and one use of each variable are fine."""
    assert validate_templates(CommitSettings()) is None
    every = CommitSettings(
        event_template="{{.Operation}}{{.Group}}{{.Version}}{{.Resource}}{{.Namespace}}{{.Name}}"
        "{{.APIVersion}}{{.Username}}{{.GitTarget}}{{.}}",
        group_template="{{with .Resources}}{{(index . 0).Name}}{{end}}{{.Author}}{{.GitTarget}}{{.Count}}",
        reconcile_template="{{$.Count}}{{.Group}}{{.Version}}{{.Resource}}{{.APIVersion}}{{.Revision}}{{.GitTarget}}",
    )
    assert validate_templates(every) is None


def test_endless_work_falls_back_to_the_default() -> None:
    """Z7: steps and output are bounded, and the commit still gets a message."""
    many = tuple(ResourceName("", "v1", "configmaps", "web", f"c{number}") for number in range(900))
    values = GroupValues("bob", "shop", {"CREATE": 900}, many)
    nested = "{{range $.Resources}}{{range $.Resources}}{{range $.Resources}}{{end}}{{end}}{{end}}x"
    for template in (nested, '{{range .Resources}}{{printf "%900s" .Name}}{{end}}'):
        rendered = render_message(TemplateKind.GROUP, template, values)
        assert rendered.message == "bob on shop: 900 resource(s)"
        assert rendered.problem.startswith("execute group commit template: ")


def test_hostile_values_are_data() -> None:
    """A name that looks like a template or holds control characters is copied, never run."""
    text = event("{{.Username}}", user="{{.Name}}\x00\nevil")
    assert text == "{{.Name}}\x00\nevil"
    assert message_bytes(text) == b"{{.Name}}\nevil"


@given(st.text(alphabet='{}.$|()-/*"`%= \nNameifrangeendelse0', max_size=60))
def test_any_text_is_refused_or_rendered(template: str) -> None:
    """No template text raises anything but TemplateError."""
    for kind, values in (
        (TemplateKind.EVENT, EventValues("CREATE", CART, "bob", "t")),
        (TemplateKind.GROUP, GroupValues("bob", "t", {"CREATE": 1}, (CART, API))),
    ):
        try:
            compile_template(kind, template).render(values)
        except TemplateError as problem:
            assert problem.phase in ("parse", "execute")
