"""Files are cut into documents and put together again without losing a byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitwriter.manifests.loading import load_document
from gitwriter.manifests.splitting import DocumentKind, append_document, remove_document, split_documents

CONTENT, EMPTY, DIRECTIVES = DocumentKind.CONTENT, DocumentKind.EMPTY, DocumentKind.DIRECTIVES


@pytest.mark.parametrize(
    ("data", "bodies"),
    [
        (b"", [(b"", EMPTY)]),
        (b"# c\n---\na: 1\n", [(b"# c\n", EMPTY), (b"a: 1\n", CONTENT)]),
        (b"\n---\na: 1\n", [(b"\n", EMPTY), (b"a: 1\n", CONTENT)]),
        (b"---\na: 1\n---\n", [(b"a: 1\n", CONTENT), (b"", EMPTY)]),
        (
            b"a: 1\n---  \nb: 1\n--- # x\nc: 1",
            [(b"a: 1\n", CONTENT), (b"b: 1\n", CONTENT), (b"c: 1", CONTENT)],
        ),
        (b"a: |\n  ---\n  x\n", [(b"a: |\n  ---\n  x\n", CONTENT)]),
        (b"a: >\n  x\n ---\n", [(b"a: >\n  x\n ---\n", CONTENT)]),
        (b"a: 1\n...\nb: 2\n", [(b"a: 1\n", CONTENT), (b"b: 2\n", CONTENT)]),
        (b"a: 1\n...\n# end\n", [(b"a: 1\n...\n# end\n", CONTENT)]),
        (b"a: 1\n...\n---\nb: 2\n", [(b"a: 1\n...\n", CONTENT), (b"b: 2\n", CONTENT)]),
        (b"\xef\xbb\xbf---\r\na: 1\r\n---\r\nb: 1\r\n", [(b"a: 1\r\n", CONTENT), (b"b: 1\r\n", CONTENT)]),
        (b"--- {a: 1}\n--- |\n x\n", [(b"{a: 1}\n", CONTENT), (b"|\n x\n", CONTENT)]),
        (b"---a: 1\n----\n", [(b"---a: 1\n----\n", CONTENT)]),
        (b"%YAML 1.2\n---\na: 1\n", [(b"%YAML 1.2\n", DIRECTIVES), (b"a: 1\n", CONTENT)]),
    ],
)
def test_splitting(data: bytes, bodies: list[tuple[bytes, DocumentKind]]) -> None:
    """Separators stand in column 0; text before the first one is a document of its own."""
    assert [(document.body(data), document.kind) for document in split_documents(data)] == bodies


PIECES = st.sampled_from(
    [
        b"---",
        b"--- # c",
        b"---\t",
        b"...",
        b"a: 1",
        b"  b: |",
        b"    ---",
        b"# c",
        b"",
        b"%YAML 1.2",
        b"----",
        b" ---",
        b"- x",
    ]
)


@given(st.lists(st.tuples(PIECES, st.sampled_from([b"\n", b"\r\n"]))), st.booleans(), st.booleans())
def test_joining_all_parts_gives_the_file(lines: list[tuple[bytes, bytes]], bom: bool, cut: bool) -> None:
    """Separators and bodies cover the file without gap or overlap."""
    data = (b"\xef\xbb\xbf" if bom else b"") + b"".join(text + end for text, end in lines)
    data = data.rstrip(b"\r\n") if cut else data
    documents = split_documents(data)
    joined = b"".join(data[document.separator_start : document.end] for document in documents)
    assert (b"\xef\xbb\xbf" if bom else b"") + joined == data
    assert [document.index for document in documents] == list(range(len(documents)))


A, B, C = b"kind: A\n", b"# about b\nkind: B\nd: |+\n  x\n\n", b"kind: C # last"


@pytest.mark.parametrize(
    ("data", "index", "after"),
    [
        (A + b"---\n" + B + b"---\n" + C, 0, B + b"---\n" + C),
        (A + b"---\n" + B + b"---\n" + C, 1, A + b"---\n" + C),
        (A + b"---\n" + B + b"---\n" + C, 2, A + b"---\n" + B),
        (b"---\n" + A + b"--- # b\n" + B, 0, b"--- # b\n" + B),
        (b"---\n" + A + b"---\n" + B, 1, b"---\n" + A),
        (A + b"---\n" + B + b"...\n", 1, A),
        (A + b"...\n---\n" + B, 0, B),
        (b"# licence\n---\n" + A + b"---\n" + B, 1, b"# licence\n---\n" + B),
        (b"# licence\n---\n" + A, 1, None),
        (A, 0, None),
        (A + b"---\n", 0, None),
        (b"%YAML 1.2\n---\n" + A + b"---\n" + B, 1, B),
        (b"\xef\xbb\xbf" + A + b"---\n" + B, 0, b"\xef\xbb\xbf" + B),
        (b"\xef\xbb\xbf---\r\nkind: A\r\n---\r\nkind: B\r\n", 0, b"\xef\xbb\xbf---\r\nkind: B\r\n"),
    ],
)
def test_removing(data: bytes, index: int, after: bytes | None) -> None:
    """Only the document and its separator go; None when no content is left. Covers L08."""
    assert remove_document(data, index) == after


def test_removing_what_is_not_there() -> None:
    """An index out of range is the caller's mistake."""
    for index in (1, -1):
        with pytest.raises(IndexError):
            remove_document(A, index)


@pytest.mark.parametrize(
    ("data", "after"),
    [
        (A, A + b"---\nkind: New\n"),
        (b"", b"kind: New\n"),
        (b"\n\n", b"kind: New\n"),
        (C, C + b"\n---\nkind: New\n"),
        (b"kind: A\r\n", b"kind: A\r\n---\r\nkind: New\r\n"),
        (A + b"---\n", A + b"---\nkind: New\n"),
        (A + b"---", A + b"---\nkind: New\n"),
        (A + b"...\n", A + b"...\n---\nkind: New\n"),
        (b"a: |\n  x", b"a: |-\n  x\n---\nkind: New\n"),
        (b"a:\n- b: >2+\n    x", b"a:\n- b: >2-\n    x\n---\nkind: New\n"),
    ],
)
def test_appending(data: bytes, after: bytes) -> None:
    """Existing bytes stay, apart from what keeps the last value the same when a newline has to be added."""
    assert append_document(data, b"kind: New\n") == after
    if data.strip():
        before = [load_document(d.body(data)).value for d in split_documents(data) if d.kind is CONTENT]
        result = [load_document(d.body(after)).value for d in split_documents(after) if d.kind is CONTENT]
        assert result == [*before, {"kind": "New"}]


def test_a_bundle_of_two_thousand_documents_splits_quickly() -> None:
    """Five megabytes and two thousand documents are ordinary."""
    document = b"apiVersion: v1\nkind: ConfigMap\ndata:\n" + b"  key: value of some length here\n" * 80
    data = b"---\n".join([document] * 2000)
    assert len(data) > 5_000_000
    assert len(split_documents(data)) == 2000
