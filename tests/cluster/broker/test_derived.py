"""When committed entries are derived: at once while someone waits, else collected, in bounds."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.apply.chunk_size import NEW_QUEUES_MAX, SLOW_ENTRIES_MAX
from cluster.broker.kernel.apply.chunks import CHUNK_BYTES_MAX
from cluster.broker.kernel.apply.derived import PACE_ENTRIES_MIN, PACE_SECONDS, DerivedStore
from cluster.broker.kernel.apply.derived_space import RETRY_SECONDS
from cluster.broker.kernel.apply.queues_ahead import InThread
from cluster.core.apply import AppliedState
from cluster.core.internal_topics import OffsetsCommitted, encode_change
from cluster.core.topics import built_in_topics
from commitlog.files import system
from commitlog.files.system import OS_FILES, FileSystem
from commitlog.records import accel
from commitlog.records.hosts import Host, pack_host
from commitlog.records.message_fast import encode_record, topic_field
from commitlog.records.message_layout import PHYSICAL_OFFSET_AT
from dledger.core.types import Index, Term
from dledger.errors import DiskFull
from dledger.testing.memory import MemoryLog

from .test_parts import Loop

HOST = pack_host(Host("10.0.0.1", 1))
DELAY = BrokerConfig("n0", Path()).dispatch_delay


class Replica:
    """A log in memory, what is derived from it, and the loop that both are on."""

    def __init__(
        self,
        root: Path,
        log: MemoryLog | None = None,
        *,
        files: FileSystem = OS_FILES,
        in_thread: InThread | None = None,
    ) -> None:
        """`log`: of the process before."""
        self.loop, self.log, self.count = Loop(), log or MemoryLog(), 0
        self.failures: list[BaseException] = []
        self.leads, self.told = True, list[str]()
        self.derived = DerivedStore(
            BrokerConfig("n0", root),
            files,
            AppliedState(built_in_topics("C", "B")),
            self.log,
            first_position=0,
            call_soon=self.loop.call_soon,
            call_later=self.loop.call_later,
            failed=self.failures.append,
            now=self.loop.time,  # a busy machine makes no chunk smaller
            in_thread=in_thread,
            leads=lambda: self.leads,
            space_told=self.told.append,
        )

    def commit(self, count: int = 1, body_size: int = 10, *, new_topics: bool = False) -> None:
        """So many more messages, numbered, in two queues, or each in a new one, are applied."""
        bodies = []
        for number in range(self.count, self.count + count):
            topic = topic_field(f"T{number}" if new_topics else "T")
            block = f"__PID\x01p\x02__SEQ\x01{number // 2}\x02UNIQ_KEY\x01{number:032X}\x02"
            bodies.append(
                encode_record(
                    topic, block.encode(), b"b" * body_size, number % 2, 0, 0, 0,
                    HOST, HOST, 0, 0, 0 if new_topics else number // 2, 0, 1_000 + number,
                )
            )  # fmt: skip
        self.count += count
        self.log.append(bodies, Term(1), stamp_at=PHYSICAL_OFFSET_AT)
        self.derived.apply(self.log.last.index)

    def commit_offset(self, offset: int) -> None:
        """A group's place in queue 0 is applied, and everything is derived."""
        record = encode_change(OffsetsCommitted("CG", {"T": {0: offset}}))
        body = encode_record(
            topic_field(record.topic), b"", record.body, 0, 0, 0, 0, HOST, HOST, 0, 0, 0, 0, 2_000
        )
        self.log.append([body], Term(1), stamp_at=PHYSICAL_OFFSET_AT)
        self.derived.apply(self.log.last.index)
        self.derived.catch_up()


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[Replica]:
    replica = Replica(tmp_path)
    yield replica
    assert not replica.failures
    replica.derived.close()


def test_nobody_waits_so_entries_are_collected(replica: Replica) -> None:
    replica.commit(3)
    replica.loop.run_to(DELAY * 0.9)
    assert replica.derived.behind == 3
    replica.commit(2)
    replica.loop.run_to(DELAY)
    assert replica.derived.behind == 0


def test_a_follower_collects_for_longer(replica: Replica) -> None:
    replica.leads = False
    replica.commit()
    replica.loop.run_to(DELAY * 1.9)
    assert replica.derived.behind == 1
    replica.loop.run_to(DELAY * 2)
    assert replica.derived.behind == 0


def test_whoever_waits_is_told_at_once_on_a_follower_too(replica: Replica) -> None:
    replica.leads = False
    replica.commit(5)
    told: list[object] = []
    replica.derived.when_dispatched(Index(4), told.append)
    replica.loop.run_to(0)
    assert told == [None]
    assert replica.derived.behind == 0


def test_no_more_is_left_waiting_than_the_log_keeps_in_memory(replica: Replica) -> None:
    replica.leads = False
    replica.commit(4, body_size=CHUNK_BYTES_MAX // 4 - 300)
    assert replica.derived.behind == 4
    replica.commit(1, body_size=1_000)
    assert replica.derived.behind == 1, "one chunk; the rest is no piece that pays"
    replica.loop.run_to(2 * DELAY)
    assert replica.derived.behind == 0


def test_while_consumers_wait_a_stream_is_collected_and_a_lone_message_is_not(
    replica: Replica,
) -> None:
    replica.derived.eager.append(lambda: True)
    replica.commit()
    assert replica.derived.behind == 0
    replica.commit(PACE_ENTRIES_MIN)
    assert replica.derived.behind == 0, "nothing said that more would come"
    replica.commit(PACE_ENTRIES_MIN)
    replica.commit(PACE_ENTRIES_MIN)
    assert replica.derived.behind == 2 * PACE_ENTRIES_MIN
    replica.loop.run_to(PACE_SECONDS)
    assert replica.derived.behind == 0
    replica.commit()
    replica.loop.run_to(2 * PACE_SECONDS)
    replica.commit()
    assert replica.derived.behind == 0, "the stream has ended"


def test_a_long_way_is_gone_in_chunks_a_turn_each(replica: Replica) -> None:
    config = BrokerConfig("n0", Path())
    number = config.dispatch_lag_max + config.dispatch_chunk_max
    replica.commit(number, body_size=10)
    # Its queues are new: this chunk is a small one.
    assert replica.derived.behind == number - SLOW_ENTRIES_MAX, "then others have a turn"
    replica.loop.run_to(0)
    assert replica.derived.behind < config.dispatch_chunk_max
    replica.commit(3)
    told: list[object] = []
    replica.derived.when_dispatched(replica.derived.applied, told.append)
    replica.loop.run_to(0)
    assert told == [None]


@pytest.mark.parametrize("numpy", [False, True])
def test_chunks_are_large_when_all_entries_are_quick(replica: Replica, numpy: bool) -> None:
    before = accel.is_loaded()
    accel.load() if numpy else accel.unload()
    config = BrokerConfig("n0", Path())
    replica.commit(10)
    replica.loop.run_to(1.0)
    assert replica.derived.behind == 0
    number = config.dispatch_lag_max + config.dispatch_chunk_max
    replica.commit(number, body_size=10)
    if not before:
        accel.unload()
    done = config.dispatch_chunk_max if numpy else SLOW_ENTRIES_MAX
    assert replica.derived.behind == number - done


def test_the_first_messages_of_many_queues_are_derived_in_small_chunks(replica: Replica) -> None:
    """Each has a file to be written to; two hundred of them would hold the loop for long."""
    replica.derived._now = lambda: 0.0  # no time at all: only what is known of them counts
    replica.commit(200, new_topics=True)
    replica.commit(3_000)
    sizes, done = [], 0
    while replica.derived.behind:
        replica.derived._chunk()
        sizes.append(replica.derived.entries - done)
        done = replica.derived.entries
    assert sizes[:3] == [NEW_QUEUES_MAX] * 3
    assert sizes[3] == SLOW_ENTRIES_MAX, "few are left"


@pytest.mark.parametrize("numpy", [False, True])
def test_large_chunks_are_derived_like_small_ones(replica: Replica, numpy: bool) -> None:
    before = accel.is_loaded()
    accel.load() if numpy else accel.unload()
    replica.commit()
    replica.commit(999)
    replica.loop.run_to(1.0)
    if not before:
        accel.unload()
    assert replica.derived.behind == 0
    state = replica.derived.state
    assert state.queue_ends("T", 2) == [500, 500]
    assert state.producers.next_sequence("p", "T/1") == 500
    assert (state.store_ms, state.position) == (1_999, replica.log.end_position)
    queue = replica.derived.queue("T", 1)
    assert queue is not None
    assert len(queue.read(0, 1_000)) == 500
    assert replica.derived.index is not None
    (position,) = replica.derived.index.query("T", f"{777:032X}")
    assert position == queue.read(388, 1)[0].physical_offset


def test_a_chunk_that_held_the_loop_too_long_makes_the_next_one_smaller(tmp_path: Path) -> None:
    replica = Replica(tmp_path)
    clock = [0.0]

    def slow() -> float:  # each chunk takes a tenth of a second
        clock[0] += 0.1
        return clock[0]

    replica.derived._now = slow
    sizes = []
    replica.commit(8_500)  # far enough behind that the first chunk is taken at once
    before = replica.derived.entries
    assert before == SLOW_ENTRIES_MAX
    while replica.derived.behind:
        replica.derived._chunk()
        sizes.append(replica.derived.entries - before)
        before = replica.derived.entries
    assert sizes[:3] == [500, 250, 125]
    assert min(sizes[:-1]) >= 15
    replica.derived._now = lambda: clock[0]  # no time at all
    replica.commit(12_000)
    replica.derived.catch_up()
    assert replica.derived._chunk_size.entries >= SLOW_ENTRIES_MAX
    replica.derived.close()


def test_offsets_are_not_ahead_of_a_log_that_lost_its_end(tmp_path: Path) -> None:
    """A checkpoint is synced when it is written, and the log under it need not be: power loss."""
    before = Replica(tmp_path)
    before.commit(20)
    before.commit_offset(10)
    task = before.derived.begin_checkpoint()
    task.run()
    before.derived.finish_checkpoint(task)
    before.derived.close()
    before.log.truncate_after(Index(7))
    derived = Replica(tmp_path, before.log).derived
    derived.apply(Index(7))
    derived.catch_up()
    queue = derived.queue("T", 0)
    assert queue is not None
    assert queue.max_offset == 4
    assert derived.state.offsets.get("CG", "T", 0) is None
    assert derived.state.queue_end("T", 0) == 4
    derived.close()


# ---- a full disk ---------------------------------------------------------------------------------


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Put something into the list, and no more blocks are given."""
    refuses: list[bool] = []
    real = os.posix_fallocate

    def allocate(descriptor: int, begin: int, size: int) -> None:
        if refuses:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor, begin, size)

    monkeypatch.setattr(system.os, "posix_fallocate", allocate)
    return refuses


def test_without_room_deriving_rests_and_goes_on_by_itself(
    replica: Replica, full: list[bool]
) -> None:
    derived, told = replica.derived, replica.told
    replica.commit(4)
    replica.loop.run_to(DELAY)
    full.append(True)
    replica.commit(600)
    waited: list[object] = []
    asked: list[object] = []
    derived.when_dispatched(Index(replica.count - 1), waited.append)
    replica.loop.run_to(1.0)
    assert not replica.failures
    assert "No space left on device" in told[0]
    derived.when_shown(Index(replica.count - 1), asked.append)
    derived.when_shown(Index(3), asked.append)
    assert isinstance(asked[0], DiskFull)
    assert asked[1] is None
    queue = derived.queue("T", 0)
    assert queue is not None
    assert queue.max_offset == 2, "what was derived before can be read, and nothing half derived"
    derived.begin_checkpoint().derived.write_mark()
    replica.loop.run_to(10 * RETRY_SECONDS)
    assert not waited
    full.clear()
    replica.loop.run_to(12 * RETRY_SECONDS)
    assert waited == [None]
    assert told[1:] == [""]
    assert queue.max_offset == replica.count // 2
    assert not replica.failures


def test_a_disk_that_refuses_otherwise_ends_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = Replica(tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(system.os, "posix_fallocate", refuse)
    replica.commit()
    replica.loop.run_to(1.0)
    assert len(replica.failures) == 1
    assert not replica.derived.space.why
    replica.derived.close()


def test_a_checkpoint_without_room_for_the_index_is_made_up_for(
    replica: Replica, full: list[bool]
) -> None:
    derived = replica.derived
    replica.commit(40)
    replica.loop.run_to(DELAY)
    full.append(True)
    task = derived.begin_checkpoint()
    task.run()
    derived.finish_checkpoint(task)
    assert "No space left" in task.no_room
    assert derived.checkpoint_due
    full.clear()
    task = derived.begin_checkpoint()
    task.run()
    derived.finish_checkpoint(task)
    assert not task.no_room
    assert not derived.checkpoint_due
    index = derived.index
    assert index is not None
    found = {number: index.query("T", f"{number:032X}") for number in range(40)}
    derived.close()
    again = Replica(derived.path.parent, replica.log)
    assert again.derived.dispatched == 39, "as the checkpoint says, without a replay"
    index = again.derived.index
    assert index is not None
    assert found == {number: index.query("T", f"{number:032X}") for number in range(40)}
    assert all(found.values())
    again.derived.close()
