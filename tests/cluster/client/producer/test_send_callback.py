"""Sends with a callback: told once, in order, free to send the next, and never in another's way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import cluster
from cluster.client.config import ClientConfig, ProducerConfig
from cluster.client.message import Receipt
from cluster.errors import (
    ClusterError,
    MessageTooLarge,
    QueueFull,
    SendTimeout,
    TopicNotFound,
    Unauthorized,
)

from ..stub_cluster import StubGroup

pytestmark = pytest.mark.virtual_time

QUICK = ClientConfig(stall_timeout=0.1, request_timeout=0.5, replica_fallback=0.3)
MODES = [ProducerConfig(), ProducerConfig(batching=True, batch_count_max=16)]


class Told:
    """What one callback heard."""

    def __init__(self) -> None:
        self.receipts: list[Receipt] = []
        self.errors: list[ClusterError] = []

    def __call__(self, receipt: Receipt | None, error: ClusterError | None) -> None:
        assert (receipt is None) != (error is None)
        if receipt is not None:
            self.receipts.append(receipt)
        if error is not None:
            self.errors.append(error)


@pytest.mark.parametrize("config", MODES, ids=["single", "batching"])
async def test_receipts_come_in_the_order_of_the_queue(
    group: StubGroup, config: ProducerConfig
) -> None:
    async with (
        cluster.connect(group.nameserver.address, QUICK) as client,
        client.producer(config=config) as producer,
    ):
        await producer.open_topic("T")
        told = Told()
        for number in range(100):
            producer.send_callback("T", b"%d" % number, told, queue_id=1)
        await producer.flush()
        assert [receipt.queue_offset for receipt in told.receipts] == list(range(100))
        assert [item.body for item in group.log] == [b"%d" % number for number in range(100)]
        assert not told.errors


async def test_a_callback_may_send_the_next_with_a_full_window(group: StubGroup) -> None:
    config = ProducerConfig(in_flight_max=4, batching=True)
    async with (
        cluster.connect(group.nameserver.address, QUICK) as client,
        client.producer(config=config) as producer,
    ):
        await producer.open_topic("T")
        left = 50

        def again(receipt: Receipt | None, error: ClusterError | None) -> None:
            nonlocal left
            assert receipt is not None, error
            if left:
                left -= 1
                producer.send_callback("T", b"next", again)

        for _ in range(4):
            producer.send_callback("T", b"first", again)
        with pytest.raises(QueueFull):
            producer.send_callback("T", b"first", again)
        await producer.flush()
        assert len(group.log) == 54


async def test_what_a_callback_raises_keeps_no_other_from_its_receipt(group: StubGroup) -> None:
    heard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
    config = ProducerConfig(batching=True)
    async with (
        cluster.connect(group.nameserver.address, QUICK) as client,
        client.producer(config=config) as producer,
    ):
        await producer.open_topic("T")
        told = Told()

        def broken(receipt: Receipt | None, error: ClusterError | None) -> None:
            raise ValueError("mine")

        producer.send_callback("T", b"0", broken, queue_id=0)
        producer.send_callback("T", b"1", told, queue_id=0)
        await producer.flush()
        assert len(told.receipts) == 1
        assert [str(context["exception"]) for context in heard] == ["mine"]


async def test_one_that_comes_too_late_is_told_once(group: StubGroup) -> None:
    config = ProducerConfig(delivery_timeout=0.2)
    async with (
        cluster.connect(group.nameserver.address, QUICK) as client,
        client.producer(config=config) as producer,
    ):
        await producer.open_topic("T")
        group.refuse = lambda request: QueueFull("full")
        told, heard = Told(), asyncio.Event()

        def late(receipt: Receipt | None, error: ClusterError | None) -> None:
            told(receipt, error)
            heard.set()

        producer.send_callback("T", b"late", late, queue_id=1)
        await heard.wait()
        group.refuse = lambda request: None
        await producer.flush()
        assert [item.body for item in group.log] == [b"late"]
        assert [type(error) for error in told.errors] == [SendTimeout]
        assert not told.receipts


async def test_refusals_and_wrong_use(group: StubGroup) -> None:
    async with (
        cluster.connect(group.nameserver.address, QUICK) as client,
        client.producer() as producer,
    ):
        told = Told()
        with pytest.raises(TopicNotFound, match="open_topic"):
            producer.send_callback("T", b"x", told)
        await producer.open_topic("T")
        with pytest.raises(MessageTooLarge):
            producer.send_callback("T", bytes(5 << 20), told)
        group.refuse = lambda request: Unauthorized("no")
        producer.send_callback("T", b"x", told)
        await producer.flush()
        assert [type(error) for error in told.errors] == [Unauthorized]
