"""A minute of faults, and the oracle's own correctness."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.oracle import State, judge
from tests.soak.run import soak

SEED = 7


@pytest.mark.parametrize(
    ("made", "written", "counts"),
    [
        (["1", "2", None], ["1", "2", None], (0, 0, 0, 0)),
        (["1", "2", "3"], ["1", "3"], (1, 0, 0, 0)),
        (["1", "2"], ["1"], (1, 0, 0, 0)),
        (["1"], ["1", None], (1, 1, 0, 0)),
        (["1"], ["9", "1"], (0, 1, 0, 0)),
        (["1", "2"], ["1", "2", "1", "2"], (0, 0, 2, 0)),
        (["1", "2", "3"], ["2", "1", "3"], (0, 0, 0, 1)),
        ([], [None], (0, 1, 0, 0)),
    ],
)
def test_oracle(made: list[State], written: list[State], counts: tuple[int, int, int, int]) -> None:
    """Each kind of untruth is told from the others."""
    verdict = judge({"a": made}, {"a": written}, exact=lambda _: True)
    assert (verdict.lost, verdict.invented, verdict.doubled, verdict.reordered) == counts
    assert verdict.clean == (sum(counts) == 0)


def test_oracle_of_a_replay() -> None:
    """A replay may pass over states between two others, never over the last."""
    verdict = judge({"a": ["1", "2", "3"]}, {"a": ["3"]}, exact=lambda _: False)
    assert verdict.clean
    assert verdict.skipped == 2
    assert judge({"a": ["1", "2"]}, {"a": ["1"]}, exact=lambda _: False).lost == 1


@pytest.mark.acceptance
@pytest.mark.xdist_group("e2e")
@pytest.mark.timeout(420)
def test_a_minute_of_faults(tmp_path: Path) -> None:
    """E15, E16, E28: kills, pauses and outages of everything; each change is in Git once and in order."""
    result = soak(tmp_path, seed=SEED, seconds=45, longest_pause=4.0, say=print)
    print(result.table())
    assert result.verdict.problems == []
    assert result.changes > 0
