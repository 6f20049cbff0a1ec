"""Which network the processes of a generation use between nodes: the one in which MASTER_ADDR is, as a site chooses it (launch.network).

Imports no torch.
"""
from __future__ import annotations

import ctypes
import ipaddress
import os
import socket
import sys
from typing import Any, List, Sequence, Tuple


def _master() -> Tuple[int, int, Any]:
    """Family, kind and address of a socket that would reach rank 0's node. Raises OSError."""
    port = os.environ.get("MASTER_PORT", "9")
    if not port.isdecimal() or int(port) > 65535:
        raise OSError(f"MASTER_PORT: {port!r} is not the number of a port")
    where = (os.environ.get("MASTER_ADDR", "127.0.0.1"), int(port))
    family, kind, _, _, address = socket.getaddrinfo(*where, type=socket.SOCK_DGRAM)[0]
    return family, kind, address


def own_address() -> str:
    """Of this node, as other nodes reach it: from where it reaches rank 0's. Raises OSError."""
    family, kind, address = _master()
    with socket.socket(family, kind) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])


def use_between(nodes: Sequence[str]) -> None:
    """nodes: by rank. Where there are several, gloo connects in the network of own_address(). By itself it takes the address of this node's name,
    which may be another network's or, as on Debian, 127.0.1.1. Raises OSError where other nodes cannot reach rank 0."""
    if len(set(nodes)) < 2:
        return
    try:
        master, address = _master()[2][0], own_address()
    except OSError:
        return  # torch says what it cannot reach
    if _is_loopback(master):
        raise OSError(f"MASTER_ADDR: {os.environ.get('MASTER_ADDR')} is {master} on this node, where none of the run's {len(set(nodes))} nodes can reach "
                      "another; set launch.network in espalier.toml to the network between the nodes, or take the node's name away from the "
                      "line of that address in /etc/hosts")
    if not os.environ.get("GLOO_SOCKET_IFNAME"):
        name = _interface_of(address)
        if name:
            os.environ["GLOO_SOCKET_IFNAME"] = name


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _interface_of(address: str) -> str:
    """"": none where gloo would use that address. It takes an interface's first one."""
    found = _addresses()
    for name, one in found:
        if one == address.partition("%")[0]:
            return "" if _is_loopback(next(first for interface, first in found if interface == name)) else name
    return ""


class _Entry(ctypes.Structure):
    """struct ifaddrs, as far as it is read."""


_Entry._fields_ = [("next", ctypes.POINTER(_Entry)), ("name", ctypes.c_char_p), ("flags", ctypes.c_uint), ("address", ctypes.c_void_p)]
_PLACES = {socket.AF_INET: (4, 4), socket.AF_INET6: (8, 16)}  # of the address in a struct sockaddr: offset and bytes


def _addresses() -> List[Tuple[str, str]]:
    """This node's interfaces with their addresses, in the order in which gloo sees them. None where they cannot be told."""
    library, first = ctypes.CDLL(None), ctypes.POINTER(_Entry)()
    found: List[Tuple[str, str]] = []
    if not sys.platform.startswith("linux") or library.getifaddrs(ctypes.byref(first)) != 0:
        return found
    at = first
    while at:
        entry = at.contents
        family = ctypes.c_ushort.from_address(entry.address).value if entry.address else 0
        if family in _PLACES:
            offset, size = _PLACES[family]
            found.append((entry.name.decode(), socket.inet_ntop(family, ctypes.string_at(entry.address + offset, size))))
        at = entry.next
    library.freeifaddrs.argtypes = [ctypes.POINTER(_Entry)]
    library.freeifaddrs(first)
    return found
