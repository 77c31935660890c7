"""A reader of its own that follows every queue from its beginning, so that all has been read.

    readers of the load    vanish and begin again, ask any replica, jump behind what was deleted
    tail reader            one for all queues, keeps its places as long as the run, asks the leader

Old log files go while a run lasts, and what stood in them can be looked up nowhere. Whatever the
tail reader was shown before was kept until then (chaos/checkers/beginnings.py counts the rest).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from random import Random

import cluster
from chaos.history import Kind, Operation, Outcome
from chaos.live.client_process import Topic, Written
from chaos.live.queue_access import Messages, QueueAccess
from cluster.client import Client
from cluster.errors import ClusterError

NAME = "tail"
PAUSE_SECONDS = 0.05  # between two queues; a batch that brought something is followed at once
BATCHES_IN_A_ROW_MAX = 16  # of one queue, before the next one has its turn
FINISH_SECONDS_MAX = 20.0


class TailReader:
    """Reads the queues from `start` to `stop` and records the messages as polls of one process."""

    def __init__(self, nameserver: str, topic: Topic, written: Written) -> None:
        self._nameserver, self._topic, self._written = nameserver, topic, written
        self._next = dict.fromkeys(range(topic.queues), 0)
        self._ended_at = dict.fromkeys(range(topic.queues), float("-inf"))
        self._stack = contextlib.AsyncExitStack()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises ClusterError."""
        client = await self._stack.enter_async_context(cluster.connect(self._nameserver))
        broker = next(iter((await client.admin().status()).brokers))
        self._task = asyncio.ensure_future(self._follow(self._access(client, broker)))

    async def stop(self) -> None:
        """Stops when the reader has reached the end of every queue, or cannot in time. Raises the
        error that the reader failed with."""
        if await self.read_up():
            self._tell_ends()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._stack.aclose()

    def _access(self, client: Client, broker: str) -> QueueAccess:
        return QueueAccess(client, self._topic.name, broker, Random(0), any_replica=False)

    async def read_up(self, seconds_max: float = FINISH_SECONDS_MAX) -> bool:
        """Wait until it has come to the end of every queue; False when it is not in time."""
        began = self._written.now()
        end = time.monotonic() + seconds_max
        while min(self._ended_at.values()) < began:
            if time.monotonic() > end:
                return False
            await asyncio.sleep(PAUSE_SECONDS)
        return True

    def _tell_ends(self) -> None:
        """Records an empty poll at each queue's end, so that the checkers know that entries behind
        it were not seen."""
        for queue, at in self._next.items():
            self._write(Kind.POLL, queue, at, self._ended_at[queue])

    async def _follow(self, access: QueueAccess) -> None:
        while True:  # until the context ends
            for queue in range(self._topic.queues):
                with contextlib.suppress(ClusterError):  # asked again in a moment
                    await self._catch_up(access, queue)
                await asyncio.sleep(PAUSE_SECONDS)

    async def _catch_up(self, access: QueueAccess, queue: int) -> None:
        for _ in range(BATCHES_IN_A_ROW_MAX):
            if not await self._poll(access, queue):
                return

    async def _poll(self, access: QueueAccess, queue: int) -> bool:
        """Polls one queue; True if its position advanced. Only an empty answer marks the end,
        because brokers cut batches short."""
        at, began = self._next[queue], self._written.now()
        try:
            messages, following = await access.pull(queue, at)
        except ValueError as error:  # what was answered is no answer
            self._written.complaints.append(f"{NAME}, poll of q{queue}: {error}")
            return False
        if following > at:
            self._next[queue] = following
            kind, offset = (Kind.POLL, at) if messages else (Kind.SEEK, following)
            self._write(kind, queue, offset, began, messages)
        elif not messages:
            self._ended_at[queue] = began
        return following > at

    def _write(
        self, kind: Kind, queue: int, offset: int, began: float, messages: Messages = ()
    ) -> None:
        now, log = self._written.now(), f"{self._topic.log}{queue}"
        self._written.history.append(
            Operation(NAME, kind, "", began, now, Outcome.OK, offset, log, messages)
        )
