"""Edits as a careful human would make them, as tables: what stands in `edits/`, one file for each trouble.

A case is a title, the changes (a JSON pointer and its new value, or `-` where it goes), the file before, and
the file after; several results may be equally right. `#index` names the document. Characters that nobody sees
in a table stand for themselves as ``·`` (a blank at the end of a line), ``→`` (tab), ``␍`` (carriage return),
``␀BOM`` (byte order mark); ``∅`` at the end says that the file lacks its final newline.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gitwriter.manifests.editing import EditMode, Fallback, edit_document, equal_as_kubernetes
from gitwriter.manifests.loading import load_document
from gitwriter.manifests.splitting import split_documents

from .changing import changed

FOLDER = Path(__file__).parent / "edits"
_SIGNS = {"→": "\t", "␍": "\r", "·": " ", "␀BOM": "\ufeff"}


@dataclass(frozen=True, slots=True)
class Case:
    """One edit: the document, its changes, and every right result."""

    title: str
    index: int
    changes: tuple[tuple[str, Any], ...]
    before: str
    after: tuple[str, ...]

    @property
    def desired(self) -> dict[str, Any]:
        """The object that the document should hold."""
        return changed(self.before, *self.changes, index=self.index)


def _text(table: str) -> str:
    for sign, meaning in _SIGNS.items():
        table = table.replace(sign, meaning)
    return table.removesuffix("∅\n")


def _case(part: str) -> Case:
    head, before, *after = part.split(">>> ")
    title, *lines = head.splitlines()
    index = 0
    changes: list[tuple[str, Any]] = []
    for line in lines:
        if line.startswith("#index "):
            index = int(line.removeprefix("#index "))
        elif line.endswith(" -"):
            changes.append((line.removesuffix(" -"), ...))
        else:
            pointer, value = line.split(" = ", 1)
            changes.append((pointer, json.loads(value)))
    results = tuple(_text(text.removeprefix("after\n")) for text in after)
    return Case(title, index, tuple(changes), _text(before.removeprefix("before\n")), results)


CASES = [
    pytest.param(_case(part), id=f"{path.stem}: {part.splitlines()[0]}")
    for path in sorted(FOLDER.glob("*.txt"))
    for part in path.read_text(encoding="utf-8").split("=== ")[1:]
]


@pytest.mark.parametrize("case", CASES)
def test_an_edit_gives_what_a_careful_human_would_write(case: Case) -> None:
    """L01, L03, L11, L16: one of the right results, in place, and a second run changes nothing."""
    desired = case.desired
    result = edit_document(case.before.encode(), case.index, desired)
    assert result.data.decode() in case.after
    assert (result.mode, result.fallback) == (EditMode.PATCHED, Fallback.NONE)
    assert edit_document(result.data, case.index, desired).mode is EditMode.NO_CHANGE


@pytest.mark.parametrize("case", CASES)
def test_a_right_result_reads_as_the_object(case: Case) -> None:
    """The tables themselves are right, and turning back is an edit as well."""
    before = load_document(split_documents(case.before.encode())[case.index].body(case.before.encode())).value
    for after in case.after:
        data = after.encode()
        read = load_document(split_documents(data)[case.index].body(data)).value
        assert equal_as_kubernetes(read, case.desired)
        back = edit_document(data, case.index, before)
        document = split_documents(back.data)[case.index]
        assert equal_as_kubernetes(load_document(document.body(back.data)).value, before)
