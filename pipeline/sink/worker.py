"""Worker: the event loop and the cluster connections that a Python worker of Spark keeps from task
to task.

This module does not import Arrow, which is slow: Spark starts a new Python process for the driver's
commit of each micro-batch, and that process uses this module, too.
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
        self.idle: dict[tuple[Client, float], Producer] = {}  # kept by ClusterStore between tasks

    def client(self, servers: str, config: ClientConfig) -> Client:
        """This process's client of a cluster, made at the first call. Raises ClusterError."""
        key = (servers, config)
        if key not in self._clients:
            self._clients[key] = self.loop.run_until_complete(_connect(servers, config))
        return self._clients[key]

    def fresh_numbering(self) -> Numbering:
        """Numbers for rows that will never be sent again.

        All of them use one producer id per process, because brokers remember a limited number of
        ids, and exactly-once writes need the ids of other queries to stay remembered.
        """
        return Numbering(self._name, 0, next(self._attempts))

    def close(self) -> None:
        """Close all clients and the loop; called at the end of the process."""
        for client in self._clients.values():
            self.loop.run_until_complete(client.close())
        self._clients.clear()
        self.idle.clear()
        self.loop.close()


_worker: list[Worker] = []


def worker() -> Worker:
    """This process's Worker, made at the first call: Spark forks workers before they run tasks."""
    if not _worker:
        _worker.append(Worker())
        atexit.register(_worker[0].close)
    return _worker[0]


async def _connect(servers: str, config: ClientConfig) -> Client:
    return connect(servers, config)
