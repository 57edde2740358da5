"""Durations in Go's syntax (``500ms``, ``1m30s``), because that is what Kubernetes users write.

Exact rational arithmetic, so ``0.1s`` is not a rounding surprise, and the range of Go's int64
nanoseconds, so that a value accepted here is accepted by every other tool that reads the manifest.
"""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_LONGEST = Fraction(2**63 - 1, 10**9)


def parse_duration(text: str) -> float:
    """Seconds of a Go duration; ``0`` needs no unit, a sign is allowed.

    Raises ValueError for everything that Go's ``time.ParseDuration`` refuses.
    """
    body = text
    negative = body.startswith("-")
    if body[:1] in {"-", "+"}:
        body = body[1:]
    if body == "0":
        return 0.0
    total = Fraction(0)
    position = 0
    while position < len(body):
        match = _PART.match(body, position)
        if match is None:
            break
        number, unit = match.groups()
        if len(number) > 64:
            break
        total += Fraction(number if not number.endswith(".") else number[:-1]) * _UNITS[unit]
        position = match.end()
    if not body or position != len(body):
        raise ValueError(f"{text[:64]!r} is not a duration; write one such as 500ms, 5s or 1m30s")
    if total > _LONGEST:
        raise ValueError(f"{text[:64]!r} is longer than a duration can be (about 292 years)")
    return float(-total if negative else total)
