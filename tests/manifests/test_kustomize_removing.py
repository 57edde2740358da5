"""What leaves a build takes the entries along that only it was there for."""

from __future__ import annotations

import pytest

from gitwriter.manifests import Change

from .folder import codes, delete, plan, sweep, upsert, written

WORKLOAD = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {}\nspec:\n  replicas: 1\n"
BUILD = """namespace: shop
resources:
- web.yaml
- api.yaml
replicas:
# front
- {name: web, count: 3}
# back
- name: api   # small
  count: 2
"""
FILES = {
    "kustomization.yaml": BUILD,
    "web.yaml": WORKLOAD.format("web"),
    "api.yaml": WORKLOAD.format("api"),
}
WITHOUT_WEB = BUILD.replace("- web.yaml\n", "").replace("# front\n- {name: web, count: 3}\n", "")


@pytest.mark.parametrize(
    "change", [delete("Deployment", "web", "shop"), sweep("Deployment", [("shop", "api")])]
)
def test_the_count_of_a_removed_workload_goes_with_it(change: Change) -> None:
    """Left behind, it would make the build fail and so keep the object in Git for ever."""
    made = plan(FILES, change)
    assert codes(made)[0] == "deleted"
    assert written(made) == {"kustomization.yaml": WITHOUT_WEB, "web.yaml": None}


def test_the_section_goes_with_its_last_entry() -> None:
    """Nobody leaves an empty list of counts behind."""
    made = plan(FILES, delete("Deployment", "web", "shop"), delete("Deployment", "api", "shop"))
    assert written(made)["kustomization.yaml"] == "namespace: shop\nresources: []\n"


def test_a_count_that_another_object_needs_stays() -> None:
    """Entries name objects without their kind."""
    other = WORKLOAD.format("web").replace("Deployment", "StatefulSet")
    build = BUILD.replace("- api.yaml\n", "- api.yaml\n- set.yaml\n")
    made = plan(
        {**FILES, "kustomization.yaml": build, "set.yaml": other}, delete("Deployment", "web", "shop")
    )
    assert written(made)["kustomization.yaml"] == build.replace("- web.yaml\n", "")


def test_removal_and_a_new_count_meet_in_one_commit() -> None:
    """Entries that change are found where they stand although others go."""
    made = plan(
        FILES,
        delete("Deployment", "web", "shop"),
        upsert("Deployment", "api", "shop", spec={"replicas": 7}),
    )
    assert written(made)["kustomization.yaml"] == WITHOUT_WEB.replace("count: 2", "count: 7")
