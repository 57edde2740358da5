"""The page of the protocol, the code and the tests speak of the same rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RULES = [f"J{n}" for n in range(1, 24)]


def _cited(*folders: str) -> set[str]:
    files = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".lua")
    ]
    own = Path(__file__)
    return {
        rule for path in files if path != own for rule in re.findall(r"\bJ\d{1,2}\b", path.read_text("utf-8"))
    }


def test_the_page_has_every_rule_once():
    """In order, none twice, none unknown."""
    page = (ROOT / "docs" / "journal.md").read_text("utf-8")
    assert re.findall(r"^\*\*(J\d+)\.\*\*", page, re.MULTILINE) == RULES


@pytest.mark.parametrize(
    "folders", [("tests",), ("reverser", "gitwriter", "watchers")], ids=["tests", "code"]
)
def test_every_rule_is_cited(folders: tuple[str, ...]):
    """A rule that nothing implements or checks is not a rule."""
    assert set(RULES) - _cited(*folders) == set()
