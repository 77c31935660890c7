"""What a process of the load writes down, with a producer that answers as told."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import cast

import cluster
from chaos.checkers.blind import UNSEEN
from chaos.history import INFINITY, Kind, Level, Operation, Outcome
from chaos.live.client_process import ClientProcess, Topic, Written
from chaos.live.queue_access import QueueAccess
from chaos.workloads import Want, Wish
from cluster.client import Client, Producer, Receipt
from cluster.protocol.json_body import MessageQueue


class Answers:
    """A producer whose sends are acknowledged at these queue offsets."""

    def __init__(self, *offsets: int) -> None:
        self._offsets = iter(offsets)

    async def send(self, topic: str, *_: object, **__: object) -> Receipt:
        offset = next(self._offsets)
        return Receipt(MessageQueue(topic, "broker-a", 1), offset, offset, 1, 100 * offset, b"")


class Ends:
    """A queue that ends here, and what is committed to it."""

    def __init__(self, *ends: int) -> None:
        self._ends = iter(ends)
        self.committed: list[int] = []

    async def end(self, _: int) -> int:
        return next(self._ends)

    async def commit(self, _: str, __: int, offset: int) -> None:
        self.committed.append(offset)


def test_a_session_asks_the_leader_and_any_replica_for_an_end() -> None:
    """Who leads no more must not answer by itself; nobody saw it while only leaders were asked."""
    asked: list[str] = []

    async def get(place: str) -> str:
        return place

    async def leader(*_: object, **__: object) -> str:
        return "the leader"

    class Asked(QueueAccess):
        async def ask(self) -> None:
            for _ in range(100):
                asked.append(str(await self._connection_for_an_end()))

    addresses = {"0": "a:1", "1": "b:1", "2": "c:1"}
    client = SimpleNamespace(
        routes=SimpleNamespace(brokers={"b": SimpleNamespace(addresses=addresses)}),
        pool=SimpleNamespace(get=get),
        leaders=SimpleNamespace(connection=leader),
        config=SimpleNamespace(request_timeout=1.0),
    )
    session = Asked(cast(Client, client), "T", "b", Random(1), any_replica=False, ends_of_any=True)
    asyncio.run(session.ask())
    assert set(asked) == {"the leader", *addresses.values()}
    asked.clear()
    register = Asked(cast(Client, client), "T", "b", Random(1), any_replica=False)
    asyncio.run(register.ask())
    assert set(asked) == {"the leader"}


def test_a_group_commits_the_end_so_that_one_too_far_would_show() -> None:
    written, ends = Written(), Ends(7, 9)
    access = cast(QueueAccess, ends)
    process = ClientProcess(written, "g0", 0, Level.ON_DISK, Topic("T", 4), access)

    async def commits() -> None:
        for _ in range(2):
            await process.grant(Wish(Want.COMMIT, 1), None)

    asyncio.run(commits())
    assert ends.committed == [7, 9]
    assert [(op.kind, op.offset) for op in written.history] == [(Kind.COMMIT, 7), (Kind.COMMIT, 9)]


def written_down(*offsets: int) -> tuple[list[Operation], list[str]]:
    """The history of one process and the values without a place."""

    async def sends() -> tuple[list[Operation], list[str]]:
        written = Written()
        async with cluster.connect("127.0.0.1:1") as client:
            access = QueueAccess(client, "T", "broker-a", Random(1), any_replica=False)
            process = ClientProcess(written, "p0", 0, Level.ON_DISK, Topic("T", 4), access)
            producer = cast(Producer, Answers(*offsets))
            for number in range(len(offsets)):
                await process.grant(Wish(Want.SEND, 1, f"v{number}", b"v"), producer)
        return written.history, written.unplaced

    return asyncio.run(sends())


def test_an_acknowledgement_has_a_place() -> None:
    history, unplaced = written_down(7)
    (op,) = history
    assert (op.process, op.kind, op.value, op.log) == ("p0", Kind.APPEND, "v0", "q1")
    assert (op.outcome, op.offset, op.position, unplaced) == (Outcome.OK, 7, 700, [])


def test_one_without_a_place_is_unknown_to_what_needs_a_place_and_is_not_forgotten() -> None:
    history, unplaced = written_down(-1, 8)
    assert unplaced == ["v0"]
    assert [(op.value, op.outcome, op.offset) for op in history] == [
        ("v0", Outcome.INFO, -1),
        ("v1", Outcome.OK, 8),
    ]
    assert history[0].completed == INFINITY
    assert [op.process for op in history] == ["p0", "p0_1"]  # it may have happened at any time


class Blind(Ends):
    """Nothing is to be seen in it."""

    async def pull(self, _: int, offset: int) -> tuple[tuple[tuple[int, str], ...], int]:
        return (), offset


def test_an_end_that_nobody_can_see_is_written_down() -> None:
    written = Written()
    access = cast(QueueAccess, Blind(7))
    process = ClientProcess(written, "x0", 0, Level.ON_DISK, Topic("T", 4), access)
    asyncio.run(process.grant(Wish(Want.READ, 1), None))
    (op,) = written.history
    assert (op.kind, op.outcome, op.offset, op.value) == (Kind.READ, Outcome.OK, 7, UNSEEN)
