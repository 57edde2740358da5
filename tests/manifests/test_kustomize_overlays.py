"""Targets that are overlays: the base beside the path is read and never written."""

from __future__ import annotations

import pytest

from gitwriter.manifests import Change, Inventory, MemoryRepository, Policy, WritePlan, plan_writes

from .folder import codes, config_map, delete, manifest, sweep, text, upsert, written
from .kustomized import TILL, check_renders, deployment, rendered

BASE = {
    "base/kustomization.yaml": "resources: [till.yaml]\n",
    "base/till.yaml": TILL,
    "overlays/prod/kustomization.yaml": (
        'namespace: shop\nresources: [../../base]\nimages:\n- name: reg.lab.test:5000/till\n  newTag: "2"\n'
    ),
}


def overlay(*changes: Change) -> WritePlan:
    """A plan for the overlay of a repository whose base lies outside the target path."""
    return plan_writes(MemoryRepository(text(BASE), "overlays/prod"), changes, Policy())


def committed(made: WritePlan) -> dict[str, str | bytes]:
    """The repository once an overlay's plan is committed; nothing outside the overlay was written."""
    assert all(not path.startswith("..") for path in made.files)
    files: dict[str, str | bytes] = {**BASE}
    files.update({f"overlays/prod/{path}": data for path, data in made.files.items() if data is not None})
    return files


def test_overlay_reads_its_base_and_never_writes_it() -> None:
    """An overlay target understands a base outside its path; what only the base could say is skipped."""
    assert codes(overlay(deployment("reg.lab.test:5000/till:2"))) == ["unchanged"]
    assert codes(overlay(deployment("reg.lab.test:5000/till:2", mode="night"))) == ["write-escapes-scope"]


def test_overlay_authors_a_replica_count() -> None:
    """A scaled object of a base gets an entry in the overlay, once."""
    live = deployment("reg.lab.test:5000/till:2", replicas=7)
    made = overlay(live)
    assert list(written(made)) == ["kustomization.yaml"]
    assert (written(made)["kustomization.yaml"] or "").endswith("replicas:\n- name: till\n  count: 7\n")
    files = committed(made)
    check_renders(files, live, root="overlays/prod")
    again = plan_writes(MemoryRepository(text(files), "overlays/prod"), [live], Policy())
    assert dict(again.files) == {}


def test_overlay_authors_an_image() -> None:
    """A new image of a base's object gets an entry in an overlay that has none."""
    repository = {**BASE, "overlays/prod/kustomization.yaml": "namespace: shop\nresources: [../../base]\n"}
    live = deployment("mirror.test/till:9")
    made = plan_writes(MemoryRepository(text(repository), "overlays/prod"), [live], Policy())
    assert written(made) == {
        "kustomization.yaml": f"{repository['overlays/prod/kustomization.yaml']}"
        'images:\n- name: reg.lab.test:5000/till\n  newName: mirror.test/till\n  newTag: "9"\n'
    }
    check_renders(committed(made), live, root="overlays/prod")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "images:\n  - name: sidecar\n    newTag: '3' # pinned\n",
            "images:\n  - name: sidecar\n    newTag: '3' # pinned\n"
            "  - name: reg.lab.test:5000/till\n    digest: sha256:{digest}\n",
        ),
        (
            "images: [{{name: sidecar, newTag: '3'}}]\n",
            "images: [{{name: sidecar, newTag: '3'}}, "
            "{{name: reg.lab.test:5000/till, digest: sha256:{digest}}}]\n",
        ),
        (
            "",
            "images:\n- name: reg.lab.test:5000/till\n  digest: sha256:{digest}\n",
        ),
    ],
)
def test_an_authored_entry_begins_with_its_name(before: str, after: str) -> None:
    """As a person writes it, and otherwise as the entries beside it are written."""
    head, digest = "namespace: shop\nresources: [../../base]\n", "a" * 64
    path = "overlays/prod/kustomization.yaml"
    repository = {**BASE, path: head + before.format()}
    live = deployment(f"reg.lab.test:5000/till@sha256:{digest}")
    made = plan_writes(MemoryRepository(text(repository), "overlays/prod"), [live], Policy())
    assert written(made) == {"kustomization.yaml": head + after.format(digest=digest)}
    check_renders(committed(made), live, root="overlays/prod")


def test_an_authored_entry_of_a_json_kustomization_begins_with_its_name() -> None:
    """Over lines, as the rest of it is."""
    head = '{\n  "namespace": "shop",\n  "resources": ["../../base"]'
    path = "overlays/prod/kustomization.yaml"
    live = deployment("reg.lab.test:5000/till:1", replicas=7)
    repository = {**BASE, path: head + "\n}\n"}
    made = plan_writes(MemoryRepository(text(repository), "overlays/prod"), [live], Policy())
    entry = (written(made)["kustomization.yaml"] or "").removeprefix(head)
    assert "".join(entry.split()) == (
        ',"images":[{"name":"reg.lab.test:5000/till","newTag":"1"}],"replicas":[{"name":"till","count":7}]}'
    )


def test_overlay_deletes_an_inherited_object_by_a_patch() -> None:
    """A deleted object of a base is deleted from the build by a patch file, once, until it lives again."""
    change = delete("Deployment", "till", "shop")
    made = overlay(change)
    assert list(written(made)) == ["deployment-till-delete.yaml", "kustomization.yaml"]
    assert (written(made)["deployment-till-delete.yaml"] or "").startswith("$patch: delete\napiVersion: ")
    files = committed(made)
    assert rendered(files, "overlays/prod") == {}
    for again in (change, sweep("Deployment")):
        made = plan_writes(MemoryRepository(text(files), "overlays/prod"), [again], Policy())
        assert dict(made.files) == {}
    alive = deployment("reg.lab.test:5000/till:2")
    made = plan_writes(MemoryRepository(text(files), "overlays/prod"), [alive], Policy())
    assert written(made) == {
        "deployment-till-delete.yaml": None,
        "kustomization.yaml": BASE["overlays/prod/kustomization.yaml"],
    }
    taken = {**BASE, "overlays/prod/deployment-till-delete.yaml": manifest("ConfigMap", "x", "shop")}
    made = plan_writes(MemoryRepository(text(taken), "overlays/prod"), [change], Policy())
    assert codes(made) == ["write-escapes-scope"]


def test_overlay_entry_of_a_base_object_is_edited() -> None:
    """A value that the overlay's own entry supplies is edited there, and the build gives the live object."""
    live = deployment("reg.lab.test:5000/till:3")
    made = overlay(live)
    assert '"3"' in (written(made)["kustomization.yaml"] or "")
    files = {
        **BASE,
        **{f"overlays/prod/{path}": data for path, data in made.files.items() if data is not None},
    }
    check_renders(files, live, root="overlays/prod")


def test_new_object_in_an_overlay() -> None:
    """A new object lies in the overlay and is named by the overlay's own kustomization."""
    made = overlay(config_map("menu"))
    assert "- menu.yaml" in (written(made)["kustomization.yaml"] or "") or ", menu.yaml" in (
        written(made)["kustomization.yaml"] or ""
    )
    assert all(not path.startswith("..") for path in made.files)


def test_overlays_that_share_a_base_outside() -> None:
    """Each overlay's object is compared with its own build; what is as live is no skip, and what is not is
    never copied beside the builds.
    """
    for base in (TILL, TILL.replace("name: till\n", "name: till\n  namespace: old\n", 1)):
        files = {
            "base/kustomization.yaml": "resources: [till.yaml]\n",
            "base/till.yaml": base,
            "shops/north/kustomization.yaml": "namespace: north\nresources: [../../base]\n",
            "shops/south/kustomization.yaml": "namespace: south\nresources: [../../base]\n",
        }
        spec = (deployment().body or {})["spec"]
        live = [
            upsert("Deployment", "till", "north", spec=spec),
            upsert("Deployment", "till", "south", spec={**spec, "replicas": 5}),
            sweep("Deployment", [("north", "till"), ("south", "till")]),
        ]
        made = plan_writes(MemoryRepository(text(files), "shops"), live, Policy())
        assert codes(made) == ["unchanged", "write-fan-in", "unchanged"]
        gone = plan_writes(
            MemoryRepository(text(files), "shops"), [delete("Deployment", "till", "south")], Policy()
        )
        assert codes(gone) == ["write-escapes-scope"]
        other = upsert("Deployment", "till", "east", spec=spec)
        made = plan_writes(MemoryRepository(text(files), "shops"), [other], Policy())
        assert list(written(made)) == ["east/apps/deployments/till.yaml"]


def test_base_outside_the_repository_refuses() -> None:
    """An entry that leaves the repository is never followed."""
    files = {"a/kustomization.yaml": "resources: [../../x]\n", "x/kustomization.yaml": "resources: []\n"}
    assert plan_writes(MemoryRepository(text(files), "a"), [], Policy()).refused


def test_base_that_changes_outside_is_seen() -> None:
    """A kept inventory reads the bases of the commit at hand, not those of the commit it was made from."""
    first = MemoryRepository(text(BASE), "overlays/prod")
    kept = Inventory.scan(first)
    changed = {**BASE, "base/till.yaml": TILL.replace("day", "night")}
    second = MemoryRepository(text(changed), "overlays/prod")
    live = deployment("reg.lab.test:5000/till:2", mode="night")
    assert codes(plan_writes(first, [live], Policy(), inventory=kept)) == ["write-escapes-scope"]
    assert codes(plan_writes(second, [live], Policy(), inventory=kept)) == ["unchanged"]
