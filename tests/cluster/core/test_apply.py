"""Committed entries → state, however they are batched; checkpoints give an equal state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.core.apply import SPECIAL_TOPIC_FIELDS, AppliedState
from cluster.core.internal_topics import (
    GroupsChanged,
    LocksChanged,
    OffsetsCommitted,
    StateChange,
    TopicsChanged,
    encode_change,
)
from cluster.core.subscription_groups import new_group
from cluster.core.topics import TopicConfig, built_in_topics
from commitlog.dispatch import accel_columns, accel_tails
from commitlog.dispatch.accel_columns import read_stretches
from commitlog.records import accel
from commitlog.records.hosts import Host, pack_host
from commitlog.records.message_fast import encode_record, topic_field
from commitlog.records.record import BLANK, HEADER, MAGIC_BLANK
from dledger.core.types import Index
from dledger.producers.table import ProducerTable
from tests.commitlog.entry_log import EntryLog, Run, random_log

V4, V6 = pack_host(Host("10.0.0.1", 1)), pack_host(Host("::1", 2))


def message(
    topic: str = "T",
    queue: int = 0,
    offset: int = 0,
    body: bytes = b"x",
    properties: bytes = b"",
    *,
    sys_flag: int = 0,
    host: bytes = V4,
    store_ms: int = 1_000,
) -> bytes:
    record = encode_record(
        topic_field(topic), properties, body, queue, 0, sys_flag, 1, host, V4, 0, 0, offset, 0,
        store_ms,
    )  # fmt: skip
    return bytes(record)


def change(what: StateChange, store_ms: int = 1_000) -> bytes:
    record = encode_change(what)
    return message(record.topic, body=record.body, store_ms=store_ms)


def numbered(producer: str, number: int, queue: int = 0, *, store_ms: int = 1_000) -> bytes:
    properties = f"__PID\x01{producer}\x02__SEQ\x01{number}\x02".encode()
    return message(queue=queue, offset=number, properties=properties, store_ms=store_ms)


def entries(bodies: list[bytes], first: int = 0, term: int = 3) -> bytes:
    """Bodies as entries of the log, without checksums, which apply does not look at."""
    parts = []
    for index, body in enumerate(bodies, first):
        parts += [HEADER.pack(1, 48 + len(body), index, term, 0, 0, 0, 0, len(body)), body]
    return b"".join(parts)


def state(producers: ProducerTable | None = None) -> AppliedState:
    return AppliedState(built_in_topics("C", "B"), producers)


def test_queue_ends_follow_the_records() -> None:
    applied = state()
    applied.apply(entries([message(queue=2, offset=7), message(queue=0, offset=0)]), Index(0))
    assert applied.queue_ends("T", 4) == [1, 0, 8, 0]
    assert applied.all_ends() == [("T", 0, 1), ("T", 2, 8)]
    assert (applied.applied, applied.term) == (1, 3)


def test_half_and_rolled_back_messages_have_no_place_in_a_queue() -> None:
    applied = state()
    bodies = [message(sys_flag=4, offset=9), message(sys_flag=12, offset=9), message(sys_flag=8)]
    applied.apply(entries(bodies), Index(0))
    assert applied.queue_ends("T", 1) == [1]


def test_ipv6_hosts_and_blanks_are_walked_over() -> None:
    applied = state()
    blank = BLANK.pack(MAGIC_BLANK, 30) + bytes(22)
    data = blank + entries([message(host=V6, offset=4, store_ms=77)]) + blank
    applied.apply(data, Index(0))
    assert applied.queue_ends("T", 1) == [5]
    assert applied.store_ms == 77


def test_internal_records_change_the_tables() -> None:
    applied = state()
    changes = [
        TopicsChanged(put=(TopicConfig("T", 2, 2),)),
        GroupsChanged(put=(new_group("g"),)),
        OffsetsCommitted("g", {"T": {0: 5}}),
    ]
    assert applied.apply(entries([change(c, 50 + i) for i, c in enumerate(changes)]), Index(0)) == (
        changes
    )
    assert applied.topics.get("T") == TopicConfig("T", 2, 2)
    assert applied.topics.version.timestamp == 50, "the log's time, never the machine's"
    assert applied.groups.get("g") == new_group("g")
    assert applied.offsets.get("g", "T", 0) == 5
    applied.apply(entries([change(TopicsChanged(delete=("T",)))], 3), Index(3))
    assert applied.topics.get("T") is None


def test_each_index_is_applied_once_and_in_order() -> None:
    applied = state()
    with pytest.raises(AssertionError, match="once, in order"):
        applied.apply(entries([message()], 1), Index(1))


@pytest.mark.parametrize(
    "properties",
    [
        b"__PID\x01p\x02",
        b"__PID\x01p",
        b"__PID\x01p\x02__SEQ\x01\x02",
        b"__PID\x01p\x02__SEQ\x01-1\x02",
        b"__PID\x01p\x02__SEQ\x011x\x02",
        b"__PID\x01p\x02__SEQ\x01" + b"9" * 19,
        b"__PID\x01\xff\x02__SEQ\x010\x02",
    ],
)
def test_odd_numbers_in_committed_messages_stop_nobody(properties: bytes) -> None:
    """What stands in the log is applied by every replica: it must never raise."""
    applied = state()
    applied.apply(entries([message(properties=properties)]), Index(0))
    assert len(applied.producers) == 0


def test_numbers_of_mixed_queues_are_known_to_the_table() -> None:
    applied = state()
    bodies = [numbered("p", i // 2, i % 2) for i in range(10)]
    applied.apply(entries(bodies), Index(0))
    assert applied.producers.next_sequence("p", "T/0") == 5
    assert applied.producers.next_sequence("p", "T/1") == 5
    admission = applied.producers.check("p", "T/1", 3)
    assert admission.skip == 1
    assert admission.wait_for >= 7, "never earlier than the original's index"


Sent = st.tuples(st.integers(0, 4), st.integers(0, 1))


@given(st.lists(Sent, max_size=40), st.lists(st.integers(1, 7), max_size=40), st.integers(2, 20))
def test_batching_does_not_change_the_state(
    sends: list[tuple[int, int]], cuts: list[int], producers_max: int
) -> None:
    """One entry at a time or in batches: the same state, also when producers are forgotten."""
    following: dict[tuple[int, int], int] = {}
    bodies = []
    for producer, queue in sends:
        number = following.get((producer, queue), 0)
        following[producer, queue] = number + 1
        bodies.append(numbered(f"p{producer}", number, queue, store_ms=1_000 + len(bodies)))
    one, many = (state(ProducerTable(producers_max=producers_max)) for _ in range(2))
    for index, body in enumerate(bodies):
        one.apply(entries([body], index), Index(index))
    at = 0
    for size in [1, *cuts, len(bodies)]:  # an empty table has room for any batch
        if at < len(bodies):
            many.apply(entries(bodies[at : at + size], at), Index(at))
            at += len(bodies[at : at + size])
    assert _comparable(one) == _comparable(many)


def _comparable(applied: AppliedState) -> object:
    """The checkpoint: who is known, least recently used first, and each stream's last number."""
    value = json.loads(applied.to_checkpoint())
    known: dict[str, dict[str, int]] = {}
    for producer, time_ms, stream, _, number, *_ in value.pop("producers"):
        known.setdefault(f"{producer} {time_ms}", {})[stream] = number
    return value, list(known.items())


def test_a_checkpoint_gives_an_equal_state() -> None:
    applied = state()
    bodies = [
        change(TopicsChanged(put=(TopicConfig("T", 2, 2),))),
        change(GroupsChanged(put=(new_group("g"),))),
        change(GroupsChanged(forbid={"g": {"T": 1}})),
        change(LocksChanged("g", {("T", 0): "c1", ("T", 1): "c2"})),
        change(LocksChanged("g", {("T", 1): ""})),
        change(OffsetsCommitted("g", {"T": {0: 5}})),
        *(numbered("p", i // 2, i % 2) for i in range(6)),
    ]
    applied.apply(entries(bodies), Index(0))
    applied.position = 4711
    again = state()
    again.restore(applied.to_checkpoint(), lambda index, term, position: position == 4711)
    assert again.to_checkpoint() == applied.to_checkpoint()
    assert again.producers.check("p", "T/0", 2).wait_for == (
        applied.producers.check("p", "T/0", 2).wait_for
    )
    again.apply(entries([message(queue=1, offset=3)], 12), Index(12))
    assert again.queue_ends("T", 2) == [3, 4]


def test_a_checkpoint_that_the_log_does_not_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="not in the log"):
        state().restore(state().to_checkpoint(), lambda index, term, position: False)


@pytest.fixture
def small_stretches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Columns for a few messages, too."""
    monkeypatch.setattr(accel_columns, "STRETCH_MIN", 3)
    monkeypatch.setattr(accel_tails, "GROUP_MIN", 2)
    before = accel.is_loaded()
    assert accel.load()
    yield
    if not before:
        accel.unload()


@pytest.mark.usefixtures("small_stretches")
@settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(0, 1 << 32), st.sampled_from([2, 20_000]))
def test_columns_do_not_change_the_state(seed: int, producers_max: int) -> None:
    random = Random(seed)
    log = random_log(random)
    internal = change(OffsetsCommitted("g", {"T": {0: seed}}), 5_000)
    log.entry(internal)
    for run in range(random.randint(0, 10)):
        log.add(Run(queue=run % 2, count=random.randint(1, 9)))
    slow, quick = (state(ProducerTable(producers_max=producers_max)) for _ in range(2))
    cuts = sorted(random.sample(range(len(log.starts)), min(3, len(log.starts))))
    begin, first = 0, Index(0)
    for last in [*cuts, len(log.starts)]:
        end = log.starts[last] if last < len(log.starts) else len(log.data)
        data = bytes(log.data[begin:end])
        stretches = read_stretches(data, begin, SPECIAL_TOPIC_FIELDS)
        if data:
            assert quick.apply(memoryview(data), first, stretches) == slow.apply(data, first)
        assert _comparable(quick) == _comparable(slow)
        assert quick.all_ends() == slow.all_ends()
        if producers_max > len(log.starts):
            assert list(quick.producers.export()) == list(slow.producers.export())
        begin, first = end, Index(last)


@pytest.mark.usefixtures("small_stretches")
def test_entry_by_entry_follows_columns_with_the_numbers_they_left() -> None:
    """A message before columns, one behind them with the number that would have followed it."""
    log = EntryLog()
    numbers = [10, 20, 21, 22, 23, 11]
    for number in numbers:
        is_last = number == 11
        block = b"__PID\x01p\x02__SEQ\x01%d\x02" % number
        log.add(Run(odd=block + b"a" * is_last, host=V6 if number in (10, 11) else V4))
    data = bytes(log.data)
    stretches = read_stretches(data, 0, SPECIAL_TOPIC_FIELDS)
    assert [stretch.columns is not None for stretch in stretches] == [False, True, False]
    slow, quick = state(), state()
    quick.apply(data, Index(0), stretches)
    slow.apply(data, Index(0))
    assert list(quick.producers.export()) == list(slow.producers.export())
    assert quick.producers.next_sequence("p", "T/0") == 24


def test_a_captured_state_is_of_its_moment_and_lists_topics_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loop does not encode rows of topics; what changes after the capture is not in it."""
    applied = state()
    topics = tuple(TopicConfig(f"T{n}", 2, 2, attributes={"a": "é"}) for n in range(1_200))
    applied.apply(entries([change(TopicsChanged(put=topics))]), Index(0))
    before = json.loads(applied.to_checkpoint())
    assert [row["topicName"] for row in before["topics"]["rows"]] == [row.name for row in topics]
    with monkeypatch.context() as patch:
        patch.setattr(TopicConfig, "to_json", lambda _: pytest.fail("it was encoded"))
        captured = applied.capture()
    later = [
        change(TopicsChanged(put=(TopicConfig("T0", 8, 8),), delete=("T1",))),
        change(OffsetsCommitted("g", {"T0": {0: 5}})),
        numbered("p", 0, 0),
    ]
    applied.apply(entries(later, 1), Index(1))
    assert json.loads(applied.to_checkpoint()) != before
    assert json.loads(captured.encode()) == before
