"""One address in front of many, as a load balancer is: each new connection goes to the next one.

An address that refuses is left out, and a connection lasts as long as both its ends do. One that a
node resets is reset towards its client, as a balancer in the kernel does (a Kubernetes service,
IPVS): stock clients give up on what was in flight at once then, and else wait for it for 3 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import threading
from collections.abc import Iterator, Sequence

from chaos.live.syn_hole import RESET
from tests.waiting import limit

PIECE = 1 << 16


class RoundRobin:
    """Passes bytes on; `opened` counts the connections to each address."""

    def __init__(self, behind: Sequence[str]) -> None:
        self._behind = behind
        self._turns = itertools.count()
        self.opened = dict.fromkeys(behind, 0)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # all of it ends; streams log that
            await self._pass_on(reader, writer)
        writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = next(self._turns)
        for number in range(len(self._behind)):
            address = self._behind[(first + number) % len(self._behind)]
            host, _, port = address.rpartition(":")
            try:
                there = await asyncio.open_connection(host, int(port))
            except OSError:
                continue
            self.opened[address] += 1
            ways = [_copy(reader, there[1]), _copy(there[0], writer)]
            tasks = [asyncio.ensure_future(way) for way in ways]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if any(task.result() for task in done):
                    sock: socket.socket = writer.get_extra_info("socket")
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            finally:
                for task in tasks:
                    task.cancel()
                there[1].transport.abort()
            return

    async def serve(self, address: str, is_up: threading.Event, over: asyncio.Event) -> None:
        host, _, port = address.rpartition(":")
        async with await asyncio.start_server(self._connected, host, int(port)):
            is_up.set()
            await over.wait()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Until one end is gone; True when it was reset."""
    try:
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
    except OSError:
        return True
    return False


@contextlib.contextmanager
def round_robin(address: str, behind: Sequence[str]) -> Iterator[RoundRobin]:
    """Serves `address` from a thread until the block ends."""
    proxy, is_up, over = RoundRobin(behind), threading.Event(), asyncio.Event()
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    loop = runner.get_loop()

    def run() -> None:
        with runner:  # it ends what is still open
            runner.run(proxy.serve(address, is_up, over))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert is_up.wait(limit(10)), f"{address} is taken"
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(limit(10))
