"""The documentation as data: pages, fenced blocks, headings, links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    page: Path
    language: str
    text: str

    @property
    def name(self) -> str:
        """For test ids."""
        return f"{self.page.relative_to(ROOT)}: {self.text.strip().splitlines()[0][:60]}"


def pages() -> list[Path]:
    """Every page of the project."""
    return [*PAGES, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    return [Block(page, match[1], match[2]) for match in _FENCE.finditer(page.read_text())]


def anchors(page: Path) -> set[str]:
    """What a link may name in a page, as forges derive it from headings."""
    text = _FENCE.sub("", page.read_text())
    return {
        re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }


def links(page: Path) -> Iterator[str]:
    """Targets of the links of a page, outside of blocks."""
    text = _FENCE.sub("", page.read_text())
    yield from _LINK.findall(re.sub(r"`[^`]*`", "", text))
