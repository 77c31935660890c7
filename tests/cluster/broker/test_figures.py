"""Figures of messages, transactions, pops and dead letters, as a running broker counts them."""

from __future__ import annotations

from typing import Any

from cluster.broker.admin.groups.lags import GroupLags
from cluster.broker.admin_state import snapshot
from cluster.broker.node import BrokerNode
from cluster.protocol.codes import RequestCode as Code

from .conftest import MakeBrokers
from .harness import until
from .test_pop import handles, named, pop
from .test_retries import one, position_of, send_back
from .test_transactions import COMMIT, ROLLBACK, end, half, stored


def figures(node: BrokerNode, *names: str) -> list[Any]:
    status = snapshot(node.parts, node.address)
    return [status[name] for name in names]


async def test_bytes_in_are_those_of_the_records_of_all_kinds_of_sends(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await client.send(body=b"first")).code == 0  # makes the topic
        for number in range(5):
            unique = f"UNIQ_KEY\x01K{number}\x02"
            assert (await client.send(body=b"x" * number, properties=unique)).code == 0
        assert (await client.send(body=b"later", properties="DELAY\x0118\x02")).code == 0
        count, size = figures(leader, "messages_in", "bytes_in")
        assert count == 7
        queues = [("T", 0), ("SCHEDULE_TOPIC_XXXX", 17)]
        await until(lambda: [len(stored(leader, *queue)) for queue in queues] == [6, 1])
        records = [
            leader.parts.reader.record(entry.physical_offset)
            for topic, number in queues
            if (queue := leader.parts.derived.queue(topic, number)) is not None
            for entry in queue.read(0, 9)
        ]
        assert size == sum(map(len, records))


async def test_outcomes_of_halves_are_counted_once(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        first, second = await half(client, b"0"), await half(client, b"1")
        for _ in range(2):
            assert (await end(client, first, COMMIT)).code == 0
            assert (await end(client, second, ROLLBACK)).code == 0
        assert figures(leader, "commits", "rollbacks") == [1, 1]


async def test_messages_that_were_popped_are_in_flight_until_they_are_acknowledged(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        for _ in range(3):
            assert (await client.send()).code == 0

        async def row() -> tuple[int, int]:
            lags = GroupLags(leader.parts.admin_ports)
            await lags.look()
            rows = [row for row in lags.lags.rows if row.topic == "T"]
            return (rows[0].messages, rows[0].in_flight) if rows else (0, 0)

        taken = handles(await pop(client, maxMsgNums=2))
        assert await row() == (1, 2)
        assert (await client.ask(Code.ACK_MESSAGE, named(taken[0]))).code == 0
        assert await row() == (1, 1)


async def test_a_group_without_members_is_counted_as_rocketmq_counts_it(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        (before,) = figures(leader, "groups")
        assert (await client.heartbeat()).code == 0
        assert figures(leader, "groups") == [before + 1]
        leader.parts.registry.expire(float("inf"))
        assert figures(leader, "groups", "consumer_groups") == [before + 1, {}]


async def test_dead_letters_are_counted_by_group(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        position = position_of(await client.send(body=b"bad"))
        assert (await client.heartbeat()).code == 0
        assert figures(leader, "dead_letters") == [{}]
        assert (await send_back(client, position, -1, maxReconsumeTimes=2)).code == 0
        assert (await one(client, "%DLQ%CG")).body == b"bad"
        await until(lambda: figures(leader, "dead_letters") == [{"CG": 1}])
