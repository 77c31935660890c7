"""Records for pulls come from pieces that are verified once: whole, committed, before damage."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.broker.kernel.read import reader as reading
from cluster.broker.kernel.read import verified_pieces
from cluster.broker.kernel.read.reader import RecordReader
from cluster.errors import NotFound
from commitlog.errors import StoreDamaged
from commitlog.files.system import OsFileSystem
from commitlog.records.message import Message, encode_message
from commitlog.records.message_layout import PHYSICAL_OFFSET_AT
from dledger.core.types import Index, Term
from dledger.log import cold
from dledger.log.port import LogStore
from tests.dledger.log.crash_files import CrashDisk
from tests.dledger.log.stores import FOLDER, IDENTITY, make, mark, reopen, sync

QUEUES = 4
FILE_SIZE = 1 << 20


class World:
    """A log of `count` messages of queues in turn, opened anew: nothing of it is in memory."""

    def __init__(self, count: int, body_size: int = 200) -> None:
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.dropped: list[int] = []
        self.disk = CrashDisk()
        node = make(self.disk, identity=replace(IDENTITY, data_file_size=FILE_SIZE))
        records = [
            encode_message(
                Message("T", b"%d" % n * (body_size // len(b"%d" % n)), queue_id=n % QUEUES)
            )
            for n in range(count)
        ]
        for record in records:
            node.log.append([record], Term(1), stamp_at=PHYSICAL_OFFSET_AT)
        sync(node.log)
        mark(node.log)
        self.log: LogStore = reopen(self.disk).log
        self.applied = Index(count - 1)
        self.reader = RecordReader(
            self.log,
            lambda: self.applied,
            lambda *step: self.later.append(step),
            lambda: self.dropped.append(self.reader.pieces.size),
        )

    def place(self, index: int) -> tuple[int, int]:
        """Position and size of a message, as its queue names them."""
        entry = self.log.position_of(Index(index))
        return entry + 48, self.log.position_of(Index(index + 1)) - entry - 48

    def record(self, index: int) -> bytes:
        return bytes(self.log.entry(Index(index)).body)

    def flip(self, index: int) -> None:
        """A bit of the message's body rots."""
        number, offset = divmod(self.place(index)[0] + 90, FILE_SIZE)
        self.disk.flip(FOLDER / "data" / f"{number * FILE_SIZE:020}", offset)


def of_queue(queue: int, count: int) -> list[int]:
    return list(range(queue, count, QUEUES))


def read(world: World, indexes: list[int]) -> list[bytes]:
    return [bytes(one) for one in world.reader.records([world.place(n) for n in indexes])]


def test_each_entry_is_verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four queues that lie between each other, read to their ends in pulls of 32."""
    count = 2048
    world = World(count)
    expected = [world.record(n) for n in range(count)]
    world = World(count)
    verified: list[int] = []
    check = cold.check_records

    def counted(data: memoryview, *rest: Any) -> Any:
        verified.append(len(data))
        return check(data, *rest)

    monkeypatch.setattr(cold, "check_records", counted)
    for start in range(0, count // QUEUES, 32):
        for queue in range(QUEUES):
            wanted = of_queue(queue, count)[start : start + 32]
            assert read(world, wanted) == [expected[n] for n in wanted]
    size = world.log.end_position
    assert sum(verified) < 1.2 * size, "a fifth more for where pulls begin"


def test_what_is_not_applied_is_never_given() -> None:
    world = World(64)
    world.applied = Index(40)
    assert len(read(world, [30, 35, 40])) == 3
    with pytest.raises(NotFound, match="not committed"):
        world.reader.records([world.place(41), world.place(42)])
    with pytest.raises(NotFound, match="not committed"):
        world.reader.records([world.place(30), world.place(42)])
    assert len(read(world, [0, 4])) == 2
    with pytest.raises(NotFound, match="not committed"):
        read(world, [8, 42])  # read on behind a kept piece, further than what is wanted
    world.applied = Index(42)
    assert read(world, [30, 41, 42]) == [world.record(30), world.record(41), world.record(42)]


@pytest.mark.parametrize("damaged", [0, 1, 7, 40, 63])
@pytest.mark.parametrize("is_walking", [False, True])
def test_damage_ends_a_pull_and_is_told_by_the_next(damaged: int, is_walking: bool) -> None:
    world = World(64)
    places = [world.place(n) for n in range(64)]
    expected = {n: world.record(n) for n in range(64)}
    world = World(64)
    if is_walking and damaged > 2:
        world.reader.records(places[:2])  # what comes next is behind a kept piece
    world.flip(damaged)
    got = 0
    while got < damaged:
        found = [bytes(one) for one in world.reader.records(places[got:])]
        assert found == [expected[n] for n in range(got, got + len(found))]
        got += len(found)
    assert got == damaged
    with pytest.raises(StoreDamaged):
        world.reader.records(places[damaged:])
    behind = places[damaged + 1 :]
    if behind:
        found = [bytes(one) for one in world.reader.records(behind)]
        assert found == [expected[n] for n in range(damaged + 1, 64)]


def test_damage_of_another_queue_hides_nothing() -> None:
    """The entry just behind a kept piece is another queue's, and rots."""
    world = World(64)
    expected = [world.record(n) for n in (8, 12, 16)]
    places = [world.place(n) for n in range(64)]
    world = World(64)
    assert len(world.reader.records([places[0], places[4]])) == 2
    world.flip(5)
    found = world.reader.records([places[8], places[12], places[16]])
    assert [bytes(one) for one in found] == expected


def test_a_queue_entry_that_names_no_message() -> None:
    world = World(16)
    (position, size), second = world.place(3), world.place(4)
    for wrong in ((position, size + 1), (position + 1, size)):
        with pytest.raises((StoreDamaged, NotFound)):
            world.reader.records([wrong, second])


def test_memory_and_reading_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few kept bytes, few bytes verified for one pull, and still every message comes."""
    monkeypatch.setattr(verified_pieces, "PIECE_SIZE", 8192)
    monkeypatch.setattr(verified_pieces, "PIECES_SIZE_MAX", 32768)
    monkeypatch.setattr(reading, "PIECE_SIZE", 8192)
    monkeypatch.setattr(reading, "READ_SIZE_MAX", 16384)
    world = World(256)
    places = [world.place(n) for n in of_queue(0, 256)]
    got = []
    while len(got) < len(places):
        found = world.reader.records(places[len(got) :])
        assert 0 < sum(map(len, found)) <= 16384 + 8192
        got += [bytes(one) for one in found]
        assert world.reader.pieces.size <= 32768
    assert got == [world.record(n) for n in of_queue(0, 256)]


def test_messages_far_from_each_other_are_read_one_by_one() -> None:
    world = World(3000)
    wanted = [0, 2999]
    assert read(world, wanted) == [world.record(n) for n in wanted]
    assert world.reader.pieces.size == 0


def test_a_piece_of_before_the_logs_start_does_not_stand_in_the_way() -> None:
    """Retention trims the file of a kept piece; a consumer goes on at the start of the next one."""
    world = World(9000)
    places = [world.place(n) for n in range(9000)]
    first = next(n for n, (position, _) in enumerate(places) if position >= FILE_SIZE)
    expected = [world.record(n) for n in range(first, first + 4)]
    assert len(world.reader.records(places[first - 300 : first - 297])) == 3
    log = world.log
    trim = log.begin_trim(log.start_at(FILE_SIZE))
    assert trim is not None
    trim.run()
    log.finish_trim(trim)
    found = world.reader.records(places[first : first + 4])
    assert [bytes(one) for one in found] == expected


def test_few_messages_are_read_one_by_one_for_one_pull() -> None:
    """Each is a search and a read of its own, and the event loop waits for them."""
    world = World(9000)
    far = [world.place(n) for n in range(0, 9000, 100)]
    found = world.reader.records(far)
    assert len(found) == reading.SINGLE_MAX


def test_pieces_are_dropped_when_no_pull_looks_at_them() -> None:
    """Only then: a consumer that comes back in time finds them, and one step watches all."""
    world = World(2048)
    assert not world.later, "without pieces there is nothing to watch"
    wanted = of_queue(0, 2048)
    expected = [world.record(n) for n in wanted]
    given = [bytes(one) for one in world.reader.records([world.place(n) for n in wanted])]
    ((seconds, look),) = world.later
    assert seconds == verified_pieces.IDLE_SECONDS
    kept = world.reader.pieces.size
    assert kept > 0
    look()
    assert world.reader.pieces.size == kept, "they were used since"
    held = world.reader.records([world.place(n) for n in wanted[:3]])
    world.later.pop()[1]()
    assert world.reader.pieces.size == kept, "and again"
    assert not world.dropped
    world.later.pop()[1]()
    assert world.reader.pieces.size == 0
    assert world.dropped == [0], "told once, when they are gone"
    assert [bytes(one) for one in held] == expected[:3], "what was given stays whole"
    world.later.clear()
    assert given == expected[: len(given)]
    assert read(world, wanted[:3]) == expected[:3], "they are verified anew"
    assert len(world.later) == 1, "and watched anew"


def test_what_was_read_outlives_its_file(tmp_path: Path) -> None:
    """Records for a slow client are memory, never a map of a file: one that is cut off while the
    answer waits would end the process (SIGBUS), and one that is deleted would keep its space."""
    files = OsFileSystem()
    node = make(files, tmp_path / "n0", replace(IDENTITY, data_file_size=FILE_SIZE))
    records = [encode_message(Message("T", b"%d" % n * 50, queue_id=0)) for n in range(64)]
    node.log.append(records, Term(1), stamp_at=PHYSICAL_OFFSET_AT)
    sync(node.log)
    mark(node.log)
    node.close()
    node = reopen(files, tmp_path / "n0")
    log: LogStore = node.log
    places = [(log.position_of(Index(n)) + 48, len(records[n])) for n in range(64)]
    expected = [bytes(log.entry(Index(n)).body) for n in range(64)]
    found = RecordReader(log, lambda: Index(63)).records(places)
    assert len(found) == 64
    cut = list((tmp_path / "n0" / "data").iterdir())
    assert cut
    for file in cut:
        os.truncate(file, 0)
    assert [bytes(one) for one in found] == expected
    node.close()
