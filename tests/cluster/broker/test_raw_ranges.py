"""Raw entries of queues (31003) and raw bytes of the log (31001)."""

from __future__ import annotations

import asyncio

from cluster.protocol.raw_ranges import LOG_RANGE_BYTES_MAX
from commitlog.queues.queue_entry import ENTRY, ENTRY_SIZE
from commitlog.records.message import decode_message
from commitlog.records.record import HEADER_SIZE, unpack_header

from .conftest import MakeBrokers
from .harness import Brokers, RawClient, until

LOG, QUEUE = 31001, 31003


async def filled(brokers: Brokers, number: int = 5) -> RawClient:
    client = await brokers.client(await brokers.leader())
    answers = await asyncio.gather(*(client.send(body=b"%d" % i) for i in range(number)))
    assert {answer.code for answer in answers} == {0}
    found = await client.ask(QUEUE, {"topic": "T", "queueId": 0, "offset": 0, "count": number})
    assert len(found.body) == number * ENTRY_SIZE, "what was acknowledged is there at once"
    return client


async def test_entries_of_a_queue_name_records_in_the_log(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers)
        answer = await client.ask(QUEUE, {"topic": "T", "queueId": 0, "offset": 1, "count": 3})
        assert (answer.code, answer.ext["minOffset"], answer.ext["maxOffset"]) == (0, "0", "5")
        places = list(ENTRY.iter_unpack(answer.body))
        assert len(places) == 3
        for offset, (position, size, _) in enumerate(places, 1):
            request = {"position": position - HEADER_SIZE, "size": HEADER_SIZE + size}
            part = await client.ask(LOG, request)
            assert len(part.body) == HEADER_SIZE + size
            header = unpack_header(part.body)
            message = decode_message(part.body, HEADER_SIZE)
            assert header.position == position - HEADER_SIZE
            assert (message.queue_offset, message.physical_offset) == (offset, position)


async def test_answers_end_where_this_replica_ends(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers)
        everything = await client.ask(LOG, {"position": 0, "size": 1 << 40})
        end = int(everything.ext["endPosition"])
        assert len(everything.body) == end <= LOG_RANGE_BYTES_MAX
        beyond = await client.ask(LOG, {"position": end, "size": 10})
        assert (beyond.code, beyond.body) == (0, b"")
        beyond = await client.ask(LOG, {"position": end + 999, "size": 10})
        assert (beyond.code, beyond.body) == (0, b"")
        for offset, count in ((5, 0), (9, 0), (3, 2)):
            request = {"topic": "T", "queueId": 0, "offset": offset, "count": 100}
            assert len((await client.ask(QUEUE, request)).body) == count * ENTRY_SIZE
        none = await client.ask(QUEUE, {"topic": "No", "queueId": 0, "offset": 0, "count": 1})
        assert (none.code, none.ext["maxOffset"], none.body) == (0, "0", b"")


async def test_what_cannot_be_asked_for(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers)
        for code, request in (
            (LOG, {"position": 0, "size": 0}),
            (LOG, {"position": -1, "size": 1}),
            (LOG, {"position": 1 << 62, "size": 1}),
            (LOG, {"size": 1}),
            (QUEUE, {"topic": "T", "queueId": 0, "offset": 0, "count": 0}),
            (QUEUE, {"topic": "T", "queueId": 0, "offset": -1, "count": 1}),
            (QUEUE, {"queueId": 0, "offset": 0, "count": 1}),
        ):
            assert (await client.ask(code, request)).code == 29, request


async def test_a_follower_answers_the_same_and_nothing_uncommitted(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3) as brokers:
        client = await filled(brokers)
        leader = await brokers.leader()
        follower = await brokers.follower()
        end = leader.parts.derived.state.position
        await until(lambda: follower.parts.derived.state.position >= end)
        reader = await brokers.client(follower)
        request = {"position": 0, "size": end}
        mine, theirs = await asyncio.gather(client.ask(LOG, request), reader.ask(LOG, request))
        assert mine.body == theirs.body
        assert len(mine.body) == end

        state = leader.parts.derived.state
        state.position = end - 100  # as if the rest were not dispatched
        try:
            assert len((await client.ask(LOG, request)).body) == end - 100
        finally:
            state.position = end
