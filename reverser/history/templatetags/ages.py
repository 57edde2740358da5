"""Ages in one short word, so that a column of them can be compared at a glance."""

from __future__ import annotations

from datetime import UTC, datetime

from django import template

register = template.Library()

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


@register.filter
def age(value: datetime | None, now: datetime | None = None) -> str:
    """``8 s``, ``17 min``, ``5 h`` or ``3 d``; empty without a time. A time in the future is ``0 s``. The
    space is a non-breaking one."""
    if value is None:
        return ""
    seconds = max(0, int(((now or datetime.now(tz=UTC)) - value).total_seconds()))
    for size, unit in _UNITS:
        if seconds >= 2 * size or (size == 60 and seconds >= 60):
            return f"{seconds // size}\N{NO-BREAK SPACE}{unit}"
    return f"{seconds}\N{NO-BREAK SPACE}s"
