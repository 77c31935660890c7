"""What a leader had on its way when it lost the lead and nobody kept it: ended, and begun again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.core.internal_topics import OffsetsCommitted, StateChange, encode_change
from cluster.protocol.codes import RequestCode as Code
from commitlog.records.hosts import Host, pack_host
from commitlog.records.message import Message, decode_message
from commitlog.records.message_fast import encode_record, topic_field
from dledger.errors import DledgerError, NotLeader

from .busy import DUE_SECONDS, WAIT_MS, Busy, done
from .by_hand import HandBroker
from .harness import bodies
from .test_pop import named

HOST = pack_host(Host("10.0.0.1", 1))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[HandBroker]:
    broker = HandBroker(tmp_path)
    broker.lead()
    yield broker
    broker.close()


@pytest.fixture
def busy(broker: HandBroker) -> Busy:
    busy = Busy(broker)
    busy.prepare()
    return busy


def record(topic: str, body: bytes, offset: int, stamp_ms: int) -> bytes:
    """A message as another leader logs it."""
    return bytes(
        encode_record(
            topic_field(topic), b"", body, 0, 0, 0, stamp_ms, HOST, HOST, queue_offset=offset,
            store_timestamp_ms=stamp_ms,
        )
    )  # fmt: skip


def change(broker: HandBroker, what: StateChange, offset: int) -> bytes:
    made = encode_change(what)
    return record(made.topic, made.body, offset, broker.now_ms())


def texts(broker: HandBroker, topic: str) -> list[bytes]:
    """Bodies of the messages in queue 0 of a topic."""
    services = broker.parts
    queue = services.derived.queue(topic, 0)
    if queue is None:
        return []
    rows = queue.read(0, queue.max_offset)
    found: list[Message] = [
        decode_message(bytes(services.reader.record(row.physical_offset))) for row in rows
    ]
    return [message.body for message in found]


# -- who waits -------------------------------------------------------------------------------------


def test_a_parked_pull_of_a_leader_that_lost_the_lead_waits_at_the_next_one(
    broker: HandBroker, busy: Busy
) -> None:
    pull = busy.client.pull(offset=1, suspend_ms=WAIT_MS)
    broker.turn()
    assert broker.parts.polls.count == 1
    broker.step_down()
    broker.turn(2 * WAIT_MS / 1000)
    assert [frame.code for _, frame in broker.forwarded if frame.code == Code.PULL_MESSAGE]
    assert pull.answer is None, "a follower does not know that there is nothing"
    assert broker.parts.polls.count == 0


def test_a_parked_pop_of_a_leader_that_lost_the_lead_waits_at_the_next_one(
    broker: HandBroker, busy: Busy
) -> None:
    pop = busy.popped(topic="P", pollTime=WAIT_MS, bornTime=broker.now_ms())
    broker.turn()
    assert broker.parts.pop.waits.count == 1
    broker.step_down()
    broker.turn(2 * WAIT_MS / 1000)
    assert [frame.code for _, frame in broker.forwarded if frame.code == Code.POP_MESSAGE]
    assert pop.answer is None, "a follower does not know that there is nothing"
    assert broker.parts.pop.waits.count == 0


@pytest.mark.parametrize("code", [Code.PULL_MESSAGE, Code.NOTIFICATION])
def test_a_question_that_was_proven_when_the_lead_was_lost_waits_at_the_next_one(
    broker: HandBroker, busy: Busy, monkeypatch: pytest.MonkeyPatch, code: Code
) -> None:
    """A follower keeps none: it would say "nothing" when the time is over."""
    proven: list[Callable[[None], None]] = []
    monkeypatch.setattr(broker.log, "read_index", proven.append)
    if code is Code.PULL_MESSAGE:
        busy.client.pull(offset=1, suspend_ms=WAIT_MS)
    else:
        ext = {"consumerGroup": "CG", "topic": "P", "queueId": 0, "pollTime": WAIT_MS}
        busy.ask(code, {**ext, "bornTime": broker.now_ms()})
    broker.step_down()
    (ready,) = proven
    ready(None)
    broker.turn()
    assert (broker.parts.polls.count, broker.parts.pop.waits.count) == (0, 0)
    assert [frame.code for _, frame in broker.forwarded if frame.code == code]


def test_a_repeat_whose_original_was_lost_is_not_acknowledged_for_what_stands_there(
    broker: HandBroker, busy: Busy
) -> None:
    """R8: it waits for an index, and another leader's message may get that one."""
    original = busy.client.numbered("p", 2, topic="N")
    broker.turn()
    repeat = busy.client.numbered("p", 2, topic="N")
    broker.turn()
    assert repeat.answer is None
    broker.step_down()
    broker.follow([record("T", b"another", 1, broker.now_ms()) for _ in range(5)])
    assert (original.code, repeat.code) == (14, 14)


def test_what_was_not_proposed_when_the_lead_was_lost_is_told_at_once(
    broker: HandBroker, busy: Busy
) -> None:
    """The next leader may commit what was: only who asks again by himself waits for that."""
    proposed = busy.lock("c1", 0)
    broker.turn()
    waiting = busy.client.send("New")
    assert (proposed.answer, waiting.answer) == (None, None)
    broker.step_down()
    assert (proposed.code, waiting.code) == (14, 14)


# -- what is on its way ----------------------------------------------------------------------------


def test_an_offset_that_was_not_logged_does_not_take_the_group_back_in_a_later_leadership(
    broker: HandBroker, busy: Busy
) -> None:
    done_first = busy.commit_offset(1)
    broker.commit()
    done(done_first)
    busy.commit_offset(5)
    lost = busy.commit_offset(6)
    broker.step_down()
    assert lost.code == 14
    broker.follow([change(broker, OffsetsCommitted("CG", {"T": {0: 9}}), 50)])
    broker.lead()
    broker.turn(5.0)
    broker.commit()
    services = broker.parts
    assert services.offsets.newest("CG", "T", 0) == 9
    assert services.state.offsets.get("CG", "T", 0) == 9


def test_a_delayed_message_whose_delivery_was_lost_is_delivered_by_the_next_leadership(
    broker: HandBroker, busy: Busy
) -> None:
    broker.turn(10.0)
    assert len(broker.parts.tables.settling) == 1
    broker.lose_all()
    assert texts(broker, "T") == [b"hello"]
    broker.lead()
    broker.commit()
    assert texts(broker, "T") == [b"hello", b"later"]


def test_a_transaction_whose_outcome_was_lost_is_ended_by_the_next_leadership(
    broker: HandBroker, busy: Busy
) -> None:
    busy.end()
    broker.turn()
    broker.lose_all()
    assert texts(broker, "T") == [b"hello"]
    broker.lead()
    again = busy.end()
    broker.commit()
    done(again)
    assert texts(broker, "T") == [b"hello", b"half"]


def test_a_transaction_whose_batch_nobody_was_told_of_is_ended_by_the_next_leadership(
    broker: HandBroker, busy: Busy
) -> None:
    busy.end()
    assert broker.parts.appender._open is not None
    broker.parts.appender._open.units.clear()
    broker.turn()
    broker.lose_all()
    broker.lead()
    again = busy.end()
    broker.commit()
    done(again)
    assert texts(broker, "T") == [b"hello", b"half"]


def test_a_half_whose_check_was_lost_is_asked_for_by_the_next_leadership(
    broker: HandBroker, busy: Busy
) -> None:
    broker.turn(DUE_SECONDS)
    assert broker.parts.state.halves.take_due(broker.now_ms(), 9) == []
    broker.lose_all()
    broker.lead()
    broker.turn(DUE_SECONDS)
    broker.commit()
    (half,) = broker.parts.state.halves._waiting.values()
    assert half.checks == 1


def test_a_popped_message_whose_acknowledgement_was_lost_comes_again(
    broker: HandBroker, busy: Busy
) -> None:
    assert busy.pop_handle is not None
    busy.ask(Code.ACK_MESSAGE, named(busy.pop_handle, "P"))
    broker.turn()
    assert len(broker.parts.pop.settling) == 1
    broker.lose_all()
    broker.lead()
    broker.turn(1_000.0)
    for _ in range(3):
        broker.turn(2.0)
        broker.commit()
    assert texts(broker, "%RETRY%CG_P") == [b"hello"]


@pytest.mark.parametrize("order", ["true", "false"])
def test_messages_of_a_pop_that_was_lost_are_given_by_the_next_leadership(
    broker: HandBroker, busy: Busy, order: str
) -> None:
    busy.popped(topic="O", order=order)
    broker.turn()
    broker.lose_all()
    broker.lead()
    again = busy.popped(topic="O", order=order)
    broker.commit()
    assert bodies(done(again).body) == [b"hello"]


def test_a_message_after_one_that_was_lost_gets_its_place(broker: HandBroker, busy: Busy) -> None:
    busy.client.send(body=b"lost")
    busy.client.numbered("p", 2, b"lost", topic="N")
    broker.turn()
    broker.lose_all()
    broker.lead()
    kept = busy.client.send(body=b"kept")
    numbered = busy.client.numbered("p", 2, topic="N")
    broker.commit()
    assert done(kept).ext["queueOffset"] == "1"
    assert done(numbered).ext["queueOffset"] == "5"
    assert texts(broker, "T") == [b"hello", b"kept"]


def test_a_queue_whose_lock_was_lost_can_be_locked(broker: HandBroker, busy: Busy) -> None:
    busy.lock("c1", 0)
    broker.turn()
    broker.lose_all()
    broker.lead()
    again = busy.lock("c2", 0)
    broker.commit()
    assert b'"queueId":0' in done(again).body.replace(b" ", b"")


@pytest.mark.parametrize("told", [True, False])
def test_a_topic_whose_creation_was_lost_is_created_by_the_next_leadership(
    broker: HandBroker, busy: Busy, told: bool
) -> None:
    """Also when nobody was told what became of the batch that it was in."""
    lost = busy.client.send("New", b"lost")
    busy.client.heartbeat("NewGroup", "T")
    assert broker.parts.appender._open is not None
    if not told:
        broker.parts.appender._open.units.clear()
    broker.turn()
    broker.lose_all()
    assert lost.code == 14
    assert broker.parts.writer.waiting == 0
    broker.lead()
    again = busy.client.send("New", b"kept")
    broker.commit()
    done(again)
    assert texts(broker, "New") == [b"kept"]
    assert broker.parts.state.groups.get("NewGroup") is not None


def test_a_topic_that_had_no_room_to_be_created_is_created_when_there_is(
    broker: HandBroker, busy: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = broker.parts.writer
    monkeypatch.setattr("cluster.broker.kernel.write.state_writer.WAITING_MAX", 0)
    assert busy.client.send("New").code not in (None, 0)
    monkeypatch.undo()
    again = busy.client.send("New", b"kept")
    broker.commit()
    done(again)
    assert writer.waiting == 0


def test_a_refused_batch_is_begun_again_in_the_same_leadership(
    broker: HandBroker, busy: Busy
) -> None:
    refusal: DledgerError = NotLeader(None)
    broker.log.refusal = refusal
    busy.end()
    busy.client.send("New", b"lost")
    broker.turn()
    broker.log.refusal = None
    broker.commit()
    again, created = busy.end(), busy.client.send("New", b"kept")
    broker.commit()
    done(again)
    done(created)
    assert b"kept" in texts(broker, "New")


# -- planned moves and stops -----------------------------------------------------------------------


def test_a_planned_move_begins_when_the_last_offsets_are_logged(
    broker: HandBroker, busy: Busy
) -> None:
    """Also those that came while a record of their group was on its way."""
    busy.commit_offset(1)
    broker.turn()
    busy.commit_offset(2)
    busy.ask(Code.TRANSFER_LEADER)
    broker.turn()
    assert not broker.log.transfers, "a log that is handed over takes no records"
    broker.apply()
    broker.turn()
    assert not broker.log.transfers
    broker.commit()
    assert len(broker.log.transfers) == 1
    assert broker.parts.state.offsets.get("CG", "T", 0) == 2


def test_a_planned_move_without_outstanding_offsets_begins_at_once(
    broker: HandBroker, busy: Busy
) -> None:
    busy.ask(Code.TRANSFER_LEADER)
    assert len(broker.log.transfers) == 1


def test_a_planned_move_is_not_held_up_by_offsets_of_a_leadership_that_ends(
    broker: HandBroker, busy: Busy
) -> None:
    busy.commit_offset(1)
    busy.ask(Code.TRANSFER_LEADER)
    broker.turn()
    assert not broker.log.transfers
    broker.step_down()
    assert len(broker.log.transfers) == 1, "the log says that it is led elsewhere"
