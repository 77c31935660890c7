"""`dledger bench consume`: a cluster of processes and one client that reads a topic from its start.

    log of size_mib ── pulls ──► client: queue, offset, key and body of every message are read

    each      `async for message in reader`: one message a time
    batch     `reader.receive_many(batch)`: lists of what was read ahead
    pulls_32  as stock Java clients ask: 32 messages a pull, one pull of each queue at a time; the
              answers are not decoded, so that it is the leader that is measured
    blocking_each, blocking_batch
              the first two by the client for code without an event loop, in a thread

Reported for each mode and round: messages per second, and CPU microseconds per message of leader
and client. The client checks the CRC of every body in all modes but pulls_32. Modes take turns in
each round, since other work on the machine changes rates; CPU per message changes less.

    modes            some of them joined by a comma (default each,batch,pulls_32)
    rounds           (default 3)
    size_mib         of the log that is filled before (default 64)
    body_size        bytes per message (default 1024)
    batch            messages per list at most (default 1024)
    queues           of the topic (default 4)
    settings         section.key=value joined by ";" for the cluster that is made
    root             folder of a running local cluster to use instead of one made for the run; its
                     topic bench-consume is filled only if it holds no message yet
    folder           where to work
    profile          PREFIX: cProfile files of the nodes in PREFIX.<process id>, and the leader's
                     hottest functions in the result (slower run)
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import cluster as dledger_cluster
from cluster.bench.filling import FILL_CHUNK, RECORD_OVERHEAD
from cluster.bench.scratch import bench_cluster, cpu_seconds, hottest, process_of, profiling
from cluster.client import Client, ConsumerConfig, ProducerConfig, ReceivedMessage, blocking
from cluster.client.routing.offset_lookup import FIRST, LAST, offset_at
from cluster.errors import ClusterError
from cluster.local.launcher import LocalCluster
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import PullRequest, PullResponse, decode, encode
from cluster.protocol.json_body import MessageQueue
from dledger.runtime.loop import collect_seldom, loop_factory

TOPIC = "bench-consume"
EACH, BATCH, PULLS_32 = "each", "batch", "pulls_32"
BLOCKING_EACH, BLOCKING_BATCH = "blocking_each", "blocking_batch"
STOCK_PULL_COUNT = 32
PULL_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """Options as the module's text describes them; "" for none. Defaults: the published size."""

    folder: str = ""
    root: str = ""
    modes: tuple[str, ...] = (EACH, BATCH, PULLS_32)
    rounds: int = 3
    size_mib: int = 64
    body_size: int = 1024
    batch: int = 1024
    queues: int = 4
    settings: str = ""
    profile: str = ""

    @classmethod
    def smoke(cls, folder: Path) -> ConsumeOptions:
        """Small enough for the test suite."""
        modes = (EACH, BATCH, PULLS_32, BLOCKING_EACH, BLOCKING_BATCH)
        return cls(str(folder), modes=modes, rounds=1, size_mib=1, queues=2)


Read = Callable[[Client, list[MessageQueue], int, ConsumeOptions], Awaitable[int]]
"""Reads so many messages; bytes that they had."""


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Measure. Keys of `options`: those of `ConsumeOptions`."""
    given = ConsumeOptions(**options)
    if isinstance(given.modes, str):
        given = replace(given, modes=(given.modes,))
    collect_seldom()
    with (
        profiling(given.profile),
        bench_cluster(given.root, given.folder, given.settings) as cluster,
    ):
        name = cluster.leader()
        assert name is not None, "a cluster that is up has a leader"
        leader = process_of(cluster, name)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            rows = runner.run(_measure_all(cluster, given, lambda: cpu_seconds(leader)))
    result: dict[str, Any] = {"bench": "consume", "options": asdict(given), "rows": rows}
    if given.profile:
        result["leader_profile"] = hottest(f"{given.profile}.{leader.pid}")
    return result


async def _measure_all(
    cluster: LocalCluster, options: ConsumeOptions, leader_cpu: Callable[[], float]
) -> list[dict[str, Any]]:
    reads: dict[str, Read] = {EACH: _each, BATCH: _batch, PULLS_32: _pulls_32}
    address = cluster.nameserver
    reads[BLOCKING_EACH] = partial(_in_thread, address, _blocking_each)
    reads[BLOCKING_BATCH] = partial(_in_thread, address, _blocking_batch)
    async with dledger_cluster.connect(cluster.nameserver) as client:
        queues = await _fill(client, options)
        count = await _count(client, queues)
        rows = []
        for number in range(options.rounds):
            for mode in options.modes:
                row = await _measure(reads[mode], client, queues, count, options, leader_cpu)
                rows.append({"mode": mode, "round": number} | row)
    return rows


async def _measure(
    read: Read,
    client: Client,
    queues: list[MessageQueue],
    count: int,
    options: ConsumeOptions,
    leader_cpu: Callable[[], float],
) -> dict[str, Any]:
    before, own, began = leader_cpu(), time.process_time(), time.perf_counter()
    size = await read(client, queues, count, options)
    passed = time.perf_counter() - began
    return {
        "messages": count,
        "bytes": size,
        "messages_per_second": count / passed,
        "leader_cpu_us": (leader_cpu() - before) * 1e6 / count,
        "client_cpu_us": (time.process_time() - own) * 1e6 / count,
    }


async def _fill(client: Client, options: ConsumeOptions) -> list[MessageQueue]:
    """The topic's queues, with messages that have keys."""
    admin = client.admin()
    try:
        await admin.describe_topic(TOPIC)
    except ClusterError:
        await admin.create_topic(TOPIC, options.queues)
    instance = client.instance
    queues = (await instance.routes.refresh(TOPIC)).read_queues(TOPIC)
    if await _count(client, queues):
        return queues
    count = (options.size_mib << 20) // (options.body_size + RECORD_OVERHEAD)
    bodies = [os.urandom(options.body_size) for _ in range(FILL_CHUNK)]
    async with client.producer(config=ProducerConfig(batching=True)) as producer:
        for chunk in range(max(1, count // FILL_CHUNK)):
            await asyncio.gather(
                *(
                    producer.send(TOPIC, body, key=f"key-{chunk}-{number}")
                    for number, body in enumerate(bodies)
                )
            )
    return queues


async def _count(client: Client, queues: list[MessageQueue]) -> int:
    bounds = [
        (
            await offset_at(client.instance, queue, FIRST),
            await offset_at(client.instance, queue, LAST),
        )
        for queue in queues
    ]
    return sum(last - first for first, last in bounds)


async def _each(
    client: Client, queues: list[MessageQueue], count: int, options: ConsumeOptions
) -> int:
    size = 0
    async with client.reader(TOPIC) as reader:
        async for message in reader:
            assert message.keys, "each message was sent with a key"
            assert message.queue_offset >= 0
            size += len(message.body)
            count -= 1
            if not count:
                break
    return size


async def _batch(
    client: Client, queues: list[MessageQueue], count: int, options: ConsumeOptions
) -> int:
    size = 0
    async with client.reader(TOPIC, config=ConsumerConfig()) as reader:
        while count:
            messages = await reader.receive_many(options.batch)
            size += _size_of(messages)
            count -= len(messages)
    return size


async def _in_thread(
    address: str,
    read: Callable[[blocking.Consumer, int, ConsumeOptions], int],
    client: Client,
    queues: list[MessageQueue],
    count: int,
    options: ConsumeOptions,
) -> int:
    """Read with a blocking client of its own in a thread."""

    def work() -> int:
        with blocking.connect(address) as mq, mq.reader(TOPIC) as reader:
            return read(reader, count, options)

    return await asyncio.to_thread(work)


def _blocking_each(reader: blocking.Consumer, count: int, options: ConsumeOptions) -> int:
    size = 0
    for message in reader:
        assert message.keys, "each message was sent with a key"
        assert message.queue_offset >= 0
        size += len(message.body)
        count -= 1
        if not count:
            break
    return size


def _blocking_batch(reader: blocking.Consumer, count: int, options: ConsumeOptions) -> int:
    size = 0
    while count:
        messages = reader.receive_many(options.batch)
        size += _size_of(messages)
        count -= len(messages)
    return size


def _size_of(messages: Sequence[ReceivedMessage]) -> int:
    """Read each message, as an application does; bytes of all bodies."""
    size = 0
    for message in messages:
        assert message.keys, "each message was sent with a key"
        assert message.queue_offset >= 0
        size += len(message.body)
    return size


async def _pulls_32(
    client: Client, queues: list[MessageQueue], count: int, options: ConsumeOptions
) -> int:
    return sum(await asyncio.gather(*(_pull_queue(client, queue) for queue in queues)))


async def _pull_queue(client: Client, queue: MessageQueue) -> int:
    """Read a queue to its end by a stock client's pulls; bytes of the answers."""
    offset = await offset_at(client.instance, queue, FIRST)
    last = await offset_at(client.instance, queue, LAST)
    connection = await client.instance.leaders.connection(queue.broker_name, queue.topic)
    size = 0
    while offset < last:
        request = PullRequest(
            "bench-consume",
            queue.topic,
            queue.queue_id,
            offset,
            STOCK_PULL_COUNT,
            4,
            0,
            0,
            0,
            "*",
            "TAG",
            bname=queue.broker_name,
        )
        answer = await connection.ask(
            RequestCode.PULL_MESSAGE, encode(request), time_limit=PULL_SECONDS_MAX
        )
        offset = decode(PullResponse, answer.ext).next_begin_offset
        size += len(answer.body)
    return size
