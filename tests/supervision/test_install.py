"""Definitions are installed only when they are in force."""

from __future__ import annotations

from typing import Any

import pytest

from reverser.supervision import install

NOW = {"conditions": [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]}


class Slow:
    """An API server whose definitions come into force step by step, as a real one's do."""

    def __init__(self, *steps: dict[str, Any]) -> None:
        self._steps = list(steps)
        self.applied: list[str] = []

    def patch(self, path: str, body: dict[str, Any], **options: Any) -> dict[str, Any]:
        self.applied.append(body["metadata"]["name"])
        return body

    def get(self, path: str) -> dict[str, Any]:
        return self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]


def test_waits_through_every_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new definition has no status, then null conditions, then refused ones, and then it is in force."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    refused = {"conditions": [{"type": "Established", "status": "False"}]}
    server = Slow(
        {}, {"status": None}, {"status": {"conditions": None}}, {"status": refused}, {"status": NOW}
    )
    names = install.install_crds(server)  # type: ignore[arg-type]
    assert names == server.applied
    assert "gittargets.configbutler.ai" in names
