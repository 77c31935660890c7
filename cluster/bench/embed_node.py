"""One node of `dledger bench embed`: a replica that does what its parent's lines say."""

from __future__ import annotations

import asyncio
import cProfile
import json
import os
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

from cluster.bench.disk import percentile
from dledger import DledgerError, RaftConfig, ReplicatedLog
from dledger.runtime.loop import run

#: Different random bodies: enough that nothing on the way could profit from repetition.
_BODIES = 4096


async def keep_in_flight(
    log: ReplicatedLog, window: int, body_size: int, seconds: float
) -> tuple[list[float], float]:
    """Keep `window` entries in flight; latency of each, and how long it all took, in seconds.

    Entries are answered in the order of their appends, so the oldest one is waited for, and all
    that were answered with it are replaced in one go.
    """
    block = os.urandom(body_size * _BODIES)
    bodies = [block[at : at + body_size] for at in range(0, len(block), body_size)]
    pending: deque[tuple[float, asyncio.Future[Any]]] = deque()
    latencies: list[float] = []
    clock, append = time.perf_counter, log.append
    begun = now = clock()
    end, number = begun + seconds, 0
    while now < end or pending:
        while now < end and len(pending) < window:
            pending.append((now, append(bodies[number % _BODIES])))
            number += 1
        await pending[0][1]
        now = clock()
        while pending and pending[0][1].done():
            started, answer = pending.popleft()
            answer.result()  # raises what went wrong
            latencies.append(now - started)
    return latencies, clock() - begun


async def load(log: ReplicatedLog, command: dict[str, Any]) -> dict[str, Any]:
    """Answer of a "load" line."""
    latencies, seconds = await keep_in_flight(
        log, command["window"], command["body_size"], command["seconds"]
    )
    latencies.sort()
    return {
        "entries": len(latencies),
        "entries_per_second": len(latencies) / seconds,
        "p50_ms": percentile(latencies, 0.5) * 1e3,
        "p99_ms": percentile(latencies, 0.99) * 1e3,
    }


async def leader(log: ReplicatedLog, seconds_max: float) -> dict[str, Any]:
    """Who leads, once it takes entries; followers only look."""
    async with asyncio.timeout(seconds_max):
        while True:  # until the timeout
            name = await log.wait_for_leader()
            if name != log.config.node_id:
                return {"leader": name}
            try:
                await log.append(b"ready")
            except DledgerError:
                await asyncio.sleep(0.01)
            else:
                return {"leader": name}


async def serve(log: ReplicatedLog) -> None:
    """Lines from the parent until it says stop or goes away."""
    loop = asyncio.get_running_loop()
    answer: dict[str, Any] = {"started": log.config.node_id}
    while True:  # until "stop" or the end of the input
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
        line = await loop.run_in_executor(None, sys.stdin.readline)
        command = json.loads(line or '{"do": "stop"}')
        try:
            match command["do"]:
                case "leader":
                    answer = await leader(log, command["seconds"])
                case "load":
                    answer = await load(log, command)
                case "cpu":
                    answer = {"cpu_seconds": time.process_time()}
                case _:
                    return
        except (DledgerError, TimeoutError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}


async def node(config: dict[str, Any]) -> None:
    peers = {name: (host, port) for name, (host, port) in config.pop("peers").items()}
    settings = RaftConfig(peers=peers, **config)
    if not (Path(settings.data_dir) / "identity").exists():
        ReplicatedLog.format(settings)
    async with ReplicatedLog(settings) as log:
        await serve(log)


def main() -> None:
    given = json.loads(sys.argv[1])
    profile = cProfile.Profile() if given["profile"] else None
    if profile is not None:
        profile.enable()
    run(node(given["config"]))
    if profile is not None:
        profile.disable()
        profile.dump_stats(f"{given['profile']}.{given['config']['node_id']}")


if __name__ == "__main__":
    main()
