"""Addresses as the HTTP contract has them, "host:port", and sockets that are connected to them."""

from __future__ import annotations

import asyncio
import socket

from commitlog.address import without_brackets

CONNECT_SECONDS_MAX = 5.0


def split(address: str) -> tuple[str, int]:
    """Host and port. Raises OSError, as a listener on such an address would."""
    host, colon, port = address.rpartition(":")
    if not colon:
        raise OSError(f"address {address}: missing port in address")
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise OSError(f"address {port}: invalid port")
    return without_brackets(host), int(port)


async def _found(address: str) -> list[tuple[socket.AddressFamily, tuple[str, int]]]:
    """Where it may be; without a host on this machine. Raises OSError."""
    host, port = split(address)
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)
    except ValueError as error:  # what cannot be a name at all
        raise OSError(f"address {address}: {error}") from error
    return [(family, (str(place[0]), port)) for family, _, _, _, place in found]


async def resolved(address: str) -> tuple[str, int]:
    """The address itself, of a name, too. Raises OSError."""
    return (await _found(address))[0][1]


async def dialled(address: str) -> socket.socket:
    """A connected socket. Raises OSError; TimeoutError is one."""
    async with asyncio.timeout(CONNECT_SECONDS_MAX):
        failed: OSError | None = None
        for family, place in await _found(address):
            try:
                return await _connected(family, place)
            except OSError as error:
                failed = error
        raise failed or OSError(f"address {address} is nowhere")


async def _connected(family: int, place: tuple[str, int]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, place)
    except BaseException:
        sock.close()
        raise
    return sock
