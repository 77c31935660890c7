"""Sends against stub brokers that fail as real ones do: in order, once, and certain or not."""

from __future__ import annotations

import asyncio
import os
import random

import pytest

import cluster
from cluster.client.client import Client
from cluster.client.config import BODY_SIZE_MAX, ClientConfig, ProducerConfig
from cluster.client.message import Receipt
from cluster.errors import (
    ClientClosed,
    ClusterError,
    InvalidRequest,
    MessageTooLarge,
    NotConnected,
    NotDone,
    NotLeader,
    OutcomeUnknown,
    ProducerForgotten,
    QueueFull,
    SendTimeout,
    SequenceGap,
    ServerError,
    ServiceNotAvailable,
    TopicNotFound,
    Unauthorized,
)
from cluster.protocol.batch import iterate
from cluster.protocol.send import SendRequest
from commitlog.records.properties import decode_properties, find_property
from tests.virtual_loop import virtual_loop

from ..stub_cluster import StubGroup

pytestmark = pytest.mark.virtual_time

QUICK = ClientConfig(stall_timeout=0.1, request_timeout=0.5, replica_fallback=0.3)
# Where the time shows which of the two noticed.
SLOW = ClientConfig(stall_timeout=0.1, request_timeout=3.0, replica_fallback=0.3)
MODES = [ProducerConfig(), ProducerConfig(batching=True, batch_count_max=16)]


def connect(group: StubGroup, config: ClientConfig = QUICK) -> Client:
    return cluster.connect(group.nameserver.address, config)


def bodies(group: StubGroup, queue_id: int | None = None) -> list[bytes]:
    return [item.body for item in group.log if queue_id is None or item.queue[1] == queue_id]


async def test_a_receipt_says_where_the_message_is(group: StubGroup) -> None:
    async with connect(group) as client, client.producer("PG") as producer:
        receipt = await producer.send("T", b"one", key="o-17", tags="new", properties={"mine": "1"})
        stored = group.log[receipt.index]
        assert stored.body == b"one"
        assert receipt.queue == ("T", "broker-a", stored.queue[1])
        assert (receipt.queue_offset, receipt.term) == (0, 1)
        properties = decode_properties(stored.properties)
        assert (properties["KEYS"], properties["TAGS"], properties["mine"]) == ("o-17", "new", "1")
        assert properties["UNIQ_KEY"] == receipt.message_id
        assert len(receipt.message_id) == 32
        assert properties["__SEQ"] == "0"


@pytest.mark.parametrize("config", MODES, ids=["single", "batching"])
async def test_numbers_are_contiguous_per_queue_and_ids_differ(
    group: StubGroup, config: ProducerConfig
) -> None:
    async with connect(group) as client, client.producer(config=config) as producer:
        receipts = await asyncio.gather(*[producer.send("T", b"%d" % i) for i in range(500)])
        assert len({receipt.message_id for receipt in receipts}) == 500
        assert len({(receipt.queue, receipt.queue_offset) for receipt in receipts}) == 500
        for queue_id in range(4):
            row = [item for item in group.log if item.queue == ("T", queue_id)]
            numbers = [int(find_property(item.properties, b"__SEQ") or b"") for item in row]
            assert numbers == list(range(len(row)))
        for number, receipt in enumerate(receipts):
            assert group.log[receipt.index].body == b"%d" % number


async def test_batching_puts_what_waits_together_into_few_requests(group: StubGroup) -> None:
    requests: list[SendRequest] = []
    group.refuse = lambda request: requests.append(request)  # type: ignore[assignment,func-returns-value]
    config = ProducerConfig(batching=True, batch_count_max=100)
    async with connect(group) as client, client.producer(config=config) as producer:
        await asyncio.gather(*[producer.send("T", b"%d" % i, queue_id=1) for i in range(1000)])
    assert bodies(group, 1) == [b"%d" % i for i in range(1000)]
    assert len(requests) <= 14
    assert max(len(list(iterate(r.body))) for r in requests if r.template.is_batch) == 100


async def test_one_request_per_message_and_one_write_per_turn(group: StubGroup) -> None:
    requests: list[SendRequest] = []
    group.refuse = lambda request: requests.append(request)  # type: ignore[assignment,func-returns-value]
    async with connect(group) as client, client.producer() as producer:
        await asyncio.gather(*[producer.send("T", b"%d" % i) for i in range(100)])
    assert len(requests) == 100
    assert not any(request.template.is_batch for request in requests)


async def test_one_key_one_queue_in_order(group: StubGroup) -> None:
    async with connect(group) as client, client.producer() as producer:
        receipts = await asyncio.gather(
            *[producer.send("T", b"%d" % i, key=f"k{i % 5}") for i in range(100)]
        )
    for key in range(5):
        mine = receipts[key::5]
        assert len({receipt.queue for receipt in mine}) == 1
        assert [receipt.queue_offset for receipt in mine] == sorted(
            receipt.queue_offset for receipt in mine
        )


async def test_messages_without_a_key_use_every_queue(group: StubGroup) -> None:
    async with connect(group) as client, client.producer() as producer:
        receipts = [await producer.send("T", b"x") for _ in range(8)]
    assert {receipt.queue.queue_id for receipt in receipts} == {0, 1, 2, 3}


@pytest.mark.parametrize("config", MODES, ids=["single", "batching"])
async def test_leader_killed_nothing_lost_doubled_reordered(
    group: StubGroup, config: ProducerConfig
) -> None:
    async with connect(group) as client, client.producer(config=config) as producer:
        await producer.send("T", b"first", queue_id=2)
        sends = [
            asyncio.ensure_future(producer.send("T", b"%d" % i, queue_id=2)) for i in range(3000)
        ]
        await group.stored(700)
        assert group.leader is not None
        group.leader.kill()
        await asyncio.sleep(0.05)
        assert not all(send.done() for send in sends)
        group.elect(group.nodes[1])
        receipts = await asyncio.gather(*sends)
    assert bodies(group, 2) == [b"first", *(b"%d" % i for i in range(3000))]
    assert [receipt.queue_offset for receipt in receipts] == list(range(1, 3001))
    assert receipts[-1].term == 2


async def test_a_frozen_leader_is_left_when_another_one_leads(group: StubGroup) -> None:
    loop = asyncio.get_running_loop()
    async with connect(group, SLOW) as client, client.producer() as producer:
        await producer.send("T", b"0", queue_id=0)
        assert group.leader is not None
        group.leader.is_frozen = True
        sends = [asyncio.ensure_future(producer.send("T", b"%d" % i)) for i in range(1, 50)]
        await asyncio.sleep(0.02)
        group.elect(group.nodes[2])
        started = loop.time()
        await asyncio.gather(*sends)
        assert loop.time() - started < SLOW.request_timeout, "noticed by the stall"
    assert sorted(bodies(group)) == sorted(b"%d" % i for i in range(50))


async def test_idle_queues_leave_a_former_leader_too(group: StubGroup) -> None:
    loop = asyncio.get_running_loop()
    async with connect(group, SLOW) as client, client.producer() as producer:
        await asyncio.gather(*[producer.send("T", b"0", queue_id=i) for i in range(4)])
        assert group.leader is not None
        group.leader.is_frozen = True
        group.elect(group.nodes[2])
        await producer.send("T", b"1", queue_id=0)
        started = loop.time()
        await asyncio.gather(*[producer.send("T", b"1", queue_id=i) for i in range(1, 4)])
        assert loop.time() - started < SLOW.request_timeout, "one stall is news for all queues"


async def test_answers_lost_on_the_way_are_asked_for_again(group: StubGroup) -> None:
    """Stored, but the answer never comes: the repeat is recognised."""
    async with connect(group) as client, client.producer() as producer:
        await producer.send("T", b"0", queue_id=0)
        node = group.leader
        assert node is not None
        sends = [asyncio.ensure_future(producer.send("T", b"%d" % i)) for i in range(1, 40)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        node_connection = next(
            one for one in node.connections if one.transport.get_extra_info("peername")
        )
        real = node_connection.send

        def swallow(request: SendRequest) -> bytes:
            real(request)
            return b""

        node_connection.send = swallow  # type: ignore[method-assign]
        await group.stored(20)
        node_connection.transport.abort()
        await asyncio.gather(*sends)
    assert sorted(bodies(group)) == sorted(b"%d" % i for i in range(40))


async def test_refused_in_the_middle_of_a_stream(group: StubGroup) -> None:
    """Number 5 is refused, 6… then leave a gap; all come again in order (R8)."""
    refused: list[bytes] = []

    def refuse(request: SendRequest) -> QueueFull | None:
        if request.body == b"5" and len(refused) < 3:
            refused.append(request.body)
            return QueueFull("the broker is full")
        return None

    group.refuse = refuse
    async with connect(group) as client, client.producer() as producer:
        receipts = await asyncio.gather(
            *[producer.send("T", b"%d" % i, queue_id=1) for i in range(200)]
        )
    assert bodies(group, 1) == [b"%d" % i for i in range(200)]
    assert [receipt.queue_offset for receipt in receipts] == list(range(200))
    assert len(refused) == 3


@pytest.mark.parametrize("config", MODES, ids=["single", "batching"])
async def test_a_message_refused_for_good_does_not_stop_the_stream(
    group: StubGroup, config: ProducerConfig
) -> None:
    group.refuse = lambda request: (
        Unauthorized("no") if b"bad" in request.body and not request.template.is_batch else None
    )
    async with connect(group) as client, client.producer(config=config) as producer:
        first = [asyncio.ensure_future(producer.send("T", b"%d" % i, queue_id=1)) for i in range(9)]
        await asyncio.gather(*first)
        bad = asyncio.ensure_future(producer.send("T", b"bad", queue_id=1))
        if config.batching:
            await asyncio.wait([bad])
        rest = [
            asyncio.ensure_future(producer.send("T", b"%d" % i, queue_id=1)) for i in range(9, 50)
        ]
        with pytest.raises(Unauthorized):
            await bad
        await asyncio.gather(*rest)
    assert bodies(group, 1) == [b"%d" % i for i in range(50)]


async def test_new_numbers_are_not_taken_while_one_send_is_in_doubt(group: StubGroup) -> None:
    """3 is stored and told otherwise, 5 is refused for good: 3 keeps its number, or it doubles."""
    doubts = [ServerError("who knows")]
    group.after = lambda request: doubts.pop() if request.body == b"3" and doubts else None
    group.refuse = lambda request: Unauthorized("no") if request.body == b"5" else None
    async with connect(group) as client, client.producer() as producer:
        await producer.open_topic("T")
        sends = [producer.send_nowait("T", b"%d" % i, queue_id=1) for i in range(10)]
        with pytest.raises(Unauthorized):
            await sends[5]
        await asyncio.gather(*sends[:5], *sends[6:])
    assert bodies(group, 1) == [b"%d" % i for i in range(10) if i != 5]


async def test_a_gap_keeps_the_numbers_of_what_may_still_be_stored_elsewhere(
    group: StubGroup,
) -> None:
    """Copies of the first attempts wait at the node that led; a gap at the next one is passing."""
    waiting: list[SendRequest] = []
    all_wait = asyncio.Event()

    def keep(request: SendRequest) -> bytes:
        waiting.append(request)
        if len(waiting) == 10:
            all_wait.set()
        return b""

    overtook = {b"%d" % i for i in range(5, 10)}

    def refuse(request: SendRequest) -> SequenceGap | None:
        if request.body not in overtook:
            return None
        overtook.discard(request.body)
        return SequenceGap("it came before what is held for the new leader")

    async with connect(group) as client, client.producer() as producer:
        await producer.open_topic("T")
        await producer.send("T", b"first", queue_id=1)
        connections = list(group.nodes[0].connections)
        for connection in connections:
            connection.send = keep  # type: ignore[method-assign]
        group.refuse = refuse
        sends = [producer.send_nowait("T", b"%d" % i, queue_id=1) for i in range(10)]
        await all_wait.wait()
        group.elect(group.nodes[1])
        for connection in connections:
            connection.transport.abort()
        await asyncio.gather(*sends)
        for request in waiting:
            group.store(request)
    assert not overtook, "the gap was told"
    assert bodies(group, 1) == [b"first", *(b"%d" % i for i in range(10))]


async def test_a_stream_that_the_broker_has_forgotten_goes_on_without_doubling(
    group: StubGroup,
) -> None:
    """What was acknowledged is gone, as a power failure may take what was only in memory."""
    async with connect(group) as client, client.producer() as producer:
        await producer.send("T", b"0", queue_id=1)
        group.expected.clear()
        doubts = [ServerError("who knows")]
        group.refuse = lambda request: doubts.pop() if doubts else None
        await producer.open_topic("T")
        sends = [producer.send_nowait("T", b"%d" % i, queue_id=1) for i in range(1, 5)]
        with pytest.raises(OutcomeUnknown, match="may have stored it"):
            await sends[0]
        await asyncio.gather(*sends[1:])
    assert bodies(group, 1) == [b"0", b"2", b"3", b"4"], (
        "only the one in doubt is left to its owner"
    )


async def test_a_forgotten_producer_takes_new_numbers(group: StubGroup) -> None:
    """Under an id that nobody can guess, and so claim before it is used."""
    seen: set[bytes] = set()
    async with connect(group) as client, client.producer() as producer:
        await producer.send("T", b"0", queue_id=1)

        def refuse(request: SendRequest) -> ProducerForgotten | None:
            found = find_property(request.properties, b"__PID") or b""
            seen.add(found)
            again = find_property(request.properties, b"__SEQ") != b"0"
            return ProducerForgotten("expired") if again and found == producer.producer_id else None

        group.refuse = refuse
        await asyncio.gather(*[producer.send("T", b"%d" % i, queue_id=1) for i in range(1, 20)])
    assert bodies(group, 1) == [b"%d" % i for i in range(20)]
    (following,) = seen - {producer.producer_id}
    assert len(following) == len(producer.producer_id) >= 16
    assert following[:8] != producer.producer_id[:8]


async def test_a_forgotten_producer_with_a_send_in_doubt_is_told(group: StubGroup) -> None:
    async with connect(group) as client, client.producer() as producer:
        await producer.send("T", b"0", queue_id=1)
        answers = iter([ServerError("who knows"), ProducerForgotten("expired")])
        group.refuse = lambda request: next(answers, None)
        with pytest.raises(ProducerForgotten) as caught:
            await producer.send("T", b"1", queue_id=1)
        assert isinstance(caught.value, OutcomeUnknown)
        await producer.send("T", b"2", queue_id=1)
    assert bodies(group, 1) == [b"0", b"2"]


async def test_a_refusal_says_nothing_of_the_attempt_before(group: StubGroup) -> None:
    """It was stored, and nobody said so; meanwhile its sender lost the right to write there."""
    group.after = lambda _: ServerError("who knows")
    group.refuse = lambda _: Unauthorized("no") if bodies(group, 1) else None
    async with connect(group) as client, client.producer() as producer:
        with pytest.raises(
            OutcomeUnknown, match="may have stored it; look before you send it again: no"
        ) as caught:
            await producer.send("T", b"0", queue_id=1)
        assert isinstance(caught.value.__cause__, Unauthorized)
    assert bodies(group, 1) == [b"0"]


async def test_the_hint_of_a_refusal_is_followed(group: StubGroup) -> None:
    """The name server does not know yet; the old leader says who leads."""
    async with connect(group) as client, client.producer() as producer:
        await producer.send("T", b"0")
        old, new = group.nodes[0], group.nodes[1]
        group.elect(new, register=False)
        for connection in old.connections:
            connection.send = lambda request, c=connection: __import__(  # type: ignore[method-assign,misc]
                "cluster.protocol.send_response", fromlist=["x"]
            ).refuse_send(request, NotLeader(leader=new.address))
        receipt = await producer.send("T", b"1")
        assert receipt.term == 2
        assert client.leaders.address("broker-a") == new.address


async def test_another_replica_is_asked_when_the_leader_cannot_be_reached(
    group: StubGroup,
) -> None:
    """Only this client's way to the leader is cut: it stays with the replica that passes on."""
    async with connect(group) as client, client.producer() as producer:
        await producer.send("T", b"0", queue_id=0)
        leader = group.nodes[0]
        assert leader.server is not None
        leader.server.close()
        for connection in list(leader.connections):
            connection.transport.abort()
        group.leader = group.nodes[1]  # stands for forwarding: same term, nothing registered
        await producer.send("T", b"1", queue_id=0)
        chosen = client.leaders.address("broker-a")
        assert chosen != leader.address
        for _ in range(3):
            client.leaders.ask_news("broker-a", "T")
            await producer.send("T", b"2", queue_id=0)
            assert client.leaders.address("broker-a") == chosen
        group.leader = leader
        leader.server = None
        await leader.start()
        async with asyncio.timeout(4):
            while client.leaders.address("broker-a") != leader.address:
                client.leaders.ask_news("broker-a", "T")
                await asyncio.sleep(0.01)
        await producer.send("T", b"3", queue_id=0)
        assert client.leaders.detours == []


async def test_no_leader_in_time_is_certain_when_nothing_was_sent(group: StubGroup) -> None:
    config = ProducerConfig(delivery_timeout=0.3)
    async with connect(group) as client:
        producer = client.producer(config=config)
        await producer.open_topic("T")
        for node in group.nodes:
            node.kill()
        with pytest.raises(NotConnected) as caught:
            await producer.send("T", b"never")
        assert isinstance(caught.value, NotDone)


async def test_no_receipt_in_time_is_unknown_and_the_stream_goes_on(group: StubGroup) -> None:
    config = ProducerConfig(delivery_timeout=0.3)
    async with connect(group) as client, client.producer(config=config) as producer:
        await producer.send("T", b"0", queue_id=1)
        group.refuse = lambda request: QueueFull("full")
        with pytest.raises(SendTimeout, match="full") as caught:
            await producer.send("T", b"late", queue_id=1)
        assert isinstance(caught.value, OutcomeUnknown)
        group.refuse = lambda request: None
        await producer.send("T", b"2", queue_id=1)
    assert bodies(group, 1) == [b"0", b"late", b"2"], "it may still happen, and in its place"


async def test_in_flight_is_bounded_and_waits(group: StubGroup) -> None:
    config = ProducerConfig(in_flight_max=10)
    highest = 0
    async with connect(group) as client, client.producer(config=config) as producer:

        def look(request: SendRequest) -> None:
            nonlocal highest
            highest = max(highest, producer.in_flight_count)

        group.refuse = look
        await asyncio.gather(*[producer.send("T", b"%d" % i) for i in range(200)])
        assert highest == 10
        await producer.open_topic("T")
        waiting = [producer.send_nowait("T", b"x") for _ in range(10)]
        with pytest.raises(QueueFull, match="waits"):
            producer.send_nowait("T", b"x")
        await asyncio.gather(*waiting)


async def test_no_room_in_time(group: StubGroup) -> None:
    config = ProducerConfig(in_flight_max=1, delivery_timeout=0.2)
    async with connect(group) as client, client.producer(config=config) as producer:
        await producer.send("T", b"0")
        group.refuse = lambda request: QueueFull("full")
        first = asyncio.ensure_future(producer.send("T", b"1"))
        await asyncio.sleep(0.01)
        with pytest.raises(QueueFull):
            await producer.send("T", b"2")
        with pytest.raises(SendTimeout):
            await first
        group.refuse = lambda request: None


async def test_unknown_topic_and_auto_creation(group: StubGroup) -> None:
    async with connect(group) as client, client.producer() as producer:
        receipt = await producer.send("New", b"x")
        assert receipt.queue.topic == "New"
        assert group.topics["New"] == 4
        del group.topics["TBW102"]
        group.register()
        with pytest.raises(TopicNotFound):
            await producer.send("Other", b"x")
        with pytest.raises(TopicNotFound, match="open_topic"):
            producer.send_nowait("Another", b"x")


async def test_what_cannot_be_sent_is_said_before_it_gets_a_number(group: StubGroup) -> None:
    async with connect(group) as client, client.producer() as producer:
        await producer.send("T", b"0", queue_id=1)
        with pytest.raises(MessageTooLarge, match="limit"):
            await producer.send("T", bytes(BODY_SIZE_MAX + 1), queue_id=1)
        with pytest.raises(MessageTooLarge, match="properties"):
            await producer.send("T", b"", properties={"p": "x" * 32_500}, queue_id=1)
        with pytest.raises(InvalidRequest, match="separator"):
            await producer.send("T", b"", properties={"p": "a\x02b"}, queue_id=1)
        with pytest.raises(InvalidRequest, match="reserved"):
            await producer.send("T", b"", properties={"__PID": "x"}, queue_id=1)
        with pytest.raises(InvalidRequest, match="queue 9"):
            await producer.send("T", b"", queue_id=9)
        with pytest.raises(InvalidRequest, match="must be bytes"):
            await producer.send("T", "text", queue_id=1)  # type: ignore[arg-type]
        assert producer.in_flight_count == 0
        changing = bytearray(b"1")
        sent = asyncio.ensure_future(producer.send("T", changing, queue_id=1))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        changing[0] = 0
        await sent
    assert bodies(group, 1) == [b"0", b"1"]


async def test_large_messages(group: StubGroup) -> None:
    body = os.urandom(BODY_SIZE_MAX)
    config = ProducerConfig(batching=True)
    async with connect(group) as client, client.producer(config=config) as producer:
        await asyncio.gather(
            producer.send("T", body, queue_id=0), producer.send("T", b"small", queue_id=0)
        )
    assert bodies(group, 0) == [body, b"small"]


async def test_close_waits_for_receipts_and_then_refuses(group: StubGroup) -> None:
    async with connect(group) as client:
        producer = client.producer()
        await producer.open_topic("T")
        futures = [producer.send_nowait("T", b"%d" % i) for i in range(100)]
        await producer.close()
        assert all(future.done() and not future.exception() for future in futures)
        with pytest.raises(ClientClosed):
            await producer.send("T", b"x")
    with pytest.raises(ClientClosed):
        client.producer()


async def test_close_gives_up_what_nobody_answers(group: StubGroup) -> None:
    config = ProducerConfig(delivery_timeout=0.2)
    async with connect(group) as client:
        producer = client.producer(config=config)
        await producer.send("T", b"0", queue_id=1)
        assert group.leader is not None
        group.leader.is_frozen = True
        sent = asyncio.ensure_future(producer.send("T", b"1", queue_id=1))
        await asyncio.sleep(0.01)
        await producer.close()
        with pytest.raises(SendTimeout):
            await sent
        assert producer.in_flight_count == 0


# From one pause of the search to the next, so that a close meets each of its steps.
@pytest.mark.parametrize("seconds", [0.2 + step / 1000 for step in range(0, 60, 4)])
async def test_a_close_that_is_cancelled_leaves_nothing_that_looks_for_a_leader(
    group: StubGroup, seconds: float
) -> None:
    async with connect(group) as client:
        producer = client.producer()
        await producer.send("T", b"0", queue_id=1)
        before = asyncio.all_tasks()
        virtual_loop().net.latency = 0.005  # the name server takes its time
        assert group.leader is not None
        group.leader.is_frozen = True
        sent = asyncio.ensure_future(producer.send("T", b"1", queue_id=1))
        await asyncio.sleep(0.01)  # it is on its way
        for node in group.nodes:
            node.kill()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await producer.close()
        with pytest.raises(SendTimeout):
            await sent
        for _ in range(10):  # of the loop: a chain of tasks is cancelled one by one
            await asyncio.sleep(0)
        assert producer.is_closed
        assert not {task for task in asyncio.all_tasks() - before if not task.done()}


@pytest.mark.parametrize("seed", range(12))
async def test_random_failures_store_each_message_once_and_in_order(
    group: StubGroup, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Refused, stored but told otherwise, connection lost, leader moved: at random."""
    chance = random.Random(seed)

    def refuse(request: SendRequest) -> ClusterError | None:
        if chance.random() < 0.03:
            return chance.choice([QueueFull("full"), ServiceNotAvailable("not now")])
        return None

    def after(request: SendRequest) -> ClusterError | bool | None:
        draw = chance.random()
        if draw < 0.005:
            return False
        if draw < 0.02:
            return chance.choice([ServerError("who knows"), OutcomeUnknown("who knows")])
        if draw < 0.025:
            group.elect(chance.choice(group.nodes), register=chance.random() < 0.8)
        return None

    group.refuse, group.after = refuse, after
    group.delay = lambda: chance.choice([0.0, 0.0, 0.001, 0.003])
    config = ProducerConfig(batching=seed % 3 == 0, batch_count_max=8, in_flight_max=64)
    async with connect(group) as client, client.producer(config=config) as producer:
        await producer.open_topic("T")
        sends: list[asyncio.Future[Receipt]] = []
        for i in range(400):
            sends.append(asyncio.ensure_future(producer.send("T", b"%d" % i, queue_id=i % 4)))
            await asyncio.sleep(0.001 if i % 20 == 0 else 0)
        async with asyncio.timeout(20):
            while not all(send.done() for send in sends):
                await asyncio.wait(sends, timeout=0.1)
                group.register()  # brokers tell the name server every so often
        receipts = await asyncio.gather(*sends)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    for queue_id in range(4):
        assert bodies(group, queue_id) == [b"%d" % i for i in range(queue_id, 400, 4)]
        assert [r.queue_offset for r in receipts[queue_id::4]] == list(range(100))


async def test_the_client_dials_from_the_address_it_is_told(group: StubGroup) -> None:
    config = ClientConfig(source_host="127.0.0.77")
    async with connect(group, config) as client, client.producer() as producer:
        await producer.send("T", b"x")
        (connection,) = group.nodes[0].connections
        assert connection.transport.get_extra_info("peername")[0] == "127.0.0.77"


@pytest.mark.parametrize("turns", range(8))
async def test_a_send_of_the_moment_in_which_the_route_comes_overtakes_none(
    group: StubGroup, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """One key, one queue, one order: those that waited for the route are first."""
    async with connect(group) as client, client.producer() as producer:
        route = await client.routes.for_producing("T")
        known: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        async def for_producing(topic: str) -> object:
            return await known

        monkeypatch.setattr(client.routes, "for_producing", for_producing)
        sends = [asyncio.ensure_future(producer.send("T", b"%d" % i, key="k")) for i in range(4)]
        await asyncio.sleep(0)
        known.set_result(route)
        for number in range(4, 8):
            for _ in range(turns if number == 4 else 1):
                await asyncio.sleep(0)
            sends.append(asyncio.ensure_future(producer.send("T", b"%d" % number, key="k")))
        await asyncio.gather(*sends)
        assert bodies(group) == [b"%d" % i for i in range(8)]


async def test_sends_that_are_cancelled_before_the_route_comes_leave_no_work(
    group: StubGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(group) as client, client.producer() as producer:
        known: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        async def for_producing(topic: str) -> object:
            return await known

        with monkeypatch.context() as patch:
            patch.setattr(client.routes, "for_producing", for_producing)
            sends = [asyncio.ensure_future(producer.send("T", b"x")) for _ in range(3)]
            await asyncio.sleep(0)
            for send in sends:
                send.cancel()
            await asyncio.gather(*sends, return_exceptions=True)
            assert known.cancelled()
        await producer.send("T", b"one")
        assert bodies(group) == [b"one"]
