"""Whole folders judged by the gate: a corpus of GitOps repositories, where it is at hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gitwriter.manifests import DirectoryTree, Inventory, check, refusal_reason
from tests import needs

CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "corpus" / "layouts"

# Where our verdict is not the recorded one, and the rule that decides.
_AMBIGUOUS = (
    "refused",
    "a file that builds put into different namespaces refuses, with the kustomizations named",
)
EXCEPTIONS: dict[tuple[str, str], tuple[str, str]] = {
    ("acceptance-gate/leading-comment-then-separator", "."): (
        "accepted",
        "text before the first --- is framing",
    ),
    ("acceptance-gate/non-editable-twin-not-duplicate", "."): (
        "refused",
        "documents we cannot edit claim identities",
    ),
    ("contextual-namespace/unsupported/ambiguous-two-roots", "."): _AMBIGUOUS,
    ("gitops-layouts/1-desired-state/flux-monorepo", "apps"): _AMBIGUOUS,
    ("gitops-layouts/2-rendered/kustomize-overlay-minimal", "."): _AMBIGUOUS,
    ("scan-repo/supported/base-overlays", "."): _AMBIGUOUS,
    ("kustomization-parse/images-unknown-key", "."): ("refused", "unknown keys refuse: an allow-list"),
}


def _targets() -> list[tuple[Path, str, dict]]:
    found = []
    for expectation in sorted(CORPUS.rglob("expect.yaml")) if CORPUS.is_dir() else []:
        for target in yaml.safe_load(expectation.read_text())["targets"]:
            found.append((expectation.parent, target["path"], target))
    return found


@needs.material(CORPUS)
@pytest.mark.parametrize(
    ("layout", "path", "target"),
    _targets(),
    ids=lambda value: str(value.relative_to(CORPUS)) if isinstance(value, Path) else None,
)
def test_layout(layout: Path, path: str, target: dict) -> None:
    """Each recorded folder is accepted or refused as it should be, for the expected reason."""
    wanted = target["ref"] if target["refnew"].get("same_as_ref") else target["refnew"]
    issues = check(Inventory.scan(DirectoryTree(layout / "tree" / path)))
    verdict = "refused" if issues else "accepted"
    listed = [f"{issue.path}#{issue.document} {issue.kind}: {issue.message}" for issue in issues]
    key = (str(layout.relative_to(CORPUS)), path)
    expected = EXCEPTIONS[key][0] if key in EXCEPTIONS else wanted["verdict"]
    assert expected == verdict, listed
    if key in EXCEPTIONS or verdict == "accepted":
        return
    assert wanted["reason"] == refusal_reason(issues)
    assert set(wanted["issue_kinds"]) <= {issue.kind.value for issue in issues}, listed
