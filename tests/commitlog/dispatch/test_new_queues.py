"""Which queues get their first message from a batch: what the dispatcher will make files for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from commitlog.config import StoreConfig
from commitlog.dispatch.accel_columns import read_stretches
from commitlog.dispatch.derived import DerivedFiles
from commitlog.dispatch.new_queues import QueueKey, new_queues
from commitlog.files.system import OS_FILES
from commitlog.records import accel
from commitlog.records import sys_flag as flags
from commitlog.records.hosts import Host, pack_host
from commitlog.records.message_fast import encode_record, topic_field
from commitlog.records.message_layout import PHYSICAL_OFFSET_AT
from dledger.core.types import Term
from dledger.testing.memory import MemoryLog

HOST, HOST_V6 = pack_host(Host("10.0.0.1", 1)), pack_host(Host("::1", 1))


def record(topic: str, queue_id: int, offset: int, flag: int = 0) -> bytes:
    host = HOST_V6 if flag & flags.HOSTS_V6 else HOST
    block = topic_field(topic)
    return bytes(
        encode_record(block, b"", b"body", queue_id, 0, flag, 0, host, host, 0, 0, offset, 0, 1_000)
    )


RECORDS = [
    record("known", 0, 1),
    record("first", 0, 0),
    record("first", 0, 1),
    record("first", 3, 0),
    record("late", 0, 7),
    record("prepared", 0, 0, flags.TRANSACTION_PREPARED),
    record("rolled-back", 0, 0, flags.TRANSACTION_ROLLBACK),
    record("committed", 1, 0, flags.TRANSACTION_COMMIT),
    record("batch", 0, 0, flags.INNER_BATCH | flags.NEEDS_UNWRAP),
    record("six", 2, 0, flags.HOSTS_V6),
    record("bad/name", 0, 0),
    record("known", 1, 0),
    *(record("many", 0, number) for number in range(200)),
]
NEW = [("first", 0), ("first", 3), ("committed", 1), ("six", 2), ("known", 1), ("many", 0)]


@pytest.fixture(params=[False, True], ids=["plain", "numpy"])
def numpy(request: pytest.FixtureRequest) -> Iterator[bool]:
    before = accel.is_loaded()
    accel.load() if request.param else accel.unload()
    yield request.param
    accel.load() if before else accel.unload()


@pytest.fixture
def derived(tmp_path: Path) -> Iterator[DerivedFiles]:
    derived = DerivedFiles(
        OS_FILES, tmp_path, StoreConfig(), staging=tmp_path / "staging", entries=True
    )
    derived.recover(0, 0)
    yield derived
    derived.close()


def _entries(records: list[bytes]) -> bytes:
    log = MemoryLog()
    log.append(records, Term(1), stamp_at=PHYSICAL_OFFSET_AT)
    part = log.read_range(log.first_index, log.last.index, 1 << 30)
    return b"".join(bytes(piece) for piece in part.parts)


def test_queues_that_get_their_first_message(derived: DerivedFiles, numpy: bool) -> None:
    derived.queues.queue(b"known", 0).append(0, 0, 100, 0)
    data = _entries(RECORDS)
    stretches = read_stretches(data, 0, frozenset())
    assert any(stretch.columns is not None for stretch in stretches) == numpy
    for shape in (stretches, ()):
        found = new_queues(data, shape, derived.queues)
        assert list(found) == [(topic.encode(), number) for topic, number in NEW]


def test_the_dispatcher_makes_a_file_for_each_of_them_and_no_other_at_offset_0(
    derived: DerivedFiles,
) -> None:
    """The rules are told twice, so they are held against each other."""
    others = (b"bad/name", b"late", b"batch")
    records = [one for one in RECORDS[1:] if not any(name in one for name in others)]
    data = _entries(records)
    expected = set(new_queues(data, (), derived.queues))
    derived.dispatcher.dispatch(0, (data,))
    assert expected == _with_files(derived)
    assert not new_queues(data, (), derived.queues)


def _with_files(derived: DerivedFiles) -> set[QueueKey]:
    plain = derived.queues.by_topic
    return {
        (topic, number)
        for topic, queues in plain.items()
        for number, queue in queues.items()
        if queue.log.file_starts
    }


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:-1],
        lambda data: data[:70],
        lambda data: b"\xff" * len(data),
        lambda data: data[:4] + bytes(4) + data[8:],
        lambda data: data[:132] + b"\x7f\xff\xff\xff" + data[136:],
        lambda data: data[:4] + b"\x00\x00\x00\x09" + data[8:],
    ],
)
def test_bytes_that_are_no_entries_name_no_queue_and_do_no_harm(
    derived: DerivedFiles, spoil: Callable[[bytes], bytes]
) -> None:
    data = _entries([record("first", 0, 0)])
    found = new_queues(spoil(data), (), derived.queues)
    assert set(found) <= {(b"first", 0)}
