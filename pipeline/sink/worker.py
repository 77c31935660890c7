"""The objects that a Python worker of Spark keeps from task to task: an event loop, and its
connections.

No Arrow: drivers commit with it, in a new process for each micro-batch.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import secrets

from cluster.client import Client, ClientConfig, Producer, connect
from pipeline.sink.numbering import Numbering


class Worker:
    """The event loop of this process, and a client of each cluster that its tasks write to."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._name = secrets.token_hex(8)
        self._attempts = itertools.count()
        self._clients: dict[tuple[str, ClientConfig], Client] = {}
        self.idle: dict[tuple[Client, float], Producer] = {}  # as ClusterStore leaves them

    def client(self, servers: str, config: ClientConfig) -> Client:
        """The process's client of a cluster, connected when first wanted. Raises ClusterError."""
        key = (servers, config)
        if key not in self._clients:
            self._clients[key] = self.loop.run_until_complete(_connect(servers, config))
        return self._clients[key]

    def fresh_numbering(self) -> Numbering:
        """Numbers rows that will never be sent again. There is one producer id per process, because
        brokers keep a limited number of ids, and exactly-once needs those of others.
        """
        return Numbering(self._name, 0, next(self._attempts))

    def close(self) -> None:
        """At the end of the process."""
        for client in self._clients.values():
            self.loop.run_until_complete(client.close())
        self._clients.clear()
        self.idle.clear()
        self.loop.close()


_worker: list[Worker] = []


def worker() -> Worker:
    """This process's; Spark forks its workers before any task runs in them."""
    if not _worker:
        _worker.append(Worker())
        atexit.register(_worker[0].close)
    return _worker[0]


async def _connect(servers: str, config: ClientConfig) -> Client:
    return connect(servers, config)
