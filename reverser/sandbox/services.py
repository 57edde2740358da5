"""Defaults of Services, and the allocation of their addresses and node ports.

Allocated values are spec fields that no person wrote. The allocator is handed in, because what is taken is
state of the server; the one here is deterministic, so that two runs of a test see the same addresses.
"""

import copy
import ipaddress
from typing import Any, Protocol

from reverser.sandbox.poddefaults import set_default

Object = dict[str, Any]

#: The service network of a default cluster (`--service-cluster-ip-range`).
SERVICE_NETWORK = ipaddress.ip_network("10.0.0.0/24")
#: The default `--service-node-port-range`.
NODE_PORTS = range(30000, 32768)


class ServiceAllocator(Protocol):
    """Hands out the cluster-wide unique values of Services; the server keeps what is taken."""

    def cluster_ip(self) -> str:
        """A free address of the service network."""

    def node_port(self) -> int:
        """A free node port."""


class SequentialAllocator:
    """Deterministic allocation, first free value first; `taken` values are skipped."""

    def __init__(self) -> None:
        self._addresses: set[str] = set()
        self._ports: set[int] = set()

    def reserve(self, obj: Object) -> None:
        """Mark the addresses and node ports of an existing Service as taken."""
        spec = obj.get("spec") or {}
        self._addresses.update(ip for ip in spec.get("clusterIPs") or () if ip != "None")
        self._ports.update(port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort"))

    def release(self, obj: Object) -> None:
        """Free what a deleted Service held."""
        spec = obj.get("spec") or {}
        self._addresses.difference_update(spec.get("clusterIPs") or ())
        self._ports.difference_update(port.get("nodePort") for port in spec.get("ports") or ())

    def cluster_ip(self) -> str:
        """The lowest free address; the first one is the API server's own."""
        for number in range(2, SERVICE_NETWORK.num_addresses - 1):
            address = str(SERVICE_NETWORK[number])
            if address not in self._addresses:
                self._addresses.add(address)
                return address
        raise LookupError("range is full")

    def node_port(self) -> int:
        """The lowest free node port."""
        for port in NODE_PORTS:
            if port not in self._ports:
                self._ports.add(port)
                return port
        raise LookupError("range is full")


def default_service(obj: Object, allocator: ServiceAllocator | None, old: Object | None) -> None:
    """Default a Service in place; `old` is the stored one, whose allocations an update keeps."""
    spec = obj.setdefault("spec", {})
    before: Object = (old or {}).get("spec") or {}
    set_default(spec, "sessionAffinity", "None")
    set_default(spec, "type", "ClusterIP")
    kind = spec["type"]
    if spec["sessionAffinity"] == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {})
        set_default(config.setdefault("clientIP", {}), "timeoutSeconds", 10800)
    for port in spec.get("ports") or ():
        set_default(port, "protocol", "TCP")
        set_default(port, "targetPort", port.get("port"))
    if kind == "ExternalName":
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
            spec.pop(field, None)
    else:
        if before.get("type", "ExternalName") != "ExternalName":
            # An update that leaves out what was allocated keeps it.
            for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                if field in before:
                    set_default(spec, field, copy.deepcopy(before[field]))
        set_default(spec, "internalTrafficPolicy", "Cluster")
        if not spec.get("clusterIP") and spec.get("clusterIPs"):
            spec["clusterIP"] = spec["clusterIPs"][0]
        if not spec.get("clusterIP") and allocator is not None:
            spec["clusterIP"] = allocator.cluster_ip()
        if spec.get("clusterIP"):
            set_default(spec, "clusterIPs", [spec["clusterIP"]])
        headless_without_selector = spec.get("clusterIP") == "None" and not spec.get("selector")
        policy = "RequireDualStack" if headless_without_selector else "SingleStack"
        families = ["IPv4", "IPv6"] if headless_without_selector else ["IPv4"]
        set_default(spec, "ipFamilyPolicy", policy)
        set_default(spec, "ipFamilies", families)
    if kind in ("NodePort", "LoadBalancer"):
        set_default(spec, "externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        set_default(spec, "allocateLoadBalancerNodePorts", True)
    if allocator is not None and (
        kind == "NodePort" or (kind == "LoadBalancer" and spec["allocateLoadBalancerNodePorts"])
    ):
        _node_ports(spec, before, allocator)
    set_default(obj, "status", {})
    set_default(obj["status"], "loadBalancer", {})


def _node_ports(spec: Object, before: Object, allocator: ServiceAllocator) -> None:
    held = {
        (port.get("port"), port.get("protocol")): port["nodePort"]
        for port in before.get("ports") or ()
        if port.get("nodePort")
    }
    for port in spec.get("ports") or ():
        if not port.get("nodePort"):
            port["nodePort"] = held.get((port.get("port"), port.get("protocol"))) or allocator.node_port()
