"""Offset message id ⇄ (store host, position in the log); docs/spec/remoting.md 2.7.

Upper-case hex of the IPv4 (4 bytes) or IPv6 (16 bytes) address, int32 port and int64 position:
32 or 56 characters. Clients connect to the address inside.
"""

from __future__ import annotations

import ipaddress
import struct

from cluster.errors import InvalidRequest


def store_host_hex(host: str, port: int) -> str:
    """The first part of a message id: 16 characters for IPv4, 40 for IPv6. `host` is an address."""
    return (ipaddress.ip_address(host).packed + struct.pack(">i", port)).hex().upper()


def encode_offset_id(host: str, port: int, position: int) -> str:
    """The message id."""
    return f"{store_host_hex(host, port)}{position:016X}"


def decode_offset_id(message_id: str) -> tuple[str, int, int]:
    """Host, port, position.

    Raises:
        InvalidRequest: it is no offset message id.
    """
    try:
        data = bytes.fromhex(message_id)
        if len(data) not in (16, 28):
            raise ValueError(f"{len(message_id)} characters")
        host = ipaddress.ip_address(data[:-12])
        port, position = struct.unpack(">iq", data[-12:])
    except ValueError as error:
        raise InvalidRequest(
            f"{message_id!r} is no offset message id (32 or 56 hex digits): {error}"
        ) from None
    return str(host), port, position
