"""Power cuts at every disk operation: what was acknowledged is there, derived files are the log's.

The virtual disk loses or tears whatever was not synced, names of new files included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random

import pytest

from chaos.sim.disk import CutPolicy, PowerCut, SimDisk
from commitlog.config import FlushMode, StoreConfig
from commitlog.dispatch.dispatch_mark import read_mark
from commitlog.errors import StoreFailed
from commitlog.records.message import Message
from commitlog.store.store import MessageStore, PutResult

ROOT = Path("/node/store")
SMALL = StoreConfig(
    commit_log_file_size=4096,
    consume_queue_file_size=100,
    batch_queue_file_size=92,
    index_slots=16,
    index_entries=12,
    body_size_max=1024,
    preallocated_files=0,
    # Never by time: the test decides when derived files are synced.
    queue_flush_thorough_interval_ms=3_600_000,
)


def open_store(disk: SimDisk, clock: list[int]) -> MessageStore:
    return MessageStore(ROOT, SMALL, files=disk, clock_ms=lambda: clock[0], threads=False)


def message(number: int, random: Random) -> Message:
    return Message(
        topic=random.choice(["a", "b"]),
        queue_id=random.randrange(2),
        body=random.randbytes(random.randrange(1, 400)),
        properties={"UNIQ_KEY": f"U{number}", "KEYS": f"k{number % 5} k{number}", "TAGS": "t"},
    )


def put_some(
    store: MessageStore,
    acknowledged: dict[int, tuple[PutResult, Message]],
    random: Random,
    numbers: Iterator[int],
) -> None:
    """One message, or a batch, or one that nobody waits for."""
    number = next(numbers)  # also of those that are never acknowledged: none comes twice
    sent = message(number, random)
    kind = random.random()
    if kind < 0.8:
        acknowledged[number] = store.put(sent), sent
    elif kind < 0.9:
        store.put(replace(sent, properties={"UNIQ_KEY": f"N{random.getrandbits(60)}"}), wait=False)
    else:
        batch = [message(-number * 10 - n, random) for n in range(3)]
        for n, put in enumerate(store.put_batch(batch)):
            acknowledged[-number * 10 - n] = put, batch[n]


def check(store: MessageStore, acknowledged: dict[int, tuple[PutResult, Message]]) -> None:
    """Everything acknowledged is found every way; queues and index say what the log says."""
    for number, (put, sent) in acknowledged.items():
        found = store.get_at(put.position)
        assert (found.topic, found.queue_id, found.body) == (sent.topic, sent.queue_id, sent.body)
        assert store.get(sent.topic, sent.queue_id, put.queue_offset, 1) == [found]
        assert [hit.body for hit in store.query(sent.topic, f"U{number}")] == [sent.body]
        assert found in store.query(sent.topic, f"k{number}", 64)
    for topic, queue_ids in store.topics().items():
        for queue_id in queue_ids:
            low, high = store.queue_bounds(topic, queue_id)
            messages = store.get(topic, queue_id, low, high - low)
            assert [m.queue_offset for m in messages] == list(range(low, high))
            assert len({m.unique_key for m in messages}) == len(messages)
            times = [m.store_timestamp_ms for m in messages]
            assert times == sorted(times)  # R24: though the clock went back


# 1070 and 1099: a torn index header that had the mark's count.
@pytest.mark.parametrize("seed", [*range(30), 1070, 1099])
def test_nothing_acknowledged_is_lost(seed: int) -> None:
    random = Random(seed)
    disk, clock = SimDisk(random), [1_700_000_000_000]
    acknowledged: dict[int, tuple[PutResult, Message]] = {}
    cuts, numbers = 0, count(1)
    for _ in range(10):
        disk.fuse(random.randrange(1, 200))
        try:
            store = open_store(disk, clock)
            check(store, acknowledged)
            for _ in range(random.randrange(1, 40)):
                clock[0] += random.randrange(-50, 400)
                put_some(store, acknowledged, random, numbers)
                if random.random() < 0.15:
                    store.tick()
            store.close()
        except PowerCut:
            cuts += 1
            if random.random() < 0.3:
                disk.process_died()
            else:
                disk.power_cut(CutPolicy(random.choice([0, 0.5, 1]), random.choice([0, 0.5, 1])))
        disk.repair()
        disk.process_died()
    store = open_store(disk, clock)
    check(store, acknowledged)
    store.close()
    assert cuts
    assert acknowledged


@pytest.mark.parametrize("seed", range(10))
def test_a_failing_disk_ends_the_store_and_loses_nothing(seed: int) -> None:
    random = Random(seed)
    disk, clock = SimDisk(random), [1_700_000_000_000]
    acknowledged: dict[int, tuple[PutResult, Message]] = {}
    store = open_store(disk, clock)
    disk.fail(random.randrange(5, 150))

    def put_many() -> None:
        for number in range(400):
            sent = message(number, random)
            acknowledged[number] = store.put(sent), sent
            if random.random() < 0.1:
                store.tick()

    with pytest.raises((StoreFailed, OSError)):
        put_many()
    with pytest.raises((StoreFailed, OSError)):
        store.close()
    disk.repair()
    disk.power_cut(CutPolicy(0, 0))
    store = open_store(disk, clock)
    check(store, acknowledged)
    store.close()


def test_the_crash_test_would_notice_an_early_answer() -> None:
    """The same without waiting for the disk loses messages: the test above can fail."""
    random = Random(1)
    disk, clock = SimDisk(random), [1_700_000_000_000]
    store = open_store(disk, clock)
    sent = message(1, random)
    put = store.put(sent, wait=False)
    disk.power_cut(CutPolicy(0, 0))
    store = open_store(disk, clock)
    with pytest.raises(IndexError):
        check(store, {1: (put, sent)})
    store.close()


def test_what_was_readable_after_a_kill_survives_a_power_cut() -> None:
    """R3: bytes that only the page cache had are made durable before they are served."""
    random = Random(2)
    disk, clock = SimDisk(random), [1_700_000_000_000]
    store = open_store(disk, clock)
    sent = message(1, random)
    put = store.put(sent, wait=False)
    disk.process_died()
    store = open_store(disk, clock)
    check(store, {1: (put, sent)})
    disk.power_cut(CutPolicy(0, 0))
    store = open_store(disk, clock)
    check(store, {1: (put, sent)})
    store.close()


def test_the_mark_never_passes_what_the_log_has_on_disk() -> None:
    config = replace(SMALL, flush_mode=FlushMode.ASYNC)
    random = Random(3)
    disk = SimDisk(random)
    store = MessageStore(ROOT, config, files=disk, clock_ms=lambda: 1000, threads=False)
    sent = message(1, random)
    put = store.put(sent)
    assert store.get(sent.topic, sent.queue_id, 0)  # ASYNC_FLUSH: dispatched though not on disk
    store._house.sync_derived()
    disk.power_cut(CutPolicy(0, 0))
    store = MessageStore(ROOT, config, files=disk, clock_ms=lambda: 1000, threads=False)
    mark = read_mark(disk, ROOT)
    assert mark is not None
    assert mark.position <= store.max_position
    assert mark.position == put.size  # the sync of derived files syncs the log first
    check(store, {1: (put, sent)})
    store.close()


def test_a_torn_tail_is_zeroed() -> None:
    random = Random(4)
    disk, clock = SimDisk(random), [1_700_000_000_000]
    store = open_store(disk, clock)
    first = store.put(message(1, random))
    store.put(replace(message(2, random), body=bytes(600)), wait=False)
    name = f"{ROOT}/commitlog/{0:020d}"
    torn = bytes(disk.names.seen[name].data[: first.size + 300])
    disk.process_died()
    disk.names.seen[name].data[first.size + 300 :] = bytes(4096 - first.size - 300)
    store = open_store(disk, clock)
    assert store.max_position == first.size
    assert torn[first.size :].strip(b"\0")
    assert not bytes(disk.names.seen[name].data[first.size :]).strip(b"\0")
    assert not store.damage
    store.close()
