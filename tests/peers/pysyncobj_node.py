"""One node of pysyncobj's `ReplDict` that does what its parent's lines say (see `embed.py`).

It keeps a journal file, which it writes without a sync. "tuned": a tick of 2 ms and appends every
4 ms, with which it is fastest; with its defaults it answers about four times a second.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import time
from typing import Any

from pysyncobj import SyncObj, SyncObjConf  # type: ignore[attr-defined]
from pysyncobj.batteries import ReplDict

from cluster.bench.embed_node import as_text, figures
from tests.waiting import limit, wait_until

BODIES = 4096
TUNED = {"autoTickPeriod": 0.002, "appendEntriesPeriod": 0.004}


def _load(values: Any, window: int, body_size: int, seconds: float) -> dict[str, Any]:
    """Keep `window` changes in flight; each answer lets the next one go."""
    texts = [as_text(os.urandom(body_size)) for _ in range(BODIES)]
    answers: queue.SimpleQueue[tuple[float, Any]] = queue.SimpleQueue()
    latencies: list[float] = []
    clock = time.perf_counter
    begun = now = clock()
    number = open_count = 0
    while now < begun + seconds or open_count:
        while now < begun + seconds and open_count < window:
            key, text = f"key-{number % BODIES}", texts[number % BODIES]

            def answered(_: Any, error: Any, started: float = now) -> None:
                answers.put((clock() - started, error))

            values.set(key, text, callback=answered)
            number += 1
            open_count += 1
        latency, error = answers.get(timeout=limit(30))
        if error:
            return {"error": f"a change was not made: {error}"}
        latencies.append(latency)
        open_count -= 1
        now = clock()
    return figures(latencies, clock() - begun)


def _leader(node: Any, names: dict[str, str], seconds: float) -> dict[str, Any]:
    def leader() -> Any:
        return node.getStatus()["leader"] if node.isReady() else None

    return {"leader": names[wait_until(leader, "a leader", seconds).id]}


def main() -> None:
    given = json.loads(sys.argv[1])
    config = given["config"]
    names = {f"{host}:{port}": name for name, (host, port) in config["peers"].items()}
    own = next(address for address, name in names.items() if name == config["node_id"])
    os.makedirs(config["data_dir"])
    values = ReplDict()
    settings = SyncObjConf(
        journalFile=os.path.join(config["data_dir"], "journal"),
        bindAddress=own,  # its default is every address of the machine
        commandsQueueSize=100_000,
        **(TUNED if given["tuned"] else {}),
    )
    node = SyncObj(own, [other for other in names if other != own], settings, consumers=[values])
    answer: dict[str, Any] = {"started": config["node_id"]}
    while True:  # until "stop" or the end of the input
        print(json.dumps(answer), flush=True)
        command = json.loads(sys.stdin.readline() or '{"do": "stop"}')
        match command["do"]:
            case "leader":
                answer = _leader(node, names, command["seconds"])
            case "load":
                answer = _load(values, command["window"], command["body_size"], command["seconds"])
            case "cpu":
                answer = {"cpu_seconds": time.process_time()}
            case _:
                node.destroy()
                return


if __name__ == "__main__":
    main()
