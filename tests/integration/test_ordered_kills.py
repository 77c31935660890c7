"""Ordered members while leaders are killed: order in each queue is kept, and nothing is lost.

Locks are the group's, in the log: a new leader knows them, so no queue changes hands for a kill
alone. Where one does, its new reader may begin before what the former one could not store.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest

import cluster
from cluster.client import Client, ConsumerConfig, ReceivedMessage
from cluster.local.launcher import LocalCluster
from tests.waiting import RAFT_TIMINGS, eventually, within

TOPIC, QUEUES = "Ordered", 4
MEMBERS = ("a", "b")


class Seen:
    """What members handled, in the order in which they did; who is in which queue now."""

    def __init__(self) -> None:
        self.rows: dict[int, list[tuple[str, int, str]]] = {queue: [] for queue in range(QUEUES)}
        self.together: list[str] = []
        self._inside: set[int] = set()

    def handler(self, name: str) -> Callable[[ReceivedMessage], object]:
        async def handle(message: ReceivedMessage) -> None:
            queue = message.queue.queue_id
            if queue in self._inside:
                self.together.append(f"{name} in queue {queue} at {message.queue_offset}")
            self._inside.add(queue)
            self.rows[queue].append((name, message.queue_offset, message.body.decode()))
            for _ in range(3):  # others have their turn while it is in hand
                await asyncio.sleep(0)
            self._inside.discard(queue)

        return handle

    def reached(self) -> list[int]:
        """How many messages of each queue were handled up to now."""
        return [
            max((offset for _, offset, _ in rows), default=-1) + 1 for rows in self.rows.values()
        ]

    async def more_of_each_queue(self, whence: str) -> None:
        """Wait until several more messages of each queue were handled than now."""
        wanted = [count + 5 for count in self.reached()]
        await eventually(
            lambda: all(now >= one for now, one in zip(self.reached(), wanted, strict=True)),
            f"messages {whence}",
        )


class Sender:
    """Numbers each queue's messages, one at a time, until it is stopped."""

    def __init__(self, mq: Client) -> None:
        self._mq = mq
        self.counts = [0] * QUEUES
        self.stops = False

    async def run(self) -> None:
        async with self._mq.producer() as producer:
            await asyncio.gather(*(self._one(producer, queue) for queue in range(QUEUES)))

    async def _one(self, producer: cluster.client.Producer, queue: int) -> None:
        while not self.stops:
            number = self.counts[queue]
            receipt = await producer.send(TOPIC, b"%d" % number, queue_id=queue)
            assert receipt.queue_offset == number, "none doubled"
            self.counts[queue] += 1


@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.long)])
async def test_order_is_kept_while_leaders_are_killed(
    make_cluster: Callable[..., LocalCluster], kills: int
) -> None:
    local = await asyncio.to_thread(make_cluster, settings=RAFT_TIMINGS)
    seen = Seen()
    async with contextlib.AsyncExitStack() as stack:
        mq = await stack.enter_async_context(cluster.connect(local.nameserver))
        await mq.admin().create_topic(TOPIC, QUEUES)
        config = ConsumerConfig(ordered=True, manual_ack=True)
        members = [mq.consumer(TOPIC, group="G", config=config) for _ in MEMBERS]
        for member in members:
            await stack.enter_async_context(member)
        running = [
            asyncio.ensure_future(member.run(seen.handler(name), concurrency=QUEUES))
            for member, name in zip(members, MEMBERS, strict=True)
        ]
        sender = Sender(mq)
        sending = asyncio.ensure_future(sender.run())
        await seen.more_of_each_queue("from the first leader")
        for _ in range(kills):
            await asyncio.to_thread(local.up)  # whom the kill before ended
            leader = await asyncio.to_thread(local.leader)
            assert leader is not None
            await asyncio.to_thread(local.kill, leader)
            await seen.more_of_each_queue("from another leader")
        sender.stops = True
        await within(sending, "the last sends")
        await eventually(lambda: seen.reached() == sender.counts, "all are handled")
        for member in members:
            await member.close()
        await within(asyncio.gather(*running), "their handlers end")
    assert not seen.together
    for queue, rows in seen.rows.items():
        check_order(rows, sender.counts[queue])


def check_order(rows: list[tuple[str, int, str]], count: int) -> None:
    """Every offset in order, with what was sent there; again only by another member."""
    reached, last, before = -1, -1, ""
    for name, offset, body in rows:
        assert body == str(offset)
        is_again = offset <= reached and name != before
        assert offset == last + 1 or is_again, f"{name} handled {offset} after {before} {last}"
        reached, last, before = max(reached, offset), offset, name
    assert reached == count - 1
