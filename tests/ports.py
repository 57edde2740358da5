"""Ports for processes that cannot tell which one they got, or that come back on the same one."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 11_000
"""Browsers open no page on some ports below."""
_given: set[int] = set()


def free_port() -> int:
    """A loopback port that is free now, that nobody in this process was told before, and that the kernel
    gives to nobody by itself: neither to a server without a port nor to a connection. Nobody takes it while
    the process that it is for is starting, or away for a while.
    """
    first = int(_RANGE.read_text(encoding="ascii").split()[0])
    lowest = min(_LOWEST, first // 2)
    while True:
        # Not the seeded numbers of ``random``: every test process has the same ones.
        port = lowest + secrets.randbelow(first - lowest)
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
