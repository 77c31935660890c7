"""Measures the limits of this machine's disk, loopback and memory, beside the figures of a bench.

    disk        append and fdatasync of 4 KiB; overwriting in three files (cluster/bench/disk.py)
    loopback    round trip of 1 KiB between two processes, with the event loop that nodes run on
    memcpy      bytes copied per second, 64 MiB at a time
    CRC         zlib.crc32: bytes per second for 1 MiB, and microseconds for 1 KiB

`floor_ms` is the least time for a single message in flight: an append with fdatasync and two round
trips, from client to leader and from leader to follower.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import cast

from cluster.bench.disk import measure, percentile
from dledger.runtime.loop import loop_factory

SIZE = 1024
COPIED = 64 << 20
CHECKED = 1 << 20
SECONDS = 0.3
ANSWER_SECONDS_MAX = 30.0


def limits(folder: Path) -> dict[str, float]:
    """Measure all limits, which takes about six seconds; returns name → figure."""
    found = {name: float(value) for name, value in asdict(measure(folder)).items()}
    found["loopback_p50_ms"] = loopback_ms()
    found["floor_ms"] = found["append_p50_ms"] + 2 * found["loopback_p50_ms"]
    data, target, kib = bytes(COPIED), memoryview(bytearray(COPIED)), os.urandom(SIZE)

    def copy() -> None:
        target[:] = data

    block = os.urandom(CHECKED)
    found["memcpy_gb_per_second"] = COPIED / 1e9 / _seconds_of(copy)
    found["crc_gb_per_second"] = CHECKED / 1e9 / _seconds_of(lambda: zlib.crc32(block))
    found["crc_us_per_kib"] = 1e6 * _seconds_of(lambda: zlib.crc32(kib))
    return found


def _seconds_of(work: Callable[[], object]) -> float:
    """Least time of many calls of `work`, since other programs can only make a call longer."""
    best, end = float("inf"), time.perf_counter() + SECONDS
    while (began := time.perf_counter()) < end:
        work()
        best = min(best, time.perf_counter() - began)
    return best


def loopback_ms() -> float:
    """Median of round trips to another process."""
    command = [sys.executable, "-m", "chaos.bench.machine"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as echo:
        assert echo.stdout is not None
        try:
            port = int(echo.stdout.readline())
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                return percentile(sorted(runner.run(_round_trips(port))), 0.5) * 1e3
        finally:
            echo.kill()


class _Asks(asyncio.Protocol):
    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._end = time.perf_counter() + SECONDS
        self._missing = 0
        self._data = os.urandom(SIZE)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._ask()

    def _ask(self) -> None:
        self._began, self._missing = time.perf_counter(), SIZE
        self._transport.write(self._data)

    def data_received(self, data: bytes) -> None:
        self._missing -= len(data)
        if self._missing:
            return
        now = time.perf_counter()
        self.seconds.append(now - self._began)
        if now < self._end:
            self._ask()
        elif not self.finished.done():
            self.finished.set_result(None)


class _Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


async def _round_trips(port: int) -> list[float]:
    running = asyncio.get_running_loop()
    transport, asks = await running.create_connection(_Asks, "127.0.0.1", port)
    await asyncio.wait_for(asks.finished, ANSWER_SECONDS_MAX)
    transport.close()
    return asks.seconds


async def _serve() -> None:
    """Print the port, then echo until this process is killed."""
    server = await asyncio.get_running_loop().create_server(_Echo, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as _runner:
        _runner.run(_serve())
