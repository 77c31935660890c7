"""A stream of requests for each queue, with one bound on the unanswered bytes of all.

Rows of several tasks, each a producer, go to a queue one task after the other. A request that
continues the producer before costs a broker less than half of the work that others cost
(cluster/broker/produce/send_batch.py).
"""

from __future__ import annotations

import asyncio

from cluster.client import Client
from cluster.protocol.json_body import MessageQueue
from pipeline.sink.stream import Request, Stream

IN_FLIGHT_BYTES_MAX = 16 << 20  # above it, rows are not taken until answers came


class Streams:
    """The streams of a task or a commit. `flush` or `close` must be called."""

    def __init__(self, client: Client, seconds_max: float) -> None:
        self._client, self._seconds_max = client, seconds_max
        self._streams: dict[MessageQueue, Stream] = {}

    def add(self, queue: MessageQueue, request: Request) -> None:
        """Send it after all that was added for the same queue."""
        stream = self._streams.get(queue)
        if stream is None:
            stream = self._streams[queue] = Stream(self._client, queue, self._seconds_max)
        stream.add(request)

    async def wait_for_space(self) -> None:
        """Waits until there is space for more. Raises the error of a failed stream."""
        await self._until_below(IN_FLIGHT_BYTES_MAX)

    async def flush(self) -> None:
        """Waits until all rows are stored. Raises the error of a failed stream."""
        await self._until_below(1)

    def close(self) -> None:
        """Cancels the requests under way, after a failure."""
        for stream in self._streams.values():
            stream.close()

    async def _until_below(self, bytes_max: int) -> None:
        while True:  # ends when the streams are done, or when one fails
            works = [stream.work for stream in self._streams.values() if stream.work is not None]
            for work in works:
                if work.done():
                    work.result()
            left = [work for work in works if not work.done()]
            if not left or sum(s.bytes_left for s in self._streams.values()) < bytes_max:
                return
            await asyncio.wait(left, timeout=0.005, return_when=asyncio.FIRST_COMPLETED)
