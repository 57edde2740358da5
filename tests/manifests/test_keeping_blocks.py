"""A block that keeps its trailing blank lines, where blank lines come to stand behind it."""

from __future__ import annotations

from typing import Any

import pytest

from gitwriter.manifests.editing import EditMode, Fallback, edit_document

from .changing import HEAD, changed

LIST = """l:
- name: one
  t: |+ # as it is
    x
# about two
- name: two

- name: three # c
k: 1
"""
ONE, TWO, THREE = {"name": "one", "t": "x\n"}, {"name": "two"}, {"name": "three"}
NESTED = """l:
- - - a: >+
        x y
        z
    - b
  - c

- d # last
"""
ENTRIES = """m:
  # about a
  a: >+
    x y
    z
  b: 1

  c: 2
"""


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        (
            LIST,
            ("/l", [TWO, ONE, THREE]),
            "l:\n# about two\n- name: two\n- name: one\n  t: | # as it is\n    x\n\n"
            "- name: three # c\nk: 1\n",
        ),
        (
            LIST,
            ("/l", [ONE, THREE]),
            "l:\n- name: one\n  t: | # as it is\n    x\n\n- name: three # c\nk: 1\n",
        ),
        (ENTRIES, ("/m/b", ...), "m:\n  # about a\n  a: >\n    x y\n    z\n\n  c: 2\n"),
        (
            NESTED,
            ("/l/0", [[{"a": "x y z\n"}]]),
            "l:\n- - - a: >\n        x y\n        z\n\n- d # last\n",
        ),
    ],
)
def test_the_block_says_that_the_blank_lines_are_not_its_own(
    before: str, change: tuple[str, Any], after: str
) -> None:
    """Only its indicator changes; the lines around it, comments included, stay."""
    desired = changed(HEAD + before, change)
    result = edit_document((HEAD + before).encode(), 0, desired)
    assert result.data.decode() == HEAD + after
    assert (result.mode, result.fallback) == (EditMode.PATCHED, Fallback.NODE)
    assert edit_document(result.data, 0, desired).mode is EditMode.NO_CHANGE


def test_a_block_that_stays_where_it_is_keeps_its_indicator() -> None:
    """Also where something else of its item changes."""
    desired = changed(HEAD + LIST, ("/l/0/name", "uno"), ("/l/0/more", 1))
    result = edit_document((HEAD + LIST).encode(), 0, desired)
    assert result.data.decode() == HEAD + LIST.replace("name: one", "name: uno").replace(
        "x\n#", "x\n  more: 1\n#"
    )
