"""Hosts as they stand in message records and ids: IP, then the port as a 4-byte integer.

IPv4: 4 + 4 = 8 bytes       IPv6: 16 + 4 = 20 bytes

Bits 4 and 5 of a record's sysFlag say which form its two hosts have.
"""

from __future__ import annotations

import ipaddress
import struct
from functools import lru_cache
from typing import Final, NamedTuple

from commitlog.address import PORT_MAX, join_address
from commitlog.errors import StoreUsageError

HOST_V4_SIZE: Final = 8
HOST_V6_SIZE: Final = 20

_V4 = struct.Struct(">BBBBi")


class Host(NamedTuple):
    """An IP address as text and a port."""

    ip: str
    port: int

    def __str__(self) -> str:
        return join_address(self.ip, self.port)


NO_HOST: Final = Host("0.0.0.0", 0)


@lru_cache(maxsize=4096)
def pack_ip(ip: str) -> bytes:
    """The address as 4 or 16 bytes; an IPv4 address mapped into IPv6 is packed as 4, as in Java.

    Raises StoreUsageError when `ip` is not an IP address.
    """
    try:
        address = ipaddress.ip_address(ip)
    except ValueError as error:
        raise StoreUsageError(
            f"{ip!r} is not an IP address; records hold addresses, so resolve the name first"
        ) from error
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.packed
    return address.packed


@lru_cache(maxsize=4096)
def unpack_ip(packed: bytes) -> str:
    """Text of 4 or 16 bytes, IPv6 in its shortest form."""
    assert len(packed) in (4, 16), "an IP address has 4 or 16 bytes"
    address = ipaddress.ip_address(packed)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def pack_host(host: Host) -> bytes:
    """The host as 8 or 20 bytes.

    Raises StoreUsageError when `ip` is not an IP address or the port is outside 0..65535.
    """
    if not 0 <= host.port <= PORT_MAX:
        raise StoreUsageError(f"port {host.port} is not within 0..{PORT_MAX}; give a real port")
    return pack_ip(host.ip) + host.port.to_bytes(4, "big")


@lru_cache(maxsize=4096)
def unpack_host(packed: bytes) -> Host:
    """The host in 8 or 20 bytes. The port is not checked: it may be negative or above 65535."""
    if len(packed) == HOST_V4_SIZE:
        a, b, c, d, port = _V4.unpack(packed)
        return Host(f"{a}.{b}.{c}.{d}", port)
    assert len(packed) == HOST_V6_SIZE, "a host has 8 or 20 bytes"
    return Host(unpack_ip(packed[:16]), int.from_bytes(packed[16:], "big", signed=True))
