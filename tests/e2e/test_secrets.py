"""Sensitive objects from outside: sealed for the target's recipients, or visibly not written."""

from __future__ import annotations

import os
import re
from typing import Any

import pyrage
import yaml

from reverser.kube.paths import core_path
from reverser.trust.sealing import Sealer
from tests.e2e.operator import Operator
from tests.e2e.trust import (
    AGE,
    ENCRYPTION,
    SECRETS,
    age_identity,
    can_read,
    change,
    change_secret,
    decrypted,
    sealed_secrets,
    secret,
    shows,
)
from tests.e2e.workspace import Workspace, until

MARKER = "zq-MARKER-7719"
SEALED = {"resource": "secrets", "suffix": ".sops.yaml"}


def live_data(space: Workspace, name: str) -> dict[str, str]:
    found = space.kube.get(space.path("secrets", name))
    return dict(found.get("data") or {})


def plain_secret(space: Workspace, name: str, value: str) -> str:
    return (
        f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: {name}\n  namespace: {space.namespace}\n"
        f"stringData:\n  pin: {value}\n"
    )


def test_a_secret_is_mirrored_sealed(space: Workspace) -> None:
    """J01, J06, J08, J10: the form of the file, quiet where nothing changed, whole where something did, no
    last-applied annotation.
    """
    sealed_secrets(space)
    made = {"pin": f"{MARKER}-pin", "note": f"line1\n{MARKER}-two\n"}
    applied = {"kubectl.kubernetes.io/last-applied-configuration": f'{{"stringData": "{MARKER}"}}'}
    secret(space, "safe", made, annotations=applied)  # type: ignore[arg-type]
    text = space.in_git("safe", **SEALED)
    identity = age_identity(space)
    document = yaml.safe_load(text)
    assert document["metadata"] == {"name": "safe", "namespace": space.namespace}
    assert document["type"] == "Opaque"
    assert set(document["data"]) == {"pin", "note"}
    assert all(value.startswith("ENC[") for value in document["data"].values())
    assert document["sops"]["mac"].startswith("ENC[")
    rules = yaml.safe_load(space.git.read("live/.sops.yaml") or b"")
    (recipients,) = (group["age"] for rule in rules["creation_rules"] for group in rule["key_groups"])
    assert [entry["recipient"] for entry in document["sops"]["age"]] == recipients
    plain = decrypted(text, identity)
    assert (plain["data"], plain["type"]) == (live_data(space, "safe"), "Opaque")
    assert [path for path in space.git.files() if "/secrets/" in path] == [space.file("safe", **SEALED)]
    until(
        lambda: "secrets" in space.condition("gittargets", "gt", "EncryptionConfigured").get("message", ""),
        "the Secret with the key of this very target is named",
    )
    message = space.condition("gittargets", "gt", "EncryptionConfigured")["message"]
    assert f"secrets {space.namespace}/age (OwnAgeKey)" in message
    assert space.is_condition("gittargets", "gt", "EncryptionConfigured", "True", "OK")

    path = space.path("secrets", "safe")
    space.kube.patch(path, {"metadata": {"annotations": {"kubectl.kubernetes.io/x": "1"}}})
    space.kube.patch(path, {"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": "x"}}})
    space.quiet()
    tip = space.git.tip()
    change_secret(space, "safe", {"pin": f"{MARKER}-new"})
    until(lambda: space.git.tip() != tip, "the change is committed")
    after = space.git.read(space.file("safe", **SEALED)) or b""
    assert decrypted(after, identity)["data"] == live_data(space, "safe")
    assert not set(re.findall(rb"ENC\[[^]]+\]", text)) & set(re.findall(rb"ENC\[[^]]+\]", after))
    assert not space.git.contains(MARKER.encode())
    assert space.subjects()[0] == "[UPDATE] v1/secrets/safe"
    space.delete("safe", "secrets")
    space.gone_from_git("safe", **SEALED)


def test_secrets_wait_for_encryption_and_others_do_not(space: Workspace) -> None:
    """J03: without encryption a Secret is named and not written; with it, it comes without being touched."""
    space.base(rules=(SECRETS,))
    secret(space, "safe", {"pin": f"{MARKER}-pin"})
    space.configmap("menu")
    space.in_git("menu")
    until(
        lambda: "secrets" in space.condition("gittargets", "gt", "EncryptionConfigured").get("message", ""),
        "the condition names the Secret",
    )
    message = space.condition("gittargets", "gt", "EncryptionConfigured")["message"]
    assert f"{space.namespace}/safe (EncryptionNotConfigured)" in message
    events = space.kube.list(core_path("events", namespace=space.namespace)).items
    told = [event["message"] for event in events if event["reason"] == "NotSealed"]
    assert told
    assert not any(MARKER in event["message"] for event in events)
    assert not [path for path in space.git.files() if "safe" in path]
    change(space, "gittargets", "gt", {"encryption": ENCRYPTION})
    text = space.in_git("safe", seconds=40, **SEALED)
    assert decrypted(text, age_identity(space))["data"] == live_data(space, "safe")
    assert not space.git.contains(MARKER.encode())
    until(
        lambda: "safe" not in space.condition("gittargets", "gt", "EncryptionConfigured")["message"],
        "the condition no longer names the Secret",
        40,
    )


def test_an_edited_sealed_file_is_sealed_again(space: Workspace) -> None:
    """J20 of the journal: what a person did to a sealed file (garbled it, so that its MAC is wrong; sealed
    it for somebody else) is replaced from the cluster by the next replay, and untouched neighbours stay.
    """
    names = ("garbled", "foreign", "kept")
    for name in names:
        secret(space, name, {"pin": f"{MARKER}-{name}"})
    sealed_secrets(space)
    texts = {name: space.in_git(name, **SEALED) for name in names}
    identity = age_identity(space)
    stranger = str(pyrage.x25519.Identity.generate().to_public())
    swapped = re.sub(rb"ENC\[AES256_GCM,data:[^,]*,", b"ENC[AES256_GCM,data:AAAA,", texts["garbled"])
    foreign = Sealer().seal(plain_secret(space, "foreign", "other").encode(), [stranger])
    space.seed(
        {
            space.file("garbled", **SEALED): swapped.decode(),
            space.file("foreign", **SEALED): foreign.decode(),
        }
    )
    assert not can_read(space.git.read(space.file("garbled", **SEALED)) or b"", identity)
    commits = len(space.subjects())
    rules = [{**SECRETS, "operations": ["CREATE", "UPDATE"]}]
    change(space, "watchrules", "wr", {"rules": rules})  # another rule, so the type is replayed

    def repaired() -> bool:
        return all(can_read(space.git.read(space.file(name, **SEALED)) or b"", identity) for name in names)

    until(repaired, "all can be read again", 60)
    for name in names:
        text = space.git.read(space.file(name, **SEALED)) or b""
        assert decrypted(text, identity)["data"] == live_data(space, name)
    assert space.git.read(space.file("kept", **SEALED)) == texts["kept"]
    space.quiet(4)
    assert len(space.subjects()) == commits + 1


def test_awkward_values(space: Workspace) -> None:
    """J05: any bytes come back identical, and a data key named sops confuses nobody."""
    sealed_secrets(space)
    values: dict[str, bytes | str] = {
        "all": bytes(range(256)),
        "empty": b"",
        "big": os.urandom(300 * 1024),
        "looks": "ENC[x]",
        "sops": "mac",
        ".dockerconfigjson": "{}",
        "tls.crt": "-----BEGIN X-----\r\nAA==\r\n-----END X-----\r\n",
    }
    secret(space, "odd", values)
    identity = None
    text = space.in_git("odd", **SEALED)
    identity = age_identity(space)
    assert decrypted(text, identity)["data"] == live_data(space, "odd")
    change_secret(space, "odd", {"sops": "other"})
    until(
        lambda: (
            decrypted(space.git.read(space.file("odd", **SEALED)) or b"", identity)["data"]
            == live_data(space, "odd")
        ),
        "the change of key sops",
    )
    space.delete("odd", "secrets")
    space.gone_from_git("odd", **SEALED)


def test_what_stands_in_git_already(space: Workspace) -> None:
    """J13, J15, Z18: a plain Secret is sealed at its path, one among others moves to its own file, a sealed
    bundle is left but for deletions.
    """
    key = pyrage.x25519.Identity.generate()
    recipient = str(key.to_public())
    bundle = b"---\n".join(
        Sealer().seal(plain_secret(space, name, "old").encode(), [recipient]) for name in ("one", "two")
    )
    config = (
        f"# by hand\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  namespace: {space.namespace}\n"
        'data:\n  v: "1"\n'
    )
    space.seed(
        {
            "live/old/safe.yaml": plain_secret(space, "safe", "seeded"),
            "live/all.yaml": config + "---\n" + plain_secret(space, "mixed", "seeded"),
            "live/s.sops.yaml": bundle.decode(),
        }
    )
    for name in ("safe", "mixed", "one", "two"):
        secret(space, name, {"pin": f"{MARKER}-{name}"})
    space.configmap("c", {"v": "1"})
    recipients = {"publicKeys": [recipient]}
    sealed_secrets(space, encryption={"age": {"enabled": True, "recipients": recipients}})
    path = "live/old/safe.yaml"
    until(lambda: b"ENC[" in (space.git.read(path) or b""), "the plain Secret is sealed in place")
    assert decrypted(space.git.read(path) or b"", str(key))["data"] == live_data(space, "safe")
    moved = space.in_git("mixed", **SEALED)
    assert decrypted(moved, str(key))["data"] == live_data(space, "mixed")
    assert space.git.read("live/all.yaml") == config.encode()
    assert [path for path in space.git.files() if "safe" in path] == [path]
    assert space.git.read("live/s.sops.yaml") == bundle
    change_secret(space, "one", {"pin": f"{MARKER}-again"})
    space.quiet(4)
    assert space.git.read("live/s.sops.yaml") == bundle
    space.delete("one", "secrets")
    until(lambda: b"name: one" not in (space.git.read("live/s.sops.yaml") or b""), "one document is gone")
    assert b"name: two" in (space.git.read("live/s.sops.yaml") or b"")
    assert not space.git.contains(MARKER.encode())


def test_a_file_that_only_claims_to_be_encrypted(space: Workspace) -> None:
    """J16: the path is refused by the file's name and nothing is written in it."""
    name = f"live/{space.namespace}/secrets/x.sops.yaml"
    space.seed({name: plain_secret(space, "x", "seeded")})
    tip = space.git.tip()
    secret(space, "safe", {"pin": "1"})
    sealed_secrets(space)
    message = shows(space, "gittargets", "gt", "GitPathAccepted=False/UnsupportedContent")
    assert "secrets/x.sops.yaml" in message
    space.quiet(3)
    assert space.git.tip() == tip


def test_recipients_rotate(space: Workspace) -> None:
    """J18, pain 115, J20 of the journal, Z5: each change of the set seals everything once, in a commit of its
    own, for exactly that set; rules in Git are never overwritten, and a difference is told.
    """
    first, second = (pyrage.x25519.Identity.generate() for _ in range(2))

    def use(*keys: Any) -> dict[str, Any]:
        return {"age": {"enabled": True, "recipients": {"publicKeys": [str(k.to_public()) for k in keys]}}}

    names = ("a", "b", "c")
    for name in names:
        secret(space, name, {"pin": name})
    sealed_secrets(space, encryption=use(first))
    files = [space.file(name, **SEALED) for name in names]
    until(lambda: all(space.git.read(file) for file in files), "all are there")
    rules = space.git.read("live/.sops.yaml")

    def readers() -> set[tuple[bool, bool]]:
        texts = [space.git.read(file) or b"" for file in files]
        return {(can_read(text, str(first)), can_read(text, str(second))) for text in texts}

    assert readers() == {(True, False)}
    for keys, expected in (((first, second), (True, True)), ((second,), (False, True))):
        commits = len(space.subjects())
        change(space, "gittargets", "gt", {"encryption": use(*keys)})
        until(lambda wanted=expected: readers() == {wanted}, f"sealed for {expected}", 45)  # type: ignore[misc]
        space.quiet(4)
        assert len(space.subjects()) == commits + 1
    assert space.git.read("live/.sops.yaml") == rules
    until(
        lambda: ".sops.yaml" in space.condition("gittargets", "gt", "GitPathAccepted").get("message", ""),
        "the difference is told",
    )
    message = space.condition("gittargets", "gt", "GitPathAccepted")["message"]
    assert str(second.to_public()) in message
    change_secret(space, "a", {"pin": "other"})
    until(
        lambda: decrypted(space.git.read(files[0]) or b"", str(second))["data"] == live_data(space, "a"),
        "a live change for the present set",
    )
    assert not can_read(space.git.read(files[0]) or b"", str(first))


def test_two_targets_two_recipient_sets(space: Workspace) -> None:
    """J21: the same Secret for two targets decrypts with its own key in each, never with the other's."""
    one, two = (pyrage.x25519.Identity.generate() for _ in range(2))
    sets = [
        {"age": {"enabled": True, "recipients": {"publicKeys": [str(k.to_public())]}}} for k in (one, two)
    ]
    secret(space, "safe", {"pin": "1"})
    sealed_secrets(space, encryption=sets[0])
    space.target("gt2", path="other", encryption=sets[1])
    space.rule((SECRETS,), name="wr2", target="gt2")
    space.wait_streams("gt2")
    texts = [space.in_git("safe", root=root, **SEALED) for root in ("live", "other")]
    assert [[can_read(text, str(key)) for key in (one, two)] for text in texts] == [
        [True, False],
        [False, True],
    ]


def test_failing_encryption_deletes_nothing(space: Workspace, operator: Operator) -> None:
    """J23: without its age Secret the target is blocked; a restart neither sweeps nor changes the file."""
    secret(space, "age", {"k.agekey": str(pyrage.x25519.Identity.generate())})
    recipients = {**AGE["recipients"], "generateWhenMissing": False}  # type: ignore[dict-item]
    sealed_secrets(space, encryption={**ENCRYPTION, "age": {"enabled": True, "recipients": recipients}})
    secret(space, "safe", {"pin": "1"})
    text = space.in_git("safe", **SEALED)
    space.delete("age", "secrets")
    shows(space, "gittargets", "gt", "EncryptionConfigured=False/MissingSecret", seconds=45)
    assert operator.stop() == 0
    operator.start()
    shows(space, "gittargets", "gt", "Stalled=True/EncryptionNotConfigured")
    space.quiet(4)
    assert space.git.read(space.file("safe", **SEALED)) == text
