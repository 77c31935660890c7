"""Planned moves under our own numbered producers, real processes: every send is answered (R8).

Streams speak the producers' protocol on connections to the leader and go on over each move, so
batches are refused while others are settled and not dispatched. What nodes log of mistakes
is looked at when the cluster ends (conftest.py).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable

import pytest

from cluster import connect
from cluster.client import Admin
from cluster.errors import NotDone
from cluster.local.launcher import LocalCluster
from cluster.protocol.frames import FrameDecoder
from cluster.protocol.send_own import SendEncoder

from .harness import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

TOPIC, QUEUES, STREAMS, MOVES = "moves-under-load", 2, 6, 5
PER_TURN, UNANSWERED_MAX, ANSWERED_MIN, ANSWER_SECONDS = 4, 1024, 1000, 30.0


class Stream:
    """Numbered sends to one queue on one connection; what has no answer yet is in `open`."""

    def __init__(self, number: int) -> None:
        self._encoder = SendEncoder(
            producer_group="MOVES", topic=TOPIC, queue_id=number % QUEUES, broker_name="broker-a"
        )
        self._producer = secrets.token_hex(8)
        self._decoder = FrameDecoder()
        self.sent, self.open, self.codes = 0, set[int](), Counter[int]()
        self.ended = False

    async def connect(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(1 << 16):
                for frame in self._decoder.feed(data):
                    if frame.is_response and frame.opaque in self.open:
                        self.open.discard(frame.opaque)
                        self.codes[frame.code] += 1
        except ConnectionError:
            pass
        self.ended = True  # the node closed it, which is an answer to all that was open

    async def send(self, over: asyncio.Event) -> None:
        while not over.is_set() and not self.ended:
            if len(self.open) < UNANSWERED_MAX:
                self._writer.write(b"".join(self._next() for _ in range(PER_TURN)))
            await asyncio.sleep(0.001)  # a load, not a wait

    def _next(self) -> bytes:
        number, self.sent = self.sent, self.sent + 1
        self.open.add(number + 1)
        properties = f"__PID\1{self._producer}\2__SEQ\1{number}\2UNIQ_KEY\1{number:032X}\2"
        now_ms = int(time.time() * 1000)
        return self._encoder.frame(number + 1, properties.encode(), b"%d" % number, now_ms)

    @property
    def answered(self) -> bool:
        """Is nothing open, or has the connection ended?"""
        return self.ended or not self.open

    def close(self) -> None:
        self._reading.cancel()
        self._writer.close()


async def move(admin: Admin) -> str:
    """Asked again when the appointed node's time passes; the client address of who leads then."""
    while True:
        try:
            return (await admin.transfer_leader("broker-a"))["address"]
        except NotDone:
            await asyncio.sleep(0.1)


async def test_every_send_is_answered_while_the_lead_is_moved(
    make_cluster: Callable[..., LocalCluster],
) -> None:
    cluster = make_cluster(3)
    codes, new = Counter[int](), list[Stream]()
    async with connect(cluster.nameserver) as client:
        admin = Admin(client)
        await admin.create_topic(TOPIC, QUEUES)
        leader = await move(admin)
        for _ in range(MOVES):
            new[:], over = [Stream(number) for number in range(STREAMS)], asyncio.Event()
            for stream in new:
                await stream.connect(leader)
            sending = [asyncio.create_task(stream.send(over)) for stream in new]
            await until(lambda: sum(one.codes[0] for one in new) >= ANSWERED_MIN, ANSWER_SECONDS)
            leader = await move(admin)
            over.set()
            await asyncio.gather(*sending)
            await until(lambda: all(one.answered for one in new), ANSWER_SECONDS)
            for stream in new:
                codes += stream.codes
                stream.close()
    assert codes.total() > codes[0], f"some were refused in the moves: {codes}"
