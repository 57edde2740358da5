"""Edits of hand-written files in the styles that real repositories use, as a careful human would make them.

The cases stand in ``handwritten.txt``. ``@@ name flags`` begins one, ``>>>`` separates the file before from
the file after, ``|||`` another file that is equally right. The desired object is what the file after says.
Flags: ``crlf``, ``bom``, ``noeol`` (no final newline), ``i=N`` (document index). ``⇥`` stands for a tab,
``·`` for a blank that would be invisible.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gitwriter.manifests.editing import EditMode, Fallback, edit_document
from gitwriter.manifests.loading import load_document
from gitwriter.manifests.splitting import split_documents

_TEXT = (Path(__file__).parent / "handwritten.txt").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class Case:
    """One edit: the file before, and every file after that is right."""

    name: str
    index: int
    before: bytes
    after: tuple[bytes, ...]

    def desired(self) -> Any:
        """The object that the file after describes, with sorted keys as the API would show it."""
        body = split_documents(self.after[0])[self.index].body(self.after[0])
        return json.loads(json.dumps(load_document(body).value, sort_keys=True))


def _framed(text: str, flags: list[str]) -> bytes:
    text = text.replace("⇥", "\t").replace("·", " ")
    if "noeol" in flags:
        text = text.rstrip("\n")
    if "crlf" in flags:
        text = text.replace("\n", "\r\n")
    return (("\ufeff" if "bom" in flags else "") + text).encode()


def _cases() -> list[Case]:
    cases = []
    for block in re.split(r"(?m)^@@ ", _TEXT)[1:]:
        head, body = block.split("\n", 1)
        name, *flags = head.split()
        index = next((int(flag[2:]) for flag in flags if flag.startswith("i=")), 0)
        before, *after = (_framed(part, flags) for part in re.split(r"(?m)^(?:>>>|\|\|\|)\n", body))
        cases.append(Case(name, index, before, tuple(after)))
    return cases


CASES = _cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_edit_is_the_one_a_careful_human_would_make(case: Case) -> None:
    """Only the lines of what changed differ, and a second run changes nothing. Covers L01, L03, L11, L16."""
    desired = case.desired()
    result = edit_document(case.before, case.index, desired)
    assert result.data in case.after
    assert (result.mode, result.fallback) == (EditMode.PATCHED, Fallback.NONE), result.diagnostic
    assert edit_document(result.data, case.index, desired).mode is EditMode.NO_CHANGE


OPEN = "kind: A\nmetadata:\n  name: a\ndata:\n  # why\n  j: x # here\n  k: |\n    one\n    two"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("data", "after"),
    [
        ({"j": "x", "k": "one\ntwo"}, OPEN),
        ({"j": "x", "k": "one\ntwo\n"}, OPEN),
        ({"j": "z", "k": "one\ntwo\n"}, OPEN.replace("j: x", "j: z")),
        ({"j": "x", "k": "one\nthree\n"}, OPEN.replace("two", "three\n")),
        ({"j": "x", "k": "one\nthree"}, OPEN.replace("two", "three")),
        ({"j": "x", "k": "one\ntwo", "m": "z"}, OPEN.replace("|", "|-") + "\n  m: z"),
        ({"j": "x", "k": "one\ntwo\n", "m": "z"}, OPEN + "\n  m: z"),
        ({"j": "x", "k": "one\ntwo\n", "m": "z\n"}, OPEN + "\n  m: |\n    z\n"),
        ({"j": "x"}, OPEN[: OPEN.index("\n  k:")]),
    ],
)
def test_a_block_that_ends_the_file_without_a_newline(data: dict[str, str], after: str, newline: str) -> None:
    """kubectl reads a newline there, kustomize none: either is no change."""
    desired = {"kind": "A", "metadata": {"name": "a"}, "data": data}
    result = edit_document(OPEN.replace("\n", newline).encode(), 0, desired)
    assert result.data.decode() == after.replace("\n", newline)
    assert result.fallback is Fallback.NONE
    assert edit_document(result.data, 0, desired).mode is EditMode.NO_CHANGE


def test_an_open_block_keeps_its_neighbours_when_a_section_is_added() -> None:
    """The block's indicator changes; comments beside it stay."""
    desired = {
        "kind": "A",
        "metadata": {"name": "a"},
        "data": {"j": "x", "k": "one\ntwo"},
        "spec": {"x": 1},
    }
    result = edit_document(OPEN.encode(), 0, desired)
    assert result.data.decode() == OPEN.replace("|", "|-") + "\nspec:\n  x: 1"
    assert result.fallback is Fallback.NONE
