"""Pages refresh a part of themselves: such a request is answered with that part alone."""

from __future__ import annotations

from django.http import HttpRequest

REFRESH_SECONDS = 5
STOP_POLLING = 286
"""The status at which htmx shows the response and stops polling."""


def is_fragment(request: HttpRequest) -> bool:
    """Whether the request is a page's own refresh."""
    return bool(getattr(request, "htmx", False))
