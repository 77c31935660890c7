"""Transactions while leaders are killed: each committed one is delivered exactly once, none else.

A small producer of transactions of our own, connected to all three nodes: it loses 37s, repeats
them, and answers what it is asked (39). What it was not told that it sent it rolls back.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator

import pytest

from cluster.client import ReceivedMessage, connect
from cluster.local.launcher import LocalCluster
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import Frame
from commitlog.records.message import decode_message
from tests.waiting import eventually, limit

from ..cluster.broker.harness import RawClient
from ..conftest import MakeCluster

GROUP, TOPIC = "PG", "Accounts"
COMMIT, ROLLBACK = 8, 12
AT_ONCE = 4
SECOND = {
    "broker.transaction_timeout_ms": "1000",
    "broker.transaction_check_interval_ms": "1000",
    "broker.transaction_check_max": "60",
}
# What becomes of a transaction's own 37; the number of its label chooses.
HABITS = ("once", "never", "thrice", "rolled back")


class TransactionProducer:
    """Halves go through any node, one after the other when one does not answer."""

    def __init__(self, addresses: list[str]) -> None:
        self._addresses = addresses
        self._connections: dict[str, RawClient] = {}
        self._turn: Iterator[str] = itertools.cycle(addresses)
        #: Label → habit, for every half that was acknowledged; key: of that very half.
        self.acked: dict[str, str] = {}
        self.label_of_key: dict[str, str] = {}
        self.asked: Counter[str] = Counter()

    async def run(self) -> None:
        """Keep connected and registered everywhere, and answer questions, until cancelled."""
        beats = itertools.count()
        while True:
            for address in self._addresses:
                client = self._connections.get(address)
                if client is None or client.closed.done():
                    try:
                        client = self._connections[address] = await RawClient.connect(address)
                    except OSError:
                        continue
                    client.client_id = f"producer@{address}"
                if next(beats) % 60 < len(self._addresses):
                    self._forget_errors(client.heartbeat())
                self._answer(client)
            await asyncio.sleep(0.02)

    def _is_connected(self) -> bool:
        return any(not client.closed.done() for client in self._connections.values())

    def _answer(self, client: RawClient) -> None:
        notices, client.notices = client.notices, []
        for notice in notices:
            if notice.code == Code.CHECK_TRANSACTION_STATE:
                message = decode_message(notice.body)
                label = self.label_of_key.get(message.properties["UNIQ_KEY"], "")
                self.asked[message.properties["UNIQ_KEY"]] += 1
                ext = {**notice.ext, "fromTransactionCheck": "true"}
                self._end(client, ext, self._decision(label))

    def _decision(self, label: str) -> int:
        return ROLLBACK if self.acked.get(label, "rolled back") == "rolled back" else COMMIT

    def _end(self, client: RawClient, ext: dict[str, str], kind: int) -> None:
        ext = {**ext, "producerGroup": GROUP, "commitOrRollback": str(kind)}
        self._forget_errors(client.ask(Code.END_TRANSACTION, ext))

    @staticmethod
    def _forget_errors(future: asyncio.Future[Frame]) -> None:
        future.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def transact(self, number: int) -> None:
        label, habit = f"t{number}", HABITS[number % len(HABITS)]
        for attempt in itertools.count():  # until one node acknowledges it
            key = f"K{number}-{attempt}"
            pairs = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": key, "label": label}
            block = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())
            client = self._connections.get(next(self._turn))
            if client is None or client.closed.done():
                await eventually(self._is_connected, "a connection to any node", 60)
                continue
            sent = client.send(TOPIC, label.encode(), number % 4, block, f=4)
            try:
                answer = await asyncio.wait_for(sent, limit(2))
            except (OSError, TimeoutError):
                continue
            if answer.code == 0:
                break
        self.acked[label], self.label_of_key[key] = habit, label
        ext = {
            "tranStateTableOffset": answer.ext["queueOffset"],
            "commitLogOffset": str(int(answer.ext["msgId"][16:], 16)),
            "msgId": key, "transactionId": key, "fromTransactionCheck": "false",
        }  # fmt: skip
        times = {"never": 0, "thrice": 3}.get(habit, 1)
        for _ in range(times):
            client = self._connections.get(next(self._turn))
            if client is not None and not client.closed.done():
                self._end(client, ext, self._decision(label))

    def close(self) -> None:
        for client in self._connections.values():
            client.close()


async def _transactions(cluster: LocalCluster, count: int, kills: int) -> TransactionProducer:
    """`count` of them, some at a time, while leaders are killed; evenly between the kills."""
    addresses = [cluster.profile.member(name).client for name in cluster.brokers]
    producer = TransactionProducer(addresses)
    running = asyncio.create_task(producer.run())
    killing = asyncio.create_task(_kill_leaders(cluster, producer, count, kills))
    some = asyncio.Semaphore(AT_ONCE)

    async def transact(number: int) -> None:
        async with some:
            await producer.transact(number)

    await asyncio.gather(*(transact(number) for number in range(count)))
    await killing
    await asyncio.to_thread(cluster.up)
    await _until_settled(cluster)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    producer.close()
    return producer


async def _kill_leaders(
    cluster: LocalCluster, producer: TransactionProducer, count: int, kills: int
) -> None:
    """Each when the next part of the transactions was acknowledged, with others on their way."""
    for kill in range(kills):
        part = count * (kill + 1) // (kills + 1)
        await eventually(lambda part=part: len(producer.acked) >= part, f"{part} halves", 120)
        leader = await eventually(lambda: asyncio.to_thread(cluster.leader), "a leader", 60)
        await asyncio.to_thread(cluster.kill, leader)
        await eventually(lambda: asyncio.to_thread(cluster.leader), "the next leader", 60)
        await asyncio.to_thread(cluster.start, leader)
        await asyncio.to_thread(cluster.wait_ready)


async def _until_settled(cluster: LocalCluster) -> None:
    """Every half has an outcome: as many ops as halves."""
    async with connect(cluster.nameserver) as client:

        async def is_settled() -> bool:
            counts = [
                (await client.admin().describe_topic(f"RMQ_SYS_TRANS_{name}TOPIC")).message_count
                for name in ("HALF_", "OP_HALF_")
            ]
            return counts[0] == counts[1]

        await eventually(is_settled, "an outcome for each half", 60)


async def _read(cluster: LocalCluster, topic: str) -> list[ReceivedMessage]:
    async with connect(cluster.nameserver) as client:
        count = (await client.admin().describe_topic(topic)).message_count
        found = []
        async with client.reader(topic) as reader:
            while len(found) < count:
                message = await reader.receive(10)
                assert message is not None, f"{len(found)} of {count} were readable"
                found.append(message)
        return found


async def _check(cluster: LocalCluster, count: int, kills: int) -> None:
    async with connect(cluster.nameserver) as client:
        await client.admin().create_topic(TOPIC, 4)
    producer = await _transactions(cluster, count, kills)
    assert len(producer.acked) == count
    delivered = Counter(m.body.decode() for m in await _read(cluster, TOPIC))
    committed = [label for label, habit in producer.acked.items() if habit != "rolled back"]
    assert delivered == Counter(committed), {
        "lost": sorted(set(committed) - set(delivered)),
        "too much": sorted((delivered - Counter(committed)).elements()),
    }
    assert len(producer.asked) >= count // len(HABITS), "whose 37 was never sent was asked for"


@pytest.mark.timeout(120)
def test_transactions_while_a_leader_is_killed(make_cluster: MakeCluster) -> None:
    asyncio.run(_check(make_cluster(settings=SECOND), 32, 1))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_two_hundred_transactions_while_leaders_are_killed(make_cluster: MakeCluster) -> None:
    asyncio.run(_check(make_cluster(settings=SECOND), 200, 7))
