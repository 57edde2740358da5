"""What ``up`` waits for, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reverser.config import load_config
from reverser.errors import KubeForbidden, SettingsInvalid, TransientError
from reverser.supervision import preflight, up
from reverser.supervision.up import Interrupted, Up
from tests.supervision.test_preflight import deaf_port


def made(tmp_path: Path, said: list[str], **settings: Any) -> Up:
    values = {"REVERSER_STATE_DIR": str(tmp_path), "REVERSER_HTTP_ADDR": "127.0.0.1:0", **settings}
    return Up(load_config(values), install=True, say=said.append)


def test_a_redis_that_does_not_answer_yet_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E21: it is told in a line without credentials, and everything starts; the demo waits for nobody."""
    said: list[str] = []
    monkeypatch.setattr(preflight, "REDIS_DEADLINE_SECONDS", 0.1)
    with deaf_port() as port:
        one = made(tmp_path, said, REVERSER_REDIS_URL=f"redis://:hunter2@127.0.0.1:{port}/0")
        one._refuse_what_cannot_work()
        assert len(said) == 1
        assert "no Redis answers there" in said[0]
        assert "waits for it" in said[0]
        assert "hunter2" not in said[0]
        one.extra = tuple
        with pytest.raises(SettingsInvalid, match="no Redis answers there"):
            one._refuse_what_cannot_work()
    assert not preflight.redis_may_come("http://127.0.0.1")


def test_a_busy_cluster_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C16: an API server that answers 503 for a while ends no start; what stays wrong does, and so does a
    signal.
    """
    monkeypatch.setattr(up.time, "sleep", lambda seconds: None)
    said: list[str] = []
    one = made(tmp_path, said)
    answers: list[Exception] = [TransientError("503"), TransientError("503")]

    def step() -> str:
        if answers:
            raise answers.pop()
        return "done"

    assert one._patiently(step) == "done"
    assert said == ["waiting for the cluster: 503"]
    answers.append(KubeForbidden("403"))
    with pytest.raises(SettingsInvalid, match="cannot be prepared: 403"):
        one._patiently(step)
    answers.append(TransientError("503"))
    one.request_stop(limit_seconds=1)
    with pytest.raises(Interrupted):
        one._patiently(step)
