"""Durations in the words of kubectl: `5m20s`, `3d4h`, `2y`."""

import datetime

from reverser.sandbox.celrules import parse_timestamp

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def human_duration(seconds: float) -> str:
    """A duration with at most two units, coarser the longer it is."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    if total < 0:
        return "0s"
    minutes, hours = total // _MINUTE, total // _HOUR
    if total < 2 * _MINUTE:
        return f"{total}s"
    if minutes < 10:
        return _pair(minutes, "m", total % _MINUTE, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _pair(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _pair(major: int, unit: str, minor: int, lesser: str) -> str:
    return f"{major}{unit}{minor}{lesser}" if minor else f"{major}{unit}"


def age(timestamp: str | None, now: datetime.datetime) -> str:
    """How long ago an RFC 3339 timestamp was, `<unknown>` where there is none."""
    if not timestamp:
        return "<unknown>"
    moment = parse_timestamp(timestamp)
    return human_duration((now - moment).total_seconds()) if moment else "<invalid>"
