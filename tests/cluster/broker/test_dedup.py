"""Producers' numbers: a message is stored once, whatever is sent again (R8)."""

from __future__ import annotations

import asyncio

import pytest

from cluster.broker.kernel.write.dedup import read_numbers
from cluster.errors import InvalidRequest
from cluster.protocol.codes import RequestCode, ResponseCode
from cluster.protocol.frames import Frame
from commitlog.records.batch import BatchItem, encode_client_batch
from commitlog.records.message import decode_message
from commitlog.records.producer_numbers import BATCH_ROWS_MAX
from dledger.core.types import Index
from dledger.producers.table import ProducerTable

from .conftest import MakeBrokers
from .harness import OWN, RawClient, bodies, handled, nothing_is_appended, until

UNIQUE = "UNIQ_KEY\x01" + "A" * 32 + "\x02"


def own(
    client: RawClient, number: int, body: bytes | None = None, queue: int = 0
) -> asyncio.Future:
    """As our own producer sends: its numbers first, then UNIQ_KEY."""
    properties = f"__PID\x01p\x02__SEQ\x01{number}\x02{UNIQUE}"
    body = b"%d" % number if body is None else body
    return client.send(body=body, queue=queue, properties=properties)


def batch(client: RawClient, numbers: range) -> asyncio.Future[Frame]:
    items = [BatchItem(0, b"%d" % i, b"__PID\x01p\x02__SEQ\x01%d\x02" % i) for i in numbers]
    return client.send(body=encode_client_batch(items), code=RequestCode.SEND_BATCH_MESSAGE)


async def test_a_repeat_is_answered_like_its_original(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader(), **OWN)
        first = await asyncio.gather(*(own(client, i) for i in range(6)))
        again = await asyncio.gather(*(own(client, i) for i in range(8)))
        assert [a.code for a in again] == [0] * 8
        for before, after in zip(first, again[:6], strict=True):
            for name in ("queueOffset", "msgId", "index"):
                assert after.ext[name] == before.ext[name]
        assert bodies((await client.pull()).body) == [b"%d" % i for i in range(8)]


async def test_repeats_within_one_turn(make_brokers: MakeBrokers) -> None:
    """The original is not even proposed yet: its repeat waits for the same entry."""
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader(), **OWN)
        assert (await own(client, 0)).code == 0
        answers = await asyncio.gather(*(own(client, i) for i in (1, 1, 2, 1, 2, 3)))
        assert [a.code for a in answers] == [0] * 6
        assert [int(a.ext["queueOffset"]) for a in answers] == [1, 1, 2, 1, 2, 3]
        assert bodies((await client.pull()).body) == [b"0", b"1", b"2", b"3"]


async def test_queues_count_by_themselves(make_brokers: MakeBrokers) -> None:
    """Numbers of several queues lie mixed in the log; each original is still found."""
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader(), **OWN)
        sent = [own(client, i, queue=q) for i in range(10) for q in range(3)]
        first = await asyncio.gather(*sent)
        again = await asyncio.gather(
            *(own(client, i, queue=q) for i in range(10) for q in range(3))
        )
        assert [a.ext["msgId"] for a in again] == [a.ext["msgId"] for a in first]
        assert [a.ext["index"] for a in again] == [a.ext["index"] for a in first]
        for queue in range(3):
            assert len(bodies((await client.pull(queue=queue)).body)) == 10


async def test_a_gap_is_refused_and_can_be_closed(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader(), **OWN)
        assert (await own(client, 0)).code == 0
        gap = await own(client, 2)
        assert gap.code == ResponseCode.SEQUENCE_GAP
        assert "1 comes next" in (gap.remark or "")
        assert [(await own(client, i)).code for i in (1, 2)] == [0, 0]
        stock = await brokers.client(await brokers.leader())
        assert (await own(stock, 9)).code == 14, "a stock client knows no such code"


async def test_an_unknown_producer_that_sent_before_is_told_so(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader(), **OWN)
        answer = await own(client, 5)
        assert answer.code == ResponseCode.PRODUCER_FORGOTTEN
        assert "nothing is known of producer" in (answer.remark or "")


async def test_a_repeated_batch_completes_what_survived(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        first = await batch(client, range(3))
        assert first.code == 0, first.remark
        longer = await batch(client, range(5))
        assert longer.ext["queueOffset"] == "0"
        ids = longer.ext["msgId"].split(",")
        assert len(ids) == 5
        assert ids[:3] == first.ext["msgId"].split(",")
        assert bodies((await client.pull()).body) == [b"%d" % i for i in range(5)]
        assert (await batch(client, range(5))).ext["msgId"] == longer.ext["msgId"]
        assert (await batch(client, range(6, 8))).code == 14, "a gap"
        assert len(bodies((await client.pull()).body)) == 5


def own_batch(numbers: range) -> bytes:
    return encode_client_batch(
        [
            BatchItem(i, b"%d" % i, b"__PID\x01p\x02__SEQ\x01%d\x02%b" % (i, UNIQUE.encode()))
            for i in numbers
        ]
    )


async def test_batches_of_our_own_producers(make_brokers: MakeBrokers) -> None:
    """The short way for expected numbers stores the same records as the long one."""
    code = RequestCode.SEND_BATCH_MESSAGE
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader(), **OWN)
        answers = [
            await client.send(body=own_batch(numbers), code=code)
            for numbers in (range(3), range(3, 6), range(4, 8), range(8, 10), range(11, 12))
        ]
        assert [a.code for a in answers] == [0, 0, 0, 0, ResponseCode.SEQUENCE_GAP]
        assert [int(a.ext["queueOffset"]) for a in answers[:4]] == [0, 3, 4, 8]
        data = (await client.pull()).body
        assert bodies(data) == [b"%d" % i for i in range(10)]
        at = 0
        for number in range(10):
            message = decode_message(data, at)
            assert (message.queue_offset, message.flag) == (number, number)
            assert message.properties["__SEQ"] == str(number)
            assert message.properties["UNIQ_KEY"] == "A" * 32
            at += message.record_size


async def test_a_later_batch_of_a_batch_producer(make_brokers: MakeBrokers) -> None:
    """Its first row follows any number; rows of a batch are stored once and without a gap."""
    base = [number * BATCH_ROWS_MAX for number in range(4)]

    async def send(client: RawClient, numbers: range) -> Frame:
        data = [
            BatchItem(0, b"%d" % i, b"__PID\x01batch/a/0\x02__SEQ\x01%d\x02" % i) for i in numbers
        ]
        code = RequestCode.SEND_BATCH_MESSAGE
        return await client.send(body=encode_client_batch(data), code=code)

    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader(), **OWN)
        parts = [range(3), range(base[1], base[1] + 2), range(base[1], base[1] + 4)]
        parts += [range(base[1] + 4, base[1] + 6), range(base[1], base[1] + 6), range(3)]
        parts += [range(base[3], base[3] + 2), range(base[3] + 2, base[3] + 3)]
        assert [(await send(client, part)).code for part in parts] == [0] * len(parts)
        gap = await send(client, range(base[3] + 9, base[3] + 10))
        assert gap.code == ResponseCode.SEQUENCE_GAP
        wanted = [*range(3), *range(base[1], base[1] + 6), *range(base[3], base[3] + 3)]
        assert bodies((await client.pull()).body) == [b"%d" % i for i in wanted]
        await brokers.stop_node(0)
        await brokers.start_node(0)
        client = await brokers.client(await brokers.leader(), **OWN)
        assert (await send(client, range(base[3], base[3] + 4))).code == 0
        assert len(bodies((await client.pull()).body)) == len(wanted) + 1


async def test_numbers_survive_a_restart(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader(), **OWN)
        first = await asyncio.gather(*(own(client, i) for i in range(4)))
        await brokers.stop_node(0)
        await brokers.start_node(0)
        client = await brokers.client(await brokers.leader(), **OWN)
        again = await asyncio.gather(*(own(client, i) for i in range(5)))
        assert [a.ext["msgId"] for a in again[:4]] == [a.ext["msgId"] for a in first]
        assert len(bodies((await client.pull()).body)) == 5


async def test_a_producer_that_is_forgotten_is_looked_at_anew(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its expected number took the short way, on a broker that had forgotten it since."""
    monkeypatch.setitem(ProducerTable.__init__.__kwdefaults__, "producers_max", 2)
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader, **OWN)
        assert [(await own(client, number)).code for number in range(3)] == [0] * 3
        for other in "abc":
            numbers = f"__PID\x01{other}\x02__SEQ\x010\x02{UNIQUE}"
            assert (await client.send(queue=1, properties=numbers)).code == 0
        await client.pull()  # the tables show everything that was acknowledged
        assert "p" not in leader.parts.state.producers
        assert (await own(client, 3)).code == ResponseCode.PRODUCER_FORGOTTEN
        assert (await own(client, 0)).code == 0


async def test_a_producer_that_is_forgotten_within_a_turn(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its message is in the open batch when others push it out: it is stored, and counted on."""
    monkeypatch.setitem(ProducerTable.__init__.__kwdefaults__, "producers_max", 2)
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader, **OWN)
        assert [(await own(client, number)).code for number in range(3)] == [0] * 3
        await client.pull()
        table = leader.parts.state.producers
        with nothing_is_appended(leader):
            sent = own(client, 3)
            await until(lambda: leader.parts.appender.open().bodies)
            for number, other in enumerate("abc"):
                table.committed(other, "T/1", 0, Index(1_000 + number), 1 << 60)
            assert "p" not in table
        assert (await sent).code == 0
        assert (await own(client, 4)).code == 0
        assert (await own(client, 4)).code == 0, "a repeat"
        assert bodies((await client.pull()).body) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize(
    "properties",
    [
        "__PID\x01p\x02",
        "__PID\x01p\x02__SEQ\x01x\x02",
        "__PID\x01p\x02__SEQ\x01-1\x02",
        "__PID\x01\x02__SEQ\x010\x02",
        "__PID\x01" + "p" * 65 + "\x02__SEQ\x010\x02",
        "__PID\x01p\x02__SEQ\x01" + "1" * 19 + "\x02",
    ],
)
async def test_odd_numbers_are_refused(make_brokers: MakeBrokers, properties: str) -> None:
    with pytest.raises(InvalidRequest, match="__PID"):
        read_numbers(properties.encode())
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.send(properties=properties)).code == 29
        assert (await client.send()).ext["queueOffset"] == "0", "nothing was stored before"


async def test_another_message_under_a_used_number_is_an_error(make_brokers: MakeBrokers) -> None:
    """Alone, in this very turn, in a batch and at the front of a longer one; nothing is stored."""
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader(), **OWN)
        assert [(await own(client, number)).code for number in range(3)] == [0] * 3
        answers = [
            await own(client, 1, body=b"other"),
            await client.send(body=b"1", properties="__PID\x01p\x02__SEQ\x011\x02TAGS\x01t\x02"),
            await client.send(body=b"1", h="7", properties=f"__PID\x01p\x02__SEQ\x011\x02{UNIQUE}"),
        ]
        with nothing_is_appended(await brokers.leader()):
            sent = [own(client, 3), own(client, 3, body=b"another")]
            await until(lambda: client._writer.transport.get_write_buffer_size() == 0)
        first, second = await asyncio.gather(*sent)
        assert first.code == 0
        flagged = [own_batch(range(1, 3)), own_batch(range(2, 6))]
        answers += [second, *[await client.send(body=data, code=320) for data in flagged]]
        for answer in answers:
            assert answer.code == ResponseCode.NUMBER_USED, answer.remark
            assert "another message as number" in (answer.remark or "")
        assert [int(answer.ext["queueOffset"]) for answer in answers] == [1, 1, 1, 3, 1, 2]
        stock = await brokers.client(await brokers.leader())
        assert (await own(stock, 1, body=b"other")).code == ResponseCode.INVALID_PARAMETER
        assert (await own(client, 4)).code == 0, "the next number is free"
        assert bodies((await client.pull()).body) == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_users_own_property_makes_no_repeat_another_message(
    make_brokers: MakeBrokers,
) -> None:
    properties = f"__PID\x01p\x02__SEQ\x010\x02my__SEQ\x017\x02{UNIQUE}"
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader(), **OWN)
        assert [(await client.send(properties=properties)).code for _ in range(2)] == [0, 0]
        assert len(bodies((await client.pull()).body)) == 1


async def test_a_batch_of_which_a_part_is_not_in_the_log_yet(make_brokers: MakeBrokers) -> None:
    """Its front is compared with what this turn will log: refused, or the rest is taken."""
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader, **OWN)
        other = await brokers.client(leader, **OWN)
        assert (await batch(client, range(2))).code == 0
        items = [BatchItem(0, b"x", b"__PID\x01p\x02__SEQ\x01%d\x02" % i) for i in range(2, 6)]
        with nothing_is_appended(leader):
            sent = [batch(client, range(2, 4)), own(client, 0, queue=1)]
            await until(lambda: len(leader.parts.appender.open().bodies) == 3)
            sent.append(other.send(body=encode_client_batch(items), code=320))
            sent.append(batch(other, range(2, 5)))
            await until(lambda: len(leader.parts.appender.open().bodies) == 4)
        answers = await asyncio.gather(*sent)
        assert [answer.code for answer in answers] == [0, 0, ResponseCode.NUMBER_USED, 0]
        assert bodies((await client.pull()).body) == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_used_number_is_told_when_it_is_committed(make_brokers: MakeBrokers) -> None:
    """Before that the other message may be lost, and then the number is free."""
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client, other = await brokers.client(leader, **OWN), await brokers.client(leader, **OWN)
        assert (await own(client, 0)).code == 0
        with nothing_is_appended(leader):
            first = own(client, 1)
            await until(lambda: leader.parts.appender.open().bodies)
            second = own(other, 1, body=b"other")
            await handled(other)
            assert not second.done()
        assert (await first).code == 0
        assert (await second).code == ResponseCode.NUMBER_USED


@pytest.mark.parametrize(
    "more", ["DELAY\x013\x02", "TIMER_DELAY_SEC\x01600\x02", "MSG_REGION\x01x\x02"]
)
async def test_a_repeat_is_the_same_whatever_a_broker_adds(
    make_brokers: MakeBrokers, more: str
) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        for body, code in ((b"a", 0), (b"a", 0), (b"b", ResponseCode.INVALID_PARAMETER)):
            numbers = f"__PID\x01p\x02__SEQ\x010\x02k\x01v\x02{more}"
            assert (await client.send(body=body, properties=numbers)).code == code
