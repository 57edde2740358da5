"""Collected edits and real manifests, where they are at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from gitwriter.manifests.editing import EditMode, edit_body, edit_document
from gitwriter.manifests.loading import load_document
from gitwriter.manifests.splitting import DocumentKind, remove_document, split_documents
from tests import needs

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "corpus"
CASES = sorted(p.parent for p in (SHARED / "edits").glob("*/case.yaml")) if SHARED.is_dir() else []
MANIFESTS = sorted((SHARED / "real-manifests").glob("*.yaml")) if SHARED.is_dir() else []


@needs.material(SHARED)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_collected_case(case: Path) -> None:
    """Each collected edit gives the expected bytes, or one of the results noted as equally right."""
    facts = yaml.safe_load((case / "case.yaml").read_text())
    before = (case / "before.yaml").read_bytes()
    wanted = [path.read_bytes() for path in sorted(case.glob("after*.yaml"))]
    if facts["operation"] == "delete":
        result = remove_document(before, facts["document_index"])
        assert result in wanted if wanted else result is None
        return
    desired = json.loads((case / "object.json").read_bytes())
    result = edit_document(before, facts["document_index"], desired)
    assert result.data in wanted
    if facts["expect"] == "edited":
        assert edit_document(result.data, facts["document_index"], desired).mode is EditMode.NO_CHANGE
    else:
        assert result.data == before


@needs.material(SHARED)
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_resync_without_changes_leaves_real_manifests_alone(path: Path) -> None:
    """A document edited to its own object keeps every byte."""
    data = path.read_bytes()
    for document in split_documents(data):
        if document.kind is not DocumentKind.CONTENT:
            continue
        value = load_document(document.body(data)).value
        if isinstance(value, dict):
            result = edit_body(document.body(data), value)
            assert result.mode in (EditMode.NO_CHANGE, EditMode.SKIPPED)
            assert result.data == document.body(data)
