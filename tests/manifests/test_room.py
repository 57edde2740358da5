"""A bundle is filled up to its limits and goes on in numbered files beside it; what cannot be written is told
by name, and never keeps the rest out of Git.
"""

from __future__ import annotations

from itertools import islice

from gitwriter.manifests import Policy, Upsert
from gitwriter.manifests.limits import Limits
from gitwriter.manifests.placement.room import sequels
from gitwriter.manifests.splitting import append_document, append_documents, split_documents

from .folder import after, codes, config_map, delete, manifest, plan, sealed_secret, sweep, written

BUNDLE = Policy(default="{namespace}/all.yaml")
FOUR = Limits(documents_per_file=4)


def names(number: int) -> list[str]:
    return [f"c{count:04}" for count in range(number)]


def objects(number: int, **data: str) -> list[Upsert]:
    return [config_map(name, **data) for name in names(number)]


def counts(files: dict[str, bytes]) -> dict[str, int]:
    return {
        path: len(split_documents(data)) for path, data in sorted(files.items()) if path.startswith("shop/")
    }


def test_a_first_mirror_larger_than_a_bundle_goes_on_in_further_files() -> None:
    """5,000 objects declared into one file: every one is written, in the order of their names."""
    changes = objects(5000)
    made = plan({}, *changes, sweep("ConfigMap", [("shop", name) for name in names(5000)]), policy=BUNDLE)
    files = after({}, made)
    assert counts(files) == {"shop/all.yaml": 2000, "shop/all-2.yaml": 2000, "shop/all-3.yaml": 1000}
    assert b"name: c1999\n" in files["shop/all.yaml"]
    assert b"name: c2000\n" in files["shop/all-2.yaml"]
    assert set(codes(made)) == {"created", "unchanged"}
    again = plan(files, *changes, policy=BUNDLE)
    assert (dict(again.files), set(codes(again))) == ({}, {"unchanged"})


def test_a_full_bundle_is_followed_and_a_gap_is_filled_again() -> None:
    """One object at a time, by habit: the next file is opened, joined, and left again once there is room."""
    files = {"all.yaml": "---\n".join(manifest("ConfigMap", name, "shop") for name in names(4)).encode()}
    for name, place in (("d", "all-2.yaml"), ("e", "all-2.yaml")):
        made = plan(files, config_map(name), limits=FOUR)
        assert list(written(made)) == [place]
        files = after(files, made)
    made = plan(files, delete("ConfigMap", "c0001", "shop"), config_map("f"), limits=FOUR)
    assert list(written(made)) == ["all.yaml"]
    assert codes(made) == ["deleted", "created"]


def test_the_other_changes_of_a_full_bundle_are_written() -> None:
    """Edits and deletions of a full file do not wait for an object that it cannot take."""
    files = after({}, plan({}, *objects(4), policy=BUNDLE, limits=FOUR))
    files[".gittargetignore"] = b"all-*.yaml\n"
    made = plan(files, config_map("c0000", a="b"), config_map("new"), policy=BUNDLE, limits=FOUR)
    assert codes(made) == ["updated", "limit-exceeded"]
    assert "all-2.yaml cannot follow it: .gittargetignore hides it" in made.results[1].message
    assert list(written(made)) == ["shop/all.yaml"]


def test_bytes_are_a_limit_too() -> None:
    """A few large objects fill a file as many small ones do, and some room is left for those that grow."""
    limits = Limits(file_bytes=4000)
    made = plan({}, *objects(6, blob="x" * 1000), policy=BUNDLE, limits=limits)
    assert counts(after({}, made)) == {"shop/all.yaml": 3, "shop/all-2.yaml": 3}


def test_of_edits_beyond_a_file_only_the_largest_are_left_out() -> None:
    """An object that outgrows its file is told by name; its neighbours in the file are written."""
    limits = Limits(file_bytes=4000)
    files = after({}, plan({}, *objects(3, blob="x" * 1000), policy=BUNDLE, limits=limits))
    grown = config_map("c0001", blob="y" * 2000)
    small = config_map("c0002", blob="z" * 1100)
    gone = delete("ConfigMap", "gone", "shop")
    made = plan(files, grown, small, gone, policy=BUNDLE, limits=limits)
    assert codes(made) == ["limit-exceeded", "updated", "already-absent"]
    assert "shop/all.yaml has" in made.results[0].message
    kept = after(files, made)["shop/all.yaml"]
    assert b"z" * 1100 in kept
    assert b"yyy" not in kept


def test_a_kustomization_names_the_further_files() -> None:
    """A build that names a new bundle names those that continue it."""
    files = {"kustomization.yaml": "namespace: shop\nresources: []\n"}
    made = plan(files, *objects(6), policy=Policy(default="all.yaml"), limits=FOUR)
    listing = written(made)["kustomization.yaml"] or ""
    assert "all.yaml" in listing
    assert "all-2.yaml" in listing
    assert [len(split_documents(made.files[path] or b"")) for path in ("all.yaml", "all-2.yaml")] == [4, 2]


def test_a_sealed_object_is_never_joined() -> None:
    """A further file that another object wants, or that is encrypted, is passed over."""
    wants = Policy(
        by_type={"v1/secrets": "{namespace}/{name}.yaml"},
        default="{namespace}/all.yaml",
        recipients=("age1",),
    )
    made = plan({}, *objects(5), sealed_secret("all-2"), policy=wants, limits=FOUR)
    files = after({}, made)
    assert counts(files) == {"shop/all.yaml": 4, "shop/all-2.yaml": 1, "shop/all-3.yaml": 1}
    assert b"sops:" in files["shop/all-2.yaml"]
    assert b"sops:" not in files["shop/all-3.yaml"]


def test_the_names_of_further_files() -> None:
    """The number stands before the suffix, and the name stays one that a checkout can hold."""
    assert list(islice(sequels("x/all.yml"), 2)) == ["x/all-2.yml", "x/all-3.yml"]
    long = f"x/{'a' * 240}.yaml"
    assert all(len(path.split("/")[-1]) <= 240 for path in islice(sequels(long), 11))
    assert len(set(islice(sequels(long), 11)) | {long}) == 12


def test_many_documents_are_appended_as_one_by_one() -> None:
    """Appending in one pass gives the bytes of appending each, whatever the file ends in."""
    added = [f"a: {number}\n".encode() for number in range(3)]
    for data in (b"b: 1\n", b"b: 1", b"b: 1\r\n", b"b: |+\n  x\n\n", b"b: 1\n---\n", b"# none\n", b"", None):
        expected = data
        for text in added:
            expected = text if expected is None else append_document(expected, text)
        assert append_documents(data, added) == expected
