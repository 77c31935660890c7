"""Columns give what reading entry by entry gives: queues, index, events, errors."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from commitlog.dispatch import accel_columns, accel_tails
from commitlog.dispatch.accel_columns import read_stretches
from commitlog.dispatch.columns import Stretch
from commitlog.dispatch.dispatcher import Dispatcher
from commitlog.errors import StoreDamaged
from commitlog.files.system import OS_FILES
from commitlog.index.index_format import IndexGeometry
from commitlog.index.index_service import IndexService
from commitlog.queues.consume_queues import ConsumeQueues
from commitlog.queues.queue_entry import ENTRY, tags_code
from commitlog.records import accel

from ..entry_log import EntryLog, Run, random_log
from ..strategies import random_search

# Bytes of a message that say how it is read: sizes, magic, queue, offset, position, flags.
_FIELDS = (*range(48, 52), 55, 63, 75, 83, 87, *range(132, 136), 136, 137, 138, 139, 140, 150)
SPECIAL = frozenset({b"SCHEDULE_TOPIC_XXXX", b"U"})


@pytest.fixture(autouse=True, scope="module")
def _numpy() -> Iterator[None]:
    """Small stretches and groups count too, so that short logs have all kinds of both."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accel_columns, "STRETCH_MIN", 3)
        patch.setattr(accel_tails, "GROUP_MIN", 2)
        patch.setattr(accel_tails, "SHAPES_MAX", 4)
        before = accel.is_loaded()
        assert accel.load()
        yield
        if not before:
            accel.unload()


class Derived:
    """Queues and index of one log, and what their listeners were told."""

    def __init__(self, root: Path, slots: int = 64) -> None:
        staging = root / "staging"
        self.queues = ConsumeQueues(OS_FILES, root, staging=staging, queue_file_size=400)
        self.index = IndexService(
            OS_FILES,
            root / "index",
            staging=staging,
            geometry=IndexGeometry(slots, 90),
            now=lambda: 1_700_000_000,
        )
        self.grown: list[dict[tuple[str, int], int]] = []
        self.dispatcher = Dispatcher(
            self.queues, self.index, entries=True, listener=self._queue_grew
        )

    def _queue_grew(self, topic: str, queue_id: int, max_offset: int) -> None:
        assert (topic, queue_id) not in self.grown[-1], "once for each queue"
        self.grown[-1][topic, queue_id] = max_offset

    def dispatch(self, data: bytes, *, columns: bool) -> int | None:
        """Everything from where it stopped; where it is damaged, None when it is not."""
        begin = self.dispatcher.position
        data = data[begin:]
        self.grown.append({})
        stretches = read_stretches(memoryview(data), begin, SPECIAL) if columns else ()
        try:
            self.dispatcher.dispatch(begin, [data], stretches=stretches)
        except StoreDamaged as error:
            assert self.dispatcher.position == begin
            return error.position
        return None

    def picture(self) -> object:
        """All that readers can see."""
        queues = {
            (queue.topic, queue.queue_id): (queue.end_position, queue.read_raw(0, 1 << 20))
            for queue in self.queues.by_topic.values()
            for queue in queue.values()
            if queue.max_offset
        }
        index = [(file.path.name, file.header, list(file.entries())) for file in self.index.files]
        for file in self.index.files:
            index.append((str(file._slots and file._slots[:]), file.header, []))
        dispatcher = self.dispatcher
        return queues, index, dispatcher.position, dispatcher.store_timestamp_ms

    def close(self) -> None:
        self.queues.close()
        self.index.close()


def both(steps: list[bytes], back: Random | None = None) -> None:
    """Dispatch both ways up to the end of each step; `back`: sometimes a part once more."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        slow, quick = Derived(Path(one)), Derived(Path(other))
        for data in steps:
            damaged = slow.dispatch(data, columns=False)
            assert quick.dispatch(data, columns=True) == damaged
            if damaged is not None:
                break
            assert quick.grown == slow.grown
            assert quick.picture() == slow.picture()
            if back is not None and back.random() < 0.4:
                position = len(back.choice(steps[: steps.index(data) + 1]))
                is_cut = back.random() < 0.5
                for derived in (slow, quick):
                    derived.dispatcher.position = position
                    if is_cut:  # the index is ahead of the queues then
                        derived.queues.cut(position)
        slow.close()
        quick.close()


def some_steps(log: EntryLog, random: Random) -> list[bytes]:
    cuts = sorted(random.sample(log.starts, min(2, len(log.starts))))
    return [bytes(log.data[:end]) for end in [*cuts, len(log.data), len(log.data)]]


@random_search
@given(st.integers(0, 1 << 32))
def test_columns_are_a_quicker_way_to_the_same(seed: int) -> None:
    random = Random(seed)
    both(some_steps(random_log(random), random), random)


@random_search
@given(st.integers(0, 1 << 32))
@example(3022)  # a body's size that ends in the next record, where a known topic stands
def test_damage_is_met_at_the_same_place(seed: int) -> None:
    both(damaged_steps(Random(seed)))


def damaged_steps(random: Random) -> list[bytes]:
    log = random_log(random)
    good = some_steps(log, random)
    bad = bytearray(log.data)
    for _ in range(random.randint(0, 2)):
        at = random.choice(log.starts) + random.choice([random.randint(0, 47), *_FIELDS])
        if len(good[0]) <= at < len(bad):
            bad[at] = random.choice([0, 1, 2, 32, 49, 127, 200, 255])
    return [good[0], bytes(bad[: len(bad) - random.choice([0, 0, 0, 1, 30, 100])])]


@pytest.mark.long
@settings(random_search, max_examples=1000)
@given(st.integers(0, 1 << 32))
def test_a_thousand_logs_whole_and_damaged(seed: int) -> None:
    random = Random(seed)
    both(some_steps(random_log(random), random), random)
    both(damaged_steps(random))


def test_after_damage_the_right_bytes_are_taken(tmp_path: Path) -> None:
    log = EntryLog()
    log.add(Run(count=1))
    log.add(Run(count=40))
    good = bytes(log.data)
    bad = good + bytes(200)
    slow, quick = Derived(tmp_path / "slow"), Derived(tmp_path / "quick")
    for derived, columns in ((slow, False), (quick, True)):
        assert derived.dispatch(good[: log.starts[1]], columns=columns) is None
        assert derived.dispatch(bad, columns=columns) == len(good)
        assert derived.dispatcher.position == log.starts[1]
        assert derived.dispatch(good, columns=columns) is None
    assert quick.picture() == slow.picture()
    assert quick.grown[-1] == slow.grown[-1] == {("T", 0): 41}
    slow.close()
    quick.close()


@pytest.mark.parametrize("at", [51, 83], ids=["size", "position"])
def test_a_record_that_says_another_place_is_refused(tmp_path: Path, at: int) -> None:
    log = EntryLog()
    log.add(Run(count=40))
    derived = Derived(tmp_path)
    assert derived.dispatch(bytes(log.data[: log.starts[1]]), columns=True) is None
    bad = bytearray(log.data)
    bad[log.starts[20] + at] ^= 1
    assert derived.dispatch(bytes(bad), columns=True) == log.starts[20] + 48
    assert derived.dispatcher.position == log.starts[1]
    derived.close()


def test_usual_messages_are_read_as_columns() -> None:
    """Mixed queues, sizes, producers and digits; what is special or unusual stands alone."""
    log = EntryLog()
    for _ in range(4):
        for queue in range(3):
            log.add(Run(queue=queue, count=7, producer=f"p{queue % 2}", keys="k 1"))
    log.blank(60)
    log.add(Run(count=20, body_size=30))
    log.add(Run(topic="U", count=1))
    log.add(Run(count=20, tags="TagA"))
    stretches = read_stretches(bytes(log.data), 0, SPECIAL)
    assert [stretch.columns is not None for stretch in stretches] == [True, False] * 2 + [True]
    assert [s.columns.count for s in stretches if s.columns is not None] == [84, 20, 20]
    first = stretches[0].columns
    assert first is not None
    assert [(rows.topic, rows.queue_id, rows.rows, rows.is_dense) for rows in first.queues] == [
        (b"T", queue, 28, True) for queue in range(3)
    ]
    assert sorted((run.producer, run.queue_id, run.first, run.last) for run in first.numbers) == [
        (b"p0", 0, 0, 27), (b"p0", 2, 0, 27), (b"p1", 1, 0, 27),
    ]  # fmt: skip
    assert len(first.hashes) == 3 * 84


@pytest.mark.parametrize(
    ("block", "others"),
    [
        ("KEYS\x01abc\x02", "KEYS\x01a c\x02"),
        ("KEYS\x01abc\x02", "KEYS\x01aé\x02"),
        ("KEYS\x01abc\x02", "KEYS\x01a\x02c\x02"),
        ("__PID\x01p\x02__SEQ\x0117\x02", "__PID\x01p\x02__SEQ\x011x\x02"),
        ("__PID\x01p\x02__SEQ\x0117\x02", "__PID\x01p\x02__SEQ\x01-7\x02"),
        ("__PID\x01p\x02__SEQ\x011x\x02", "__PID\x01p\x02__SEQ\x0117\x02"),
        ("__PID\x01pp\x02__SEQ\x0117\x02", "__PID\x01é\x02__SEQ\x0117\x02"),
        ("__PID\x01é\x02__SEQ\x0117\x02", "__PID\x01pp\x02__SEQ\x0117\x02"),
    ],
)
def test_values_that_change_the_meaning_are_another_shape(block: str, others: str) -> None:
    log = EntryLog()
    for odd in [block] * 5 + [others] + [block] * 5:
        log.add(Run(odd=odd.encode()))
    both([bytes(log.data[: log.starts[1]]), bytes(log.data)])
    counts = [s.columns and s.columns.count for s in read_stretches(bytes(log.data), 0, SPECIAL)]
    assert counts == [5, None, 5]


def test_many_tags_and_producers_are_one_shape() -> None:
    log = EntryLog(first_number=100)
    for number in range(60):
        log.add(Run(tags=f"T{number % 20:02}", producer=f"p{number % 30:02}"))
    both([bytes(log.data[: log.starts[1]]), bytes(log.data)])
    (stretch,) = read_stretches(bytes(log.data), 0, SPECIAL)
    assert stretch.columns is not None
    assert [(run.first, run.last) for run in stretch.columns.numbers] == [(100, 101)] * 30
    codes = [ENTRY.unpack_from(stretch.columns.entries, at * 20)[2] for at in range(60)]
    assert codes == [tags_code(f"T{number % 20:02}") for number in range(60)]


def test_several_shapes_of_one_size() -> None:
    log = EntryLog(first_number=100)
    for number in range(60):
        log.add(Run(keys=["abc", "a c", "ab "][number % 3]))
    (stretch,) = read_stretches(bytes(log.data), 0, SPECIAL)
    assert stretch.columns is not None
    assert len(stretch.columns.hashes) == 20 * (2 + 3 + 2)


def test_a_special_topic_is_never_usual() -> None:
    log = EntryLog()
    for topic in "TUUUT":
        log.add(Run(topic=topic, count=4))
    stretches = read_stretches(bytes(log.data), 0, SPECIAL)
    assert [stretch.columns is not None for stretch in stretches] == [True, False, True]


def test_numbers_of_another_producer_are_another_run() -> None:
    log = EntryLog()
    for number in range(12):
        producer = b"p" if number < 6 else b"q"
        log.add(Run(odd=b"__PID\x01%b\x02__SEQ\x01%d\x02" % (producer, 100 + number)))
    (stretch,) = read_stretches(bytes(log.data), 0, SPECIAL)
    assert stretch.columns is not None
    assert [(run.producer, run.first, run.last) for run in stretch.columns.numbers] == [
        (b"p", 100, 105),
        (b"q", 106, 111),
    ]


def test_without_numpy_all_is_read_entry_by_entry() -> None:
    log = EntryLog()
    log.add(Run(count=200))
    data = bytes(log.data)
    accel.unload()
    try:
        assert read_stretches(data, 0, SPECIAL) == [Stretch(0, len(data), None)]
    finally:
        accel.load()


@pytest.mark.parametrize("columns", [False, True])
def test_a_gap_or_a_repeat_in_a_queue_is_closed_by_the_rules(tmp_path: Path, columns: bool) -> None:
    """Offsets that do not count up by one: as RocketMQ, whichever way they are read."""
    log = EntryLog()
    log.add(Run(count=10))
    log.offsets["T", 0] += 5
    log.add(Run(count=10))
    derived = Derived(tmp_path)
    assert derived.dispatch(bytes(log.data), columns=columns) is None
    assert derived.grown == [{("T", 0): 20}]
    derived.dispatcher.position = 0
    assert derived.dispatch(bytes(log.data), columns=columns) is None
    assert derived.grown[1] == {}
    assert derived.index.entry_count == 20
    derived.close()
