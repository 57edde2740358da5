"""Pages renew a part of themselves: such a request is answered with that part alone."""

from __future__ import annotations

from django.http import HttpRequest


def is_fragment(request: HttpRequest) -> bool:
    """Whether the page's own refresh asks."""
    return bool(getattr(request, "htmx", False))
