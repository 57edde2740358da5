"""Pages of lists that may be long: counting stops early, because nobody reads that far and everybody would
wait for the count."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.utils.functional import cached_property

MOST = 10_000


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts to ``MOST`` at most; rows beyond are reached by search and filters."""

    @cached_property
    def count(self) -> int:
        """How many rows, or ``MOST`` where there are more."""
        rows: QuerySet[Any] = self.object_list  # type: ignore[assignment]
        return rows.order_by()[:MOST].count()
