"""Every list of rows is paged by a cursor that stays valid while rows are written."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.pagination import CursorPagination

MOST = 200
USUAL = 50


class Cursor(CursorPagination):
    """Pages by ``?cursor=`` and ``?limit=`` (at most 200)."""

    page_size = USUAL
    max_page_size = MOST
    page_size_query_param = "limit"
    page_size_query_description = f"How many (1 to {MOST})"
    cursor_query_description = "Where the page begins, as `next` or `previous` of another one tells"
    ordering = "-id"

    def decode_cursor(self, request: Any) -> Any:
        """Raises NotFound for a malformed cursor."""
        if len(request.query_params.get(self.cursor_query_param, "")) > 2000:
            raise NotFound("this cursor is none of ours")
        return super().decode_cursor(request)

    def get_page_size(self, request: Any) -> int:
        """The requested size. Raises ValidationError for one out of range."""
        return limit_of(request)

    def get_ordering(self, request: Any, queryset: Any, view: Any) -> tuple[str, ...]:
        """The requested order, of those that the view offers; ties are broken by id."""
        offered: dict[str, tuple[str, ...]] = getattr(view, "orderings", {})
        asked = request.query_params.get("order", "")
        if "order" in request.query_params and asked not in offered:
            raise ValidationError({"order": f"one of {', '.join(sorted(offered))}"})
        return offered[asked] if asked else tuple(view.default_ordering)


def limit_of(request: Any) -> int:
    """``?limit=``. Raises ValidationError."""
    text = request.query_params.get("limit", str(USUAL))
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= MOST:
        raise ValidationError({"limit": f"a whole number from 1 to {MOST}"})
    return int(text)
