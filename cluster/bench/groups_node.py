"""One host of `dledger bench groups`: opens groups and does the commands of its parent's lines."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from cluster.bench.disk import percentile
from cluster.bench.embed_node import Counter
from dledger import DledgerError, Host, RaftConfig, ReplicatedNode
from dledger.runtime.loop import run

#: Groups that are opened at once: each reads and locks its folder.
_AT_ONCE = 16


class Groups:
    """The groups of one host, by number."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._nodes: list[ReplicatedNode[bytes, int]] = []

    async def open(self, count: int) -> dict[str, Any]:
        """Open groups until there are `count`; the seconds that it took."""
        begun, numbers = time.perf_counter(), itertools.count(len(self._nodes))

        async def some() -> None:
            while (number := next(numbers)) < count:
                name = f"g{number}"
                self._nodes.append(await self._host.open(name, Counter(), create=True))

        await asyncio.gather(*(some() for _ in range(_AT_ONCE)))
        return {"seconds": time.perf_counter() - begun}

    async def led(self) -> dict[str, Any]:
        """The leader of each group here, "" where none is known."""
        return {"leaders": {n.config.group: n.leader or "" for n in self._nodes}}

    async def cost(self) -> dict[str, Any]:
        """Cost of this process: processor time, waits of its event loop, bytes, threads, files.

        `pss_bytes` counts a page that n processes share as 1/n, `uss_bytes` does not count it.
        """
        status, pages = _lines("status"), _lines("smaps_rollup")
        used = os.times()
        return {
            "cpu_seconds": used.user + used.system,
            "waits": int(_lines(f"task/{os.getpid()}/status")["voluntary_ctxt_switches"]),
            "pss_bytes": _bytes(pages["Pss"]),
            "uss_bytes": _bytes(pages["Private_Clean"]) + _bytes(pages["Private_Dirty"]),
            "anonymous_bytes": _bytes(status["RssAnon"]),
            "rss_bytes": _bytes(status["VmRSS"]),
            "threads": int(status["Threads"]),
            "files": len(os.listdir("/proc/self/fd")),
        }

    async def load(self, group: str, seconds: float, window: int, size: int) -> dict[str, Any]:
        """Keep `window` commands of one group in flight. Raises DledgerError."""
        node = next(n for n in self._nodes if n.config.group == group)
        body, latencies = os.urandom(size), list[float]()
        begun = time.perf_counter()

        async def one() -> None:
            while (started := time.perf_counter()) < begun + seconds:
                await node.propose(body)
                latencies.append(time.perf_counter() - started)

        await asyncio.gather(*(one() for _ in range(window)))
        took = time.perf_counter() - begun
        latencies.sort()
        return {
            "commands_per_second": len(latencies) / took,
            "p50_ms": percentile(latencies, 0.5) * 1e3,
            "p99_ms": percentile(latencies, 0.99) * 1e3,
        }


def _lines(name: str) -> dict[str, str]:
    """The kernel's lines about this process."""
    lines = Path("/proc/self", name).read_text().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def _bytes(found: str) -> int:
    """The bytes that a line in kB gives."""
    return int(found.split()[0]) << 10


async def main(config: RaftConfig, *, quiescence: bool) -> None:
    """Answer each line of the parent with one, until it says stop or is gone."""
    loop = asyncio.get_running_loop()
    async with Host(config, quiescence=quiescence) as host:
        groups = Groups(host)
        print("{}", flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            command = json.loads(line)
            do = command.pop("do")
            if do == "stop":
                return
            try:
                answer = await getattr(groups, do)(**command)
            except DledgerError as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    given["peers"] = {name: tuple(place) for name, place in given["peers"].items()}
    quiescence = given.pop("quiescence")
    run(main(RaftConfig(**given), quiescence=quiescence))
