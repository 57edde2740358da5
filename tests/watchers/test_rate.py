"""The event rate of a stream is the number of its events in the last hour, to the minute."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from watchers.rate import EventRate


@given(st.lists(st.integers(0, 4 * 3600), max_size=60), st.integers(0, 2 * 3600))
def test_the_last_hour(moments: list[int], quiet: int) -> None:
    """Whenever events come, those of the last hour count and older ones do not."""
    rate = EventRate()
    for moment in sorted(moments):
        rate.note(moment)
    now = max(moments, default=0) + quiet

    assert rate.hourly(now) == sum(now // 60 - moment // 60 < 60 for moment in moments)


def test_a_clock_that_goes_back() -> None:
    """An event is counted all the same."""
    rate = EventRate()
    rate.note(7200.0)
    rate.note(3600.0)

    assert rate.hourly(7200.0) == 2
