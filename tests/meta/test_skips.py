"""A test is skipped in one place, with one rule, so that none is left out unnoticed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests import needs
from tests.meta.sources import ROOT

SKIPPING = re.compile(
    r"pytest\.(skip|xfail|importorskip)|mark\.(skip|skipif|xfail)\b|REVERSER_TEST_ALL\b|\.which\("
)
ALLOWED = {
    "needs.py",
    "conftest.py",  # `make acceptance`
    "e2e/conftest.py",  # slow
    "meta/test_skips.py",
}


def test_skips_are_in_one_place() -> None:
    """No test decides by itself that it cannot run, or looks for a program by itself."""
    tests = ROOT / "tests"
    found = {
        str(path.relative_to(tests))
        for path in tests.rglob("*.py")
        if tests / "bench" not in path.parents and SKIPPING.search(path.read_text())
    }
    assert found - ALLOWED == set()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skipped with its name; a failure where every package is said to be installed."""
    monkeypatch.setattr(needs, "find", lambda name: None if name == "chromium" else f"/bin/{name}")
    monkeypatch.delenv("REVERSER_TEST_ALL", raising=False)
    assert needs.program("sshd", "ssh") == "/bin/sshd"
    with pytest.raises(pytest.skip.Exception, match="needs the package chromium"):
        needs.program("chromium")
    monkeypatch.setenv("REVERSER_TEST_ALL", "1")
    with pytest.raises(pytest.fail.Exception, match="needs the package chromium"):
        needs.program("chromium")


def test_ci_installs_every_package() -> None:
    """`.ci/run` looks for, and installs, each package that a test can need, and says so to the tests."""
    script = (ROOT / ".ci" / "run").read_text()
    installed = set(re.findall(r"need\+=\(([\w-]+)\)", script))
    assert installed == set(needs.PACKAGES.values())
    assert "export REVERSER_TEST_ALL=1" in script
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=True)


def test_a_program_is_found_where_packages_put_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders that are on nobody's PATH count."""
    (tmp_path / "15" / "bin").mkdir(parents=True)
    program = tmp_path / "15" / "bin" / "postgres-of-a-test"
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setattr(needs, "_TOP", tmp_path)
    monkeypatch.setattr(needs, "_ELSEWHERE", ("*/bin",))
    assert needs.find("postgres-of-a-test") == str(program)
    assert needs.find("nowhere-to-be-found") is None
