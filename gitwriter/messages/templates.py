"""The three message templates: which variables each has, its default, and how a message is made.

A commit must never fail for its message: a template that passed validation and still cannot be rendered (a
limit, an empty result) is replaced by the default one, and the reason is returned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from gitwriter.messages.checking import Basic, ListOf, MapOf, RecordOf, check
from gitwriter.messages.errors import TemplateError, execute_error
from gitwriter.messages.evaluate import evaluate
from gitwriter.messages.printing import Record
from gitwriter.messages.syntax import Node, parse
from reverser.kinds.model import CommitSettings


class TemplateKind(StrEnum):
    """Which message a template makes."""

    EVENT = "event"
    GROUP = "group"
    RECONCILE = "reconcile"


DEFAULTS: Mapping[TemplateKind, str] = {
    TemplateKind.EVENT: "[{{.Operation}}] {{.APIVersion}}/{{.Resource}}/{{.Name}}",
    TemplateKind.GROUP: "{{.Author}} on {{.GitTarget}}: {{.Count}} resource(s)",
    TemplateKind.RECONCILE: (
        "reconciled {{.Count}} {{if .Resource}}{{.Resource}}{{else}}resources{{end}}"
        "{{if .Revision}} (last resourceVersion: {{.Revision}}){{end}}"
    ),
}

_S = Basic.STRING
_RESOURCE = RecordOf("Resource", dict.fromkeys(("Group", "Version", "Resource", "Namespace", "Name"), _S))
_ROOTS: Mapping[TemplateKind, RecordOf] = {
    TemplateKind.EVENT: RecordOf(
        "event",
        dict.fromkeys(
            (
                "Operation",
                "Group",
                "Version",
                "Resource",
                "Namespace",
                "Name",
                "APIVersion",
                "Username",
                "GitTarget",
            ),
            _S,
        ),
    ),
    TemplateKind.GROUP: RecordOf(
        "group",
        {
            "Author": _S,
            "GitTarget": _S,
            "Count": Basic.INT,
            "Operations": MapOf(Basic.INT),
            "Resources": ListOf(_RESOURCE),
        },
    ),
    TemplateKind.RECONCILE: RecordOf(
        "reconcile",
        {
            "Count": Basic.INT,
            **dict.fromkeys(("Group", "Version", "Resource", "APIVersion", "Revision", "GitTarget"), _S),
        },
    ),
}


def _api_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group and version else version


@dataclass(frozen=True, slots=True)
class ResourceName:
    """An object as messages name it: ``resource`` is the plural, empty group is core."""

    group: str
    version: str
    resource: str
    namespace: str
    name: str

    def record(self) -> Record:
        """The value that a template sees."""
        fields = {
            "Group": self.group,
            "Version": self.version,
            "Resource": self.resource,
            "Namespace": self.namespace,
            "Name": self.name,
        }
        return Record(fields, joined=True)

    def __str__(self) -> str:
        parts = (self.group, self.version, self.resource, self.namespace, self.name)
        return "/".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class EventValues:
    """What the event template sees: one object, and who changed it (verbatim; empty = not known)."""

    operation: str
    resource: ResourceName
    username: str
    git_target: str

    def record(self) -> Record:
        """The value that a template sees."""
        fields = {
            "Operation": self.operation,
            **self.resource.record().fields,
            "APIVersion": _api_version(self.resource.group, self.resource.version),
            "Username": self.username,
            "GitTarget": self.git_target,
        }
        return Record(fields)


@dataclass(frozen=True, slots=True)
class GroupValues:
    """What the group template sees. ``author`` is the user name, or the committer's name where nobody is
    known; ``resources`` are distinct, in the order first seen; ``operations`` counts what survived."""

    author: str
    git_target: str
    operations: Mapping[str, int]
    resources: Sequence[ResourceName]

    def record(self) -> Record:
        """The value that a template sees."""
        return Record(
            {
                "Author": self.author,
                "GitTarget": self.git_target,
                "Count": len(self.resources),
                "Operations": dict(self.operations),
                "Resources": [resource.record() for resource in self.resources],
            }
        )


@dataclass(frozen=True, slots=True)
class ReconcileValues:
    """What the reconcile template sees; type and revision are empty for a whole target."""

    count: int
    git_target: str
    group: str = ""
    version: str = ""
    resource: str = ""
    revision: str = ""

    def record(self) -> Record:
        """The value that a template sees."""
        return Record(
            {
                "Count": self.count,
                "Group": self.group,
                "Version": self.version,
                "Resource": self.resource,
                "APIVersion": _api_version(self.group, self.version),
                "Revision": self.revision,
                "GitTarget": self.git_target,
            }
        )


Values = EventValues | GroupValues | ReconcileValues


@dataclass(frozen=True, slots=True)
class Template:
    """A template that was parsed and checked against the variables of its kind."""

    kind: TemplateKind
    nodes: tuple[Node, ...]

    def render(self, values: Values) -> str:
        """The message. Raises TemplateError at a limit, or when nothing but white space comes out."""
        text = evaluate(self.nodes, values.record())
        if not text.strip():
            raise execute_error("the message is empty", 1)
        return text


@lru_cache(maxsize=256)
def compile_template(kind: TemplateKind, text: str) -> Template:
    """Parse and check a template; blank means the default. Raises TemplateError."""
    nodes = parse(text.strip() or DEFAULTS[kind])
    check(nodes, _ROOTS[kind])
    return Template(kind, nodes)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A message, and why it comes from the default template (empty = it does not)."""

    message: str
    problem: str = ""


def render_message(kind: TemplateKind, text: str, values: Values) -> Rendered:
    """The message of template ``text``, or of the default where that fails. Never raises TemplateError."""
    try:
        return Rendered(compile_template(kind, text).render(values))
    except TemplateError as problem:
        return Rendered(
            compile_template(kind, "").render(values), f"{problem.phase} {kind} commit template: {problem}"
        )


def message_bytes(message: str) -> bytes:
    """A message as commit bytes: verbatim, without the NUL characters that git cannot hold."""
    return message.replace("\0", "").encode("utf-8", "replace")


_SAMPLE = ResourceName("apps", "v1", "deployments", "default", "example")
_SAMPLES: Sequence[tuple[TemplateKind, Values]] = (
    (TemplateKind.EVENT, EventValues("CREATE", _SAMPLE, "template-validator", "example-target")),
    (TemplateKind.RECONCILE, ReconcileValues(1, "example-target")),
    (
        TemplateKind.RECONCILE,
        ReconcileValues(1, "example-target", "apps", "v1", "deployments", "12345"),
    ),
    (TemplateKind.GROUP, GroupValues("template-validator", "example-target", {"CREATE": 1}, (_SAMPLE,))),
)


def validate_templates(commit: CommitSettings) -> str | None:
    """What is wrong with each template that does not work (``parse event commit template: ...``), or None
    when all three do."""
    texts = {
        TemplateKind.EVENT: commit.event_template,
        TemplateKind.GROUP: commit.group_template,
        TemplateKind.RECONCILE: commit.reconcile_template,
    }
    problems: dict[TemplateKind, str] = {}
    for kind, values in _SAMPLES:
        try:
            compile_template(kind, texts[kind]).render(values)
        except TemplateError as problem:
            problems.setdefault(kind, f"{problem.phase} {kind} commit template: {problem}")
    return "; ".join(problems.values()) or None
