"""A page for the time in which the history database does not answer.

Pages, logins and sessions live in the database; Git does not. Who looks in such a time should read that, and
not that the server has an error. The page itself asks nothing of the database.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db.utils import InterfaceError, InternalError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from reverser.sparing import Sparing

logger = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 5
_warnings = Sparing(lines=1, seconds=60)


class DatabaseOutage:
    """Middleware: a view that fails because of the database's state is answered with 503 and this page."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """The page; None where the exception is another, or the query itself is wrong."""
        del request
        if not isinstance(exception, InterfaceError | InternalError | OperationalError):
            return None
        kind = type(exception.__cause__ or exception).__name__
        if _warnings.left(kind):
            # The driver's own words may hold the address and the user.
            logger.warning("pages cannot use the history database: %s; `manage.py doctor` tells more", kind)
        page = render_to_string("dashboard/outage.html")
        return HttpResponse(page, status=503, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})
