"""Pages renew a part of themselves: such a request is answered with that part alone."""

from __future__ import annotations

from django.http import HttpRequest

REFRESH_SECONDS = 5
STOP_POLLING = 286
"""The status with which htmx takes the answer and asks no more."""


def is_fragment(request: HttpRequest) -> bool:
    """Whether the page's own refresh asks."""
    return bool(getattr(request, "htmx", False))
