"""Parsing is total, and what it cannot read it leaves out in the direction that does less."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverser.kinds.model import PruneMode
from reverser.kinds.parse import (
    parse_commit_request,
    parse_git_provider,
    parse_git_target,
    parse_watch_rule,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = [
    "url", "secretRef", "knownHostsRef", "allowedBranches", "push", "commitWindow", "commit", "committer",
    "message", "signing", "providerRef", "branch", "path", "encryption", "age", "recipients",
    "publicKeys", "placement", "byType", "prune", "mode", "ignoreFields", "targetRef", "rules",
    "operations", "apiGroups", "apiVersions", "resources", "scope", "closeDelaySeconds",
    "ttlSecondsAfterFinished", "name",
    "namespace", "kind", "group", "conditions",
]  # fmt: skip
SHAPED = st.recursive(
    JSON,
    lambda inner: st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6) | st.lists(inner, max_size=2),
    max_leaves=20,
)


@given(spec=SHAPED, status=SHAPED, meta=SHAPED)
def test_no_object_makes_a_parser_fail(spec: Any, status: Any, meta: Any) -> None:
    """Any JSON at all becomes a value."""
    obj = {"kind": "ClusterWatchRule", "metadata": meta, "spec": spec, "status": status}
    for parse in (parse_git_provider, parse_git_target, parse_watch_rule, parse_commit_request):
        for thing in (obj, spec, None):
            value = parse(thing)
            assert isinstance(value.problems, tuple)
            assert len(value.problems) <= 20


@pytest.mark.parametrize(
    ("push", "seconds", "problem"),
    [
        ({}, 5.0, False),
        ({"commitWindow": "250ms"}, 0.25, False),
        ({"commitWindow": "1m30s"}, 90.0, False),
        ({"commitWindow": "0s"}, 0.0, False),
        ({"commitWindow": "0"}, 0.0, False),
        ({"commitWindow": "-2s"}, 0.0, False),
        ({"commitWindow": "soon"}, 5.0, True),
        ({"commitWindow": "5"}, 5.0, True),
        ({"commitWindow": 5}, 5.0, True),
    ],
)
def test_commit_window(push: dict[str, Any], seconds: float, problem: bool) -> None:
    """A15: the value table of commitWindow."""
    provider = parse_git_provider({"spec": {"url": "u", "allowedBranches": ["main"], "push": push}})
    assert provider.commit_window == seconds
    assert any("commitWindow" in line for line in provider.problems) is problem


def test_committer_blanks_and_forbidden_characters() -> None:
    """Blank after trim is the default; a name that would break a commit header is told."""
    spec = {"url": "u", "commit": {"committer": {"name": "  ", "email": "a<b@c"}}}
    provider = parse_git_provider({"spec": spec})
    assert provider.commit.committer_name == "GitOps Reverser"
    assert provider.commit.committer_email == "noreply@configbutler.ai"
    assert [line.split(":")[0] for line in provider.problems] == ["spec.commit.committer.email"]


def test_a_reference_of_another_kind_refers_to_nothing() -> None:
    """A reference to another kind is a problem and names no provider."""
    target = parse_git_target({"spec": {"providerRef": {"kind": "GitRepository", "name": "x"}}})
    assert target.provider == ""
    assert target.problems == ("spec.providerRef: must refer to a GitProvider",)


@pytest.mark.parametrize(("path", "read"), [("a//b/./c/", "a/b/c"), ("./", "."), ("/abs", "/abs"), ("", "")])
def test_a_path_is_read_in_its_normal_form(path: str, read: str) -> None:
    """B03: everything behind sees one spelling; an invalid path stays as it is, never the root."""
    assert parse_git_target({"spec": {"path": path}}).path == read


def test_an_unknown_prune_mode_deletes_nothing() -> None:
    """A mode of a later release is read as Never."""
    target = parse_git_target({"spec": {"prune": {"mode": "Sometimes"}}})
    assert target.prune is PruneMode.NEVER
    assert target.problems


@pytest.mark.parametrize(
    "rule",
    [
        {"resources": []},
        {"resources": ["pods/log"]},
        {"resources": [7]},
        {"resources": ["pods"], "operations": ["PATCH"]},
        {"resources": ["pods"], "apiGroups": [3]},
        {"resources": ["pods"], "apiVersions": "v1"},
        "pods",
    ],
)
def test_an_unreadable_rule_matches_nothing(rule: Any) -> None:
    """A narrowing that cannot be read never widens the rule to everything."""
    parsed = parse_watch_rule({"kind": "WatchRule", "spec": {"rules": [rule, {"resources": ["ok"]}]}})
    assert [r.resources for r in parsed.rules] == [("ok",)]
    assert parsed.problems


def test_rule_values_are_normalised() -> None:
    """Trimmed, lower-cased plurals; the star stands for the three operations."""
    parsed = parse_watch_rule(
        {
            "kind": "ClusterWatchRule",
            "metadata": {"name": "r"},
            "spec": {
                "targetRef": {"name": "t", "namespace": "ns"},
                "rules": [{"scope": "Cluster", "resources": [" Nodes "], "operations": ["*"]}],
            },
        }
    )
    assert (parsed.cluster, parsed.target_namespace, parsed.target_name) == (True, "ns", "t")
    assert parsed.rules[0].resources == ("nodes",)
    assert parsed.rules[0].operations == {"CREATE", "UPDATE", "DELETE"}
    assert parsed.problems == ()


def test_commit_request_message_is_verbatim() -> None:
    """A multi-byte message of 1024 characters is kept whole; a control character is a problem."""
    assert parse_commit_request({"spec": {"message": "ü" * 1024}}).message == "ü" * 1024
    bad = parse_commit_request({"spec": {"message": "a\tb", "closeDelaySeconds": 999}})
    assert (bad.message, bad.close_delay_seconds, len(bad.problems)) == ("", 300, 2)
