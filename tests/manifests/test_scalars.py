"""Scalars are read as Kubernetes reads them, and plain text is text to every reader."""

from __future__ import annotations

import random

import pytest

from gitwriter.manifests.scalars import (
    BINARY_TAG,
    BOOL_TAG,
    INT_TAG,
    STR_TAG,
    double_quoted,
    key_text,
    number_text,
    plain_is_safe,
    plain_syntax_ok,
    resolve_plain,
    resolve_tagged,
    single_quoted,
)

from .readers import HEAD, kubernetes_reads, yaml_1_1_reads, yaml_1_2_reads

LOOKALIKES = (  # noqa: SIM905
    "y Y n N yes No oN on OFF true True tRUE ~ null Null nULL NULL 0o644 -0o17 -0b11 0b11 0b12 +0b11 1__0 "
    "0x_1 _1 1e400 .5 +.5 ._5 .1_0 12e03 1. .e3 +0x1F 08 0_8 1_000.5 0x1F.5 18446744073709551615 "
    "9223372036854775808 -9223372036854775808 18446744073709551616 2001-01-01 2001-1-1 12:30 190:20:30 "
    "0.1e-7 1e21 -0 -0.0 +1 + 1e 0x 0o 0b 00 0777 0O17 0X1f 0B1 1E3 1e+3 1_e3 5e-3 --1 -_1 0o9 0900 -0900 "
    "1.5_0 _ . .. 0x1p4 1p4 Infinity inf nan -.5 +.5e3 = 0_7 07_ 0b+01 1.10 1.2.3 v1.2 10.0.0.1 ::1 "
    "8080:80 012-345 1,000 - ---a 100m 1Gi "
).split()


def same(left: object, right: object) -> bool:
    """Equal, and text only where the other is text."""
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if numbers and not isinstance(left, bool) and not isinstance(right, bool):
        return left == right or float(left) == float(right)
    return type(left) is type(right) and left == right


def test_the_resolver_agrees_with_kubectl_on_lookalikes_and_random_tokens() -> None:
    """Every plain scalar resolves as kubectl resolves it. Covers K08, L05."""
    rnd = random.Random(11)
    alphabet = "0123456789+-.eExXoObB_:"
    tokens = LOOKALIKES + ["".join(rnd.choices(alphabet, k=rnd.randint(1, 7))) for _ in range(4000)]
    tokens = [t for t in dict.fromkeys(tokens) if plain_syntax_ok(t, flow=False)]
    read = kubernetes_reads(HEAD + "d:\n" + "".join(f"  k{i}: {t}\n" for i, t in enumerate(tokens)))["d"]
    wrong = [
        (token, resolve_plain(token), read[f"k{index}"])
        for index, token in enumerate(tokens)
        if not same(resolve_plain(token), read[f"k{index}"])
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9223372036854775807", 9223372036854775807),
        ("9007199254740993", 9007199254740993),
        ("12345678901234567890", 12345678901234567890),
        ("0644", 420),
        ("2024-01-01", "2024-01-01"),
        ("12:30:45", "12:30:45"),
        ("", None),
    ],
)
def test_integers_are_exact_and_dates_are_text(text: str, value: object) -> None:
    """No integer passes through floating point; dates and times stay strings."""
    assert resolve_plain(text) == value
    assert type(resolve_plain(text)) is type(value)


def test_tags_decide_the_type() -> None:
    """An explicit core tag wins over the looks; what does not fit it is an error."""
    assert resolve_tagged("12", STR_TAG) == "12"
    assert resolve_tagged("0x1F", INT_TAG) == 31
    assert resolve_tagged("yes", BOOL_TAG) is True
    assert resolve_tagged("aGk=", BINARY_TAG) == "hi"
    with pytest.raises(ValueError, match="tag int"):
        resolve_tagged("abc", INT_TAG)


def test_keys_become_json_keys() -> None:
    """A key that is no string becomes the text that Kubernetes makes of it."""
    assert [key_text(v) for v in ("a", True, False, 15, 1000.0, 1.5)] == [
        "a",
        "true",
        "false",
        "15",
        "1000",
        "1.5",
    ]
    with pytest.raises(ValueError, match="null"):
        key_text(None)


def test_safe_plain_text_is_text_to_all_readers_in_block_and_flow() -> None:
    """What the editor leaves unquoted reads back as the same string everywhere. Covers K06."""
    rnd = random.Random(5)
    alphabet = [*"abzYN019 .:-#,[]{}&*!|>'\"%@`\\/_~=<+?()^;$", ": ", " #", "- ", "é", "👋"]
    texts = ["".join(rnd.choices(alphabet, k=rnd.randint(1, 7))) for _ in range(4000)]
    texts = list(dict.fromkeys(texts + LOOKALIKES))
    for flow in (False, True):
        safe = [text for text in texts if plain_is_safe(text, flow=flow)]
        assert len(safe) > 500
        lines = (f"  k{i}: [{t}]\n" if flow else f"  k{i}: {t}\n" for i, t in enumerate(safe))
        document = HEAD + "d:\n" + "".join(lines)
        expected = {f"k{i}": [t] if flow else t for i, t in enumerate(safe)}
        assert kubernetes_reads(document)["d"] == expected
        assert yaml_1_1_reads(document)["d"] == expected
        if not flow:
            assert yaml_1_2_reads(document)["d"] == expected


def test_quotes_hold_any_text() -> None:
    """Double quotes take every character; single quotes refuse what they cannot show."""
    awkward = "a\x01\x7f\x85\u2028\ufeff\t\r\n\"'\\ é👋"
    assert yaml_1_1_reads(double_quoted(awkward)) == awkward
    assert single_quoted("it's") == "'it''s'"
    assert single_quoted("a\nb") is None


def test_numbers_are_spelt_for_every_reader() -> None:
    """Floats stay floats for a YAML 1.1 reader, integers never become floats. Covers K08."""
    for number in (0, -5, 2**63 - 1, 0.1, 1.0, 1e21, 1e-7, 123456789.123456789, -2.5e300):
        text = number_text(number)
        assert yaml_1_1_reads(text) == number
        assert type(yaml_1_1_reads(text)) is type(number)
        assert resolve_plain(text) == number
    with pytest.raises(ValueError, match="NaN"):
        number_text(float("nan"))
