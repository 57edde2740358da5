"""Durations, sizes and addresses as people write them: Go durations, Kubernetes quantities, host:port."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from fractions import Fraction

_UNITS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_LONGEST = Fraction(2**63 - 1, 10**9)
_QUANTITY = re.compile(r"^\+?(\d+(?:\.\d*)?|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E|m|)$")
_SUFFIX_FACTOR = {
    "": 1.0,
    "m": 1e-3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
    "Pi": 2.0**50,
    "Ei": 2.0**60,
}


def parse_duration(text: str) -> float:
    """Seconds of a Go duration; ``0`` needs no unit, a sign is allowed.

    Exact rational arithmetic, so ``0.1s`` is not a rounding surprise, and the range of Go's int64
    nanoseconds, so that a value accepted here is accepted by every other tool that reads it. Raises
    ValueError for everything that Go's ``time.ParseDuration`` refuses.
    """
    body = text
    negative = body.startswith("-")
    if body[:1] in {"-", "+"}:
        body = body[1:]
    if body == "0":
        return 0.0
    total = Fraction(0)
    position = 0
    while position < len(body):
        match = _PART.match(body, position)
        if match is None:
            break
        number, unit = match.groups()
        if len(number) > 64:
            break
        total += Fraction(number if not number.endswith(".") else number[:-1]) * _UNITS[unit]
        position = match.end()
    if not body or position != len(body):
        raise ValueError(f"{text[:64]!r} is not a duration; write one such as 500ms, 5s or 1m30s")
    if total > _LONGEST:
        raise ValueError(f"{text[:64]!r} is longer than a duration can be (about 292 years)")
    return float(-total if negative else total)


def parse_quantity(text: str) -> int:
    """Bytes of a Kubernetes quantity such as ``8Mi``, ``64Ki`` or ``1000000``; ValueError otherwise."""
    found = _QUANTITY.match(text.strip())
    if not found:
        raise ValueError(f"{text!r} is not a quantity; write for example 8Mi, 64Ki or 1000000")
    return int(float(found.group(1)) * _SUFFIX_FACTOR[found.group(2)])


@dataclass(frozen=True, slots=True)
class Address:
    """A listen address; an empty host means every interface."""

    host: str
    port: int

    @property
    def bound_host(self) -> str:
        """What a socket is bound to: without a host every interface, of both families where there are two."""
        return self.host or ("::" if socket.has_dualstack_ipv6() else "0.0.0.0")  # noqa: S104

    @property
    def family(self) -> socket.AddressFamily:
        """The family of ``bound_host``; a socket of IPv6 for every interface takes IPv4 as well."""
        return socket.AF_INET6 if ":" in self.bound_host else socket.AF_INET

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """``host:port``, ``:port`` or ``[v6]:port``; ValueError otherwise."""
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: write an IPv6 address in brackets, as in [::1]:8000")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not an address; write host:port, for example 127.0.0.1:8000")
    return Address(host=host, port=int(port))
