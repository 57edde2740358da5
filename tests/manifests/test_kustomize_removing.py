"""What leaves a build takes the entries along that only it was there for."""

from __future__ import annotations

import pytest

from gitwriter.manifests import Change

from .folder import after, codes, delete, plan, sweep, upsert, written
from .kustomized import IMAGES, TILL, check_renders, deployment

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


PATCHED = """namespace: shop
resources:
- web.yaml
- api.yaml
patches:
# more memory
- path: web-patch.yaml
- path: api-patch.yaml
"""
PATCH = "# why\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {}\nspec:\n  paused: true\n"
PATCHED_FILES = {
    "kustomization.yaml": PATCHED,
    "web.yaml": WORKLOAD.format("web"),
    "api.yaml": WORKLOAD.format("api"),
    "web-patch.yaml": PATCH.format("web"),
    "api-patch.yaml": PATCH.format("api"),
}


@pytest.mark.parametrize(
    "change", [delete("Deployment", "web", "shop"), sweep("Deployment", [("shop", "api")])]
)
def test_the_patch_of_a_removed_object_goes_with_it(change: Change) -> None:
    """A patch that finds nothing makes the build fail; left without its entry it would become a document."""
    made = plan(PATCHED_FILES, change)
    assert codes(made)[0] == "deleted"
    assert written(made) == {
        "kustomization.yaml": PATCHED.replace("- web.yaml\n", "").replace(
            "# more memory\n- path: web-patch.yaml\n", ""
        ),
        "web.yaml": None,
        "web-patch.yaml": None,
    }


def test_a_patch_that_selects_may_select_nothing() -> None:
    """Its entry and file stay as they are."""
    entry = "- path: web-patch.yaml\n  target: {kind: Deployment, name: web}\n"
    build = PATCHED.replace("- path: web-patch.yaml\n", entry)
    made = plan({**PATCHED_FILES, "kustomization.yaml": build}, delete("Deployment", "web", "shop"))
    assert codes(made) == ["deleted"]
    assert written(made) == {"kustomization.yaml": build.replace("- web.yaml\n", ""), "web.yaml": None}


def test_a_patch_file_that_another_build_uses_stays() -> None:
    """Only the entry of the build that loses the object goes."""
    files = {f"one/{path}": data for path, data in PATCHED_FILES.items()}
    files |= {
        "two/kustomization.yaml": "resources: [web.yaml]\nnamespace: depot\n"
        "patches:\n- path: ../one/web-patch.yaml\n",
        "two/web.yaml": WORKLOAD.format("web"),
    }
    made = plan(files, delete("Deployment", "web", "shop"))
    assert codes(made) == ["deleted"]
    assert set(written(made)) == {"one/kustomization.yaml", "one/web.yaml"}


def test_an_overlay_loses_its_patch_with_the_object_of_its_base() -> None:
    """Wherever in the chain the patch stands."""
    files = {f"base/{path}": data for path, data in PATCHED_FILES.items() if "patch" not in path}
    files["base/kustomization.yaml"] = "namespace: shop\nresources:\n- web.yaml\n- api.yaml\n"
    files["over/kustomization.yaml"] = "resources: [../base]\npatches:\n- path: web-patch.yaml\n"
    files["over/web-patch.yaml"] = PATCH.format("web\n  namespace: shop")
    made = plan(files, delete("Deployment", "web", "shop"))
    assert codes(made) == ["deleted"]
    assert written(made) == {
        "base/kustomization.yaml": "namespace: shop\nresources:\n- api.yaml\n",
        "base/web.yaml": None,
        "over/kustomization.yaml": "resources: [../base]\n",
        "over/web-patch.yaml": None,
    }


SIDE = "      - name: side # beside it\n        image: reg.lab.test:5000/till:1.0\n"
TWO = {"kustomization.yaml": IMAGES, "till.yaml": TILL + SIDE}
IMAGE = "reg.lab.test:5000/till:1.5"


def test_a_container_whose_image_an_entry_sets_can_go() -> None:
    """M06: the build alters the container, and without it in the file there is nothing to alter."""
    made = plan(TWO, deployment(IMAGE))
    assert written(made) == {"till.yaml": TILL}
    check_renders(after(TWO, made), deployment(IMAGE))


def test_a_container_whose_image_an_entry_sets_can_be_renamed() -> None:
    """M06: the live image lands in the file, where the entry gives the same."""
    live = deployment(IMAGE, others=[{"name": "beside", "image": IMAGE}])
    made = plan(TWO, live)
    assert list(written(made)) == ["till.yaml"]
    check_renders(after(TWO, made), live)


def test_a_renamed_container_with_another_tag_is_reported() -> None:
    """M06: the entry would set its own tag again."""
    live = deployment(IMAGE, others=[{"name": "beside", "image": "reg.lab.test:5000/till:9"}])
    made = plan(TWO, live)
    assert written(made) == {}
    assert codes(made) != ["updated"] and made.results[0].message


def test_a_container_that_a_patch_brings_back_is_reported() -> None:
    """Taken out of the file it would be there again, with what the patch says of it alone."""
    patch = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: till}\nspec:\n  template:\n    spec:\n"
        "      containers:\n      - {name: side, tty: true}\n"
    )
    files = {**TWO, "kustomization.yaml": IMAGES + "patches:\n- path: p.yaml\n", "p.yaml": patch}
    made = plan(files, deployment(IMAGE))
    assert written(made) == {}
    assert codes(made) != ["updated"] and made.results[0].message


def test_the_last_init_container_takes_its_list_along() -> None:
    """M06: all containers of a list go at once although an entry sets their images."""
    first = "      initContainers: # before\n      - name: first\n        image: reg.lab.test:5000/till:1.0\n"
    files = {**TWO, "till.yaml": TILL.replace("      containers:\n", first + "      containers:\n")}
    made = plan(files, deployment(IMAGE))
    assert written(made) == {"till.yaml": TILL}
    check_renders(after(files, made), deployment(IMAGE))
