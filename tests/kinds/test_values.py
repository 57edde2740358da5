"""Durations, branch globs and paths: small decisions with sharp edges."""

from __future__ import annotations

import contextlib
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverser.errors import ConfigInvalid
from reverser.kinds.branches import branch_allowed, branch_problem, malformed_patterns, require_branch
from reverser.kinds.paths import normalize_path, path_problem, paths_overlap
from reverser.quantities import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        ("1m30s", 90.0),
        ("0s", 0.0),
        ("0", 0.0),
        ("-2s", -2.0),
        ("1h2m3s", 3723.0),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("+10s", 10.0),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("100ns", 1e-7),
    ],
)
def test_go_durations(text: str, seconds: float) -> None:
    """A15: what Go's time.ParseDuration accepts."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5", "5 s", "s", ".s", "-", "1d", "1m30", "9999999999h", "٣s"])
def test_what_go_refuses_is_refused(text: str) -> None:
    """A15: everything else is an error that shows how to write one."""
    with pytest.raises(ValueError, match=r"500ms|longer"):
        parse_duration(text)


@given(st.text(max_size=30))
def test_durations_never_fail_in_another_way(text: str) -> None:
    """Any text is a number of seconds or a ValueError."""
    with contextlib.suppress(ValueError):
        assert isinstance(parse_duration(text), float)


@pytest.mark.parametrize(
    ("patterns", "branch", "allowed"),
    [
        (["feature/*"], "feature/login", True),
        (["feature/*"], "feature/a/b", False),
        (["*"], "main", True),
        (["*"], "team/x", False),
        (["release/v?"], "release/v1.0", False),
        (["release/v?"], "release/v1", True),
        (["[", "main"], "main", True),
        (["["], "[", False),
        (["Main"], "main", False),
        (["[a-c]x"], "bx", True),
        (["[^a-c]x"], "bx", False),
        (["[^a-c]x"], "/x", False),
        ([r"a\*b"], "a*b", True),
        ([r"a\*b"], "axb", False),
        (["ma"], "main", False),
        (["**"], "a/b", False),
        ([""], "", False),
        (["[z-a]"], "b", False),
        (["a[.]b"], "a.b", True),
        (["a.b"], "axb", False),
    ],
)
def test_allowed_branches(patterns: list[str], branch: str, allowed: bool) -> None:
    """B05: globs as in sheet 4.3; a star does not cross a slash."""
    assert branch_allowed(patterns, branch) is allowed


def test_malformed_globs_are_named() -> None:
    """I16: a pattern that cannot match is told to the user."""
    assert malformed_patterns(["main", "[", "a\\", "[]", "[a-", "env/*"]) == ("[", "a\\", "[]", "[a-")


@pytest.mark.parametrize(
    "branch",
    ["--mirror", "a..b", "x.lock", "re fs", "", "a//b", "/a", "a/", ".a", "a@{b", "a~b", "refs/heads/main"],
)
def test_dangerous_branch_names_have_a_problem(branch: str) -> None:
    """A10: what Git would read as an option or refuse is refused first."""
    assert branch_problem(branch)
    with pytest.raises(ConfigInvalid, match=r"spec\.branch"):
        require_branch(branch)


@given(st.text(alphabet="ab./-@{~^:?*[\\ lockHEAD\x7f", min_size=1, max_size=12))
def test_git_agrees_on_branch_names(branch: str) -> None:
    """Whatever passes here passes `git check-ref-format --branch`."""
    if not branch_problem(branch):
        done = subprocess.run(
            ["git", "check-ref-format", "--branch", branch], capture_output=True, check=False
        )
        assert done.returncode == 0, branch


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        (".", ""),
        ("a//b/./c/", "a/b/c"),
        ("deep/ü/ø", "deep/ü/ø"),
        (" live ", "live"),
        ("./team//app/", "team/app"),
    ],
)
def test_valid_paths(path: str, normal: str) -> None:
    """B03: the normal form."""
    assert path_problem(path) == ""
    assert normalize_path(path) == normal


@pytest.mark.parametrize(
    "path", ["", " ", "/abs", "../up", "x/../../y", "a\\b", "a\nb", "/", "a/.git/b", "x/.."]
)
def test_invalid_paths_never_become_the_root(path: str) -> None:
    """B03: an invalid path has no normal form, least of all the root."""
    assert path_problem(path)
    with pytest.raises(ValueError, match="path"):
        normalize_path(path)


@pytest.mark.parametrize(
    ("other", "overlap"),
    [
        ("team/app", True),
        ("team", True),
        ("team/app/sub", True),
        (".", True),
        ("./team//app/", True),
        ("team/app-staging", False),
        ("team/ap", False),
        ("Team/App", False),
    ],
)
def test_overlap(other: str, overlap: bool) -> None:
    """B06: equal or nested on a segment boundary."""
    assert paths_overlap(normalize_path("team/app"), normalize_path(other)) is overlap
    assert paths_overlap(normalize_path(other), normalize_path("team/app")) is overlap
