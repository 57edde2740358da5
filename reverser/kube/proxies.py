"""The proxy on the way to an API server, by the rules that kubectl follows.

Python's own reading of the environment is another one: it knows no address ranges in
NO_PROXY, and sends requests for this very machine to the proxy.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def proxy_for(url: str, environment: Mapping[str, str] | None = None) -> str | None:
    """URL of the proxy of the environment for ``url``; None where it is asked directly."""
    environment = os.environ if environment is None else environment
    parts = urlsplit(url)
    name = f"{parts.scheme}_proxy"
    proxy = environment.get(name.upper()) or environment.get(name) or ""
    host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    left_out = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    if not proxy or _is_this_machine(host) or any(_names(item, host, port) for item in left_out.split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_this_machine(host: str) -> bool:
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _names(item: str, host: str, port: int) -> bool:
    """Whether an entry of NO_PROXY means this host: a range, an address, a domain, each with or without a
    port, or a star for all.
    """
    item = item.strip().lower()
    address = _address(host)
    if item == "*":
        return True
    if "/" in item:
        try:
            return address is not None and address in ipaddress.ip_network(item, strict=False)
        except ValueError:
            return False
    if _address(item) is None:
        name, colon, wanted = item.rpartition(":")
        if colon and wanted.isdigit():
            if int(wanted) != port:
                return False
            item = name
    item = item.removeprefix("[").removesuffix("]")
    if address is not None or _address(item) is not None:
        return address is not None and address == _address(item)
    item = item.removeprefix("*")
    if not item:
        return False
    return host.endswith(item if item.startswith(".") else f".{item}") or host == item
