"""ConsumeQueue, its batch and extension kinds: rules of docs/spec/store.md 3.2-3.5."""

from __future__ import annotations

from pathlib import Path

import pytest

from commitlog.errors import StoreLayoutError
from commitlog.files.system import OS_FILES
from commitlog.queues.batch_consume_queue import BatchConsumeQueue
from commitlog.queues.batch_queue_entry import BatchQueueEntry
from commitlog.queues.consume_queue import ConsumeQueue
from commitlog.queues.consume_queue_ext import ConsumeQueueExt
from commitlog.queues.consume_queues import ConsumeQueues
from commitlog.queues.queue_entry import PRE_BLANK
from commitlog.queues.queue_ext_unit import QueueExtUnit


def open_queue(root: Path, size: int = 100) -> ConsumeQueue:
    return ConsumeQueue(OS_FILES, root / "q" / "t" / "0", size, staging=root / "staging")


def fill(queue: ConsumeQueue, count: int, first: int = 0) -> None:
    for offset in range(first, first + count):
        assert queue.append(offset, offset * 100, 100, offset)


def test_entries_across_files(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    fill(queue, 12)
    assert (queue.min_offset, queue.max_offset, queue.end_position) == (0, 12, 1200)
    assert queue.read(3, 4) == [(300, 100, 3), (400, 100, 4), (500, 100, 5), (600, 100, 6)]
    assert queue.read(10, 99) == [(1000, 100, 10), (1100, 100, 11)]
    assert queue.read(12, 1) == queue.read(-1, 1) == []
    queue.close()
    again = open_queue(tmp_path)
    again.recover()
    assert (again.min_offset, again.max_offset, again.end_position) == (0, 12, 1200)
    again.close()


def test_repeats_are_ignored_and_gaps_are_closed(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    fill(queue, 3)
    assert not queue.append(1, 100, 100, 1)  # inside what is known
    assert not queue.append(2, 900, 100, 2)  # an offset below the end
    assert queue.append(7, 700, 100, 7)  # a gap: still appended at the end
    assert queue.read(3, 1) == [(700, 100, 7)]
    assert queue.append(0, 800, 100, 0)  # offset 0 skips the test for repeats
    assert queue.max_offset == 5
    queue.close()


def test_a_queue_that_begins_late(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    fill(queue, 4, first=8)
    assert queue.log.file_starts == [100, 200]
    assert queue.log.pread(60, 100) == PRE_BLANK * 3
    assert (queue.min_offset, queue.max_offset) == (8, 12)
    assert queue.read(7, 1) == []
    queue.close()
    again = open_queue(tmp_path)
    again.recover()
    again.correct_min_offset(0)
    assert (again.min_offset, again.max_offset) == (8, 12)
    again.close()


def test_min_offset_follows_the_log_and_files_go(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    fill(queue, 12)
    assert queue.drop_before(750) == 1
    assert queue.log.file_starts == [100, 200]
    assert queue.min_offset == 8
    assert queue.drop_before(10_000) == 1  # never the last file
    assert (queue.min_offset, queue.max_offset) == (12, 12)
    fill(queue, 1, first=12)
    assert queue.read(12, 1) == [(1200, 100, 12)]
    queue.close()


@pytest.mark.parametrize("count", [0, 1, 5, 7, 12])
def test_keep_is_exact_and_physical(tmp_path: Path, count: int) -> None:
    queue = open_queue(tmp_path)
    fill(queue, 12)
    queue.close()
    again = open_queue(tmp_path)
    assert again.keep(count)
    assert (again.max_offset, again.end_position) == (count, count * 100)
    rest = b"".join(p.read_bytes() for p in sorted((tmp_path / "q/t/0").iterdir()))
    assert not rest[count * 20 :].strip(b"\0")
    fill(again, 12 - count, first=count)
    assert again.read(0, 12) == [(n * 100, 100, n) for n in range(12)]
    again.close()


def test_keep_refuses_what_is_not_there(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    fill(queue, 3)
    assert not queue.keep(4)
    assert not queue.keep(6)
    queue.close()


def test_cut_forgets_by_position(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    fill(queue, 12)
    queue.cut(2000)
    assert queue.max_offset == 12
    queue.cut(701)
    assert (queue.max_offset, queue.end_position) == (8, 800)
    queue.cut(0)
    assert (queue.max_offset, queue.log.file_starts) == (0, [])
    queue.close()


def test_search_by_time(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    fill(queue, 12)
    times = [10, 10, 20, 20, 20, 30, 40, 50, 50, 60, 70, 80]

    def store_time(position: int) -> int:
        return times[position // 100]

    for time_ms in range(0, 90, 5):
        lower = sum(stamp < time_ms for stamp in times)
        upper = max(sum(stamp <= time_ms for stamp in times) - 1, 0)
        assert queue.offset_by_time(time_ms, store_time) == lower
        assert queue.offset_by_time(time_ms, store_time, upper=True) == upper
    queue.close()


def open_batch(root: Path) -> BatchConsumeQueue:
    return BatchConsumeQueue(OS_FILES, root / "b" / "t" / "0", 92, staging=root / "staging")


def test_batch_queue(tmp_path: Path) -> None:
    queue = open_batch(tmp_path)
    for number in range(5):
        entry = BatchQueueEntry(number * 100, 100, 0, number * 10, number * 3, 3)
        assert queue.append(entry)
        assert not queue.append(entry)
    assert (queue.min_offset, queue.max_offset) == (0, 15)
    for offset in range(15):
        assert queue.read(offset, 1)[0].base == offset // 3 * 3
    assert queue.read(15, 1) == []
    assert [queue.offset_by_time(t) for t in (0, 5, 10, 40, 41)] == [0, 3, 3, 12, 15]
    assert [queue.offset_by_time(t, upper=True) for t in (0, 5, 10, 99)] == [0, 0, 3, 12]
    queue.close()
    again = open_batch(tmp_path)
    again.recover()
    assert (again.min_offset, again.max_offset, again.entry_end) == (0, 15, 5)
    again.cut(250)
    assert (again.max_offset, again.end_position) == (9, 300)
    assert again.keep(2)
    assert not again.keep(4)
    assert again.drop_before(10_000) == 0
    assert again.min_offset == again.max_offset == 6
    again.close()


def test_extension(tmp_path: Path) -> None:
    ext = ConsumeQueueExt(OS_FILES, tmp_path / "e", 100, staging=tmp_path / "staging")
    units = [QueueExtUnit(code, code * 10, bytes(code)) for code in range(12)]
    addresses = [ext.put(unit) for unit in units]
    assert [ext.get(address) for address in addresses] == units
    assert addresses[0] == -(1 << 63)
    end = ext.end
    ext.close()
    again = ConsumeQueueExt(OS_FILES, tmp_path / "e", 100, staging=tmp_path / "staging")
    again.recover(addresses[-1])
    assert again.end == end
    again.recover(addresses[4])
    assert again.get(addresses[4]) == units[4]
    assert again.get(addresses[5]) is None
    assert again.put(units[5]) == addresses[5]
    again.recover(7)  # the queue holds hashes: the extension was switched off
    assert again.get(addresses[0]) is None
    again.close()


def test_table_of_queues(tmp_path: Path) -> None:
    def open_table() -> ConsumeQueues:
        return ConsumeQueues(OS_FILES, tmp_path, staging=tmp_path / "staging", queue_file_size=100)

    table = open_table()
    fill(table.queue(b"t", 0), 7)
    fill(table.queue("订单".encode(), 3), 2)
    table.batch_queue(b"b", 1).append(BatchQueueEntry(0, 9, 0, 0, 0, 4))
    counts = table.counts()
    assert counts == {"consumequeue/t/0": 7, "consumequeue/订单/3": 2, "batchconsumequeue/b/1": 1}
    fill(table.queue(b"t", 0), 2, first=7)
    fill(table.queue(b"new", 0), 2)
    table.close()
    table = open_table()
    assert table.keep(counts)
    assert table.counts() == counts | {"consumequeue/new/0": 0}
    table.remove_topic("t")
    assert not (tmp_path / "consumequeue" / "t").exists()
    table.close()
    table = open_table()
    assert not table.keep(counts)  # a queue of the mark is missing
    table.close()
    (tmp_path / "consumequeue" / "b" / "1").mkdir(parents=True)
    with pytest.raises(StoreLayoutError, match="both"):
        open_table()


def test_a_missing_file_breaks_the_queue_and_not_the_start(tmp_path: Path) -> None:
    table = ConsumeQueues(OS_FILES, tmp_path, staging=tmp_path / "staging", queue_file_size=100)
    fill(table.queue(b"t", 0), 12)
    counts = table.counts()
    table.close()
    (tmp_path / "consumequeue/t/0" / f"{100:020d}").unlink()
    table = ConsumeQueues(OS_FILES, tmp_path, staging=tmp_path / "staging", queue_file_size=100)
    assert table.broken
    assert not table.keep(counts)
    table.close()
