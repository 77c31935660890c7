"""A node that has not caught up since its start shows no message by itself (R29).

There may be accounts in the part of the log that it has not applied yet.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cluster.broker.kernel.read.current import CurrentReads
from dledger.errors import DledgerError, NotLeader
from tests.waiting import eventually

from .conftest import MakeBrokers
from .harness import Brokers, RawClient, until

LOG, QUEUE = 31001, 31003
READS = ((LOG, {"position": 0, "size": 1000}), (QUEUE, {"topic": "T", "queueId": 0, "offset": 0}))
OK, AGAIN = 0, 14

Step = Callable[[DledgerError | None], None]


async def shown(client: RawClient) -> list[int]:
    return [(await client.ask(code, {"count": 9, **fields})).code for code, fields in READS]


async def started_again(brokers: Brokers) -> RawClient:
    """A client of a follower that has a message and was started again."""
    leader = await brokers.leader()
    assert (await (await brokers.client(leader)).send(body=b"of before")).code == OK
    follower = await brokers.follower()
    number = brokers.nodes.index(follower)
    await until(lambda: follower.parts.derived.queue("T", 0) is not None)
    await brokers.stop_node(number)
    await brokers.start_node(number)
    node = brokers.nodes[number]
    assert node is not None

    async def connected() -> RawClient | None:
        """Its port opens when a leader is known."""
        try:
            return await brokers.client(node)
        except ConnectionRefusedError:
            return None

    client = await eventually(connected, "an open port")
    assert client is not None
    return client


async def test_messages_are_shown_after_it_has_caught_up_once(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_brokers(3) as brokers:
        await brokers.leader()
        asked: list[Step] = []
        with monkeypatch.context() as patch:
            patch.setattr(CurrentReads, "when_current", lambda _, then: asked.append(then))
            client = await started_again(brokers)
            await until(lambda: len(asked) == 1)
            assert await shown(client) == [AGAIN, AGAIN]
            served = (await brokers.leader()).parts.router.requests
            found = await client.pull()
            assert (found.code, b"of before" in found.body) == (OK, True)
            assert (await brokers.leader()).parts.router.requests > served, "by the leader"
            asked.pop()(NotLeader(None))  # the leader moved meanwhile: it asks once more
            await until(lambda: len(asked) == 1)
            assert await shown(client) == [AGAIN, AGAIN]
            asked.pop()(None)
            assert await shown(client) == [OK, OK]


async def test_a_leader_and_a_follower_know_by_themselves(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        client = await started_again(brokers)

        async def all_shown() -> bool:
            return await shown(client) == [OK, OK]

        await until(all_shown)
        assert await shown(await brokers.client(await brokers.leader())) == [OK, OK]
