"""Ignore patterns mean what they mean to Git, and cost what they are long."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from gitwriter.manifests import Limits, check
from gitwriter.manifests.ignore import parse_ignore

from .folder import config_map, manifest, plan, scan, written

NAMES = [
    "a",
    "b",
    "c",
    "k.sh",
    "x ",
    "!x",
    "#y",
    "a b",
    "foo",
    "1x",
    "]",
    "d",
    "e",
    "f.sh",
    "abc",
    ".h",
    "a.",
]
PATHS = [
    *NAMES,
    *(f"{folder}/{name}" for folder in NAMES for name in NAMES),
    *(f"a/{folder}/b/{name}" for folder in NAMES[:6] for name in NAMES[:6]),
]
RULES = [
    ["a"],
    ["a/", "!a/b"],
    ["/a"],
    ["a/b", "/c"],
    ["*.sh", "!k.sh"],
    ["**/c", "a/**"],
    ["a/**/c", "!a/a/c"],
    ["a*c", "?x"],
    ["[ab]", "[!a-z]*"],
    ["[^b-c]oo", "[[:digit:]]*", "[]]"],
    ["\\!x", "\\#y", "a b", "x\\ "],
    ["foo**", "a***b", "/*/b"],
    ["d/e/", "!d/e/f.sh"],
    ["b/**/**/c", "**/a/**"],
    ["{a,b}", "a.", ".*"],
    ["[a-", "\\", "!", "f*"],
]


@pytest.mark.parametrize("lines", RULES, ids=" ".join)
def test_patterns_mean_what_git_says(lines: list[str], tmp_path: Path) -> None:
    """For every path `git check-ignore` gives the same answer; patterns that it cannot read fit nothing."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        ["git", "-C", tmp_path, "check-ignore", "-z", "--no-index", "--stdin"],
        input="\0".join(PATHS).encode() + b"\0",
        capture_output=True,
        check=False,
    )
    expected = set(done.stdout.decode().split("\0")) - {""}
    rules = parse_ignore("\n".join(lines).encode())
    assert expected == {path for path in PATHS if rules.matches(path)}


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("a*" * 60 + "b", "x/" + "a" * 240),
        ("**/" * 40 + "b", "/".join("a" * 100)),
        ("**/a*a*a*/" * 30 + "b", "/".join(["a" * 30] * 100)),
        ("[a-z]*" * 60 + "0", "a" * 240),
    ],
)
def test_no_pattern_is_slow(pattern: str, path: str) -> None:
    """A pattern that would keep a regular expression busy for ever costs milliseconds."""
    started = time.process_time()
    assert not parse_ignore(pattern.encode()).matches(path)
    assert time.process_time() - started < 1


def test_a_pattern_that_nobody_can_read_hides_nothing() -> None:
    """A broken line never stops the mirror."""
    made = plan({".gittargetignore": "\\\n[a\n!\n"}, config_map("menu", x="1"))
    assert list(written(made)) == ["shop/configmaps/menu.yaml"]


@pytest.mark.parametrize("text", ["x\n" * 501, "y" * 1025, "z" * 3000])
def test_an_ignore_file_beyond_the_limits_refuses(text: str) -> None:
    """Rules that are not read must not be taken for no rules: what they hide would be swept."""
    files = {".gittargetignore": text, "a.yaml": manifest("ConfigMap", "a", "shop")}
    (issue,) = check(scan(files, limits=Limits(file_bytes=2000)))
    assert (issue.kind.value, issue.path) == ("limit-exceeded", ".gittargetignore")
