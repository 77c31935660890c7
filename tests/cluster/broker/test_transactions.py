"""Halves, their outcomes (37), checks (39), and what comes of them when leaders change (R17)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.broker.node import BrokerNode
from cluster.core.transactions import halves
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import FLAG_ONEWAY, Frame
from commitlog.records.message import Message, decode_message
from commitlog.store.config_json import parse_config
from tests.waiting import within

from .conftest import MakeBrokers
from .harness import Brokers, RawClient, bodies, handled, nothing_is_appended, until

HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
QUICK: dict[str, Any] = {"transaction_timeout_ms": 50, "transaction_check_interval_ms": 50}


class Half:
    """A half message that was acknowledged."""

    def __init__(self, answer: Frame) -> None:
        assert answer.code == 0, answer.remark
        self.position = int(answer.ext["msgId"][16:], 16)
        self.offset = int(answer.ext["queueOffset"])
        self.key = answer.ext["transactionId"]
        self.message_id = answer.ext["msgId"]

    def outcome(self, kind: int, **more: Any) -> dict[str, Any]:
        return {
            "producerGroup": "PG", "tranStateTableOffset": self.offset,
            "commitLogOffset": self.position, "commitOrRollback": kind, "msgId": self.key,
            "transactionId": self.key, "fromTransactionCheck": "false", "bname": "broker-a",
            **more,
        }  # fmt: skip


async def half(client: RawClient, body: bytes = b"half", properties: str = "", **more: Any) -> Half:
    block = f"TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01K{body.decode()}\x02{properties}"
    return Half(await client.send(body=body, properties=block, f=4, **more))


def end(client: RawClient, of: Half, kind: int, **more: Any) -> asyncio.Future[Frame]:
    return client.ask(Code.END_TRANSACTION, of.outcome(kind, **more))


def stored(node: BrokerNode, topic: str, queue: int = 0) -> list[Message]:
    """What the node's queue names."""
    services = node.parts
    found = services.derived.queue(topic, queue)
    if found is None:
        return []
    entries = found.read(0, found.max_offset)
    return [decode_message(bytes(services.reader.record(e.physical_offset))) for e in entries]


def texts(node: BrokerNode, topic: str, queue: int = 0) -> list[bytes]:
    return [message.body for message in stored(node, topic, queue)]


async def question(client: RawClient) -> Frame:
    def found() -> Frame | None:
        return next((n for n in client.notices if n.code == Code.CHECK_TRANSACTION_STATE), None)

    notice: Frame = await until(found)
    client.notices.remove(notice)
    return notice


async def test_a_committed_half_becomes_a_message(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await client.send(body=b"before", queue=1)).code == 0
        more = "TAGS\x01a\x02KEYS\x01k1\x02"
        first = await half(client, queue=1, properties=more, h=7)
        assert (first.offset, first.key) == (0, "Khalf")
        parked = (await client.pull(HALF)).body
        waiting = decode_message(parked)
        assert (waiting.topic, waiting.queue_id, waiting.sys_flag) == (HALF, 0, 0)
        assert waiting.properties["REAL_TOPIC"] == "T"
        assert waiting.properties["REAL_QID"] == "1"
        assert waiting.properties["__transactionId__"] == "Khalf"
        assert texts(leader, "T", 1) == [b"before"], "nobody sees it"
        answer = await end(client, first, COMMIT)
        assert answer.code == 0, answer.remark
        got = await client.pull(queue=1, offset=1)
        message = decode_message(got.body)
        assert (message.topic, message.queue_id, message.queue_offset) == ("T", 1, 1)
        assert (message.body, message.flag, message.sys_flag) == (b"half", 7, 8)
        assert message.prepared_transaction_offset == first.position
        assert message.properties["TAGS"] == "a"
        assert "TRAN_MSG" not in message.properties
        assert message.born_host == waiting.born_host
        (op,) = stored(leader, OP)
        assert (op.body, op.properties, op.queue_id) == (b"0,", {"TAGS": "d"}, 0)
        assert (await client.send(queue=1)).ext["queueOffset"] == "2"


async def test_what_is_rolled_back_is_nowhere(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        first, second = await half(client, b"0"), await half(client, b"1")
        assert (await end(client, second, ROLLBACK)).code == 0
        assert (await end(client, first, COMMIT)).code == 0
        assert texts(leader, "T") == [b"0"]
        assert [(op.body, op.prepared_transaction_offset) for op in stored(leader, OP)] == [
            (b"1,", second.position), (b"0,", 0),
        ]  # fmt: skip
        assert (await end(client, second, COMMIT)).code == 1
        assert texts(leader, "T") == [b"0"]


async def test_asked_again_and_again_it_is_delivered_once(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client, other = await brokers.client(leader), await brokers.client(leader)
        first = await half(client)
        with nothing_is_appended(leader):
            ends = [end(who, first, COMMIT) for who in (client, other) * 5]
            await handled(client, other)
            ends.append(end(other, first, ROLLBACK))
            await handled(other)
        answers = await asyncio.gather(*ends)
        assert [a.code for a in answers] == [0] * 10 + [1]
        assert answers[-1].remark == (
            "the transaction was committed already, and the first outcome counts; leave it so"
        )
        assert [(await end(who, first, COMMIT)).code for who in (client, other)] == [0, 0]
        assert (await end(client, first, ROLLBACK)).code == 1
        assert texts(leader, "T") == [b"half"]


@pytest.mark.parametrize(
    ("more", "code", "remark"),
    [
        ({"producerGroup": "other"}, 1, "The producer group wrong"),
        ({"tranStateTableOffset": 5}, 1, "The transaction state table offset wrong"),
        ({"commitLogOffset": 7}, 1, "Find prepared transaction message failed"),
        ({"commitOrRollback": 4}, 29, "commitOrRollback is 4"),
        ({"commitLogOffset": "x"}, 29, "commitLogOffset"),
        ({"commitLogOffset": -1}, 1, "Find prepared transaction message failed"),
    ],
)
async def test_outcomes_that_fit_no_half(
    make_brokers: MakeBrokers, more: dict[str, Any], code: int, remark: str
) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        first = await half(client)
        answer = await end(client, first, COMMIT, **more)
        assert answer.code == code
        assert (answer.remark or "").startswith(remark) or remark in (answer.remark or "")
        assert texts(leader, "T") == []
        assert (await end(client, first, COMMIT)).code == 0


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"f": 8}, 29), ({"f": 12}, 29),
        ({"properties": "PGROUP\x01PG\x02"}, 29),
        ({"properties": "TRAN_MSG\x01true\x02DELAY\x013\x02"}, 29),
        ({"properties": "TRAN_MSG\x01true\x02TIMER_DELAY_SEC\x013\x02"}, 29),
        ({"code": Code.SEND_BATCH_MESSAGE}, 29),
        ({"properties": "TRAN_MSG\x01true\x02k\x01" + "v" * 32_600 + "\x02"}, 13),
        ({"topic": HALF}, 16),
    ],
)  # fmt: skip
async def test_halves_that_cannot_be(
    make_brokers: MakeBrokers, more: dict[str, Any], code: int
) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        more = {"properties": "TRAN_MSG\x01true\x02", "f": 4, **more}
        answer = await client.send(**more)
        assert (answer.code, bool(answer.remark)) == (code, True), answer.remark
        assert (await half(client)).offset == 0, "no offset was lost"


async def test_a_half_without_its_group_gets_the_requests(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        sent = Half(await client.send(properties="TRAN_MSG\x01TRUE\x02", f=4))
        assert (await end(client, sent, COMMIT)).code == 0


async def test_no_outcome_yet_is_asked_for(make_brokers: MakeBrokers) -> None:
    """39 says where the half is, and carries it as it was sent."""
    async with make_brokers(**QUICK) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await client.heartbeat()).code == 0
        first = await half(client, queue=2)
        assert (await end(client, first, UNKNOWN)).code == 0
        asked = await question(client)
        assert asked.is_oneway
        ext = asked.ext
        assert (ext["tranStateTableOffset"], ext["commitLogOffset"]) == ("0", str(first.position))
        assert (ext["msgId"], ext["transactionId"]) == ("Khalf", "Khalf")
        assert (ext["offsetMsgId"], ext["topic"]) == (first.message_id, "T")
        assert ext["bname"] == "broker-a"
        message = decode_message(asked.body)
        assert (message.topic, message.queue_id, message.body) == ("T", 2, b"half")
        assert (message.queue_offset, message.physical_offset) == (0, first.position)
        assert message.properties["PGROUP"] == "PG"
        assert message.properties["TRANSACTION_CHECK_TIMES"] == "1"
        again = await question(client)
        assert decode_message(again.body).properties["TRANSACTION_CHECK_TIMES"] == "2"
        client.ask(
            Code.END_TRANSACTION,
            first.outcome(COMMIT, fromTransactionCheck="true"),
            flag=FLAG_ONEWAY,
        )
        await until(lambda: texts(leader, "T", 2) == [b"half"])


async def test_after_the_last_check_it_is_given_up_and_may_be_resumed(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(**QUICK, transaction_check_max=2) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await client.heartbeat()).code == 0
        first = await half(client, b"first")
        times = [decode_message((await question(client)).body).properties for _ in range(2)]
        assert [t["TRANSACTION_CHECK_TIMES"] for t in times] == ["1", "2"]
        await until(lambda: texts(leader, GIVEN_UP) == [b"first"])
        (copy,) = stored(leader, GIVEN_UP)
        assert copy.prepared_transaction_offset == first.position
        assert texts(leader, OP) == [], "the half simply moved on (docs/spec/store.md 7.3)"
        assert (await end(client, first, COMMIT)).code == 1
        resume = Code.RESUME_CHECK_HALF_MESSAGE
        prefix = first.message_id[:16]
        of_copy = {"msgId": f"{prefix}{copy.physical_offset:016X}", "topic": GIVEN_UP}
        assert [(await client.ask(resume, of_copy)).code for _ in range(2)] == [0, 0]
        assert len(stored(leader, HALF)) == 2, "resumed once"
        asked = await question(client)
        assert asked.ext["commitLogOffset"] != str(first.position)
        ext = first.outcome(COMMIT) | {
            name: asked.ext[name] for name in ("tranStateTableOffset", "commitLogOffset")
        }
        assert (await client.ask(Code.END_TRANSACTION, ext)).code == 0
        assert texts(leader, "T") == [b"first"]
        assert (await client.ask(resume, {"msgId": first.message_id})).code == 1
        assert (await client.ask(resume, {"msgId": f"{prefix}{3:016X}"})).code == 1
        assert (await client.ask(resume, {"msgId": "x"})).code == 29


async def test_a_half_that_waits_is_asked_for_anew(make_brokers: MakeBrokers) -> None:
    async with make_brokers(transaction_timeout_ms=50) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await client.heartbeat()).code == 0
        first = await half(client)
        await question(client)
        table = leader.parts.state.halves
        assert table.get(first.position).checks == 1  # type: ignore[union-attr]
        told = await client.ask(Code.RESUME_CHECK_HALF_MESSAGE, {"msgId": first.message_id})
        assert told.code == 0
        await question(client)


async def test_a_producer_with_a_quiet_time_of_its_own_may_be_too_late(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(transaction_timeout_ms=100) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        late = await half(client, b"a", "CHECK_IMMUNITY_TIME_IN_SECONDS\x010\x02")
        quiet = await half(client, b"b", "CHECK_IMMUNITY_TIME_IN_SECONDS\x0160\x02")
        mine = leader.parts.state.halves.get
        await until(lambda: mine(late.position) and mine(quiet.position))
        row = leader.parts.state.halves._waiting
        row[late.position] = mine(late.position)._replace(immunity_ms=50)  # type: ignore[union-attr]
        brokers.clock.put_forward(150)
        assert (await end(client, late, COMMIT)).code == 604
        assert (await end(client, late, COMMIT, fromTransactionCheck="true")).code == 0
        assert (await end(client, quiet, COMMIT)).code == 0
        assert texts(leader, "T") == [b"a", b"b"]


async def test_producers_of_followers_are_asked_over_their_links(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3, **QUICK) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        client = await brokers.client(follower)
        assert (await client.heartbeat()).code == 0
        first = await half(client)
        asked = await question(client)
        assert asked.ext["commitLogOffset"] == str(first.position)
        assert (await end(client, first, COMMIT, fromTransactionCheck="true")).code == 0
        for node in brokers.running():
            await until(lambda node=node: texts(node, "T") == [b"half"])  # type: ignore[misc]
            assert len(node.parts.state.halves) == 0
        assert leader.parts.leadership.leads


async def leader_gone(brokers: Brokers) -> BrokerNode:
    leader = await brokers.leader()
    await brokers.stop_node(int(leader.config.node_id[1:]))
    return await brokers.leader()


async def test_the_next_leader_knows_what_waits_and_what_is_done(
    make_brokers: MakeBrokers,
) -> None:
    quick = {**QUICK, "transaction_check_interval_ms": 300}
    async with make_brokers(3, **quick) as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.heartbeat()).code == 0
        done, open_ = await half(client, b"done"), await half(client, b"open")
        assert (await end(client, done, COMMIT)).code == 0
        count = decode_message((await question(client)).body).properties
        assert count["TRANSACTION_CHECK_TIMES"] == "1"
        second = await leader_gone(brokers)
        client = await brokers.client(second)
        assert (await client.heartbeat()).code == 0
        assert (await end(client, done, COMMIT)).code == 0, "asked again after the change"
        assert (await end(client, done, ROLLBACK)).code == 1
        asked = await question(client)
        assert asked.ext["commitLogOffset"] == str(open_.position)
        assert decode_message(asked.body).properties["TRANSACTION_CHECK_TIMES"] != "1"
        assert (await end(client, open_, COMMIT, fromTransactionCheck="true")).code == 0
        assert texts(second, "T") == [b"done", b"open"]


async def test_outcomes_on_their_way_when_the_leader_steps_down_come_once(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        client = await brokers.client(follower)
        open_ = [await half(client, b"%d" % number) for number in range(20)]
        told = [end(client, one, COMMIT) for one in open_]
        leaving = asyncio.create_task(brokers.stop_node(int(leader.config.node_id[1:])))
        told += [end(client, one, COMMIT) for one in open_]
        answers = await within(asyncio.gather(*told), "answers")
        await leaving
        assert {a.code for a in answers} == {0}, "whoever leads then was asked"
        second = await brokers.leader()
        got = await (await brokers.client(second)).pull()
        assert sorted(bodies(got.body)) == sorted(b"%d" % n for n in range(20))


async def test_a_restart_forgets_nothing(make_brokers: MakeBrokers) -> None:
    async with make_brokers(**QUICK) as brokers:
        client = await brokers.client(await brokers.leader())
        done, open_ = await half(client, b"done"), await half(client, b"open")
        assert (await end(client, done, ROLLBACK)).code == 0
        await brokers.stop_node(0)
        node = await brokers.start_node(0)
        await brokers.leader()
        client = await brokers.client(node)
        assert (await client.heartbeat()).code == 0
        assert (await question(client)).ext["commitLogOffset"] == str(open_.position)
        assert (await end(client, done, COMMIT)).code == 1
        assert (await end(client, open_, COMMIT, fromTransactionCheck="true")).code == 0
        assert texts(node, "T") == [b"open"]


async def test_a_half_that_is_sent_again_is_one_half(make_brokers: MakeBrokers) -> None:
    """Its producer's numbers count in the queue that it is for (R8), on either side of a change."""
    async with make_brokers(3) as brokers:
        client = await brokers.client(await brokers.leader())

        def numbered(number: int, client: RawClient) -> Any:
            return half(client, b"n", f"__PID\x01p\x02__SEQ\x01{number}\x02")

        first = await numbered(0, client)
        assert (await client.numbered("p", 1, body=b"plain")).code == 0
        again, second = await numbered(0, client), await numbered(2, client)
        assert (again.position, again.offset) == (first.position, first.offset)
        assert second.offset == 1
        assert (await end(client, first, COMMIT)).code == 0
        leader = await leader_gone(brokers)
        client = await brokers.client(leader)
        late = await numbered(2, client)
        assert (late.position, late.offset) == (second.position, 1)
        assert (await numbered(0, client)).position == first.position
        assert (await end(client, late, COMMIT)).code == 0
        assert texts(leader, "T") == [b"plain", b"n", b"n"]
        assert len(stored(leader, HALF)) == 2


async def test_too_many_that_wait_are_refused(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(halves, "WAITING_MAX", 2)
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        first, _ = await half(client, b"0"), await half(client, b"1")
        state = brokers.running()[0].parts.state
        await until(lambda: len(state.halves) == 2)
        refused = await client.send(properties="TRAN_MSG\x01true\x02", f=4)
        assert (refused.code, "no outcome yet" in (refused.remark or "")) == (2, True)
        assert (await end(client, first, ROLLBACK)).code == 0
        assert (await half(client, b"2")).offset == 2


async def test_what_tools_of_rocketmq_find_beside_the_log(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        first, _ = await half(client, b"0"), await half(client, b"1")
        assert (await end(client, first, COMMIT)).code == 0
        await leader.parts.housekeeping.export()
        text = (leader.config.root / "config" / "consumerOffset.json").read_bytes()
        table = parse_config(text)["offsetTable"]
        assert table[f"{HALF}@CID_RMQ_SYS_TRANS"] == {"0": 1}
        assert table[f"{OP}@CID_RMQ_SYS_TRANS"] == {"0": 0}


async def test_a_topic_that_is_gone_when_its_transaction_ends(make_brokers: MakeBrokers) -> None:
    """As in RocketMQ the message goes to its queue; whoever creates the topic again finds it."""
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        first = await half(client, queue=3)
        assert (await client.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == 0
        assert (await end(client, first, COMMIT)).code == 0
        assert texts(leader, "T", 3) == [b"half"]
        assert (await client.pull(queue=3)).code == 17
        assert (await client.send(queue=3, body=b"after")).ext["queueOffset"] == "1"
        assert bodies((await client.pull(queue=3)).body) == [b"half", b"after"]


async def test_an_outcome_without_a_majority_and_the_one_after_it_are_one(
    make_brokers: MakeBrokers,
) -> None:
    """It may be in the log or not: asked again, it is delivered once."""
    async with make_brokers(3, leader_wait_seconds=0.2) as brokers:
        old = await brokers.leader()
        client = await brokers.client(old)
        first = await half(client)
        others = [number for number, node in enumerate(brokers.nodes) if node is not old]
        for number in others:
            await brokers.stop_node(number)
        lost = end(client, first, COMMIT)
        answer = await within(lost, "an answer")
        assert answer.code != 0, "no majority has it"
        for number in others:
            await brokers.start_node(number)
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await end(client, first, COMMIT)).code == 0
        await until(lambda: texts(leader, "T") == [b"half"])
