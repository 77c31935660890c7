"""A program that embeds a counter: it prints 20 once so many were acknowledged, then goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import asyncio, sys
from dledger import RaftConfig
from dledger.objects.counter import ReplicatedCounter

async def main():
    config = RaftConfig("n0", {"n0": (sys.argv[2], 20911)}, sys.argv[1], cluster_id="old")
    async with ReplicatedCounter(config, create=True) as counter:
        for _ in range(20):
            total = await counter.add(1)
        print(total, flush=True)
        if sys.argv[3:] == ["blocked"]:
            sys.stdin.readline()                    # blocks the event loop
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


def started(folder: Path, address: str, *, blocked: bool = False) -> subprocess.Popen[bytes]:
    """The process. `blocked`: its event loop stands still until a line comes in."""
    words = ["blocked"] if blocked else []
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(folder), address, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
