"""The generated twin: equal to the async classes, and usable from threads."""

from __future__ import annotations

import asyncio
import inspect
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cluster import client as asynchronous
from cluster.client import blocking
from cluster.client.config import ClientConfig, ProducerConfig
from cluster.errors import ClientClosed, MessageTooLarge, QueueFull
from tests.waiting import limit, within

from ..stub_cluster import StubGroup

ROOT = Path(__file__).parents[4]
QUICK = ClientConfig(stall_timeout=0.1, request_timeout=limit(10))


def test_it_is_what_the_async_classes_say() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "unasync.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=limit(60))
    assert result.returncode == 0, result.stderr


def test_a_difference_is_found(tmp_path: Path) -> None:
    copy = tmp_path / "checkout"
    (copy / "scripts").mkdir(parents=True)
    script = (ROOT / "scripts" / "unasync.py").read_text()
    (copy / "scripts" / "unasync.py").write_text(script)
    shutil.copytree(ROOT / "cluster" / "client", copy / "cluster" / "client")
    admin = copy / "cluster" / "client" / "admin" / "admin.py"
    admin.write_text(admin.read_text().replace("queues: int = 4", "queues: int = 5"))
    (copy / "ruff.toml").write_text("line-length = 100\n")
    command = [sys.executable, str(copy / "scripts" / "unasync.py")]
    check = subprocess.run([*command, "--check"], capture_output=True, text=True, timeout=limit(60))
    assert check.returncode == 1
    assert "run scripts/unasync.py" in check.stderr
    assert subprocess.run(command, timeout=limit(60)).returncode == 0
    assert subprocess.run([*command, "--check"], timeout=limit(60)).returncode == 0
    assert subprocess.run([*command, "--wrong"], timeout=limit(60), stderr=-3).returncode == 2


@pytest.mark.parametrize(
    "name", ["Admin", "Client", "Consumer", "Producer", "Transaction", "TransactionProducer"]
)
def test_the_same_parameters(name: str) -> None:
    ours, theirs = getattr(blocking, name), getattr(asynchronous, name)
    for method, function in inspect.getmembers(ours, inspect.isfunction):
        if method.startswith("_"):
            continue
        expected = inspect.signature(getattr(theirs, method)).parameters
        assert inspect.signature(function).parameters == expected, method
        assert not inspect.iscoroutinefunction(function)


async def test_send_and_receive(group: StubGroup) -> None:
    address = group.nameserver.address

    def work() -> None:
        with blocking.connect(address, QUICK) as mq:
            mq.admin().create_topic("B", 2)
            with mq.producer() as producer:
                receipt = producer.send("B", b"one", key="k")
                assert receipt.queue_offset == 0
                producer.open_topic("B")
                futures = [producer.send_nowait("B", b"%d" % i) for i in range(20)]
                assert [future.result(4).term for future in futures] == [1] * 20
                assert producer.in_flight_count == 0
            with mq.consumer("B", group="G") as consumer:
                found = []
                for message in consumer:
                    found.append(message.body)
                    consumer.ack(message)
                    if len(found) == 21:
                        break
                assert sorted(found) == sorted([b"one", *(b"%d" % i for i in range(20))])
                assert consumer.receive(0.01) is None
                assert len(consumer.assigned) == 2
            assert mq.admin().describe_topic("B").message_count == 21

    await asyncio.to_thread(work)
    assert sum(group.offsets[key] for key in group.offsets if key[0] == "G") == 21


async def test_many_threads_share_one_producer(group: StubGroup) -> None:
    address = group.nameserver.address

    def work() -> None:
        with (
            blocking.connect(address, QUICK) as mq,
            mq.producer() as producer,
            ThreadPoolExecutor(4) as threads,
        ):
            list(threads.map(lambda i: producer.send("T", b"%d" % i), range(100)))

    await asyncio.to_thread(work)
    assert sorted(item.body for item in group.log) == sorted(b"%d" % i for i in range(100))


async def test_errors_come_through(group: StubGroup) -> None:
    address = group.nameserver.address

    def work() -> None:
        mq = blocking.connect(address, QUICK)
        producer = mq.producer(config=ProducerConfig(in_flight_max=1, delivery_timeout=limit(30)))
        producer.open_topic("T")
        with pytest.raises(MessageTooLarge):
            producer.send("T", bytes(5 << 20))
        group.refuse = lambda request: QueueFull("full")
        first = producer.send_nowait("T", b"x")
        with pytest.raises(QueueFull):
            producer.send_nowait("T", b"x")
        group.refuse = lambda request: None
        first.result(limit(30))
        mq.close()
        with pytest.raises(ClientClosed):
            producer.send("T", b"x")
        mq.close()

    await asyncio.to_thread(work)


async def test_closing_ends_a_loop_in_another_thread(group: StubGroup) -> None:
    address = group.nameserver.address

    def work() -> int:
        with blocking.connect(address, QUICK) as mq:
            consumer = mq.consumer("T", group="G")
            consumer.start()
            timer = threading.Timer(0.05, consumer.close)
            timer.start()
            return sum(1 for _ in consumer)

    assert await within(asyncio.to_thread(work), "the end of the loop") == 0


async def test_lists_are_what_was_read_ahead_and_the_next_one_acks_them(group: StubGroup) -> None:
    """In the order of the queue, each message once, mixed with single ones; none is skipped."""
    address = group.nameserver.address
    bodies = [b"%02d" % number for number in range(60)]

    def work() -> None:
        with blocking.connect(address, QUICK) as mq:
            with mq.producer() as producer:
                for body in bodies:
                    producer.send("T", body, queue_id=0)
            with mq.consumer("T", group="G") as consumer:
                found = consumer.receive_many(10, limit(10))
                assert len(found) <= 10
                consumer.commit()
                assert group.offsets["G", "T", 0] == 0, "nothing is acked by having been given"
                found.append(next(iter(consumer)))
                consumer.commit()
                assert group.offsets["G", "T", 0] == len(found) - 1, "asking acked the list"
                while len(found) < len(bodies):
                    found += consumer.receive_many(1024, limit(10))
                assert [message.body for message in found] == bodies
                assert consumer.receive_many(1024, 0.01) == []
            assert group.offsets["G", "T", 0] == len(bodies), "asking in vain acked the last list"

    await within(asyncio.to_thread(work), "the lists")
