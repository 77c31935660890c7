"""Messages sent by one client to a topic, and when their receipts came.

full     a number of messages in flight, the next one with each receipt: what can be reached
steady   so many a second, whatever the answers do: what a load of that rate notices
"""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial

from cluster.bench.disk import percentile
from cluster.client import Producer, Receipt
from cluster.errors import ClusterError

# Enough different bodies that nothing on the way could profit from repetition.
BODIES_COUNT = 256
TICK_SECONDS = 0.005
# Each place in the window is used so often at least: several batches have several positions.
ROUNDS_MIN = 4


def random_bodies(size: int) -> list[bytes]:
    """BODIES_COUNT bodies of `size` random bytes each."""
    data = os.urandom(size * BODIES_COUNT)
    return [data[at : at + size] for at in range(0, len(data), size)]


class FullLoad:
    """Keeps `window` messages in flight for a while; latencies in seconds, of every receipt.

    `error`: of the last failed send; only a load that is `lenient` goes on after one.
    """

    def __init__(
        self, producer: Producer, topic: str, window: int, body_size: int, *, lenient: bool = False
    ) -> None:
        self.latencies: list[float] = []
        self.failed, self.error = 0, ""
        self._lenient = lenient
        self._positions: list[int] = []
        self._producer, self._topic, self._window = producer, topic, window
        self._bodies = random_bodies(body_size)
        self._until = 0.0
        self._sent = 0
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def record_size(self) -> float:
        """Bytes that one message takes in the log; those of a batch have one position."""
        first, last = min(self._positions), max(self._positions)
        before_last = sum(position < last for position in self._positions)
        return (last - first) / max(before_last, 1)

    async def run(self, seconds: float) -> float:
        """Send for so long, `ROUNDS_MIN` windows at least, and wait for the last receipt.

        Returns the seconds from the first send to that receipt.
        """
        began = time.perf_counter()
        self._until = began + seconds
        for _ in range(self._window):
            self._send(began)
        await self._finished
        return time.perf_counter() - began

    def _send(self, now: float) -> None:
        self._sent += 1
        body = self._bodies[self._sent % BODIES_COUNT]
        self._producer.send_callback(self._topic, body, partial(self._received, now))

    def _received(
        self, sent_at: float, receipt: Receipt | None, error: ClusterError | None
    ) -> None:
        now = time.perf_counter()
        if receipt is None:
            if not self._lenient:
                if not self._finished.done():
                    failure = error or AssertionError("neither receipt nor error")
                    self._finished.set_exception(failure)
                return
            self.failed, self.error = self.failed + 1, repr(error)
            if now < self._until:  # not from inside of a call that may have failed at once
                asyncio.get_running_loop().call_soon(self._send, now)
                return
        else:
            self.latencies.append(now - sent_at)
            self._positions.append(receipt.position)
            if now < self._until or self._sent < ROUNDS_MIN * self._window:
                self._send(now)
                return
        if len(self.latencies) + self.failed == self._sent and not self._finished.done():
            self._finished.set_result(None)


class SteadyLoad:
    """Sends `rate` messages a second until `stopped`; one latency per receipt, in seconds.

    A message's time begins when it is due, so one that finds no place in the producer's window
    waits, and counts as having waited.
    """

    def __init__(self, producer: Producer, topic: str, rate: float, body_size: int) -> None:
        self.rate, self.stopped = rate, False
        self._producer, self._topic = producer, topic
        self._bodies = random_bodies(body_size)
        self._window = producer.config.in_flight_max
        self._latencies: list[float] = []
        self._sent = self._answered = 0
        self._error: ClusterError | None = None

    async def run(self) -> None:
        """Send at the rate until stopped. Raises the error of the first failed send."""
        began = time.perf_counter()
        while not (self.stopped and self._answered == self._sent):
            due = 0 if self.stopped else int((time.perf_counter() - began) * self.rate) - self._sent
            for _ in range(min(due, self._window - (self._sent - self._answered))):
                sent_at = began + self._sent / self.rate
                body = self._bodies[self._sent % BODIES_COUNT]
                self._sent += 1
                self._producer.send_callback(self._topic, body, partial(self._received, sent_at))
            if self._error is not None:
                raise self._error
            await asyncio.sleep(TICK_SECONDS)

    def _received(
        self, sent_at: float, receipt: Receipt | None, error: ClusterError | None
    ) -> None:
        self._answered += 1
        self._latencies.append(time.perf_counter() - sent_at)
        self._error = self._error or error

    def percentile_ms(self, share: float) -> float:
        """A percentile of the latencies since `forget`."""
        return percentile(sorted(self._latencies), share) * 1e3

    @property
    def count(self) -> int:
        """Answered since `forget`."""
        return len(self._latencies)

    def forget(self) -> None:
        """Drop all latencies so far, so that a warm-up does not count."""
        self._latencies = []
