"""Lines that repeat."""

from __future__ import annotations

from reverser.sparing import Sparing


def test_so_many_lines_of_a_kind_then_silence() -> None:
    """N03, Q03: each kind has its own count, which begins anew after the pause."""
    now = [100.0]
    lines = Sparing(lines=2, seconds=10, clock=lambda: now[0])
    assert [lines.left("a") for _ in range(4)] == [2, 1, 0, 0]
    assert lines.left("b") == 2
    now[0] += 10
    assert lines.left("a") == 2


def test_kinds_that_are_over_are_forgotten() -> None:
    """Memory stays bounded however many kinds there are."""
    now = [0.0]
    lines = Sparing(lines=1, seconds=1, clock=lambda: now[0])
    for kind in range(3000):
        now[0] += 1
        assert lines.left(kind) == 1
    assert len(lines._said) < 1100
