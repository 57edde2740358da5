"""Placeholders that are filled in after the build stay in Git."""

from __future__ import annotations

import pytest

from gitwriter.manifests.tokens import Divergence, divergences

from .folder import codes, config_map, manifest, plan, written


@pytest.mark.parametrize(
    ("rendered", "live", "expected"),
    [
        ({"data": {"a": "${REGION}"}}, {"data": {"a": "eu"}}, [Divergence("data.a", "${REGION}")]),
        ({"data": {"a": "${REGION}"}}, {"data": {}}, [Divergence("data.a", "${REGION}")]),
        ({"data": {"a": "Host ${host};"}}, {"data": {"a": "Host ${host};"}}, []),
        ({"data": {"a": "Host ${host};"}}, {"data": {"a": "Host ${host}; # new"}}, []),
        (
            {"l": [{"name": "b", "v": "${X}"}]},
            {"l": [{"name": "a"}, {"name": "b", "v": "1"}]},
            [Divergence("l[b].v", "${X}")],
        ),
        ({"l": ["${X:=1}"]}, {"l": ["1"]}, [Divergence("l[0]", "${X:=1}")]),
        ({"a": "$X $(Y) ${}"}, {"a": "z"}, []),
    ],
)
def test_divergences(rendered: dict, live: dict, expected: list) -> None:
    """A placeholder diverges where live shows something else in its place."""
    assert list(divergences(rendered, live)) == expected


def test_placeholder_is_never_overwritten() -> None:
    """An object with a filled-in placeholder is left alone and the place is named; the others are written."""
    files = {"cm.yaml": manifest("ConfigMap", "menu", "shop", data={"region": "${REGION}"})}
    made = plan(files, config_map("menu", region="eu-1"), config_map("b"))
    assert "cm.yaml" not in written(made)
    assert "render-does-not-match-live" in codes(made)
    assert "data.region" in made.results[0].message


def test_placeholder_that_a_build_adds() -> None:
    """The build's own placeholders count as well."""
    files = {
        "kustomization.yaml": "resources: [cm.yaml]\nlabels:\n- pairs: {env: '${ENV}'}\n",
        "cm.yaml": manifest("ConfigMap", "menu", "shop", data={"a": "b"}),
    }
    live = config_map("menu", a="b")
    assert codes(plan(files, live)) == ["render-does-not-match-live"]
