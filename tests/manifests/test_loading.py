"""Documents are read as Kubernetes reads them; what cannot be read safely is refused by name, at once."""

from __future__ import annotations

import time

import pytest

from gitwriter.manifests.facts import DocumentClass, read_facts
from gitwriter.manifests.limits import Limits
from gitwriter.manifests.loading import YamlError, load_document

from .readers import kubernetes_reads

HEAD = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: ns\n"


def bomb(levels: int) -> bytes:
    """A document whose aliases expand to 9 to the power of levels."""
    lines = [HEAD, b"a0: &a0 [x, x, x, x, x, x, x, x, x]\n"]
    for level in range(1, levels):
        aliases = b", ".join([b"*a%d" % (level - 1)] * 9)
        lines.append(b"a%d: &a%d [%s]\n" % (level, level, aliases))
    return b"".join(lines)


def test_identity_and_value() -> None:
    """Identity, value and the encrypted mark come from one read."""
    loaded = load_document(b"\xef\xbb\xbf" + HEAD + b"data: {mode: 0644, on: yes}\nsops: {mac: x}\n")
    assert (loaded.api_version, loaded.kind, loaded.namespace, loaded.name) == ("v1", "ConfigMap", "ns", "a")
    assert loaded.value["data"] == {"mode": 420, "true": True}
    assert loaded.is_sops
    assert loaded.constructs == frozenset()


JSON_PAIR = (
    b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},'
    b'"data":{"e":" \\ud83d\\uDE00 x","f":"\\\\ud83d\\\\ude00"}}\n'
)


@pytest.mark.parametrize("head", [b"", b"\xef\xbb\xbf", b" \r\n"])
def test_json_may_write_a_character_as_two_escapes(head: bytes) -> None:
    """As Kubernetes reads a document that begins with a brace; positions are those of the text."""
    loaded = load_document(head + JSON_PAIR)
    assert loaded.value["data"] == {"e": " \U0001f600 x", "f": "\\ud83d\\ude00"}
    (fact,) = read_facts(head + JSON_PAIR).documents
    assert (fact.is_krm, fact.name) == (True, "a")
    root = loaded.tree.root
    assert root is not None
    last = root.entries[-1][1].entries[-1][1]
    assert loaded.text[last.start : last.end] == '"\\\\ud83d\\\\ude00"'
    if not head:
        assert kubernetes_reads(JSON_PAIR.decode())["data"] == loaded.value["data"]


@pytest.mark.parametrize(
    "body",
    [
        HEAD + b'data: {e: "\\ud83d\\ude00"}\n',  # no JSON: Kubernetes' YAML reader refuses it too
        b'{"apiVersion": "v1", "e": "\\ud83d"}\n',
        b'{"apiVersion": "v1", "e": "\\ud83d\\u0041"}\n',
    ],
)
def test_half_a_character_is_refused(body: bytes) -> None:
    """What YAML cannot read and JSON does not say stays invalid."""
    with pytest.raises(YamlError):
        load_document(body)
    (fact,) = read_facts(body).documents
    assert fact.document_class is DocumentClass.INVALID


def test_a_sops_field_without_mac_is_plain_content() -> None:
    """An object that happens to have a field `sops` is not encrypted. Covers K16."""
    assert not load_document(HEAD + b"sops: {x: 1}\n").is_sops


@pytest.mark.parametrize(
    ("text", "construct"),
    [
        ("a: &x 1\n", "anchor"),
        ("a: &x 1\nb: *x\n", "alias"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", "merge-key"),
        ("a: 1\na: 2\n", "duplicate-key"),
        ("a: {1: x, '1': y}\n", "duplicate-key"),
        ("a: !!binary aGk=\n", "binary"),
        ("a: !include x\n", "local-tag"),
    ],
)
def test_constructs_are_named(text: str, construct: str) -> None:
    """Everything that an object cannot carry is reported. Covers L13."""
    assert construct in load_document(text.encode()).constructs


def test_core_tags_and_quoted_merge_keys_are_ordinary() -> None:
    """`!!str` is fine, `'<<'` is a plain key."""
    loaded = load_document(b"a: !!str 1\n'<<': 2\n")
    assert loaded.constructs == frozenset()
    assert loaded.value == {"a": "1", "<<": 2}


@pytest.mark.parametrize(
    "text",
    [
        "b: &b {x: 1, y2: 2}\nd:\n  x: 9\n  <<: *b\n",
        "b: &b {x: 1, y2: 2}\nc: &c {x: 3, z: 3}\nd:\n  <<: [*b, *c]\n  z: 7\n",
        "b: &b {x: 1}\nd:\n  <<: *b\n  x: null\n",
        "d:\n  <<: {a: 1}\n",
        "d: &d [1, 2]\ne: *d\n? f\n: *d\n",
        'd: "folded\n  line \\\n  end"\ne: plain\n  over\n\n  lines\n',
        "d: >-\n  folded\n  text\n\n    more\n  end\n",
        "1: a\n1.5: b\nyes: c\n0o17: d\n1e3: e\n2001-01-01: f\n",
    ],
)
def test_merges_keys_and_wrapped_text_read_as_kubectl_reads_them(text: str) -> None:
    """Order of merges, keys that are no strings, folded text: all as the Kubernetes reader has it."""
    document = "apiVersion: v1\nkind: Thing\nmetadata: {name: thing}\n" + text
    assert load_document(document.encode()).value == kubernetes_reads(document)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (HEAD + b"d: [1\n", "invalid-yaml"),
        (HEAD + b"d:\n\ta: 1\n", "invalid-yaml"),
        (HEAD + b"d: \xff\xfe\n", "invalid-yaml"),
        (HEAD + b"d: a\x00b\n", "invalid-yaml"),
        (HEAD + b"d: *nowhere\n", "invalid-yaml"),
        (HEAD + b"d: {<<: 3}\n", "invalid-yaml"),
        (HEAD + b"? [a]\n: 1\n", "invalid-yaml"),
        (HEAD + b"~: 1\n", "invalid-yaml"),
        (HEAD + b"d: !!int abc\n", "invalid-yaml"),
        (HEAD + b"---\n" + HEAD, "invalid-yaml"),
        (HEAD + b"d: &a [*a]\n", "recursive-alias"),
        (HEAD + b"d: " + b"[" * 101 + b"]" * 101, "too-deep"),
        (HEAD + b"".join(b" " * i + b"k:\n" for i in range(500)), "too-deep"),
        (HEAD + b"d: " + b"[" * 100_000, "invalid-yaml"),
        (HEAD + b"d: " + b"x" * 10_000_000, "too-big"),
    ],
)
def test_bad_input_is_refused_by_name_within_a_second(body: bytes, reason: str) -> None:
    """A named refusal for each kind of bad input, never a hang and never a crash."""
    started = time.process_time()
    with pytest.raises(YamlError) as refusal:
        load_document(body)
    assert refusal.value.reason == reason
    assert time.process_time() - started < 1.0


def test_an_error_names_line_and_column() -> None:
    """The position counts from 1 and stands in the message too."""
    with pytest.raises(YamlError) as refusal:
        load_document(b"a: 1\nb: [1\nc: 2\n")
    assert refusal.value.line == 3
    assert "line 3" in str(refusal.value)


def test_an_alias_bomb_costs_nothing_and_keeps_its_identity() -> None:
    """Nine to the tenth nodes: read for identity only, in no time. Covers L13."""
    started = time.process_time()
    loaded = load_document(bomb(10))
    assert time.process_time() - started < 1.0
    assert "excessive-aliases" in loaded.constructs
    assert (loaded.kind, loaded.name) == ("ConfigMap", "a")
    assert "a9" not in loaded.value


def test_limits_are_configurable() -> None:
    """Depth and size come from the limits."""
    assert load_document(b"a: " + b"[" * 150 + b"]" * 150, limits=Limits(depth=200)).value
    with pytest.raises(YamlError):
        load_document(b"a: [[1]]\n", limits=Limits(depth=2))
