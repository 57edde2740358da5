"""The pages and REST on PostgreSQL: the same tests, where ``REVERSER_TEST_DATABASE_URL`` names one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
URL = os.environ.get("REVERSER_TEST_DATABASE_URL", "")
SUITE = ("tests/dashboard/test_pages.py", "tests/dashboard/test_permissions.py", "tests/rest/test_api.py")


@pytest.mark.skipif(not URL, reason="needs REVERSER_TEST_DATABASE_URL, a PostgreSQL that may be written")
@pytest.mark.timeout(600)
def test_on_postgresql() -> None:
    """Whatever holds on SQLite."""
    environment = {**os.environ, "REVERSER_DATABASE_URL": URL}
    del environment["REVERSER_TEST_DATABASE_URL"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--create-db", *SUITE],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-4000:]
