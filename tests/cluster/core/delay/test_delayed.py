"""Who waits is a set, folded from the log; the first outcome counts; dues; checkpoints (R17)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.core.apply import SPECIAL_TOPIC_FIELDS, AppliedState
from cluster.core.delay.delayed import CLOCK_SKEW_MS_MAX, DelayedTable
from cluster.core.delay.due import (
    TIMER_DELAY_MS_MAX,
    Delay,
    DelayNotReadable,
    wanted_delay,
    wheel_time_ms,
)
from cluster.core.delay.settling import Settling
from cluster.core.internal_topics import DelaysPassed, decode_change, encode_change
from cluster.core.topics import built_in_topics
from commitlog.delay_levels import DEFAULT_DELAY_LEVELS, parse_delay_levels
from commitlog.dispatch.accel_columns import read_stretches
from commitlog.records import accel
from commitlog.records.hosts import Host, pack_host
from commitlog.records.message_fast import encode_record, topic_field
from commitlog.records.record import HEADER
from dledger.core.types import Index

V4, V6 = pack_host(Host("10.0.0.1", 1)), pack_host(Host("::1", 2))
SCHEDULE, TIMER = "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"
NOW = 1_700_000_000_000


class Log:
    """Entries with their addresses, as the log stamps them."""

    def __init__(self) -> None:
        self.state = AppliedState(built_in_topics("C", "B"))
        self.position = 0
        self.index = 0

    def add(
        self,
        topic: str = "T",
        queue: int = 0,
        offset: int = 0,
        properties: bytes = b"",
        *,
        origin: int = 0,
        store_ms: int = NOW,
        host: bytes = V4,
        sys_flag: int = 0,
        body: bytes = b"x",
    ) -> int:
        """One applied entry; its record's address."""
        address = self.position + 48
        record = encode_record(
            topic_field(topic), properties, body, queue, 0, sys_flag, 1, host, V4, 0, origin,
            offset, address, store_ms,
        )  # fmt: skip
        header = HEADER.pack(1, 48 + len(record), self.index, 3, self.position, 0, 0, 0,
                             len(record))  # fmt: skip
        self.state.apply(header + record, Index(self.index))
        self.index += 1
        self.position += 48 + len(record)
        return address

    def delayed(self, level: int = 1, offset: int = 0, **more: object) -> int:
        block = b"DELAY\x01%d\x02REAL_TOPIC\x01T\x02REAL_QID\x012\x02" % level
        extra = more.pop("extra", b"")
        assert isinstance(extra, bytes)
        return self.add(SCHEDULE, level - 1, offset, extra + block, **more)  # type: ignore[arg-type]

    def timer(self, block: bytes, offset: int = 0, **more: object) -> int:
        return self.add(TIMER, 0, offset, block + b"REAL_TOPIC\x01T\x02REAL_QID\x010\x02", **more)  # type: ignore[arg-type]


def test_a_parked_message_waits_until_its_outcome_is_in_the_log() -> None:
    log = Log()
    first, second = log.delayed(), log.delayed(offset=1)
    table = log.state.delayed
    assert first in table
    assert second in table
    log.add("T", 2, 0, origin=second)
    assert first in table
    assert second not in table, "a set: a later one may be delivered first"
    log.add("T", 2, 1, origin=first)
    assert len(table) == 0


@pytest.mark.parametrize("host", [V4, V6])
def test_the_first_outcome_in_log_order_wins(host: bytes) -> None:
    log = Log()
    parked = log.delayed()
    log.add("T", 2, 0, origin=parked, host=host)
    changes = log.state.delayed.changes
    log.add("T", 2, 1, origin=parked, host=host)
    assert log.state.delayed.changes == changes, "the second one finds nothing"
    assert parked not in log.state.delayed


def test_an_outcome_of_something_else_changes_nothing() -> None:
    log = Log()
    parked = log.delayed()
    log.add("T", 2, 0, origin=parked + 1)
    assert parked in log.state.delayed


def test_an_outcome_that_waits_itself() -> None:
    """A committed transaction that asks for a delay is an outcome and a parked record in one."""
    log = Log()
    half = log.add("RMQ_SYS_TRANS_HALF_TOPIC", 0, 0, b"REAL_TOPIC\x01T\x02REAL_QID\x010\x02")
    parked = log.delayed(origin=half, sys_flag=8)
    assert parked in log.state.delayed
    log.add("T", 2, 0, origin=parked, sys_flag=8)
    assert parked not in log.state.delayed


def test_numbers_count_where_the_message_was_sent_to() -> None:
    log = Log()
    numbers = b"__PID\x01p\x02__SEQ\x01%d\x02"
    log.add("T", 2, 0, numbers % 0)
    log.delayed(extra=numbers % 1)
    log.add("T", 2, 1, numbers % 2)
    producers = log.state.producers
    assert producers.next_sequence("p", "T/2") == 3
    assert producers.next_sequence("p", f"{SCHEDULE}/0") == 0
    run = producers.run_of("p", "T/2", 1)
    assert run is not None


def test_numbers_of_an_outcome_are_not_counted_again() -> None:
    log = Log()
    parked = log.delayed(extra=b"__PID\x01p\x02__SEQ\x010\x02")
    log.add("T", 2, 0, b"__PID\x01p\x02__SEQ\x010\x02", origin=parked)
    assert log.state.producers.next_sequence("p", "T/2") == 1


def test_queue_ends_are_those_of_the_parked_queue() -> None:
    log = Log()
    log.delayed(level=3, offset=7)
    assert log.state.queue_ends(SCHEDULE, 18)[2] == 8
    assert log.state.queue_ends("T", 3) == [0, 0, 0]


def test_due_times() -> None:
    log = Log()
    table = log.state.delayed
    for level, delay_ms in ((1, 1_000), (2, 5_000), (18, 7_200_000)):
        log.delayed(level, store_ms=NOW)
        assert table.next_due_ms(NOW) == NOW + delay_ms
        table.take_due(NOW + delay_ms, 10)
    for block, due_ms in (
        (b"TIMER_DELAY_MS\x012500\x02", NOW + 2_500),
        (b"TIMER_DELAY_SEC\x013\x02", NOW + 3_000),
        (b"TIMER_DELIVER_MS\x01%d\x02" % (NOW + 4_321), NOW + 4_321),
        (b"TIMER_DELAY_MS\x01soon\x02", NOW),
    ):
        log.timer(block)
        assert table.next_due_ms(NOW - 1) == due_ms
        assert len(table.take_due(due_ms, 10)) == 1


def test_taken_once_and_again_only_after_it_was_put_back() -> None:
    log = Log()
    table = log.state.delayed
    positions = [log.delayed(offset=number, store_ms=NOW + number) for number in range(5)]
    assert table.take_due(NOW + 999, 10) == []
    assert table.take_due(NOW + 1_002, 2) == positions[:2]
    assert table.take_due(NOW + 1_002, 9) == positions[2:3]
    log.add("T", 2, 0, origin=positions[0])
    table.put_back(positions[:3])
    assert table.take_due(NOW + 9_999, 9) == positions[1:]


def test_timers_come_due_in_any_order() -> None:
    log = Log()
    table = log.state.delayed
    late = log.timer(b"TIMER_DELAY_MS\x019000\x02")
    early = log.timer(b"TIMER_DELAY_MS\x011000\x02", offset=1)
    assert table.take_due(NOW + 1_000, 9) == [early]
    log.add("T", 0, 0, origin=early)
    assert late in table
    assert table.next_due_ms(NOW) == NOW + 9_000


def test_a_clock_that_went_back_holds_nothing_for_ever() -> None:
    log = Log()
    table = log.state.delayed
    parked = log.delayed(store_ms=NOW)
    a_bit = NOW - CLOCK_SKEW_MS_MAX
    assert table.take_due(a_bit, 9) == [], "clocks of a group differ a little"
    assert table.take_due(a_bit - 1, 9) == [parked]


def test_a_timer_that_rocketmq_takes_back_is_no_message() -> None:
    log = Log()
    log.timer(b"TIMER_DEL_UNIQKEY\x01T+U\x02TIMER_DELAY_MS\x019000\x02")
    assert len(log.state.delayed) == 0


def test_what_an_imported_store_has_delivered_waits_no_more() -> None:
    log = Log()
    levels = [log.delayed(2, offset=number) for number in range(3)]
    other = log.delayed(3)
    due_ms = NOW + 9_000
    timers = [
        log.timer(b"TIMER_DELIVER_MS\x01%d\x02" % (due_ms + 1000 * number)) for number in (0, 1)
    ]
    change = DelaysPassed({2: 2, 18: 5}, wheel_time_ms(due_ms) + 1000)
    record = encode_change(change)
    assert decode_change(record.topic, record.body) == change
    log.add(record.topic, body=record.body)
    table = log.state.delayed
    assert [position in table for position in levels] == [False, False, True]
    assert other in table
    assert [position in table for position in timers] == [False, True]
    assert len(table.take_due(NOW + 99_000, 9)) == 3


def test_first_offsets() -> None:
    log = Log()
    parked = [log.delayed(2, offset=number) for number in (5, 6, 7)]
    log.timer(b"TIMER_DELAY_MS\x019000\x02", offset=3)
    log.add("T", 2, 0, origin=parked[0])
    assert log.state.delayed.first_offsets() == {0: 3, 2: 6}


def test_a_checkpoint_gives_an_equal_table() -> None:
    log = Log()
    parked = [log.delayed(level, offset=level) for level in (1, 2, 18)]
    log.timer(b"TIMER_DELIVER_MS\x01%d\x02" % (NOW + 9), offset=3)
    log.add("T", 2, 0, origin=parked[1])
    table = DelayedTable(DEFAULT_DELAY_LEVELS)
    table.restore(log.state.delayed.to_checkpoint())
    assert table.to_checkpoint() == log.state.delayed.to_checkpoint()
    assert table.first_offsets() == log.state.delayed.first_offsets()
    assert table.take_due(NOW + 8_000_000, 9) == log.state.delayed.take_due(NOW + 8_000_000, 9)
    again = AppliedState(built_in_topics("C", "B"))
    again.restore(log.state.to_checkpoint(), lambda *_: True)
    assert json.loads(again.to_checkpoint()) == json.loads(log.state.to_checkpoint())


@pytest.mark.parametrize("value", ["?", "AAAA", None, "AAAAAAAAAAA="])
def test_a_checkpoint_of_something_else_is_refused(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        DelayedTable(parse_delay_levels("1s")).restore(value)


def test_what_a_message_asks_for() -> None:
    levels = DEFAULT_DELAY_LEVELS
    for properties, delay in (
        (b"a\x01b\x02", Delay(0, 0)),
        (b"DELAY\x010\x02", Delay(0, 0)),
        (b"DELAY\x01-1\x02", Delay(0, 0)),
        (b"DELAY\x013\x02", Delay(3, 0)),
        (b"DELAY\x0199\x02", Delay(18, 0)),
        (b"DELAY\x012\x02TIMER_DELAY_MS\x0150\x02", Delay(2, 0)),
        (b"TIMER_DELAY_MS\x0150\x02TIMER_DELAY_SEC\x013", Delay(0, NOW + 3_000)),
        (b"XTIMER_DELAY_MS\x0150\x02", Delay(0, 0)),
    ):
        assert wanted_delay(properties, levels, NOW) == delay
    for bad in (b"DELAY\x011.5", b"TIMER_DELAY_MS\x01" + b"9" * 16, b"TIMER_DELIVER_MS\x01-"):
        with pytest.raises(DelayNotReadable, match="whole number"):
            wanted_delay(bad, levels, NOW)


@given(st.integers(1, NOW + TIMER_DELAY_MS_MAX))
def test_the_wheels_time_is_a_second_before_or_within(due_ms: int) -> None:
    wheel_ms = wheel_time_ms(due_ms)
    assert wheel_ms % 1000 == 0
    assert 0 < due_ms - wheel_ms <= 1000


def test_one_outcome_on_its_way_is_enough() -> None:
    settling = Settling()
    assert settling.begin(7)
    assert not settling.begin(7)
    settling.done([7])
    assert settling.begin(7)
    settling.drop()
    assert len(settling) == 0


def test_outcomes_are_read_one_by_one() -> None:
    """The columns' short way does not look at the field that names the parked record."""
    pytest.importorskip("numpy")
    data = bytearray()
    parked = 48
    for number in range(200):
        record = encode_record(
            topic_field("T"), b"UNIQ_KEY\x01%032d\x02" % number, b"x", 0, 0, 0, 1, V4, V4, 0,
            parked if number == 100 else 0, number, len(data) + 48, NOW,
        )  # fmt: skip
        data += HEADER.pack(1, 48 + len(record), number, 3, len(data), 0, 0, 0, len(record))
        data += record
    loaded = accel.is_loaded()
    assert accel.load()
    try:
        stretches = read_stretches(bytes(data), 0, SPECIAL_TOPIC_FIELDS)
    finally:
        if not loaded:
            accel.unload()
    counts = [stretch.columns and stretch.columns.count for stretch in stretches]
    assert counts == [100, None, 99]
