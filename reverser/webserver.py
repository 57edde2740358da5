"""The server of the main address: for people and programs that may be slow, and probes that may not wait.

A request holds one of few threads until it has arrived and is answered, and whoever sends it drop by drop
could hold them all: probes would fail, and the process would be restarted. So a probe that has arrived whole
is answered by threads that nothing else can take.
"""

from __future__ import annotations

import math
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from reverser.quantities import Address
from webhooks.server import Application, Limits, Server

THREADS = 8
# Answers may take long, those that follow events above all.
LIMITS = Limits(read=15.0, write=math.inf, idle=30.0, drain=5.0, threads=THREADS)
_PROBE = re.compile(rb"(?:GET|HEAD) /(?:healthz|readyz)(?:\?\S*)? HTTP/1\.[01]\r\n")
_SEEN = 4096


class WebServer(Server):
    """The admin, REST, health and metrics on one address."""

    def __init__(self, address: Address, app: Application, *, limits: Limits = LIMITS) -> None:
        super().__init__(address, app, limits=limits, certificates=None)
        self._probes = ThreadPoolExecutor(2, "probes")

    def process_conn(self, conn: Any) -> None:
        """A probe goes past the queue."""
        if conn.last_used is not None and _is_probe(conn.socket):
            self._probes.submit(self._answer_probe, conn)
        else:
            super().process_conn(conn)

    def stop(self) -> None:
        """End, whatever is asked meanwhile."""
        super().stop()
        self._probes.shutdown(wait=False, cancel_futures=True)

    def _answer_probe(self, conn: Any) -> None:
        goes_on = False
        try:
            goes_on = conn.communicate()
        except OSError as error:
            self.error_log(f"a probe was not answered: {error}")
        finally:
            if goes_on:
                self.put_conn(conn)
            else:
                conn.close()


def _is_probe(connection: socket.socket) -> bool:
    """Whether a whole probe waits to be read."""
    try:
        seen = connection.recv(_SEEN, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return False
    return b"\r\n\r\n" in seen and _PROBE.match(seen) is not None
