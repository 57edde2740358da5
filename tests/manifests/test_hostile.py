"""Input that is meant to hurt: each is refused or skipped by name, and costs less than a second of one core.

The price is counted in processor time and a core that others use may take three times as long.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gitwriter.manifests.analyzer import analyze
from gitwriter.manifests.report import as_text
from gitwriter.manifests.tree import MemoryTree

from .folder import codes, config_map, delete, manifest, plan, text, upsert, written

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: menu\n  namespace: shop\n"
SIZE = 2_500_000

EDITED, SKIPPED, REFUSED = "updated", "not-editable", "refused"

CONTENT: dict[str, tuple[str | bytes, str]] = {
    "deep aliases": (
        "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{f'*a{i - 1}, ' * 9}]\n" for i in range(1, 30)),
        SKIPPED,
    ),
    "deep merges": (
        "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{f'*a{i - 1}, ' * 9}]}}\n" for i in range(1, 30)),
        SKIPPED,
    ),
    "100,000 aliases": ("a: &a x\nb: [" + "*a," * 100_000 + "]\n", SKIPPED),
    "50,000 merges": (
        "a: &a {x: 1}\nb:\n" + "".join(f"  k{i}: {{<<: *a}}\n" for i in range(50_000)),
        SKIPPED,
    ),
    "100,000 anchors": ("b:\n" + "".join(f"- &a{i} x\n" for i in range(100_000)), SKIPPED),
    "half a million aliases": ("a: &a x\nb: [" + "*a," * 500_000 + "]\n", REFUSED),
    "an endless anchor": ("a: &" + "k" * SIZE + " 1\n", EDITED),
    "99 levels of brackets": ("a: " + "[" * 99 + "]" * 99 + "\n", EDITED),
    "100,000 levels of brackets": ("a: " + "[" * 100_000 + "]" * 100_000 + "\n", REFUSED),
    "500 levels of blocks": ("".join(" " * i + "a:\n" for i in range(500)), REFUSED),
    "100,000 dashes": ("a:\n" + "- " * 100_000 + "x\n", REFUSED),
    "no UTF-8": (b"a: \xff\n", REFUSED),
    "a NUL byte": ("a: x\0y\n", REFUSED),
    "a tab": ("a:\n\tb: 1\n", REFUSED),
    "a key twice": ("a: 1\na: 2\n", SKIPPED),
    "100,000 equal keys": ("a:\n" + "  b: 1\n" * 100_000, SKIPPED),
    "a long plain text": ("a: " + "word " * (SIZE // 5) + "\n", EDITED),
    "a long wrapped text": ("a: x\n" + "  word word word\n" * (SIZE // 17), EDITED),
    "a long quoted text": ('a: "' + "\\n" * (SIZE // 2) + '"\n', EDITED),
    "a long folded text": ("a: >\n" + "  some line of text\n" * (SIZE // 20), EDITED),
    "a long literal": ("a: |\n" + "  some line of text\n" * (SIZE // 20), EDITED),
    "a long binary": ("a: !!binary |\n" + ("  " + "QUJD" * 18 + "\n") * (SIZE // 75), SKIPPED),
    "a scalar beyond the limit": ("a: " + "x" * 10_000_000 + "\n", REFUSED),
    "half a million end markers": ("...\n" * 500_000, REFUSED),
    "half a million separators": ("---\n" * 500_000, REFUSED),
    "400,000 items": ("a:\n" + "- v\n" * 400_000, REFUSED),
}


@contextmanager
def within_a_second() -> Iterator[None]:
    """Fails where what it encloses took far more processor time than a second."""
    started = time.process_time()
    yield
    assert time.process_time() - started < 3.0


def hostile(content: str | bytes) -> bytes:
    """The content as a document of the object that the changes are about."""
    return HEAD.encode() + (content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize("name", CONTENT)
def test_a_hostile_manifest_is_edited_skipped_or_refused_in_time(name: str) -> None:
    """L13: an edit of it and the report on it; what cannot be edited can be deleted."""
    content, expected = CONTENT[name]
    files = {"menu.yaml": hostile(content), "card.yaml": manifest("ConfigMap", "card", "shop")}
    with within_a_second():
        made = plan(files, config_map("menu", a="new"))
    with within_a_second():
        report = as_text(analyze(MemoryTree(text(files))))
    if expected == REFUSED:
        assert [issue.path for issue in made.issues] == ["menu.yaml"]
        assert not made.files
        assert "menu.yaml  [" in report
        return
    assert (made.issues, codes(made)) == ((), [expected])
    assert "accepted" in report
    assert written(plan(files, delete("ConfigMap", "menu", "shop"))) == {"menu.yaml": None}
    if expected == SKIPPED:
        assert made.results[0].message
        assert set(written(plan(files, config_map("menu", a="b"), config_map("card", x="y")))) == {
            "card.yaml"
        }


@pytest.mark.parametrize(
    "name", [name for name, (_content, expected) in CONTENT.items() if expected != EDITED]
)
def test_a_hostile_kustomization_refuses_in_time(name: str) -> None:
    """Whatever is wrong with a kustomization, the path is refused by its name."""
    content, _expected = CONTENT[name]
    body = content if isinstance(content, bytes) else content.encode()
    with within_a_second():
        made = plan({"kustomization.yaml": body}, config_map("menu", a="new"))
    assert {issue.path for issue in made.issues} == {"kustomization.yaml"}


@pytest.mark.parametrize("name", ["100,000 aliases", "100,000 equal keys", "400,000 items"])
def test_hostile_context_is_read_within_bounds(name: str) -> None:
    """A Helm object is read for the values files that it names, an ignore file for its patterns."""
    content, _expected = CONTENT[name]
    release = (
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: shop}\n"
    )
    with within_a_second():
        plan({"web.yaml": release.encode() + hostile(content)[len(HEAD) :]}, config_map("menu", a="new"))
    with within_a_second():
        plan({".gittargetignore": hostile(content)}, config_map("menu", a="new"))


def nested(levels: int, *, brackets: bool) -> Any:
    """A value with so many levels."""
    value: Any = "x"
    for _ in range(levels):
        value = [value] if brackets else {"a": value}
    return value


@pytest.mark.parametrize("brackets", [True, False])
@pytest.mark.parametrize("levels", [150, 900, 5000])
@pytest.mark.parametrize("listed", [True, False])
def test_a_live_object_too_deep_for_a_manifest_is_skipped(levels: int, brackets: bool, listed: bool) -> None:
    """As a new object and as a change, with and without a build: skipped by name, others are written."""
    deep = upsert("Gizmo", "menu", "shop", config=nested(levels, brackets=brackets))
    old = "apiVersion: lab.test/v1\nkind: Gizmo\nmetadata: {name: menu, namespace: shop}\nconfig: {a: 1}\n"
    build = {"kustomization.yaml": "namespace: shop\nresources: [old.yaml, menu.yaml]\n"} if listed else {}
    build |= {"old.yaml": manifest("ConfigMap", "old", "shop")}
    for files in ({**build, "menu.yaml": old}, build if not listed else {"old.yaml": build["old.yaml"]}):
        made = plan(files, deep, config_map("card", a="b"))
        assert codes(made) == ["unreadable-result", "created"]
        assert "100 levels" in made.results[0].message


def test_a_live_object_with_too_many_values_is_skipped() -> None:
    """What the next scan would refuse is not written."""
    with within_a_second():
        made = plan({}, upsert("Gizmo", "menu", "shop", config={"list": [1] * 400_000}))
    assert codes(made) == ["unreadable-result"]
    assert "300000" in made.results[0].message
