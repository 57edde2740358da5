"""A remote on disk and a clone of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitwriter.git.remote import Remote
from gitwriter.git.repository import BareRepository
from tests.git.helpers import bare


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    return bare(tmp_path / "origin.git")


@pytest.fixture
def remote(origin: Path) -> Remote:
    return Remote.of(f"file://{origin}")


@pytest.fixture
def repo(tmp_path: Path, remote: Remote) -> Iterator[BareRepository]:
    with BareRepository.open_or_create(tmp_path / "clone", remote.url.text) as repository:
        yield repository
