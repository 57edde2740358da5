"""How long a rate-limiting https remote asks to wait.

Git reports a refused request as prose, without the headers. A forge that limits its callers says in a header
when to come back (429, 403 or 503 with Retry-After), and asking sooner prolongs the limit. So after a failed
command the same address is requested once more, and only status and header are read.
"""

from __future__ import annotations

import email.utils
import http.client
import ssl
import time
import urllib.error
import urllib.request

from reverser.trust.credentials import Tls
from reverser.trust.memfile import MemoryFiles
from reverser.trust.redirects import NoRedirect
from reverser.trust.tls import client_context
from reverser.trust.urls import RepositoryUrl, Scheme

_LIMITED = (403, 429, 503)
_TIMEOUT = 10.0
_MOST = 3600.0


def asked_delay(url: RepositoryUrl, *, authorization: str, tls: Tls) -> float | None:
    """Seconds that the remote asks to wait (at most an hour), or None where it asks for nothing."""
    request = urllib.request.Request(  # noqa: S310 - the scheme is http or https
        f"{url.text}/info/refs?service=git-upload-pack"
    )
    name, _, value = authorization.partition(": ")
    if value:
        request.add_unredirected_header(name, value)
    try:
        with MemoryFiles() as files:
            handlers: list[urllib.request.BaseHandler] = [NoRedirect()]
            if url.scheme is Scheme.HTTPS:
                handlers.append(urllib.request.HTTPSHandler(context=_context(tls, files)))
            with urllib.request.build_opener(*handlers).open(request, timeout=_TIMEOUT):
                return None
    except urllib.error.HTTPError as error:
        with error:
            if error.code not in _LIMITED:
                return None
            return parse_retry_after(error.headers.get("Retry-After", ""), now=time.time())
    except (OSError, http.client.HTTPException):
        return None  # git has already reported the failed connection


def _context(tls: Tls, files: MemoryFiles) -> ssl.SSLContext:
    context = client_context(ca=tls.ca)
    if tls.client_cert:
        context.load_cert_chain(files.add(tls.client_cert), files.add(tls.client_key.reveal()))
    return context


def parse_retry_after(text: str, *, now: float) -> float | None:
    """Seconds from a Retry-After header (a number, or an HTTP date against ``now`` in Unix seconds)."""
    if text.strip().isdigit():
        return min(float(text), _MOST)
    try:
        moment = email.utils.parsedate_to_datetime(text).timestamp()
    except ValueError:
        return None
    return min(max(moment - now, 0.0), _MOST)
