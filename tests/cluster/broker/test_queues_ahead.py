"""Files of new queues are made in a thread; the event loop goes on meanwhile, and order is kept."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.broker.kernel.apply.chunk_size import NEW_QUEUES_MAX
from cluster.broker.kernel.apply.derived_space import RETRY_SECONDS
from commitlog.files.system import OsFile, OsFileSystem
from dledger.core.types import Index
from tests.waiting import limit, wait_until

from .test_derived import DELAY, Replica


class SlowFiles(OsFileSystem):
    """Makes files of queues when `gate` is open, and never on the thread of the event loop."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked = threading.Event()
        self.loop_thread = threading.get_ident()
        self.refuses: OSError | None = None
        self.made = 0

    def create(
        self, path: Path, size: int, *, staging: Path, zeros: bool = False, durable: bool = True
    ) -> OsFile:
        if "consumequeue" in path.parts:
            assert threading.get_ident() != self.loop_thread, "the loop waits for the disk"
            self.asked.set()
            assert self.gate.wait(limit(30))
            if self.refuses is not None:
                raise self.refuses
            self.made += 1
        return super().create(path, size, staging=staging, zeros=zeros, durable=durable)


class Threads:
    """A thread for each piece of work; what follows waits until the test is at its loop."""

    def __init__(self) -> None:
        self._running: list[tuple[threading.Thread, Callable[[], object]]] = []
        self.started = 0

    def __call__(self, work: Callable[[], object], done: Callable[[], object]) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        self.started += 1
        self._running.append((thread, done))

    def join(self) -> None:
        """Everything that was asked for has run, and the loop is told."""
        running, self._running = self._running, []
        for thread, done in running:
            thread.join(limit(30))
            assert not thread.is_alive()
            done()


@pytest.fixture
def files() -> Iterator[SlowFiles]:
    files = SlowFiles()
    yield files
    files.gate.set()


@pytest.fixture
def threads() -> Threads:
    return Threads()


@pytest.fixture
def replica(tmp_path: Path, files: SlowFiles, threads: Threads) -> Iterator[Replica]:
    replica = Replica(tmp_path, files=files, in_thread=threads)
    yield replica
    files.gate.set()
    threads.join()
    replica.derived.close()


def test_the_loop_goes_on_while_a_slow_disk_makes_files(
    replica: Replica, files: SlowFiles, threads: Threads
) -> None:
    replica.commit(2)
    told: list[object] = []
    replica.derived.when_dispatched(Index(0), told.append)
    replica.loop.run_to(0)
    assert files.asked.wait(limit(30)), "the disk is asked"
    replica.commit(100)  # more comes; nothing here waits for the disk
    replica.loop.run_to(10.0)
    assert (replica.derived.applied, replica.derived.dispatched) == (101, -1)
    assert not told
    assert threads.started == 1
    files.gate.set()
    threads.join()
    assert told == [None]
    replica.loop.run_to(20.0)
    assert replica.derived.behind == 0
    assert replica.derived.state.queue_ends("T", 2) == [51, 51]
    assert files.made == 2
    assert not replica.failures


def test_what_is_derived_is_the_same(tmp_path: Path, replica: Replica, files: SlowFiles) -> None:
    """By a thread for the files, and by whoever writes to them."""
    files.gate.set()
    there = Replica(tmp_path / "other", replica.log)
    replica.commit(2)
    replica.commit(3 * NEW_QUEUES_MAX, new_topics=True)
    there.derived.apply(replica.log.last.index)
    there.derived.catch_up()
    _run(replica)
    assert len(replica.derived.files.queues.counts()) == 3 * NEW_QUEUES_MAX + 2
    assert replica.derived.files.queues.counts() == there.derived.files.queues.counts()
    for queue in replica.derived.files.queues:
        other = there.derived.queue(queue.topic, queue.queue_id)
        assert other is not None
        assert other.read_raw(0, 10) == queue.read_raw(0, 10)
    there.derived.close()


def test_a_thread_makes_few_files_at_once(
    replica: Replica, files: SlowFiles, threads: Threads
) -> None:
    """Descriptors and time until the next chunk are bounded."""
    replica.commit(NEW_QUEUES_MAX + 7, new_topics=True)
    replica.loop.run_to(DELAY)
    files.gate.set()
    threads.join()
    assert (replica.derived.entries, threads.started) == (NEW_QUEUES_MAX, 1)
    _run(replica)
    assert files.made == NEW_QUEUES_MAX + 7


def test_a_queue_that_has_its_file_asks_no_thread(
    replica: Replica, files: SlowFiles, threads: Threads
) -> None:
    files.gate.set()
    replica.commit(2)
    _run(replica)
    started = threads.started
    replica.commit(500)
    _run(replica)
    assert threads.started == started


def test_a_full_disk_is_told_and_waited_for(
    replica: Replica, files: SlowFiles, threads: Threads
) -> None:
    files.refuses = OSError(errno.ENOSPC, "No space left on device")
    files.gate.set()
    told = replica.told
    replica.commit(4)
    replica.loop.run_to(DELAY)
    threads.join()
    replica.loop.run_to(2 * DELAY)
    assert "No space left on device" in told[0]
    assert replica.derived.dispatched == -1
    files.refuses = None
    replica.loop.run_to(replica.loop.now + RETRY_SECONDS)
    _run(replica)
    assert told[1:] == [""]
    assert replica.derived.behind == 0
    assert not replica.failures


def test_a_disk_that_refuses_otherwise_ends_the_node(
    replica: Replica, files: SlowFiles, threads: Threads
) -> None:
    files.refuses = OSError(errno.EIO, "Input/output error")
    files.gate.set()
    replica.commit()
    replica.loop.run_to(DELAY)
    threads.join()
    replica.loop.run_to(1.0)
    assert len(replica.failures) == 1
    assert "Input/output error" in str(replica.failures[0])


def test_a_stop_waits_for_files_that_are_being_made(
    replica: Replica, files: SlowFiles, threads: Threads
) -> None:
    replica.commit(2)
    replica.loop.run_to(DELAY)
    assert files.asked.wait(limit(30))
    opener = threading.Timer(0, files.gate.set)
    opener.start()
    replica.derived.catch_up()
    opener.join()
    assert replica.derived.behind == 0
    assert files.made == 2
    threads.join()
    assert not replica.failures


def test_a_node_that_closes_leaves_no_file_open(
    tmp_path: Path, replica: Replica, files: SlowFiles, threads: Threads
) -> None:
    """And the next start takes the files without entries for what they are."""
    replica.commit(2)
    replica.loop.run_to(DELAY)
    files.gate.set()
    wait_until(lambda: files.made == 2, "both are made")
    replica.derived.close()
    assert not _open_below(tmp_path / "consumequeue")
    threads.join()
    assert not replica.failures
    again = Replica(tmp_path, replica.log)
    again.derived.apply(replica.log.last.index)
    again.derived.catch_up()
    assert again.derived.state.queue_ends("T", 2) == [1, 1]
    assert [queue.max_offset for queue in again.derived.files.queues] == [1, 1]
    again.derived.close()


def _threads_of(replica: Replica) -> Threads:
    threads = replica.derived._ahead._in_thread
    assert isinstance(threads, Threads)
    return threads


def _run(replica: Replica) -> None:
    """Until everything is derived."""
    for _ in range(100):
        _threads_of(replica).join()
        replica.loop.run_to(replica.loop.now + 2 * DELAY)
        assert not replica.failures
        if not replica.derived.behind:
            return
    raise AssertionError("it does not come to an end")


def _open_below(folder: Path) -> list[Path]:
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        target = descriptor.readlink() if descriptor.exists() else Path()
        if target.is_relative_to(folder):
            found.append(target)
    return found
