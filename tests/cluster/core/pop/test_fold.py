"""Who holds what, folded from the log: taken, acknowledged, stored again, moved by others."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.core.apply import AppliedState
from cluster.core.internal_topics import OffsetsCommitted
from cluster.core.offsets import OffsetTable
from cluster.core.pop.cursors import PopCursors
from cluster.core.pop.fold import PopFold
from cluster.core.pop.handles import (
    Handle,
    message_offset_info,
    order_count_info,
    read_handle,
    start_offset_info,
)
from cluster.core.pop.names import marker_of, real_topic, retry_topic, revive_topic
from cluster.core.pop.records import (
    Acked,
    OrderAcked,
    OrderHidden,
    OrderTaken,
    Place,
    PopRecord,
    Taken,
    decode_record,
    encode_record,
)
from cluster.core.topics import built_in_topics
from commitlog.dispatch.accel_columns import read_stretches
from commitlog.records.hosts import Host, pack_host
from commitlog.records.message_fast import encode_record as encode_message
from commitlog.records.message_fast import scan_record, topic_field
from dledger.core.types import Index

from ..test_apply import entries

HOST = pack_host(Host("10.0.0.1", 1))
T0 = Place("G", "T", 0)
RECORDS: list[PopRecord] = [
    Taken(T0, 4, 1000, 60_000, (4, 6, 7), 3, 8, "b"),
    Acked(T0, 77, 4, 1000, (4, 7), "b"),
    OrderTaken(T0, 1000, 60_000, (4, 5), "attempt", -1, 4),
    OrderAcked(T0, 1000, 4),
    OrderHidden(T0, 1000, 5, 9000),
]


def revive_record(record: PopRecord, position: int = 0) -> bytes:
    tags, body = encode_record(record)
    field = topic_field(revive_topic("C"))
    block = b"TAGS\x01%b\x02" % tags
    return bytes(encode_message(field, block, body, 1, 0, 0, 5, HOST, HOST, 0, 0, 0, position, 9))


def again(origin: int, offset: int) -> bytes:
    block = b"POP_CK_OFFSET\x01%d\x02" % offset
    field = topic_field("%RETRY%G_T")
    return bytes(encode_message(field, block, b"x", 0, 0, 0, 5, HOST, HOST, 1, origin, 0, 0, 9))


class Log:
    """A fold and what it is fed with; addresses are 100, 200, …"""

    def __init__(self) -> None:
        self.offsets = OffsetTable()
        self.fold = PopFold(self.offsets)
        self.address = 0

    def add(self, record: PopRecord) -> int:
        self.address += 100
        data = revive_record(record, self.address)
        self.fold.replay(scan_record(data), encode_record(record)[1])
        return self.address

    def offset(self) -> int | None:
        return self.offsets.get("G", "T", 0)


def taken(start: int = 0, count: int = 3, pop_ms: int = 1000, **more: Any) -> Taken:
    offsets = tuple(range(start, start + count))
    fields: dict[str, Any] = {"logged_from": start or -1, "next_offset": start + count, **more}
    return Taken(T0, start, pop_ms, 60_000, offsets, **fields)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_records_survive_their_bytes(record: PopRecord) -> None:
    assert decode_record(*encode_record(record)) == record


@pytest.mark.parametrize(
    ("tags", "body"),
    [
        (b"ck", b'{"bm":0,"c":"G","it":1,"n":1,"pt":1,"q":0,"so":0,"t":"T"}'),
        (b"ack", b'{"ao":1,"c":"G","pt":1,"q":0,"so":0,"t":"T"}'),
        (b"ck", b"{"),
        (b"ck", b"[]"),
        (b"", b""),
    ],
)
def test_records_of_a_stock_broker_are_left_alone(tags: bytes, body: bytes) -> None:
    assert decode_record(tags, body) is None


def test_taken_acknowledged_gone() -> None:
    log = Log()
    address = log.add(taken())
    assert log.offset() == 3
    assert log.fold.held.unacked(T0) == 3
    found = log.fold.held.find(T0, 0, 1000)
    assert found is not None
    assert found[0] == address
    log.add(Acked(T0, address, 0, 1000, (0, 2)))
    assert found[1].left == {1}
    log.add(Acked(T0, address, 0, 1000, (0,)))
    assert found[1].left == {1}, "twice is once"
    log.add(Acked(T0, address, 0, 1000, (1,)))
    assert len(log.fold.held) == 0
    assert log.fold.held.find(T0, 0, 1000) is None
    assert log.fold.held.unacked(T0) == 0


def test_what_was_stored_again_is_done_with_once() -> None:
    log = Log()
    address = log.add(taken())
    log.fold.replay_settled(address, scan_record(again(address, 1)))
    log.fold.replay_settled(address, scan_record(again(address, 1)))
    held = log.fold.held.get(address)
    assert held is not None
    assert held.left == {0, 2}
    log.fold.replay_settled(999, scan_record(again(999, 0)))
    assert held.left == {0, 2}, "another kind of origin"


def test_offsets_move_only_from_where_the_taker_saw_them() -> None:
    log = Log()
    log.add(taken(0))
    log.add(taken(3))
    assert log.offset() == 6
    log.offsets.replay(OffsetsCommitted("G", {"T": {0: 1}}))
    log.add(taken(6))
    assert log.offset() == 1, "an administrator moved it meanwhile"
    log.offsets.replay(OffsetsCommitted("G", {"T": {0: 100}}))
    log.add(taken(9))
    assert log.offset() == 100


def test_due_times_and_what_is_put_back() -> None:
    log = Log()
    early, late = log.add(taken(0, pop_ms=1000)), log.add(taken(3, pop_ms=2000))
    held = log.fold.held
    assert held.next_due_ms() == 61_000
    assert held.take_due(60_999, 9) == []
    assert held.take_due(61_000, 9) == [early]
    assert held.next_due_ms() == 62_000
    held.put_back([early], 70_000)
    assert held.take_due(99_000, 9) == [late, early]
    held.begin()
    assert held.take_due(99_000, 1) == [early], "a new leader begins with all of it"
    log.add(Acked(T0, late, 3, 2000, (3, 4, 5)))
    assert held.next_due_ms() is None


def test_ordered_pops() -> None:
    log = Log()
    table = log.fold.ordered
    log.add(OrderTaken(T0, 1000, 500, (0, 1), "a", -1, 0))
    assert log.offset() == 0
    assert table.blocked_until_ms(T0, "b", 1200) == 1500
    assert table.blocked_until_ms(T0, "a", 1200) == 0, "the same attempt"
    assert table.blocked_until_ms(T0, "b", 1500) == 0
    log.add(OrderAcked(T0, 1000, 1))
    assert log.offset() == 0
    log.add(OrderHidden(T0, 1000, 0, 3000))
    assert table.blocked_until_ms(T0, "b", 1500) == 3000
    log.add(OrderTaken(T0, 3000, 500, (0, 1, 2), "b", 0, 0))
    row = table.get(T0)
    assert row is not None
    assert row.counts == {0: 1, 1: 1}
    log.add(OrderAcked(T0, 1000, 0))
    assert row.left == {0, 1, 2}, "of an earlier pop"
    log.add(OrderTaken(T0, 4000, 500, (0, 1, 2), "b", 0, 0))
    row = table.get(T0)
    assert row is not None
    assert row.counts == {0: 1, 1: 1}, "the same attempt does not count again"
    for offset, reached in ((0, 1), (1, 2), (2, 3)):
        log.add(OrderAcked(T0, 4000, offset))
        assert log.offset() == reached
    assert len(table) == 0


def test_a_deleted_group_is_owed_nothing() -> None:
    log = Log()
    log.add(taken())
    log.add(OrderTaken(Place("G", "U", 0), 1, 1, (0,)))
    other = log.add(Taken(Place("H", "T", 0), 0, 1, 1, (0,)))
    log.fold.replay_deletion("G")
    assert len(log.fold.ordered) == 0
    assert [log.fold.held.get(other) is not None, len(log.fold.held)] == [True, 1]


def test_apply_reads_the_revive_log_and_a_checkpoint_keeps_it() -> None:
    def position(bodies: list[bytes], data: list[bytes]) -> int:
        return len(entries(bodies)) + 48

    bodies: list[bytes] = []
    for record in (taken(), OrderTaken(Place("G", "U", 1), 7, 9, (3, 4), "a", -1, 3)):
        bodies.append(revive_record(record, position(bodies, bodies)))
    checkpoint = 48
    bodies.append(revive_record(Acked(T0, checkpoint, 0, 1000, (0,)), position(bodies, bodies)))
    bodies.append(again(checkpoint, 2))
    for numpy in (False, True):
        state = AppliedState(built_in_topics("C", "B"))
        data = entries(bodies)
        stretches = read_stretches(data, 0, state.special_topics) if numpy else ()
        state.apply(data, Index(0), stretches)
        held = state.pop.held.get(checkpoint)
        assert held is not None
        assert held.left == {1}
        assert state.offsets.get("G", "T", 0) == 3
        assert state.queue_end("%RETRY%G_T", 0) == 1
        state.position = 1
        later = AppliedState(built_in_topics("C", "B"))
        later.restore(state.to_checkpoint(), lambda *_: True)
        assert later.to_checkpoint() == state.to_checkpoint()
        assert later.pop.held.find(T0, 0, 1000) is not None
        assert later.pop.held.next_due_ms() == 61_000


def test_cursors_run_ahead_and_follow_an_administrator() -> None:
    cursors = PopCursors()
    cursor = cursors.at(T0, None, 5)
    assert (cursor.next, cursor.logged) == (5, -1)
    cursor.taken(8, 8)
    assert cursors.at(T0, 2, 0).next == 8, "what is applied lags behind what is on its way"
    cursor.settled()
    assert cursors.at(T0, 8, 0).next == 8
    assert cursors.at(T0, 3, 0).next == 3, "moved back"
    assert cursors.at(T0, 50, 0).next == 50, "moved on"
    cursor.taken(60, 60)
    cursor.rewind(50, 50)
    cursor.settled()
    assert cursors.at(T0, 50, 0).next == 50
    cursors.drop()
    assert cursors.known(T0) is None


def test_handles_and_header_texts() -> None:
    handle = Handle(5, 1700, 60_000, 3, "1", "broker-a", 2, 9)
    assert str(handle) == "5 1700 60000 3 1 broker-a 2 9"
    assert read_handle(str(handle)) == handle
    assert read_handle("5 1700 60000 3 0 b 2").offset == -1
    assert start_offset_info([("T", 1, 5), ("%RETRY%G_T", 0, 2)]) == "0 1 5;1 0 2"
    assert message_offset_info([("%RETRY%G+T", 0, (3, 4))]) == "2 0 3,4"
    assert order_count_info("T", 1, {7: 2}, 2) == "0 qo1%7 2;0 1 0"
    assert order_count_info("T", 1, {7: 2, 8: 1}, 2) == "0 qo1%7 2;0 qo1%8 1;0 1 1"
    for wrong in ("", "1 2", "1 2 3 4 0 b -1 0", "1 2 3 4 0 b 0 x", "9" * 25 + " 1 1 1 0 b 0 0"):
        with pytest.raises(ValueError, match="handle"):
            read_handle(wrong)


def test_names() -> None:
    assert retry_topic("T", "G", v2=False) == "%RETRY%G_T"
    assert retry_topic("T", "G", v2=True) == "%RETRY%G+T"
    assert [marker_of(t) for t in ("T", "%RETRY%G_T", "%RETRY%G+T")] == ["0", "1", "2"]
    assert real_topic("T", "G", "2") == "%RETRY%G+T"
    assert real_topic("%RETRY%G_T", "G", "1") == "%RETRY%G_T", "clients that name it already"
    with pytest.raises(ValueError, match="none of 0, 1, 2"):
        real_topic("T", "G", "3")
