"""Folders that kustomize builds: values go where they belong, and the real build gives exactly the live
objects.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gitwriter.manifests import (
    FieldPatch,
    Policy,
    Upsert,
)
from gitwriter.manifests.kustomize.images import Image, route_image, trace
from gitwriter.manifests.kustomize.model import parse_kustomization
from gitwriter.manifests.kustomize.render import Rendered, RenderError, without_secret_values

from .folder import after, codes, config_map, delete, manifest, plan, sweep, upsert, written
from .kustomized import IMAGES, REPLICAS, TILL, check_renders, deployment, rendered


def test_replicas_go_to_the_entry() -> None:
    """M01: a scaled Deployment changes one line of the kustomization; its own file keeps every byte."""
    files = {"kustomization.yaml": REPLICAS, "till.yaml": TILL}
    live = deployment(replicas=6)
    made = plan(files, live)
    assert written(made) == {"kustomization.yaml": REPLICAS.replace("count: 3", "count: 6")}
    check_renders(after(files, made), live)
    assert codes(made) == ["updated"]


def test_image_goes_to_the_entry() -> None:
    """M02: a new tag changes the entry, its quotes and comment stay."""
    files = {"kustomization.yaml": IMAGES, "till.yaml": TILL}
    live = deployment("reg.lab.test:5000/till:2.0")
    made = plan(files, live)
    assert written(made) == {"kustomization.yaml": IMAGES.replace("'1.5'", "'2.0'")}
    check_renders(after(files, made), live)


def test_render_equals_live() -> None:
    """M03: where the build already gives the live object nothing is written."""
    files = {"kustomization.yaml": IMAGES, "till.yaml": TILL}
    assert dict(plan(files, deployment("reg.lab.test:5000/till:1.5")).files) == {}
    files = {"kustomization.yaml": REPLICAS, "till.yaml": TILL.replace("  replicas: 2\n", "")}
    assert dict(plan(files, deployment(replicas=3)).files) == {}


def test_chain_of_base_and_root() -> None:
    """M05: a base renames, the root sets the tag; a new tag is the root's."""
    base = "resources: [till.yaml]\nimages:\n- name: till\n  newName: m/till\n"
    root = 'namespace: shop\nresources: [base]\nimages:\n- name: m/till\n  newTag: "2"\n'
    files = {
        "kustomization.yaml": root,
        "base/kustomization.yaml": base,
        "base/till.yaml": TILL.replace("reg.lab.test:5000/till", "till"),
    }
    live = deployment("m/till:9")
    made = plan(files, live)
    assert written(made) == {"kustomization.yaml": root.replace('"2"', '"9"')}
    check_renders(after(files, made), live)


def test_everything_in_one_change() -> None:
    """M08: tag, count and an environment value: two lines in the kustomization, one in the file."""
    kustomization = IMAGES + "replicas:\n- name: till\n  count: 3\n"
    files = {"kustomization.yaml": kustomization, "till.yaml": TILL}
    live = deployment("reg.lab.test:5000/till:7", replicas=4, mode="night")
    made = plan(files, live)
    assert written(made) == {
        "kustomization.yaml": kustomization.replace("'1.5'", "'7'").replace("count: 3", "count: 4"),
        "till.yaml": TILL.replace("value: day", "value: night"),
    }
    check_renders(after(files, made), live)


def test_not_expressible_is_skipped() -> None:
    """M06: two containers that share an entry and differ, or a digest that has to go: nothing is written
    by half.
    """
    two = TILL + "      - name: side\n        image: reg.lab.test:5000/till:1.0\n"
    files = {"kustomization.yaml": IMAGES, "till.yaml": two}
    others = [{"name": "side", "image": "reg.lab.test:5000/till:4"}]
    made = plan(files, deployment("reg.lab.test:5000/till:3", others=others))
    assert dict(made.files) == {}
    assert codes(made) == ["not-expressible"]
    digest = IMAGES.replace("newTag: '1.5' # pinned", "digest: sha256:" + "a" * 64)
    made = plan({"kustomization.yaml": digest, "till.yaml": TILL}, deployment())
    assert codes(made) == ["not-expressible"]


def test_new_container_lands_in_the_source() -> None:
    """M06: a container that is new in the live object is written to the file as it is."""
    files = {"kustomization.yaml": IMAGES, "till.yaml": TILL}
    live = deployment("reg.lab.test:5000/till:1.5", others=[{"name": "log", "image": "log:3"}])
    made = plan(files, live)
    assert list(written(made)) == ["till.yaml"]
    check_renders(after(files, made), live)


def test_inherited_namespace() -> None:
    """M11: documents without namespace are found, edited and removed in place; the namespace is never
    added.
    """
    menu = manifest("ConfigMap", "menu", data={"soup": "leek"})
    files = {"kustomization.yaml": "namespace: shop\nresources: [menu.yaml]\n", "menu.yaml": menu}
    assert written(plan(files, config_map("menu", soup="kale"))) == {
        "menu.yaml": menu.replace("leek", "kale")
    }
    made = plan(files, sweep("ConfigMap"))
    assert written(made) == {"kustomization.yaml": "namespace: shop\nresources: []\n", "menu.yaml": None}


def test_explicit_namespace_is_overridden_as_kustomize_does() -> None:
    """The outermost kustomization's namespace wins over the file's; the file's line stays."""
    menu = manifest("ConfigMap", "menu", "elsewhere", data={"soup": "leek"})
    files = {"kustomization.yaml": "namespace: shop\nresources: [menu.yaml]\n", "menu.yaml": menu}
    made = plan(files, config_map("menu", soup="kale"))
    assert written(made) == {"menu.yaml": menu.replace("leek", "kale")}
    assert dict(plan(files, sweep("ConfigMap")).files) == {}, (
        "M11: a file that names another namespace is not swept"
    )


def test_nested_namespaces_outermost_wins() -> None:
    """Of two nested kustomizations the outer one's namespace counts."""
    files = {
        "kustomization.yaml": "namespace: shop\nresources: [base]\n",
        "base/kustomization.yaml": "namespace: inner\nresources: [menu.yaml]\n",
        "base/menu.yaml": manifest("ConfigMap", "menu", data={"soup": "leek"}),
    }
    assert list(written(plan(files, config_map("menu", soup="kale")))) == ["base/menu.yaml"]


LISTED = "namespace: shop\nresources:\n  # the till\n  - till.yaml # main\nlabels: []\n"


def test_new_object_under_a_single_kustomization() -> None:
    """M13: the new file lies beside the kustomization, without namespace, and is named by it."""
    files = {"kustomization.yaml": LISTED, "till.yaml": TILL}
    live = config_map("menu", soup="leek")
    made = plan(files, live)
    assert written(made) == {
        "kustomization.yaml": LISTED.replace("# main\n", "# main\n  - menu.yaml\n"),
        "menu.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: menu\ndata:\n  soup: leek\n",
    }
    check_renders(after(files, made), live)
    assert dict(plan(after(files, made), live).files) == {}


def test_no_resources_key_is_invented() -> None:
    """M13: a kustomization without resources is left alone; the file is written all the same."""
    made = plan({"kustomization.yaml": "namespace: shop\n"}, config_map("menu"))
    assert list(written(made)) == ["menu.yaml"]
    assert "namespace: shop" in (written(made)["menu.yaml"] or "")


def test_two_kustomizations_mean_the_canonical_path() -> None:
    """M13: with two kustomizations no folder is guessed."""
    files = {
        "a/kustomization.yaml": "resources: [x.yaml]\n",
        "a/x.yaml": manifest("Service", "x", "shop"),
        "b/kustomization.yaml": "resources: []\n",
    }
    assert list(written(plan(files, config_map("menu")))) == ["shop/configmaps/menu.yaml"]
    beside = {"kustomization.yaml": "resources: []\n", "b/kustomization.yaml": "resources: []\n"}
    assert list(written(plan(beside, config_map("menu")))) == ["shop/configmaps/menu.yaml"]


def test_namespace_that_the_build_would_replace() -> None:
    """M15: an object of another namespace is not written where the build would move it, and not listed."""
    files = {"kustomization.yaml": LISTED, "till.yaml": TILL}
    made = plan(files, config_map("x", "depot"))
    assert list(written(made)) == ["depot/configmaps/x.yaml"]
    assert "namespace: depot" in (written(made)["depot/configmaps/x.yaml"] or "")


def test_declared_path_is_registered_with_the_nearest_kustomization() -> None:
    """A new file in a folder below is named by the nearest kustomization above it."""
    files = {"app/kustomization.yaml": "namespace: shop\nresources: []\n"}
    policy = Policy(default="app/sub/{name}.yaml")
    live = config_map("menu", soup="leek")
    made = plan(files, live, policy=policy)
    assert "sub/menu.yaml" in (written(made)["app/kustomization.yaml"] or "")
    check_renders(after(files, made), live, root="app")


def test_an_entry_is_written_as_its_neighbours_are() -> None:
    """Where all entries of the folder begin with a dot and a slash the new one does so, and is found again;
    a base elsewhere tells nothing.
    """
    listed = "namespace: shop\nresources:\n- ./till.yaml # till\n- ../base\n"
    base = {"base/kustomization.yaml": "resources: [x.yaml]\n", "base/x.yaml": manifest("ConfigMap", "x")}
    files = {"live/kustomization.yaml": listed, "live/till.yaml": TILL, **base}
    made = plan(files, config_map("menu", k="v"), policy=Policy(default="live/{name}.yaml"))
    assert written(made)["live/kustomization.yaml"] == listed + "- ./menu.yaml\n"
    made = plan(after(files, made), delete("ConfigMap", "menu", "shop"))
    assert written(made) == {"live/kustomization.yaml": listed, "live/menu.yaml": None}


def test_deleted_file_leaves_no_entry() -> None:
    """Deleting a file's last document removes its entry from every kustomization that lists it."""
    menu = manifest("ConfigMap", "menu")
    files = {"kustomization.yaml": LISTED + "", "till.yaml": TILL, "menu.yaml": menu}
    files["kustomization.yaml"] = LISTED.replace("# main\n", "# main\n  - ./menu.yaml # food\n")
    made = plan(files, delete("ConfigMap", "menu", "shop"))
    assert written(made) == {"kustomization.yaml": LISTED, "menu.yaml": None}


def test_labels_never_leak_into_the_source() -> None:
    """What the build adds stays out of the file: only the real difference is written."""
    kustomization = "namespace: shop\nresources: [till.yaml]\n"
    kustomization += "labels:\n- pairs: {team: a}\n"
    files = {"kustomization.yaml": kustomization, "till.yaml": TILL}
    live = deployment(mode="night", metadata={"labels": {"team": "a"}})
    made = plan(files, live)
    assert written(made) == {"till.yaml": TILL.replace("day", "night")}
    check_renders(after(files, made), live)


def test_value_set_by_the_build_is_skipped() -> None:
    """A live value that the build overrides cannot be written; it is skipped, not written again and again."""
    kustomization = "namespace: shop\nresources: [till.yaml]\nlabels:\n- pairs: {team: a}\n"
    live = deployment(metadata={"labels": {"team": "b"}})
    made = plan({"kustomization.yaml": kustomization, "till.yaml": TILL}, live)
    assert codes(made) == ["not-expressible"]
    assert (
        "/metadata/labels/team is set by the build; change it in kustomization.yaml"
        in made.results[0].message
    )


def test_a_new_object_that_the_build_would_decorate_is_refused_with_the_place() -> None:
    """A label that the build gives to all its objects has to be live as well; the refusal names it."""
    kustomization = "namespace: shop\nresources: [till.yaml]\nlabels:\n- pairs: {team: a}\n"
    files = {"kustomization.yaml": kustomization, "till.yaml": TILL}
    made = plan(files, config_map("menu", soup="leek"))
    assert (codes(made), dict(made.files)) == (["kustomize-render-refused"], {})
    assert made.results[0].message == (
        "the build of kustomization.yaml would not give ConfigMap menu as it is live: /metadata/labels would "
        "differ; change what the build sets there, or set the same in the cluster"
    )
    labelled = upsert("ConfigMap", "menu", "shop", metadata={"labels": {"team": "a"}}, data={"soup": "leek"})
    made = plan(files, labelled)
    assert codes(made) == ["created"]
    check_renders(after(files, made), labelled)


def test_patch_files_are_context() -> None:
    """A patch file is neither managed nor a duplicate, and what it sets stays out of the source."""
    patch = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: till}\nspec: {replicas: 5}\n"
    files = {
        "kustomization.yaml": "namespace: shop\nresources: [till.yaml]\npatches:\n- path: patch.yaml\n",
        "till.yaml": TILL,
        "patch.yaml": patch,
    }
    made = plan(files, deployment(replicas=5, mode="night"))
    assert written(made) == {"till.yaml": TILL.replace("day", "night")}
    made = plan(files, deployment(replicas=9))
    assert codes(made) == ["not-expressible"]
    assert made.results[0].message.endswith("/spec/replicas is set by the build; change it in patch.yaml")


BY_PATCH = {
    "kustomization.yaml": "namespace: shop\nresources: [till.yaml]\npatches:\n- path: patch.yaml\n",
    "till.yaml": TILL,
    "patch.yaml": (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: till}\nspec:\n  template:\n    spec:\n"
        "      volumes:\n      - {name: one, emptyDir: {}}\n      containers:\n      - name: till\n"
        "        env:\n        - {name: BY, value: patch}\n      - {name: side, image: 'side:1'}\n"
    ),
}


def _patched(
    *, mode: str = "day", by: str = "patch", side: str = "side:1", more: tuple[str, ...] = ()
) -> Upsert:
    env = [{"name": "BY", "value": by}, {"name": "MODE", "value": mode}]
    image = "reg.lab.test:5000/till:1.0"
    others = [{"name": name, "image": f"{name}:1"} for name in more]
    volumes = [{"name": "one", "emptyDir": {}}, *({"name": name, "emptyDir": {}} for name in more)]
    containers = [{"name": "till", "image": image, "env": env}, {"name": "side", "image": side}, *others]
    spec = {"containers": containers, "volumes": volumes}
    return upsert("Deployment", "till", "shop", spec={"replicas": 2, "template": {"spec": spec}})


def test_lists_that_a_patch_adds_to_are_edited_item_by_item() -> None:
    """What the build adds to a list stays out of the file and does not keep the file's own items from being
    edited; what the build itself says is not written.
    """
    made = plan(BY_PATCH, _patched(mode="night"))
    assert written(made) == {"till.yaml": TILL.replace("day", "night")}
    check_renders(after(BY_PATCH, made), _patched(mode="night"))
    made = plan(BY_PATCH, _patched(more=("third",)))
    assert list(written(made)) == ["till.yaml"]
    check_renders(after(BY_PATCH, made), _patched(more=("third",)))
    for live in (_patched(by="hand"), _patched(side="side:2")):
        made = plan(BY_PATCH, live)
        assert (codes(made), written(made)) == (["not-expressible"], {})
        assert "unplaceable-edit" in made.results[0].message


def test_shared_entry_is_refused_when_it_would_change_another_object() -> None:
    """An entry that two objects use is not changed for one of them; both together are fine."""
    other = TILL.replace("name: till\nspec", "name: shop2\nspec")
    files = {
        "kustomization.yaml": IMAGES.replace("[till.yaml]", "[till.yaml, o.yaml]"),
        "till.yaml": TILL,
        "o.yaml": other,
    }
    one = deployment("reg.lab.test:5000/till:2")
    made = plan(files, one)
    assert dict(made.files) == {}
    assert codes(made) == ["kustomize-render-refused"]
    assert "would change Deployment shop2 too; give each its own entry or file" in made.results[0].message
    assert one.body is not None
    body = {**one.body, "metadata": {"name": "shop2", "namespace": "shop"}}
    two = Upsert("apps", "v1", "deployments", "Deployment", True, "shop", "shop2", body=body)
    made = plan(files, one, two)
    assert list(written(made)) == ["kustomization.yaml"]
    check_renders(after(files, made), one, two)


def test_file_of_several_builds_is_read_only() -> None:
    """A file that two builds share is never written; where it is as live there is nothing to do."""
    files = {
        "a/kustomization.yaml": "namespace: shop\nresources: [../cm.yaml]\n",
        "b/kustomization.yaml": "namespace: shop\nresources: [../cm.yaml]\n",
        "cm.yaml": manifest("ConfigMap", "menu", data={"soup": "leek"}),
    }
    assert codes(plan(files, config_map("menu", soup="leek"))) == ["unchanged"]
    made = plan(files, config_map("menu", soup="kale"), delete("ConfigMap", "menu", "shop"))
    assert dict(made.files) == {}
    assert "write-fan-in" in codes(made)


def test_scale_patch_goes_to_the_entry() -> None:
    """A field patch of the replicas of a governed object sets the entry's count."""
    files = {"kustomization.yaml": REPLICAS, "till.yaml": TILL}
    change = FieldPatch("apps", "deployments", "Deployment", True, "shop", "till", {"/spec/replicas": 8})
    assert written(plan(files, change)) == {"kustomization.yaml": REPLICAS.replace("count: 3", "count: 8")}


def test_build_that_fails_refuses() -> None:
    """A build that the real kustomize cannot make refuses the path and says why."""
    files = {
        "kustomization.yaml": "namespace: shop\nresources: [a.yaml]\nlabels:\n- pears: {}\n",
        "a.yaml": manifest("ConfigMap", "menu"),
    }
    made = plan(files, config_map("menu", soup="kale"))
    assert made.refused
    assert "render-failed" in made.issues[0].message


@pytest.mark.parametrize(
    ("source", "entries", "live", "expected"),
    [
        ("r/app:1.0", "{name: r/app, newTag: '1.5'}", "r/app:2.0", ("r/app:1.0", {"newTag": "2.0"})),
        ("r/app:1.0", "{name: r/app, newTag: '1.5'}", "r/app:1.5", ("r/app:1.0", {})),
        ("old/app:1.0", "{name: old/app, newName: new/app}", "new/app:2.0", ("old/app:2.0", {})),
        (
            "old/app:1.0",
            "{name: old/app, newName: new/app}",
            "mir/app:1.0",
            ("old/app:1.0", {"newName": "mir/app"}),
        ),
        ("app:1.0", "{name: app, digest: sha256:a}", "app@sha256:c", ("app:1.0", {"digest": "sha256:c"})),
        ("app:1.0", "{name: app, digest: sha256:a}", "app:1.0", None),
        ("app@sha256:a", "{name: app, newTag: '2'}", "app:3", ("app@sha256:a", {"newTag": "3"})),
        (
            "app:1",
            "{name: app, newTag: '2', digest: sha256:a}",
            "app:3@sha256:b",
            ("app:1", {"newTag": "3", "digest": "sha256:b"}),
        ),
        ("h:5000/app", "{name: h:5000/app, newTag: '2'}", "h:5000/app:3", ("h:5000/app", {"newTag": "3"})),
        ("app:1", "{name: app, newTag: '2'}", "other:7", ("other:7", {})),
    ],
)
def test_image_routes(source: str, entries: str, live: str, expected: tuple | None) -> None:
    """Each part of an image belongs to the entry that set it last, else to the file."""
    chain = (parse_kustomization("kustomization.yaml", f"images: [{entries}]\n".encode()),)
    found = route_image(Image.parse(source), Image.parse(live), chain)
    if expected is None:
        assert found is None
        return
    assert found is not None
    assert (str(found.source), {entry.field: value for entry, value in found.edits.items()}) == expected
    assert str(trace(found.source, chain, found.edits).image) == live


@pytest.mark.parametrize(
    ("source", "entry"),
    [
        ("app:1.0", "{name: app, newTag: '2'}"),
        ("app@sha256:" + "a" * 64, "{name: app, newTag: '2'}"),
        ("app:1.0", "{name: app, digest: 'sha256:" + "b" * 64 + "'}"),
        ("app:1.0", "{name: app, newTag: '3', digest: 'sha256:" + "b" * 64 + "'}"),
        ("h.io:5000/a/app:1.0", "{name: h.io:5000/a/app, newName: m/app}"),
        ("app", "{name: app, newTag: '2'}"),
    ],
)
def test_our_image_rules_are_those_of_kustomize(source: str, entry: str) -> None:
    """The image that we predict is the one that the real build gives."""
    kustomization = f"resources: [d.yaml]\nimages: [{entry}]\n"
    till = TILL.replace("reg.lab.test:5000/till:1.0", source)
    files = {"kustomization.yaml": kustomization, "d.yaml": till}
    built = rendered(files)[("Deployment", "", "till")]
    chain = (parse_kustomization("kustomization.yaml", kustomization.encode()),)
    predicted = str(trace(Image.parse(source), chain).image)
    assert built["spec"]["template"]["spec"]["containers"][0]["image"] == predicted


def test_secret_values_never_reach_the_build() -> None:
    """Plain Secret values are replaced by digests before anything is written for the build; identity
    stays.
    """
    data = (
        manifest("ConfigMap", "a", "shop", data={"k": "zq-open"})
        + "---\n"
        + manifest("Secret", "db", "shop", data={"k": "zq-MARKER"})
    )
    masked = without_secret_values(data.encode())
    assert b"zq-MARKER" not in masked
    assert b"zq-open" in masked
    assert b"name: db" in masked


def test_a_build_has_a_deadline() -> None:
    """A build that hangs ends with an error."""
    from gitwriter.manifests.kustomize.render import KustomizeCommand

    slow = KustomizeCommand(("sh", "-c", "sleep 30"), deadline=0.2)
    with pytest.raises(RenderError, match="longer than"):
        slow({"kustomization.yaml": b"resources: []\n"}, "")


def test_without_a_renderer_our_own_model_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no kustomize is installed, namespace, images and replicas still work; other builds do not."""
    monkeypatch.setattr("gitwriter.manifests.writeplan.find_renderer", lambda: None)
    files = {"kustomization.yaml": REPLICAS, "till.yaml": TILL}
    assert written(plan(files, deployment(replicas=6, mode="night"))) == {
        "kustomization.yaml": REPLICAS.replace("count: 3", "count: 6"),
        "till.yaml": TILL.replace("day", "night"),
    }
    labelled = {"kustomization.yaml": REPLICAS + "commonLabels: {a: b}\n", "till.yaml": TILL}
    made = plan(labelled, deployment(replicas=6))
    assert codes(made) == ["kustomize-render-refused"]
    assert "install" in made.results[0].message


def test_a_build_that_cannot_be_kept_right_does_not_stop_a_sweep() -> None:
    """A sweep still deletes what no build reads when a kustomization cannot give up its entry."""
    kustomization = "namespace: shop\nresources: [menu.yaml]\n---\n{}\n"
    files = {
        "app/kustomization.yaml": kustomization,
        "app/menu.yaml": manifest("ConfigMap", "menu"),
        "plain/other.yaml": manifest("ConfigMap", "other", "shop"),
    }
    made = plan(files, sweep("ConfigMap"))
    assert written(made) == {"plain/other.yaml": None}
    assert "deleted" in codes(made)
    assert made.swept == 1


def test_kustomization_that_cannot_be_edited_is_left_alone() -> None:
    """M16: a kustomization of several documents is never edited; what needs it is skipped visibly."""
    files = {"kustomization.yaml": IMAGES + "---\n{}\n", "till.yaml": TILL}
    patch = FieldPatch("apps", "deployments", "Deployment", True, "shop", "till", {"/spec/paused": True})
    made = plan(files, deployment("reg.lab.test:5000/till:9"))
    assert dict(made.files) == {}
    assert set(codes(made)) <= {"not-expressible", "kustomize-render-refused"} or made.refused
    assert plan({**files, "kustomization.yaml": IMAGES}, patch).files["till.yaml"] is not None


def test_a_failing_build_is_tried_once() -> None:
    """A build that fails is not tried again for each object of the batch."""
    calls: list[str] = []

    def broken(_files: Mapping[str, bytes], directory: str) -> Rendered:
        calls.append(directory)
        raise RenderError("out of order")

    names = [f"c{number}" for number in range(5)]
    files = {f"{name}.yaml": manifest("ConfigMap", name) for name in names}
    files["kustomization.yaml"] = f"namespace: shop\nresources: [{', '.join(files)}]\n"
    made = plan(files, *(config_map(name, k="v") for name in names), renderer=broken)
    assert made.refused
    assert len(calls) == 1
