"""Role-based access control, evaluated on the stored roles and bindings at each request.

No cache: a binding written is in force for the next request, which is what tests want to see.
`system:masters` is allowed everything before any role is read, as on a real server.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reverser.sandbox.authn import MASTERS, User
from reverser.sandbox.selectors import label_selector_object
from reverser.sandbox.storage import Storage

Obj = dict[str, Any]
GROUP = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Action:
    """What somebody wants to do: on a resource, or (with `path` set) on a URL outside the API groups."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        """`deployments/scale`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def describe(self, user: str) -> str:
        """The sentence of a 403."""
        if self.path:
            return f'User "{user}" cannot {self.verb} path "{self.path}"'
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return (
            f'User "{user}" cannot {self.verb} resource "{self.full_resource}" '
            f'in API group "{self.group}" {where}'
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether it is allowed, and the reason an audit event carries."""

    allowed: bool
    reason: str = ""


class Authorizer:
    """Answers `decide` from the roles in the storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def decide(self, user: User, action: Action) -> Verdict:
        """Whether `user` may do `action`."""
        if MASTERS in user.groups:
            return Verdict(True)
        for binding, role, subject, rules in self._bound(user, action.namespace):
            if any(_rule_allows(rule, action) for rule in rules):
                return Verdict(True, f"RBAC: allowed by {binding} of {role} to {subject}")
        return Verdict(False)

    def rules(self, user: User, namespace: str) -> list[Obj]:
        """Every rule that applies to a user in a namespace (for SelfSubjectRulesReview)."""
        if MASTERS in user.groups:
            return [
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                {"verbs": ["*"], "nonResourceURLs": ["*"]},
            ]
        return [rule for _, _, _, rules in self._bound(user, namespace) for rule in rules]

    def _bound(self, user: User, namespace: str) -> Iterator[tuple[str, str, str, list[Obj]]]:
        for binding in self._storage.items((GROUP, "clusterrolebindings"), None):
            subject = _subject_of(binding, user, "")
            if subject:
                yield (
                    f'ClusterRoleBinding "{binding["metadata"]["name"]}"',
                    *self._role(binding, ""),
                    subject,
                    self._rules(binding, ""),
                )
        if not namespace:
            return
        for binding in self._storage.items((GROUP, "rolebindings"), namespace):
            subject = _subject_of(binding, user, namespace)
            if subject:
                yield (
                    f'RoleBinding "{binding["metadata"]["name"]}/{namespace}"',
                    *self._role(binding, namespace),
                    subject,
                    self._rules(binding, namespace),
                )

    @staticmethod
    def _role(binding: Obj, namespace: str) -> tuple[str]:
        ref = binding.get("roleRef") or {}
        return (f'{ref.get("kind", "")} "{ref.get("name", "")}"',)

    def _rules(self, binding: Obj, namespace: str) -> list[Obj]:
        ref = binding.get("roleRef") or {}
        if ref.get("kind") == "Role":
            role = self._storage.get((GROUP, "roles"), namespace, ref.get("name", ""))
        else:
            role = self._storage.get((GROUP, "clusterroles"), "", ref.get("name", ""))
        if role is None:
            return []
        rules = list(role.get("rules") or [])
        for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or []:
            matches = label_selector_object(selector)
            for other in self._storage.items((GROUP, "clusterroles"), None):
                if other is not role and matches(other["metadata"].get("labels") or {}):
                    rules += other.get("rules") or []
        return rules


def _subject_of(binding: Obj, user: User, namespace: str) -> str:
    for subject in binding.get("subjects") or []:
        kind, name = subject.get("kind"), subject.get("name", "")
        if kind == "User" and name == user.name:
            return f'User "{name}"'
        if kind == "Group" and name in user.groups:
            return f'Group "{name}"'
        if kind == "ServiceAccount":
            where = subject.get("namespace") or namespace
            if user.name == f"system:serviceaccount:{where}:{name}":
                return f'ServiceAccount "{name}/{where}"'
    return ""


def _rule_allows(rule: Obj, action: Action) -> bool:
    verbs = rule.get("verbs") or []
    if "*" not in verbs and action.verb not in verbs:
        return False
    if action.path:
        return any(
            url in ("*", action.path) or (url.endswith("*") and action.path.startswith(url[:-1]))
            for url in rule.get("nonResourceURLs") or []
        )
    groups = rule.get("apiGroups") or []
    if "*" not in groups and action.group not in groups:
        return False
    resources = rule.get("resources") or []
    if (
        "*" not in resources
        and action.full_resource not in resources
        and not (action.subresource and f"*/{action.subresource}" in resources)
    ):
        return False
    names = rule.get("resourceNames") or []
    return not names or action.name in names
