"""Diffs come from a real clone; what is secret stays so."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reverser.dashboard import diffs
from reverser.dashboard.diffs import DiffUnavailable, find_clone, read_diff

CANARY = "c2VjcmV0LWNhbmFyeQ=="


class Clone:
    """A clone where the writer keeps it, filled with plain git."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.path = state / "workers" / "shop" / "repo" / "main" / "repos" / "abc"
        self.tree = state / "tree"
        self.tree.mkdir()
        self.path.parent.mkdir(parents=True)
        self.git("init", "--quiet", "--separate-git-dir", str(self.path), str(self.tree))

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.tree, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, **files: str | bytes | None) -> str:
        for name, content in files.items():
            path = self.tree / f"{name}.yaml"
            if content is None:
                path.unlink()
            else:
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "change")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def _text(diff: diffs.Diff) -> str:
    return "\n".join(f"{line.kind} {line.text}" for file in diff.files for line in file.lines)


def test_changed_added_removed(clone: Clone) -> None:
    """Against the first parent, with line numbers of both sides."""
    clone.commit(menu="a: 1\nb: 2\n", old="x: 1\n")
    sha = clone.commit(menu="a: 1\nb: 3\n", old=None, new="y: 1\n")

    found = read_diff(find_clone(clone.state, "shop", "repo", branch="main", sha=sha), sha)

    assert [(file.path, file.status, file.added, file.removed) for file in found.files] == [
        ("menu.yaml", "changed", 1, 1),
        ("new.yaml", "added", 1, 0),
        ("old.yaml", "removed", 0, 1),
    ]
    menu = found.files[0]
    assert [(line.kind, line.old, line.new) for line in menu.lines] == [
        ("same", 1, 1),
        ("remove", 2, None),
        ("add", None, 2),
    ]
    assert [(old and old.text, new and new.text) for old, new in menu.pairs()] == [
        ("a: 1", "a: 1"),
        ("b: 2", "b: 3"),
    ]


def test_first_commit(clone: Clone) -> None:
    """Everything is new."""
    sha = clone.commit(menu="a: 1\n")

    found = read_diff(clone.path, sha)

    assert (found.files[0].status, found.note) == ("added", "")


def test_sealed_stays_sealed(clone: Clone) -> None:
    """Ciphertext is shortened; that a value changed still shows."""
    sealed = "kind: Secret\ndata:\n  a: ENC[AES256_GCM,data:{},iv:x,tag:y,type:str]\nsops:\n  version: 3\n"
    clone.commit(secret=sealed.format("QUJD"))
    sha = clone.commit(secret=sealed.format("REVG"))

    text = _text(read_diff(clone.path, sha))

    assert "add   a: ENC[sealed]" in text
    assert "QUJD" not in text and "REVG" not in text


@pytest.mark.parametrize("position", ["{}", "kind: ConfigMap\n---\n{}", "{}---\nkind: ConfigMap\nsops: no\n"])
def test_open_secret_is_not_shown(clone: Clone, position: str) -> None:
    """Somebody committed a Secret as it is: this page does not spread it."""
    secret = f"apiVersion: v1\nkind: Secret\ndata:\n  a: {CANARY}\n"
    sha = clone.commit(secret=position.format(secret))

    found = read_diff(clone.path, sha)

    assert CANARY not in repr(found)
    assert "not sealed" in found.files[0].note


OPEN = [
    pytest.param('{{"kind": "Secret", "data": {{"a": "{0}"}}}}', id="JSON"),
    pytest.param("{{kind: Secret, stringData: {{a: {0}}}}}", id="flow"),
    pytest.param("kind: List\nitems:\n- kind: Secret\n  data: {{a: {0}}}\n", id="in a List"),
    pytest.param("kind: SecretList\nitems:\n- data: {{a: {0}}}\n", id="in a SecretList"),
    pytest.param("kind: Secret # mine\ndata:\n  a: {0}\n", id="with a comment"),
    pytest.param("kind: 'Secret'\ndata:\n  a: {0}\n", id="quoted"),
    pytest.param(
        "kind: Secret\nstringData:\n  a: {0}\nsops:\n  version: 3\n", id="with sops beside plain text"
    ),
    pytest.param("kind: Secret\ndata: [{0}\n", id="that cannot be read"),
]


@pytest.mark.parametrize("form", OPEN)
def test_open_secret_of_any_form(clone: Clone, form: str) -> None:
    """However it is written, on the new side or on the old."""
    first = clone.commit(secret=form.format(CANARY))
    second = clone.commit(secret="kind: ConfigMap\n")
    third = clone.commit(secret=None)

    for sha in (first, second):
        found = read_diff(clone.path, sha)
        assert CANARY not in repr(found) and "not sealed" in found.files[0].note
    assert "not sealed" not in read_diff(clone.path, third).files[0].note


@pytest.mark.parametrize("kind", ["Secret", "Credential"])
def test_the_commit_that_sealed_it(clone: Clone, kind: str) -> None:
    """Its old side has the plain text: neither side of the file is shown, for any kind that is sealed."""
    clone.commit(thing=f"kind: {kind}\ndata:\n  a: {CANARY}\n")
    value = "ENC[AES256_GCM,data:QUJD,iv:x,tag:y,type:str]"
    sha = clone.commit(thing=f"kind: {kind}\ndata:\n  a: {value}\nsops:\n  version: 3\n")

    found = read_diff(clone.path, sha)

    assert CANARY not in repr(found)
    assert "not sealed" in found.files[0].note


def test_what_only_names_a_secret_is_shown(clone: Clone) -> None:
    """A reference is no secret, and neither is a ConfigMap in the file of a sealed Secret."""
    sealed = "kind: Secret\ndata:\n  a: ENC[AES256_GCM,data:QUJD,iv:x,tag:y,type:str]\nsops:\n  version: 3\n"
    release = "kind: HelmRelease\nspec:\n  valuesFrom:\n  - kind: Secret\n    name: values\n"

    sha = clone.commit(release=release, mixed=f"{sealed}---\nkind: ConfigMap\ndata: {{a: b}}\n")

    assert [file.note for file in read_diff(clone.path, sha).files] == ["", ""]


def test_large_and_binary_files(clone: Clone) -> None:
    """They are named, not shown."""
    sha = clone.commit(binary=b"\xff\xfe\x00", large="x" * (diffs.FILE_BYTES + 1), long="a\n" * 3000)

    notes = {file.path: file.note for file in read_diff(clone.path, sha).files}

    assert "not text" in notes["binary.yaml"]
    assert "larger" in notes["large.yaml"]
    assert "lines" in notes["long.yaml"]


def test_many_files(clone: Clone) -> None:
    """A bound on files, and how many are beyond it."""
    sha = clone.commit(**{f"f{number:03}": "a: 1\n" for number in range(diffs.FILES + 5)})

    found = read_diff(clone.path, sha)

    assert (len(found.files), found.more) == (diffs.FILES, 5)


@pytest.mark.parametrize(
    ("namespace", "branch", "sha", "word"),
    [
        ("shop", "main", "0" * 40, "no such commit"),
        ("depot", "main", "0" * 40, "not on this machine"),
        ("../../..", "main", "0" * 40, "not the id"),
        ("shop", "main", "HEAD; rm", "not the id"),
        ("shop", "main", "--help", "not the id"),
    ],
)
def test_what_cannot_be_shown(clone: Clone, namespace: str, branch: str, sha: str, word: str) -> None:
    """A reason, and nothing outside the writers' folders."""
    clone.commit(menu="a: 1\n")

    with pytest.raises(DiffUnavailable, match=word):
        find_clone(clone.state, namespace, "repo", branch=branch, sha=sha)


def test_shallow_clone(clone: Clone, tmp_path: Path) -> None:
    """The commit before is not there: all files as new, and a note that says so."""
    clone.commit(menu="a: 1\n")
    sha = clone.commit(menu="a: 2\n")
    shallow = tmp_path / "workers" / "shop" / "repo" / "other" / "repos" / "abc"
    clone.git("clone", "--quiet", "--bare", "--depth", "1", f"file://{clone.tree}", str(shallow))

    found = read_diff(shallow, sha)

    assert "not in the clone" in found.note
    assert found.files[0].status == "added"
