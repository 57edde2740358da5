"""What a real API server was seen to do, scenario by scenario, and the tests that hold the sandbox to it.

The recordings themselves are replayed by test_recordings where they are at hand. This list is whole without
them: each scenario names the tests whose own requests and expectations show the same facts.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.sandbox.client import Client

FOLDER = Path(__file__).parent
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"

SCENARIOS: dict[str, tuple[str, ...]] = {
    "discovery in its legacy and its aggregated form": (
        "test_surface.test_both_forms_of_discovery_agree",
        "test_surface.test_failed_group",
    ),
    "the life of a ConfigMap under a watch, and each class of error": (
        "test_objects.test_create",
        "test_objects.test_updates",
        "test_objects.test_patches_keep_identity",
        "test_objects.test_refusals",
        "test_watches.test_streaming_list",
    ),
    "who did it: users, impersonation with extras, service accounts": (
        "test_access.test_audit_events",
        "test_access.test_impersonation",
    ),
    "the parameters of a watch, and how wrong ones are refused": (
        "test_watches.test_refused_parameters",
        "test_watches.test_resume",
        "test_watches.test_future_version_waits",
        "test_watches.test_timeout",
        "test_watches.test_selectors",
    ),
    "finalizers hold a deleted object": ("test_objects.test_finalizers",),
    "a collection is deleted: one request, an event for each object": (
        "test_objects.test_delete_collection",
    ),
    "a Deployment: spec, status and scale, each by its own door": (
        "test_objects.test_generation_and_subresources",
    ),
    "a custom resource from its definition to its removal": (
        "test_custom_resources.test_installing",
        "test_custom_resources.test_schema",
        "test_custom_resources.test_subresources",
        "test_custom_resources.test_deleting_the_definition",
        "pure/test_schema.test_transition_rules_hold_on_update_only",
    ),
    "what a validating webhook sees, dry runs and generated names included": (
        "test_admission.test_what_is_reviewed",
        "test_admission.test_order_of_checks",
    ),
    "Secrets, odd names, namespaces": (
        "pure/test_defaults.test_secrets_and_namespaces",
        "pure/test_validate.test_rbac_names_are_free",
        "test_objects.test_namespaces",
    ),
    "reviews of tokens and of access": ("test_access.test_reviews",),
    "a Lease is renewed by who has read it last, and by nobody else": ("test_scenarios.test_lease",),
    "a server without history refuses old versions": (
        "test_watches.test_resume",
        "test_watches.test_slow_history",
        "test_objects.test_pages",
    ),
    "a server that does not stream lists": ("test_watches.test_streaming_list_faults",),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_is_shown(scenario: str) -> None:
    """The tests that a scenario names are there."""
    for name in SCENARIOS[scenario]:
        module, _, test = name.rpartition(".")
        tree = ast.parse((FOLDER / f"{module}.py").read_text())
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name


def test_lease(admin: Client) -> None:
    """A renewal names the version it has read: the second of two is refused and sees who was first."""
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "leader"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0},
    }
    made = admin.ok("POST", LEASES, lease)
    first = made | {"spec": made["spec"] | {"holderIdentity": "b", "leaseTransitions": 1}}
    renewed = admin.ok("PUT", f"{LEASES}/leader", first)
    assert renewed["spec"] == {"holderIdentity": "b", "leaseDurationSeconds": 15, "leaseTransitions": 1}
    assert "generation" not in renewed["metadata"]
    late = made | {"spec": made["spec"] | {"holderIdentity": "c"}}
    status, answer = admin.request("PUT", f"{LEASES}/leader", late)
    assert (status, answer["reason"]) == (409, "Conflict")
    assert admin.ok("GET", f"{LEASES}/leader") == renewed
