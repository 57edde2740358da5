"""The declared placement policy: path templates per type, checked when the target is, expanded when a
file is new.

A template has `{variables}` and nothing else; values are escaped so that no name can leave its segment,
and segments that come out empty are dropped, so one template serves core and named groups, namespaced and
cluster-scoped kinds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..identity import CLUSTER_SEGMENT, join_api_version
from ..roles import MANIFEST_SUFFIXES
from .names import escape_segment

_PLACEHOLDER = re.compile(r"\{([A-Za-z]+)\}")
VARIABLES = (
    "group",
    "groupPath",
    "version",
    "apiVersion",
    "resource",
    "kind",
    "scope",
    "namespace",
    "namespaceOrCluster",
    "name",
    "sensitiveSuffix",
)
_NAMESPACE_VARIABLES = frozenset({"namespace", "namespaceOrCluster"})


@dataclass(frozen=True, slots=True)
class Subject:
    """The new object, as placement sees it."""

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool
    namespace: str
    name: str
    sensitive: bool

    @property
    def type_key(self) -> str:
        """`version/resource`, or `group/version/resource` outside the core group."""
        return f"{join_api_version(self.group, self.version)}/{self.resource}"

    @property
    def suffix(self) -> str:
        return ".sops.yaml" if self.sensitive else ".yaml"


def canonical_path(subject: Subject) -> str:
    """`{namespace or _cluster}/{group}/{resource}/{name}.yaml`, without version, core without group."""
    top = subject.namespace if subject.namespaced else CLUSTER_SEGMENT
    parts = [top, subject.group, subject.resource, subject.name]
    return "/".join(escape_segment(part) for part in parts if part) + subject.suffix


def expand(template: str, subject: Subject) -> str:
    """A template's path for one object; unknown placeholders stay as text."""
    namespace = subject.namespace if subject.namespaced else ""
    values = {
        "group": subject.group,
        "groupPath": subject.group,
        "version": subject.version,
        "apiVersion": join_api_version(subject.group, subject.version),
        "resource": subject.resource,
        "kind": subject.kind,
        "scope": "namespaced" if subject.namespaced else "cluster",
        "namespace": namespace,
        "namespaceOrCluster": namespace or CLUSTER_SEGMENT,
        "name": subject.name,
        "sensitiveSuffix": subject.suffix,
    }

    def replace(match: re.Match[str]) -> str:
        return escape_segment(values[match.group(1)]) if match.group(1) in values else match.group(0)

    filled = _PLACEHOLDER.sub(replace, template)
    return "/".join(segment for segment in filled.split("/") if segment)


def declared_path(by_type: Mapping[str, str], default: str | None, subject: Subject) -> str | None:
    """The path that the policy declares for this object, or None where it says nothing."""
    template = by_type.get(subject.type_key) or (default or "").strip()
    return expand(template, subject) if template else None


def validate_placement(
    by_type: Mapping[str, str], default: str | None, sensitive_types: Iterable[str]
) -> list[str]:
    """Everything wrong with a declared policy, each message naming its entry; empty means valid.

    `sensitive_types` are `resource` or `group/resource` names, Secrets included; whatever policy applies
    to one of them must give each object a file of its own.
    """
    problems: list[str] = []
    for key, template in sorted(by_type.items()):
        entry = f'placement.byType["{key}"]'
        parts = key.split("/")
        if len(parts) not in (2, 3) or any(not part or part != part.strip() for part in parts):
            problems.append(f"{entry}: the key must be version/resource or group/version/resource")
        problems.extend(f"{entry}: {problem}" for problem in _template_problems(template))
    default_text = (default or "").strip()
    if default_text:
        problems.extend(f"placement.default: {problem}" for problem in _template_problems(default_text))
    problems.extend(_sensitive_problems(by_type, default_text, sensitive_types))
    return problems


def _template_problems(template: str) -> list[str]:
    problems: list[str] = []
    if not template.strip():
        return ["the template is empty"]
    if "\\" in template:
        problems.append("must not contain a backslash; separate folders with /")
    if template.startswith("/"):
        problems.append("must be relative to the target path; remove the leading /")
    segments = template.split("/")
    if ".." in segments or "." in segments:
        problems.append("must not contain . or .. segments")
    if ".git" in segments:
        problems.append("must not contain a .git segment")
    if not template.endswith((*MANIFEST_SUFFIXES, "{sensitiveSuffix}")):
        problems.append("must end in .yaml, .yml or {sensitiveSuffix}")
    unknown = sorted({name for name in _PLACEHOLDER.findall(template) if name not in VARIABLES})
    if unknown:
        known = ", ".join(f"{{{name}}}" for name in VARIABLES)
        problems.append(f"unknown variable {', '.join(f'{{{name}}}' for name in unknown)}; known are {known}")
    return problems


def _variables(template: str) -> frozenset[str]:
    return frozenset(_PLACEHOLDER.findall(template))


def _is_bundle(template: str, *, any_type: bool) -> bool:
    """True when two objects can share the template's path."""
    names = _variables(template)
    if "name" not in names or not names & _NAMESPACE_VARIABLES:
        return True
    if not any_type:
        return False
    return not (names & {"groupPath", "group", "apiVersion"} and names & {"resource", "kind"})


def _sensitive_problems(
    by_type: Mapping[str, str], default: str, sensitive_types: Iterable[str]
) -> list[str]:
    problems: list[str] = []
    wanted = sorted({"secrets", *sensitive_types})
    for sensitive in wanted:
        group, _slash, resource = sensitive.rpartition("/")
        entries = {key: text for key, text in by_type.items() if _is_type(key, group, resource)}
        for key, template in sorted(entries.items()):
            if _is_bundle(template, any_type=False):
                problems.append(
                    f'placement.byType["{key}"]: sensitive objects need a file each; '
                    "use {name} and {namespace} or {namespaceOrCluster}"
                )
        if default and not entries and _is_bundle(default, any_type=True):
            example = f"{group + '/' if group else ''}v1/{resource}"
            problems.append(
                f"placement.default: lets objects share files, so {sensitive} need their own byType entry, "
                f'such as "{example}": "{{namespaceOrCluster}}/{resource}/{{name}}{{sensitiveSuffix}}"'
            )
    return problems


def _is_type(key: str, group: str, resource: str) -> bool:
    parts = key.split("/")
    if parts[-1].lower() != resource.lower():
        return False
    return (parts[0] if len(parts) == 3 else "").lower() == group.lower()
