"""Halves are folded from the log: the first outcome counts, checks are counted, dues (R17)."""

from __future__ import annotations

import json

import pytest

from cluster.core.apply import AppliedState
from cluster.core.internal_topics import HalvesChecked, OffsetsCommitted, encode_change
from cluster.core.topics import built_in_topics
from cluster.core.transactions import halves
from cluster.core.transactions.halves import CLOCK_SKEW_MS_MAX, Outcome
from cluster.core.transactions.rules import CheckRule, Half, immunity_ms
from commitlog.records.hosts import Host, pack_host
from commitlog.records.message_fast import encode_record, topic_field
from commitlog.records.record import HEADER
from dledger.core.types import Index

V4 = pack_host(Host("10.0.0.1", 1))
HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"
NOW = 1_700_000_000_000
RULE = CheckRule(timeout_ms=6_000, interval_ms=30_000, checks_max=15)


class Log:
    """Applied entries with their addresses, as the log stamps them."""

    def __init__(self, rule: CheckRule = RULE) -> None:
        self.state = AppliedState(built_in_topics("C", "B"), half_checks=rule)
        self.table = self.state.halves
        self.position = self.index = self.halves = 0

    def add(
        self,
        topic: str,
        *,
        offset: int = 0,
        properties: bytes = b"",
        body: bytes = b"x",
        origin: int = 0,
        store_ms: int = NOW,
        sys_flag: int = 0,
    ) -> int:
        """One applied entry; its record's address."""
        address = self.position + 48
        record = encode_record(
            topic_field(topic), properties, body, 0, 0, sys_flag, 1, V4, V4, 0, origin,
            offset, address, store_ms,
        )  # fmt: skip
        header = HEADER.pack(1, 48 + len(record), self.index, 3, self.position, 0, 0, 0,
                             len(record))  # fmt: skip
        self.state.apply(header + record, Index(self.index))
        self.index += 1
        self.position += 48 + len(record)
        return address

    def half(self, properties: bytes = b"", *, origin: int = 0, store_ms: int = NOW) -> int:
        block = b"REAL_TOPIC\x01T\x02REAL_QID\x012\x02PGROUP\x01P\x02" + properties
        self.halves += 1
        offset = self.halves - 1
        return self.add(HALF, offset=offset, properties=block, origin=origin, store_ms=store_ms)

    def checked(self, position: int, count: int, store_ms: int = NOW) -> None:
        record = encode_change(HalvesChecked({position: count}))
        self.add(record.topic, body=record.body, store_ms=store_ms)


@pytest.mark.parametrize(
    ("topic", "outcome"),
    [("T", Outcome.COMMITTED), (OP, Outcome.ROLLED_BACK), (GIVEN_UP, Outcome.GIVEN_UP)],
)
def test_the_first_outcome_in_log_order_counts(topic: str, outcome: Outcome) -> None:
    log = Log()
    first, second = log.half(), log.half()
    assert log.table.get(second) == Half(1, NOW)
    log.add(topic, origin=second, body=b"1,")
    assert log.table.get(second) is None
    assert log.table.recent(second) is outcome
    for other in ("T", OP, GIVEN_UP):
        log.add(other, origin=second, body=b"1,")
    assert log.table.recent(second) is outcome, "a second outcome finds nothing"
    assert log.table.get(first) == Half(0, NOW)
    assert log.table.recent(first) is None


def test_the_outcome_of_a_delayed_message_is_none_of_ours() -> None:
    log = Log()
    log.half()
    log.add("T", origin=12_345)
    assert log.table.recent(12_345) is None
    assert len(log.table) == 1


@pytest.mark.parametrize("body", [b"0,2,", b"0,2", b"0,,2,", b"0,x,2,99,-1,2,"])
def test_op_records_of_rocketmq_name_queue_offsets(body: bytes) -> None:
    log = Log()
    _, second, _ = log.half(), log.half(), log.half()
    log.add(OP, body=body, properties=b"TAGS\x01d\x02")
    assert [log.table.get(second), len(log.table)] == [Half(1, NOW), 1]


@pytest.mark.parametrize("body", [b"", b",", b"9" * 40 + b",", b"\xff\x00,"])
def test_op_records_that_name_nothing(body: bytes) -> None:
    log = Log()
    log.half()
    log.add(OP, body=body)
    assert len(log.table) == 1


def test_checks_are_counted_and_nothing_gets_another_address() -> None:
    log = Log()
    half = log.half()
    log.checked(half, 1, NOW + 6_000)
    log.checked(half, 2, NOW + 36_000)
    assert log.table.get(half) == Half(0, NOW, 0, 2, NOW + 36_000)
    log.add("T", origin=half)
    log.checked(half, 3)
    assert log.table.get(half) is None, "it is settled, whatever was on its way"


def test_when_a_check_is_due() -> None:
    log = Log()
    quick = log.half(b"CHECK_IMMUNITY_TIME_IN_SECONDS\x012\x02")
    plain = log.half(store_ms=NOW + 10)
    slow = log.half(b"CHECK_IMMUNITY_TIME_IN_SECONDS\x0120\x02", store_ms=NOW + 20)
    take = log.table.take_due
    assert take(NOW + 5_999, 9) == []
    assert take(NOW + 6_000, 9) == [quick], "six seconds at least, whatever was asked for"
    assert take(NOW + 6_010, 9) == [plain]
    assert take(NOW + 6_010, 9) == [], "not given twice"
    log.table.put_back([plain])
    assert take(NOW + 6_010, 9) == [plain]
    log.checked(quick, 1, NOW + 6_001)
    log.checked(plain, 1, NOW + 6_002)
    assert take(NOW + 20_019, 9) == []
    assert take(NOW + 20_020, 9) == [slow]
    assert take(NOW + 36_002, 1) == [quick]
    assert take(NOW + 36_002, 9) == [plain]
    log.add("T", origin=slow)
    log.table.put_back([slow, quick, plain, quick])
    assert take(NOW + 99_000, 9) == [quick, plain], "once each, and nothing that is settled"


def test_a_clock_that_went_back_delays_no_check_for_long() -> None:
    log = Log()
    half = log.half()
    longest = RULE.interval_ms + CLOCK_SKEW_MS_MAX
    assert log.table.take_due(NOW + 6_000 - longest, 9) == []
    assert log.table.take_due(NOW + 6_000 - longest - 1, 9) == [half]


def test_when_a_half_is_given_up_or_its_producer_is_too_late() -> None:
    half = Half(0, NOW)
    assert not RULE.is_given_up(half._replace(checks=14), NOW)
    assert RULE.is_given_up(half._replace(checks=15), NOW)
    assert not RULE.is_given_up(half, NOW + RULE.age_ms_max)
    assert RULE.is_given_up(half, NOW + RULE.age_ms_max + 1)
    assert not RULE.is_too_late(half, NOW + 99_999), "no time of its own was asked for"
    asked = half._replace(immunity_ms=2_000)
    assert not RULE.is_too_late(asked, NOW + 6_000)
    assert RULE.is_too_late(asked, NOW + 6_001)


@pytest.mark.parametrize("value", ["", "x", "-1", "1.5", "9" * 10, "٣"])
def test_quiet_times_that_say_nothing(value: str) -> None:
    assert immunity_ms(f"CHECK_IMMUNITY_TIME_IN_SECONDS\x01{value}\x02".encode()) == 0


def test_a_half_that_was_given_up_may_be_resumed_as_a_new_one() -> None:
    log = Log()
    half = log.half()
    copy = log.add(GIVEN_UP, origin=half)
    again = log.half(origin=copy)
    assert log.table.recent(copy) is Outcome.RESUMED
    assert log.table.get(again) == Half(1, NOW)
    log.checked(again, 7)
    log.checked(again, 0, NOW + 50)
    assert log.table.get(again) == Half(1, NOW, 0, 0, NOW + 50)


def test_a_checkpoint_holds_all_of_it() -> None:
    log = Log()
    kept, done = log.half(), log.half(b"CHECK_IMMUNITY_TIME_IN_SECONDS\x0160\x02")
    log.checked(kept, 3, NOW + 5)
    log.add("T", origin=done)
    other = AppliedState(built_in_topics("C", "B"), half_checks=RULE)
    other.restore(log.state.to_checkpoint(), lambda *_: True)
    assert other.halves.get(kept) == Half(0, NOW, 0, 3, NOW + 5)
    assert other.halves.recent(done) is Outcome.COMMITTED
    assert other.halves.system_offsets() == log.table.system_offsets() == {HALF: 0, OP: 0}
    assert other.halves.take_due(NOW + 30_005, 9) == [kept]
    assert other.to_checkpoint() == log.state.to_checkpoint()
    broken = json.loads(log.state.to_checkpoint())
    broken["parked"]["halves"]["recent"] = [[1, 99]]
    with pytest.raises(ValueError, match="99"):
        AppliedState(built_in_topics("C", "B")).restore(
            json.dumps(broken).encode(), lambda *_: True
        )


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halves, "RECENT_MAX", 3)
    monkeypatch.setattr(halves, "WAITING_MAX", 4)
    log = Log()
    positions = [log.half() for _ in range(12)]
    assert log.table.is_full
    for position in positions[:10]:
        log.add("T", origin=position)
    assert [log.table.recent(p) is not None for p in positions] == [False] * 7 + [True] * 3 + [
        False
    ] * 2
    assert len(log.table._heap) <= 2 * len(log.table) + 3 + 1, "stale rows are dropped"
    assert log.table.take_due(NOW + 6_000, 99) == positions[10:]
    assert not log.table.is_full
    assert log.table.system_offsets()[HALF] == 10


def test_where_rocketmqs_check_service_would_go_on() -> None:
    log = Log()
    assert log.table.system_offsets() == {}
    first, second = log.half(), log.half()
    log.add("T", origin=second)
    log.add(OP, body=b"1,", offset=0)
    third = log.half()
    assert log.table.system_offsets() == {HALF: 0, OP: 0}
    log.add(OP, origin=first, body=b"0,", offset=1)
    assert log.table.system_offsets() == {HALF: 2, OP: 1}, "op 0 is about none that still waits"
    log.add("T", origin=third)
    log.add(OP, body=b"2,", offset=2)
    assert log.table.system_offsets() == {HALF: 3, OP: 3}


def test_a_store_of_rocketmq_says_up_to_where_halves_are_done() -> None:
    """It discards and puts back without an op record; only its offset moves on."""
    log = Log()
    gone, kept = log.half(), log.half()
    changes = log.table.changes
    record = encode_change(OffsetsCommitted("CID_RMQ_SYS_TRANS", {HALF: {0: 1}, OP: {0: 0}}))
    log.add(record.topic, body=record.body)
    assert log.table.recent(gone) is Outcome.GIVEN_UP
    assert log.table.get(kept) is not None
    assert log.table.changes > changes
    other = encode_change(OffsetsCommitted("somebody", {HALF: {0: 9}}))
    log.add(other.topic, body=other.body)
    assert log.table.get(kept) is not None
