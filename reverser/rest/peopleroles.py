"""What people who log in to the admin may do in the cluster: RBAC manifests for the two groups.

REST and *save now* ask RBAC about ``<prefix>alice`` in the groups ``<prefix>viewer`` and
``<prefix>operator``; these roles give the groups what their names promise. Pure, apart from ``plant``.
"""

from __future__ import annotations

from typing import Any

from reverser.errors import KubeConflict
from reverser.history.groups import OPERATOR, VIEWER
from reverser.kinds.model import API_GROUP
from reverser.kube.paths import resource_path
from reverser.kube.sync import Kube

RBAC = "rbac.authorization.k8s.io"
KINDS = ["clusterwatchrules", "commitrequests", "gitproviders", "gittargets", "watchrules"]

Manifest = dict[str, Any]


def people_roles(prefix: str) -> list[Manifest]:
    """A ClusterRole and its ClusterRoleBinding for each group."""
    read = {"apiGroups": [API_GROUP], "resources": KINDS, "verbs": ["get", "list"]}
    save = {"apiGroups": [API_GROUP], "resources": ["commitrequests"], "verbs": ["create"]}
    return [*_bound(VIEWER, [read], prefix), *_bound(OPERATOR, [read, save], prefix)]


def _bound(group: str, rules: list[Manifest], prefix: str) -> list[Manifest]:
    name = f"gitops-reverser-{group}"
    head = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name}}
    binding = {
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": f"{prefix}{group}"}],
    }
    return [
        {**head, "kind": "ClusterRole", "rules": rules},
        {**head, "kind": "ClusterRoleBinding", **binding},
    ]


def plant(kube: Kube, prefix: str) -> None:
    """Create the roles; what exists is left as it is."""
    for manifest in people_roles(prefix):
        plural = "clusterroles" if manifest["kind"] == "ClusterRole" else "clusterrolebindings"
        try:
            kube.create(resource_path(RBAC, "v1", plural), manifest)
        except KubeConflict as error:
            if not error.exists:
                raise
