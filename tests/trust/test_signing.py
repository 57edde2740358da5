"""Commit signatures, judged by git and ssh-keygen themselves."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

from gitwriter.git.remote import Remote
from gitwriter.git.repository import BareRepository
from reverser.errors import SecretMalformed, SecretMissing
from reverser.trust.signing import SigningKey, generate_signing_entries, load_signing_key
from tests.git.helpers import ALICE, OPERATOR, WHEN, bare, git, git_bytes
from tests.git.servers import ssh_keygen

KEYS = {
    "ed25519": ["-t", "ed25519"],
    "rsa": ["-t", "rsa", "-b", "3072"],
    "ecdsa256": ["-t", "ecdsa", "-b", "256"],
    "ecdsa384": ["-t", "ecdsa", "-b", "384"],
    "ecdsa521": ["-t", "ecdsa", "-b", "521"],
}


def verify(repository: Path, commit: str, key: SigningKey, folder: Path) -> str:
    allowed = folder / "allowed"
    allowed.write_text(f'{OPERATOR.email} namespaces="git" {key.public}\n')
    done = subprocess.run(
        [
            "git",
            "--git-dir",
            str(repository),
            "-c",
            f"gpg.ssh.allowedSignersFile={allowed}",
            "verify-commit",
            commit,
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("kind", list(KEYS))
def test_git_verifies_every_kind_of_key(tmp_path: Path, kind: str) -> None:
    """A16, A18, S5: a chain of signed commits verifies, is sound, and keeps its message bytes."""
    pem = ssh_keygen(tmp_path / "key", *KEYS[kind], passphrase="secret words").read_bytes()
    key = load_signing_key({"signing.key": pem, "passphrase": b"secret words"}, name="shop/sig")
    assert key.public == " ".join((tmp_path / "key.pub").read_text().split()[:2])
    origin = bare(tmp_path / "origin.git")
    remote = Remote.of(f"file://{origin}")
    messages = [b"one", b"# two\n\nlines \n\n", "drei ü".encode()]
    commits: list[str] = []
    with BareRepository.open_or_create(tmp_path / "c", remote.url.text) as repo:
        with repo.session() as session:
            for number, message in enumerate(messages):
                made = session.commit(
                    parent=commits[-1] if commits else None,
                    files={f"live/{number}": message},
                    author=ALICE,
                    committer=OPERATOR,
                    when=WHEN,
                    message=message,
                    signer=key,
                )
                commits.append(made.commit)
        repo.push(remote, branch="main", new=commits[-1], expected=None)
    assert git(origin, "rev-list", "--reverse", "main").split() == commits
    git(origin, "fsck", "--strict", "--no-dangling")
    for commit, message in zip(commits, messages, strict=True):
        assert f'Good "git" signature for {OPERATOR.email}' in verify(origin, commit, key, tmp_path)
        assert git_bytes(origin, "cat-file", "commit", commit).split(b"\n\n", 1)[1] == message
    if kind == "rsa":
        raw = git_bytes(origin, "cat-file", "commit", commits[0])
        armor = raw.split(b"gpgsig ", 1)[1].split(b"\n\n")[0].split(b"\n")
        blob = base64.b64decode(b"".join(line.strip() for line in armor[1:-1]))
        assert b"rsa-sha2-512" in blob


def test_generated_keys(tmp_path: Path) -> None:
    """S3: a new ed25519 key with its public half; encrypted where the Secret has a passphrase; an
    existing key is never replaced."""
    entries = generate_signing_entries({})
    key = load_signing_key(entries, name="n/s")
    assert entries["signing.pub"].decode() == key.public + "\n"
    assert key.public.startswith("ssh-ed25519 ")
    locked = generate_signing_entries({"passphrase": b"pw", "other": b"x"})
    assert set(locked) == {"signing.key", "signing.pub"}
    load_signing_key({**locked, "passphrase": b"pw"}, name="n/s")
    with pytest.raises(SecretMalformed):
        load_signing_key(locked, name="n/s")
    assert generate_signing_entries(entries) == {}


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ({}, SecretMissing, "missing signing.key"),
        ({"signing.key": b"garbage"}, SecretMalformed, "not a PEM private key"),
        ({"passphrase": b"CANARY"}, SecretMissing, "missing signing.key"),
    ],
)
def test_unusable_secrets(data: dict[str, bytes], error: type[Exception], words: str) -> None:
    """S1, S2: each reason names the Secret and the entry."""
    with pytest.raises(error, match=words) as caught:
        load_signing_key(data, name="shop/sig")
    assert "shop/sig" in str(caught.value)
    assert "CANARY" not in str(caught.value)


def test_passphrase_rules() -> None:
    """S2: a wrong passphrase is an error, and so is one for a key that has none."""
    locked = generate_signing_entries({"passphrase": b"right"})
    plain = generate_signing_entries({})
    for data in ({**locked, "passphrase": b"wrong"}, {**plain, "passphrase": b"needless"}):
        with pytest.raises(SecretMalformed):
            load_signing_key(data, name="n/s")


def test_the_private_half_is_not_shown() -> None:
    """A key's textual form is its public half."""
    key = load_signing_key(generate_signing_entries({}), name="n/s")
    assert repr(key) == f"SigningKey({key.public})"


def test_a_failing_signer_leaves_no_commit(tmp_path: Path) -> None:
    """T16: when signing fails there is no commit, signed or not."""

    class Broken:
        def sign(self, payload: bytes) -> str:
            raise SecretMalformed("no key")

    with BareRepository.open_or_create(tmp_path / "c", "file:///x") as repo:
        with pytest.raises(SecretMalformed):
            repo.commit(
                parent=None,
                files={"a": b"1"},
                author=ALICE,
                committer=OPERATOR,
                when=WHEN,
                message=b"m",
                signer=Broken(),
            )
        left = git(repo.path, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)")
        assert "commit" not in left.split()
