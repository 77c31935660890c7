"""MessageStore: puts of every kind, reads, threads, flush modes, retention, closing."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commitlog.config import FlushMode, StoreConfig
from commitlog.errors import (
    MessageTooLarge,
    StoreConfigError,
    StoreDamaged,
    StoreFailed,
    StoreLayoutError,
    StoreLocked,
    StoreUsageError,
)
from commitlog.files.disk_usage import DiskUsage
from commitlog.files.system import OsFileSystem
from commitlog.records.batch import BatchItem, encode_client_batch
from commitlog.records.hosts import Host
from commitlog.records.message import Message
from commitlog.store.reader import StoreReader
from commitlog.store.store import MessageStore
from tests.waiting import limit, wait_until

SMALL = StoreConfig(
    commit_log_file_size=16_384,
    consume_queue_file_size=400,
    batch_queue_file_size=460,
    index_slots=64,
    index_entries=40,
    body_size_max=4096,
)


def open_store(root: Path, config: StoreConfig = SMALL, **options: object) -> MessageStore:
    options.setdefault("threads", False)
    return MessageStore(root, config, **options)  # type: ignore[arg-type]


def tree(root: Path) -> dict[str, bytes]:
    """Every file but the lock: to close any descriptor of that one would drop the lock."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name != "lock"
    }


# ---- putting and reading -------------------------------------------------------------------------


def test_put_and_find_every_way(tmp_path: Path) -> None:
    sent = Message(
        topic="orders",
        body=b"one",
        properties={"KEYS": "k1 k2", "UNIQ_KEY": "U1", "TAGS": "new", "city": "Köln"},
        queue_id=2,
        flag=-7,
        born_timestamp_ms=5,
        born_host=Host("2001:db8::1", 4000),
    )
    host = Host("10.0.0.1", 10911)
    with open_store(tmp_path, store_host=host, clock_ms=lambda: 1_700_000_000_000) as store:
        put = store.put(sent)
        found = store.get_at(put.position)
        wanted = replace(sent, sys_flag=0x10, store_host=host, store_timestamp_ms=1_700_000_000_000)
        assert found == wanted
        assert store.get("orders", 2, 0) == [found]
        assert store.get_by_id(put.message_id) == found
        assert store.query("orders", "k1") == store.query("orders", "U1") == [found]
        assert store.query("orders", "new") == store.query("other", "k1") == []
        assert store.get("orders", 2, 1) == store.get("orders", 0, 0) == store.get("no", 0, 0) == []
        assert store.topics() == {"orders": [2]}
        assert store.queue_bounds("orders", 2) == (0, 1)
        assert store.queue_bounds("orders", 3) == (0, 0)


def test_ids_that_name_no_message(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        put = store.put(Message(topic="t", body=b"x" * 300))
        base = put.message_id[:-16]
        for position in (1, 50, put.size, 1 << 40):
            assert store.get_by_id(base + f"{position:016X}") is None
        with pytest.raises(StoreUsageError, match="32 or 56"):
            store.get_by_id("nonsense")


def test_collisions_do_not_come_back_from_a_query(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.put(Message(topic="t", body=b"1", properties={"KEYS": "Aa"}))
        store.put(Message(topic="t", body=b"2", properties={"KEYS": "BB"}))
        assert [m.body for m in store.query("t", "Aa")] == [b"1"]
        assert [m.body for m in store.query("t", "BB")] == [b"2"]


def test_a_batch_is_one_unit(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.put(Message(topic="t", body=b"x" * 4000))
        batch = [Message(topic="t", body=b"y" * 4000, queue_id=n % 2) for n in range(4)]
        puts = store.put_batch(batch)
        assert [put.position for put in puts] == [16_384 + n * puts[0].size for n in range(4)]
        assert [put.queue_offset for put in puts] == [1, 0, 2, 1]
        assert len({put.store_timestamp_ms for put in puts}) == 1
        assert store.put_batch([]) == []
        with pytest.raises(StoreUsageError, match="one by one"):
            store.put_batch([Message(topic="t", body=b"", properties={"DELAY": "1"})])
        with pytest.raises(MessageTooLarge) as caught:
            store.put_batch([replace(batch[0], body=b"z" * 4096)] * 5)
        assert caught.value.size_max == 16_384 - 8
        assert store.queue_bounds("t", 0) == (0, 3)


def test_an_inner_batch_is_one_record(tmp_path: Path) -> None:
    body = encode_client_batch([BatchItem(0, b"a", b""), BatchItem(0, b"b", b"")])
    with open_store(tmp_path) as store:
        first = store.put_inner_batch(Message(topic="b", body=body), 2)
        second = store.put_inner_batch(Message(topic="b", body=body), 2)
        assert (first.queue_offset, second.queue_offset) == (0, 2)
        assert store.queue_bounds("b", 0) == (0, 4)
        found = store.get("b", 0, 3, 1)[0]
        assert (found.physical_offset, found.body) == (second.position, body)
    with open_store(tmp_path) as store:
        assert store.put_inner_batch(Message(topic="b", body=body), 2).queue_offset == 4
    assert (tmp_path / "batchconsumequeue" / "b" / "0").is_dir()


def test_transactions_take_no_place_in_the_queue(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        half = store.put(Message(topic="t", body=b"h", sys_flag=0x4, properties={"KEYS": "k"}))
        rolled = store.put(Message(topic="t", body=b"r", sys_flag=0xC, properties={"KEYS": "k"}))
        done = store.put(Message(topic="t", body=b"c", sys_flag=0x8, properties={"KEYS": "k"}))
        assert [put.queue_offset for put in (half, rolled, done)] == [0, 0, 0]
        assert [m.body for m in store.get("t", 0, 0)] == [b"c"]
        assert [m.body for m in store.query("t", "k")] == [b"h", b"c"]


def test_record_checksums(tmp_path: Path) -> None:
    config = replace(SMALL, record_crc_enabled=True, verify_record_crc=True)
    with open_store(tmp_path, config) as store:
        put = store.put(Message(topic="t", body=b"x", properties={"TAGS": "a"}))
        assert "__CRC32#" in store.get_at(put.position).properties
    log = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[60] ^= 1  # the store timestamp: no body CRC covers it
    log.write_bytes(data)
    with open_store(tmp_path, config) as store, pytest.raises(StoreDamaged, match="checksum"):
        store.get_at(put.position)


def test_queue_offsets_and_times_go_on_after_reopening(tmp_path: Path) -> None:
    with open_store(tmp_path, clock_ms=lambda: 5000) as store:
        for _ in range(3):
            store.put(Message(topic="t", body=b"x"))
    with open_store(tmp_path, clock_ms=lambda: 4000) as store:
        put = store.put(Message(topic="t", body=b"y"))
        assert (put.queue_offset, put.store_timestamp_ms) == (3, 5000)  # R24: never back
        assert store.offset_by_time("t", 0, 5001) == 4
        assert store.offset_by_time("t", 0, 5000, upper=True) == 3


def test_the_read_side_needs_no_lock(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.put(Message(topic="t", body=b"x"))
        with StoreReader(tmp_path) as reader:
            assert [item.message.body for item in reader.items() if item.message] == [b"x"]


def test_nothing_is_read_before_it_is_on_disk(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.put(Message(topic="t", body=b"x", properties={"KEYS": "k"}), wait=False)
        assert store.get("t", 0, 0) == store.query("t", "k") == []
        assert store.queue_bounds("t", 0) == (0, 0)
        store.flush()
        assert len(store.get("t", 0, 0)) == len(store.query("t", "k")) == 1


def test_room_for_the_blank_is_kept(tmp_path: Path) -> None:
    """A record goes into a file only if 8 bytes are left behind it (docs/spec/store.md 1.5)."""
    with open_store(tmp_path) as store:
        empty = store.put(Message(topic="t", body=b"")).size
        for _ in range(3):
            store.put(Message(topic="t", body=b"x" * 4000))
        left = 16_384 - store.max_position
        exact = store.put(Message(topic="t", body=b"x" * (left - 8 - empty)))
        assert exact.position + exact.size == 16_384 - 8
        assert store.put(Message(topic="t", body=b"")).position == 16_384
        for _ in range(3):
            store.put(Message(topic="t", body=b"x" * 4000))
        left = 32_768 - store.max_position
        assert store.put(Message(topic="t", body=b"x" * (left - 7 - empty))).position == 32_768
    log = (tmp_path / "commitlog" / f"{0:020d}").read_bytes()
    assert log[-8:] == bytes.fromhex("00000008cbd43194")


# ---- threads -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(FlushMode))
def test_many_threads(tmp_path: Path, mode: FlushMode) -> None:
    config = replace(SMALL, flush_mode=mode, flush_interval_ms=5, queue_flush_interval_ms=5)
    woken: dict[tuple[str, int], int] = {}
    enough = threading.Event()

    def listen(topic: str, queue_id: int, offset: int) -> None:
        woken[topic, queue_id] = offset
        if sum(woken.values()) == 400:
            enough.set()

    with (
        MessageStore(tmp_path, config, listener=listen) as store,
        ThreadPoolExecutor(8) as pool,
    ):
        puts = list(
            pool.map(
                lambda n: store.put(Message(topic="t", body=b"%d" % n, queue_id=n % 3)), range(400)
            )
        )
        assert enough.wait(limit(30))
        assert len({put.position for put in puts}) == 400
        for queue_id in range(3):
            low, high = store.queue_bounds("t", queue_id)
            found = store.get("t", queue_id, low, high)
            assert [m.queue_offset for m in found] == list(range(high))
    with open_store(tmp_path, config) as store:
        for number, put in enumerate(puts):
            assert store.get_at(put.position).body == b"%d" % number


def test_group_commit_shares_syncs(tmp_path: Path) -> None:
    class Counting(OsFileSystem):
        syncs = 0

    files = Counting()
    begun: list[int] = []
    done: list[int] = []

    def put(number: int) -> None:
        begun.append(number)
        store.put(Message(topic="t", body=b"x"))
        done.append(number)

    with MessageStore(tmp_path, SMALL, files=files) as store, ThreadPoolExecutor(16) as pool:
        log = store._log.log
        capture = log.capture

        def counted() -> object:
            Counting.syncs += 1
            # A slower disk: puts pile up behind the sync.
            wait_until(lambda: len(begun) - len(done) == 16 or len(begun) == 320, "16 puts")
            return capture()

        log.capture = counted  # type: ignore[method-assign,assignment]
        list(pool.map(put, range(320)))
    assert Counting.syncs < 160


def test_a_sync_that_hangs_answers_as_uncertain(tmp_path: Path) -> None:
    release = threading.Event()
    store = MessageStore(tmp_path, replace(SMALL, sync_flush_timeout_ms=50))
    capture = store._log.log.capture

    class Hanging:
        def __init__(self) -> None:
            self.task = capture()

        def run(self) -> None:
            release.wait(limit(30))
            self.task.run()

    store._log.log.capture = Hanging  # type: ignore[method-assign,assignment]
    with pytest.raises(StoreFailed, match="may be stored"):
        store.put(Message(topic="t", body=b"x"))
    release.set()
    store.close()
    with open_store(tmp_path) as store:
        assert store.queue_bounds("t", 0) == (0, 1)


def is_flushed(store: MessageStore) -> bool:
    return store._house.flush.flushed == store.max_position


def flush_looks(store: MessageStore, count: int) -> None:
    """Until the thread has looked so often whether there is enough to flush."""
    condition = store._house.flush._condition
    wait_for, looks = condition.wait_for, []

    def counted(*how: Any) -> bool:
        looks.append(how)
        return wait_for(*how)

    condition.wait_for = counted  # type: ignore[method-assign]
    wait_until(lambda: len(looks) > count, f"{count} looks")


def test_async_flush_waits_for_pages_or_time(tmp_path: Path) -> None:
    config = replace(
        SMALL,
        flush_mode=FlushMode.ASYNC,
        flush_interval_ms=5,
        flush_thorough_interval_ms=60_000,
    )
    with MessageStore(tmp_path / "pages", config) as store:
        store.put(Message(topic="t", body=b"x"))
        flush_looks(store, 5)
        assert not is_flushed(store)  # less than four pages
        store.put_batch([Message(topic="t", body=b"x" * 4000)] * 4)
        wait_until(lambda: is_flushed(store), "the flush")
    thorough = replace(config, flush_thorough_interval_ms=100)
    with MessageStore(tmp_path / "time", thorough) as store:
        store.put(Message(topic="t", body=b"x"))
        wait_until(lambda: is_flushed(store), "the flush")


def test_the_next_file_is_made_ahead_and_goes_at_the_end(tmp_path: Path) -> None:
    with MessageStore(tmp_path, SMALL) as store:
        store.put(Message(topic="t", body=b"x"))
        wait_until(lambda: store._log.log.limit == 32_768, "the next file")
    assert os.listdir(tmp_path / "commitlog") == [f"{0:020d}"]
    assert not (tmp_path / "abort").exists()


# ---- retention -----------------------------------------------------------------------------------


class FullDisk(OsFileSystem):
    """Says what the test wants it to say about the disk."""

    used_percent = 50

    def usage(self, path: Path) -> DiskUsage:
        return DiskUsage(100, 100 - self.used_percent)


def test_producers_are_refused_at_the_water_mark_and_old_files_go(tmp_path: Path) -> None:
    files = FullDisk()
    config = replace(SMALL, delete_pause_ms=0)
    with open_store(tmp_path, config, files=files) as store:
        for number in range(60):
            store.put(Message(topic="t", body=b"%04d" % number * 500, properties={"KEYS": "k"}))
        store.tick()
        files.used_percent = 80  # only expired files go, and none is
        store.tick()
        assert store.min_position == 0
        files.used_percent = 95
        store.tick()
        with pytest.raises(StoreFailed, match="nothing was stored"):
            store.put(Message(topic="t", body=b"x"))
        assert store.min_position == store.max_position // 16_384 * 16_384
        low, high = store.queue_bounds("t", 0)
        assert 0 < low < high == 60
        assert store.get("t", 0, low)[0].body == b"%04d" % low * 500
        assert store.get("t", 0, low - 1) == []
        hits = store.query("t", "k", 64)
        assert {hit.queue_offset for hit in hits} <= set(range(low, high))
        files.used_percent = 50
        store.tick()
        assert store.put(Message(topic="t", body=b"x")).queue_offset == 60
    with open_store(tmp_path, config, files=files) as store:
        assert store.queue_bounds("t", 0) == (low, 61)


def test_a_store_whose_last_file_is_empty_keeps_its_address(tmp_path: Path) -> None:
    """Retention left one file; everything in it was cut: positions must not begin at 0 again."""
    files = FullDisk()
    files.used_percent = 95
    with open_store(tmp_path, replace(SMALL, delete_pause_ms=0), files=files) as store:
        store._house.disk_level = store._house.disk_level.NORMAL
        for number in range(20):
            store.put(Message(topic="t", body=b"x" * 2000, queue_id=number % 2))
        store.tick()
        start = store.min_position
    assert start > 0
    with open_store(tmp_path) as store:
        assert store.min_position == start


# ---- bad input -----------------------------------------------------------------------------------


def test_over_the_limits(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        with pytest.raises(MessageTooLarge, match="4096"):
            store.put(Message(topic="t", body=b"x" * 4097))
        with pytest.raises(MessageTooLarge, match="topic"):
            store.put(Message(topic="t" * 256, body=b""))
        with pytest.raises(StoreUsageError, match="empty"):
            store.put(Message(topic="t", body=b"", properties={"a": ""}))
        assert store.max_position == 0


def test_impossible_settings_name_both_values(tmp_path: Path) -> None:
    with pytest.raises(StoreConfigError, match=r"5000.*4096"):
        open_store(tmp_path / "s", replace(SMALL, body_size_max=5000, commit_log_file_size=4096))
    assert not (tmp_path / "s").exists()


def test_two_openers(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.put(Message(topic="t", body=b"x"))
        before = tree(tmp_path)
        with pytest.raises(StoreLocked, match="open in another process"):
            open_store(tmp_path)
        code = (
            "import sys; from commitlog import MessageStore, StoreLocked\n"
            "try: MessageStore(sys.argv[1])\n"
            "except StoreLocked as error: print(error); sys.exit(7)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 7, done.stderr
        assert tree(tmp_path) == before
        store.put(Message(topic="t", body=b"y"))  # the lock is still ours
        again = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
        assert again.returncode == 7
    open_store(tmp_path).close()
    assert (tmp_path / "lock").read_bytes() == b"lock"


@pytest.mark.parametrize(
    ("name", "size", "words"),
    [
        ("commitlog/.DS_Store", 6, "move it out"),
        ("commitlog/00000000000000016384", 100, "must have 16384"),
        ("consumequeue/t/0/notes.txt", 6, "move it out"),
        ("consumequeue/t/0/00000000000000000400", 399, "must have 400"),
        ("index/20991231000000000", 11, "index sizes"),
    ],
)
def test_stray_and_wrong_files_are_refused_and_nothing_changes(
    tmp_path: Path, name: str, size: int, words: str
) -> None:
    with open_store(tmp_path) as store:
        store.put(Message(topic="t", body=b"x", properties={"KEYS": "k"}))
    (tmp_path / name).write_bytes(b"?" * size)
    before = tree(tmp_path)
    with pytest.raises(StoreLayoutError, match=words):
        open_store(tmp_path)
    assert tree(tmp_path) == before
    (tmp_path / name).unlink()
    with open_store(tmp_path) as store:
        assert store.queue_bounds("t", 0) == (0, 1)


def test_another_file_size_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.put(Message(topic="t", body=b"x"))
    with pytest.raises(StoreLayoutError, match="written with"):
        open_store(tmp_path, replace(SMALL, commit_log_file_size=32_768))


def test_damage_in_the_middle(tmp_path: Path) -> None:
    """What is damaged is not served, and said to be; the rest is kept, before and after opening."""
    with open_store(tmp_path) as store:
        puts = [
            store.put(Message(topic="t", body=b"%02d" % n * 50, properties={"KEYS": f"k{n}"}))
            for n in range(20)
        ]
    log = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[puts[7].position + 100] ^= 0x40
    log.write_bytes(data)
    for fresh in (False, True):  # with the mark, then with nothing but the log
        if fresh:
            for name in ("consumequeue", "index"):
                shutil.rmtree(tmp_path / name)
            (tmp_path / "dispatched").unlink()
            (tmp_path / "checkpoint").unlink()
            (tmp_path / "abort").write_text("1")
        with open_store(tmp_path) as store:
            with pytest.raises(StoreDamaged, match=f"position {puts[7].position}"):
                store.get_at(puts[7].position)
            with pytest.raises(StoreDamaged):
                store.get_by_id(puts[7].message_id)
            for number, put in enumerate(puts):
                if number != 7:
                    assert store.get_at(put.position).body == b"%02d" % number * 50
                    assert store.query("t", f"k{number}")
            assert bool(store.damage) == fresh
            if fresh:
                begin, end, _ = store.damage[0]
                assert (begin, end) == (puts[7].position, puts[8].position)
            put = store.put(Message(topic="t", body=b"more"))
            assert store.get_at(put.position).body == b"more"


def test_a_zeroed_page_is_damage_and_no_end(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        puts = [store.put(Message(topic="t", body=b"x" * 500)) for _ in range(60)]
    log = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[4096:8192] = bytes(4096)
    log.write_bytes(data)
    for name in ("dispatched", "checkpoint"):
        (tmp_path / name).unlink()
    shutil.rmtree(tmp_path / "consumequeue")
    (tmp_path / "abort").touch()
    with open_store(tmp_path) as store:
        assert store.max_position == puts[-1].position + puts[-1].size
        assert len(store.damage) == 1
        begin, end, _ = store.damage[0]
        whole = [p for p in puts if p.position + p.size <= begin or p.position >= end]
        assert len(whole) == 60 - 8
        for put in whole:
            store.get_at(put.position)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        config = replace(SMALL, preallocated_files=0, disk_full_percent=95, index_enabled=False)
        store = open_store(folder, config)
        puts = []

        def put_many() -> None:
            for number in range(200):
                puts.append(store.put(Message(topic="t", body=b"%03d" % number * 500)))

        with pytest.raises(StoreFailed, match="nothing was written, free space"):
            put_many()
        assert puts
        for number, put in enumerate(puts):
            assert store.get_at(put.position).body == b"%03d" % number * 500
        subprocess.run(["mount", "-o", "remount,size=1m", str(folder)], check=True)
        assert store.put(Message(topic="t", body=b"x")).queue_offset == len(puts)
        store.close()
        with open_store(folder, config) as store:
            assert store.queue_bounds("t", 0) == (0, len(puts) + 1)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def test_a_disk_that_refuses_derived_files(tmp_path: Path) -> None:
    """The log keeps what it has; nothing more is taken; opening again makes it whole."""
    store = open_store(tmp_path)
    puts = [store.put(Message(topic="t", body=b"1", properties={"KEYS": "k"})) for _ in range(2)]
    assert len(store.get("t", 0, 0)) == 2
    index = store._derived.index
    assert index is not None

    class Refusing:
        def __init__(self, file: object) -> None:
            self._file = file

        def pwrite(self, *_: object) -> None:
            raise OSError(errno.ENOSPC, "no space left on device")

        def __getattr__(self, name: str) -> object:
            return getattr(self._file, name)

    index.files[-1]._file = Refusing(index.files[-1]._file)  # type: ignore[assignment]
    puts.append(store.put(Message(topic="t", body=b"2", properties={"KEYS": "k"})))
    for _ in range(2):
        with pytest.raises(StoreFailed, match="open the store again"):
            store.get("t", 0, 0)
    with pytest.raises(StoreFailed):
        store.put(Message(topic="t", body=b"3"))
    assert store.get_at(puts[2].position).body == b"2"
    with pytest.raises(StoreFailed):
        store.close()
    with open_store(tmp_path) as store:
        assert [m.physical_offset for m in store.get("t", 0, 0)] == [put.position for put in puts]
        assert len(store.query("t", "k")) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_read_only_folder(tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as store:
        store.put(Message(topic="t", body=b"x"))
    folder = tmp_path / "read-only"
    folder.mkdir()
    bind = ["mount", "--bind", str(tmp_path / "s"), str(folder)]
    if subprocess.run(bind, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        with pytest.raises(StoreFailed, match="make it writable"):
            open_store(folder)
        with StoreReader(folder) as reader:
            assert len(list(reader.items())) == 1
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def test_no_start_without_assertions(tmp_path: Path) -> None:
    code = f"from commitlog import MessageStore; MessageStore({str(tmp_path / 's')!r})"
    done = subprocess.run(
        [sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False
    )
    assert "start Python without -O" in done.stderr
    assert not (tmp_path / "s").exists()


def test_closed_is_closed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.close()
    store.close()
    with pytest.raises(StoreUsageError, match="closed"):
        store.put(Message(topic="t", body=b"x"))
    with pytest.raises(StoreUsageError, match="closed"):
        store.get("t", 0, 0)
