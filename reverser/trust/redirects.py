"""Requests that carry a login follow no redirect: it would hand the login to another server."""

from __future__ import annotations

import http.client
import urllib.request
from typing import IO


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """For `urllib.request.build_opener`: a redirect counts as the final answer."""

    def redirect_request(  # noqa: PLR0917 - the library's signature
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        return None
