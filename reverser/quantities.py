"""Durations, sizes and addresses as people write them: Go durations, Kubernetes quantities, host:port."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
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
    """Seconds of a Go duration such as ``250ms``, ``1m30s``, ``0`` or ``-2s``; ValueError otherwise."""
    body = text
    sign = 1.0
    if body[:1] in {"-", "+"}:
        sign = -1.0 if body[0] == "-" else 1.0
        body = body[1:]
    if body == "0":
        return 0.0
    position, seconds = 0, 0.0
    for part in _DURATION_PART.finditer(body):
        if part.start() != position:
            break
        seconds += float(part.group(1)) * _UNIT_SECONDS[part.group(2)]
        position = part.end()
    if not body or position != len(body):
        raise ValueError(f"{text!r} is not a duration; write for example 500ms, 5s or 1m30s")
    return sign * seconds


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
