"""An address that another program has is told, whichever loop listens."""

from __future__ import annotations

import asyncio
import errno
import gc
import socket
import warnings
from collections.abc import Iterator

import pytest

from dledger.runtime.listening import listen, listen_at, stop_listening

pytestmark = pytest.mark.both_loops
PORT = 20911


def bound(host: str) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((host, PORT))
    made.setblocking(False)
    return made


@pytest.fixture
def other(free_address: str) -> Iterator[socket.socket]:
    """Another program's; it has bound the address and does not listen yet."""
    with bound(free_address) as made:
        yield made


async def is_reached(host: str) -> None:
    _, writer = await asyncio.open_connection(host, PORT)
    writer.close()


async def test_a_bound_socket_is_tried_again(other: socket.socket, free_address: str) -> None:
    ours = bound(free_address)
    other.listen()
    for _ in range(2):
        with pytest.raises(OSError, match="in use") as found:
            await listen(asyncio.Protocol, ours)
        assert found.value.errno == errno.EADDRINUSE
    other.close()
    server = await listen(asyncio.Protocol, ours)
    await is_reached(free_address)
    await stop_listening(server)


async def test_an_address_that_another_program_takes_in_between_is_refused(
    other: socket.socket, free_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bind = socket.socket.bind

    def bind_late(ours: socket.socket, address: tuple[str, int]) -> None:
        bind(ours, address)
        other.listen()

    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "bind", bind_late)
        with pytest.raises(OSError, match="in use") as found:
            await listen_at(asyncio.Protocol, free_address, PORT)
    assert found.value.errno == errno.EADDRINUSE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del found  # CPython 3.11 leaves the socket to the collector when `listen` fails
        gc.collect()
    other.close()
    server = await listen_at(asyncio.Protocol, free_address, PORT)
    await is_reached(free_address)
    await stop_listening(server)
