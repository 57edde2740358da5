"""Recipients of a target: union, order, generation, and the message for each bad entry."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pyrage
import pytest

from reverser.errors import ConfigInvalid, SecretMissing
from reverser.kinds.model import Encryption
from reverser.trust.age import check_encryption, generate_age_key, holds_key_of, resolve_recipients

ONE, TWO = (pyrage.x25519.Identity.generate() for _ in range(2))
PUBLIC_ONE, PUBLIC_TWO = str(ONE.to_public()), str(TWO.to_public())
DAMAGED = str(ONE)[:-1] + ("P" if str(ONE).endswith("Q") else "Q")
BOTH = Encryption(enabled=True, secret_name="age", extract_from_secret=True)
KEYS_ONLY = Encryption(enabled=True, public_keys=(PUBLIC_ONE,))


def test_union_is_unique_and_sorted() -> None:
    """E6: both sources, trimmed, without doubles; entries with other names are ignored."""
    settings = dataclasses.replace(BOTH, public_keys=(f" {PUBLIC_TWO}\n", PUBLIC_ONE))
    data = {
        "a.agekey": f"# created\n\n{ONE}\n".encode(),
        "b.agekey": f"{TWO}\r\n".encode(),
        "other": b"nonsense",
    }
    assert resolve_recipients(settings, data, namespace="shop") == tuple(sorted([PUBLIC_ONE, PUBLIC_TWO]))


def test_public_keys_alone_read_no_secret() -> None:
    """E5 of the gate: no Secret is needed where nothing is extracted."""
    assert resolve_recipients(KEYS_ONLY, None, namespace="shop") == (PUBLIC_ONE,)


@pytest.mark.parametrize(
    ("settings", "data", "words"),
    [
        ({"public_keys": (PUBLIC_ONE, "age1broken")}, {}, "publicKeys[1]"),
        ({"public_keys": (PUBLIC_ONE[:-1] + "1",)}, {}, "publicKeys[0]"),
        ({"public_keys": (PUBLIC_ONE.upper(),)}, {}, "publicKeys[0]"),
        ({}, {"a.agekey": b"\n# x\n"}, "a.agekey must contain one "),
        ({}, {"a.agekey": f"{ONE}\n{TWO}".encode()}, "a.agekey must contain exactly one "),
        ({}, {"a.agekey": b"hello CANARY"}, "a.agekey must contain AGE-SECRET-KEY identity"),
        ({}, {"a.agekey": b"AGE-PLUGIN-YUBIKEY-1CANARY"}, "a.agekey must contain AGE-SECRET-KEY identity"),
        ({}, {"a.agekey": DAMAGED.encode()}, "a.agekey holds a damaged"),
        ({}, {"a.agekey": b"\xff"}, "a.agekey must contain AGE-SECRET-KEY identity"),
        ({}, {"other": b"x"}, "requires at least one resolved recipient"),
        ({"secret_name": ""}, None, "encryption.secretRef.name must be set"),
        (
            {"extract_from_secret": False, "generate_when_missing": True},
            None,
            "generateWhenMissing=true requires extractFromSecret=true",
        ),
    ],
)
def test_bad_settings(settings: dict[str, object], data: dict[str, bytes] | None, words: str) -> None:
    """B11, E6: the culprit is named (index, Secret and entry, option), its content is not."""
    encryption = dataclasses.replace(BOTH, **settings)
    with pytest.raises(ConfigInvalid) as caught:
        resolve_recipients(encryption, data, namespace="shop")
    assert words in str(caught.value)
    assert caught.value.reason == "InvalidConfig"
    for secret in ("CANARY", str(ONE), str(ONE)[:40]):
        assert secret not in str(caught.value)


def test_unreadable_secret() -> None:
    """4.6: an absent Secret with generation off is MissingSecret and named."""
    with pytest.raises(SecretMissing, match="failed to fetch encryption secret shop/age") as caught:
        resolve_recipients(BOTH, None, namespace="shop")
    assert caught.value.reason == "MissingSecret"


def test_settings_without_effect() -> None:
    """Nothing is checked while encryption is off."""
    check_encryption(Encryption(enabled=False, generate_when_missing=True))


def test_generation() -> None:
    """E8, Z5: one entry named by the UTC date, zero padded, and the two annotations; never beside a key."""
    made = generate_age_key(["other"], now=datetime(2026, 7, 1, 1, tzinfo=UTC))
    assert made is not None
    assert list(made.data) == ["20260701.agekey"]
    settings = dataclasses.replace(BOTH, generate_when_missing=True)
    (recipient,) = resolve_recipients(settings, made.data, namespace="shop")
    assert made.annotations == {
        "configbutler.ai/age-recipient": recipient,
        "configbutler.ai/backup-warning": "REMOVE_AFTER_BACKUP",
    }
    assert "AGE-SECRET" not in repr(made)
    assert generate_age_key(["hand.agekey"], now=datetime.now(UTC)) is None


def test_keys_of_recipients_are_recognised_wherever_they_stand() -> None:
    """A private key of a recipient is found under any entry name, among comments, as age-keygen writes it."""
    mine, other = (pyrage.x25519.Identity.generate() for _ in range(2))
    recipients = [str(mine.to_public())]
    file = f"# created: now\n# public key: {mine.to_public()}\n{mine}\n".encode()
    assert holds_key_of([b"\xff\x00", file], recipients)
    assert holds_key_of([f"{other} {mine}".encode()], recipients)
    assert not holds_key_of([str(other).encode(), recipients[0].encode()], recipients)
    assert not holds_key_of([b"AGE-SECRET-KEY-1" + b"Q" * 58], recipients)
