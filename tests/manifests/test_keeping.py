"""Documents that a prune mode keeps are told of, and nothing is written for them."""

from __future__ import annotations

from dataclasses import replace

from gitwriter.manifests import Delete, Sweep, WritePlan
from tests.manifests.folder import codes, config_map, delete, manifest, plan, sealed_secret, sweep, written

FILES = {
    "shop.yaml": "\n---\n".join(manifest("ConfigMap", name, "shop", data={"v": "x"}) for name in "ab"),
    "depot.yaml": manifest("ConfigMap", "a", "depot"),
    "homeless.yaml": manifest("ConfigMap", "homeless"),
    "role.yaml": manifest("ClusterRole", "admin"),
}


def keeping(change: Delete | Sweep) -> Delete | Sweep:
    return replace(change, keep=True)


def kept(made: WritePlan) -> list[str]:
    return [f"{found.namespace}/{found.name}" for found in made.kept]


def test_a_replay_tells_of_what_it_would_have_swept() -> None:
    """The same documents as a sweep removes, and no file."""
    absent = sweep("ConfigMap", [("shop", "b")])
    assert plan(FILES, absent).swept == 2
    made = plan(FILES, keeping(absent))
    assert (kept(made), written(made), made.swept) == (["depot/a", "shop/a"], {}, 0)
    assert kept(plan(FILES, keeping(sweep("ConfigMap", scope="shop")))) == ["shop/a", "shop/b"]
    assert kept(plan(FILES, keeping(sweep("ClusterRole")))) == ["/admin"]
    assert [found.change for found in made.kept] == [keeping(absent)] * 2


def test_a_deletion_tells_of_its_document_if_there_is_one() -> None:
    """What Git does not hold, or holds for nobody in particular, is not kept."""
    made = plan(FILES, *(keeping(delete("ConfigMap", name, "shop")) for name in ("a", "ghost", "homeless")))
    assert (kept(made), written(made)) == (["shop/a"], {})
    assert codes(made) == ["kept-by-prune-mode", "already-absent", "already-absent"]


def test_the_rest_of_a_batch_is_written() -> None:
    """What is created and edited beside it counts as it stands afterwards."""
    made = plan(
        FILES,
        config_map("a", "depot", v="new"),
        config_map("fresh", "shop", v="new"),
        keeping(sweep("ConfigMap", [("depot", "a")])),
    )
    assert kept(made) == ["shop/a", "shop/b", "shop/fresh"]
    assert "depot.yaml" in written(made)


def test_sealed_documents_are_kept_too() -> None:
    """Nothing of them is read or written."""
    sealed = sealed_secret("pin").sealed
    assert sealed is not None
    made = plan({"pin.sops.yaml": sealed}, keeping(sweep("Secret")))
    assert (kept(made), written(made)) == (["shop/pin"], {})


def test_what_could_not_be_removed_anyway_is_not_counted() -> None:
    """A file of two builds stays for another reason, and that it does is no fault under such a mode."""
    shared = {
        "base/a.yaml": manifest("ConfigMap", "a"),
        **{
            f"{name}/kustomization.yaml": "namespace: shop\nnamePrefix: ''\nresources: [../base/a.yaml]\n"
            for name in ("one", "two")
        },
    }
    absent = sweep("ConfigMap", scope="shop")
    made = plan(shared, keeping(absent))
    assert (kept(made), codes(made)) == ([], ["unchanged"])
    single = {path: text for path, text in shared.items() if not path.startswith("two/")}
    assert kept(plan(single, keeping(absent))) == ["shop/a"]


def test_a_folder_that_is_refused_tells_nothing() -> None:
    """Nobody knows what is in it."""
    made = plan({**FILES, "run.sh": "#!/bin/sh\n"}, keeping(sweep("ConfigMap")))
    assert made.refused and not made.kept
