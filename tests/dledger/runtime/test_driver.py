"""The shell: a node is alive as a whole or not at all, and threads do their part."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable

import pytest

from commitlog.files.system import File
from commitlog.segments.next_file import NextFile
from dledger import NodeFailed, OutcomeUnknown
from dledger.core.messages import Message
from dledger.core.types import Index, NodeId
from dledger.log.file_log import FileLog
from dledger.replica.ports import SyncWork
from dledger.runtime.owned import ENDED, Owned
from dledger.runtime.sync_thread import SyncThread
from tests.waiting import limit

from .group import Group, until


def raise_it(error: BaseException) -> None:
    raise error


class Task:
    """Disk work that says which thread did it, and fails when told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.thread = ""

    def run(self) -> None:
        self.thread = threading.current_thread().name
        if self.error is not None:
            raise self.error


async def test_a_lane_runs_work_in_its_thread_and_tells_the_loop() -> None:
    told: asyncio.Queue[tuple[SyncWork, BaseException | None, str]] = asyncio.Queue(maxsize=10)

    def done(work: SyncWork, error: BaseException | None) -> None:
        told.put_nowait((work, error, threading.current_thread().name))

    owned = Owned(raise_it)
    assert owned.loop is asyncio.get_running_loop()
    lane = SyncThread("lane-under-test", owned, done)
    good, bad = SyncWork("log", Task()), SyncWork("log", Task(OSError("no")))
    lane.submit(good)
    lane.submit(bad)
    assert await told.get() == (good, None, threading.main_thread().name)
    work, error, _ = await told.get()
    assert work is bad
    assert isinstance(error, OSError)
    assert isinstance(good.task, Task)
    assert good.task.thread == "lane-under-test"
    lane.stop(5)
    assert "lane-under-test" not in {thread.name for thread in threading.enumerate()}


async def test_d5_a_failed_sync_stops_the_node_and_the_group_goes_on(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    await group.start()
    log = await group.leader()

    def breaking(store: FileLog) -> Callable[[], object]:
        begin = store.begin_sync

        def begun() -> object:
            task = begin()
            if task is not None:
                monkeypatch.setattr(task, "run", fail if store is log.store else held(task.run))
            return task

        return begun

    stopped = threading.Event()

    def held(run: Callable[[], None]) -> Callable[[], None]:
        """Both others could have it, and it be acknowledged, before the leader's thread fails."""

        def after_the_leader() -> None:
            stopped.wait(limit(60))
            run()

        return after_the_leader

    def fail() -> None:
        raise OSError(5, "Input/output error")

    for other in group.logs.values():
        monkeypatch.setattr(other.store, "begin_sync", breaking(other.store))
    failed = log.driver.failed
    with pytest.raises(OutcomeUnknown):
        await log.append(b"x")
    failure = await failed
    stopped.set()
    assert "Input/output error" in str(failure)
    with pytest.raises(NodeFailed):
        await log.append(b"y")
    name = log.config.node_id
    monkeypatch.undo()
    await group.stop(name)
    assert (await group.leader()).config.node_id != name


async def test_a_mistake_in_the_state_machine_ends_the_node_loudly(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    await group.start()
    log = await group.leader()
    failed = log.driver.failed

    def wrong(_first: Index, _last: Index) -> None:
        raise ZeroDivisionError("of the embedder")

    log._tagging.applied = wrong  # type: ignore[method-assign]
    with pytest.raises((OutcomeUnknown, NodeFailed)):
        await log.append(b"x")
    assert "of the embedder" in str(await failed)
    assert "stopped" in caplog.text


async def test_a_disk_that_refuses_files_of_the_service_is_told_as_no_mistake(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    """A log of a server that works has no mistakes, whatever its disks do; judges count on it."""
    await group.start()
    log = await group.leader()
    failed = log.driver.failed

    def refused(_first: Index, _last: Index) -> None:
        raise NodeFailed("no queue can be written") from OSError(errno.EFBIG, "File too large")

    log._tagging.applied = refused  # type: ignore[method-assign]
    with pytest.raises((OutcomeUnknown, NodeFailed)):
        await log.append(b"x")
    assert "no queue can be written" in str(await failed)
    assert (
        "stopped by its disk, as failed" in caplog.text or "by its disk, as leader" in caplog.text
    )
    assert ENDED not in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_dead_link_task_ends_the_node(group: Group) -> None:
    await group.start("n0")
    driver = group.logs["n0"].driver
    assert driver is not None
    link = next(iter(driver.transport.links.values()))
    link._jitter = lambda: 1 // 0
    assert "ZeroDivisionError" in str(await driver.failed)


async def test_a_file_that_is_being_made_ahead_does_not_disturb_the_end(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    await group.start()
    log = await group.leader()
    begun, ending = threading.Event(), threading.Event()
    make = NextFile.make

    def slow(self: NextFile, position: int) -> File:
        begun.set()
        ending.wait(limit(60))
        return make(self, position)

    monkeypatch.setattr(NextFile, "make", slow)
    for _ in range(5):
        await log.append(bytes(500_000))  # over half of a file
    await until(begun.is_set)
    closing = asyncio.ensure_future(group.close())
    for _ in range(5):  # of the loop: it waits for the file that is being made
        await asyncio.sleep(0)
    assert not closing.done()
    ending.set()
    await closing
    await group.start()
    assert (await group.leader()).applied >= 5


async def test_an_idle_node_wakes_for_its_deadlines_only(group: Group) -> None:
    """No ticks: while it sends some heartbeats, these and their answers, nothing else."""
    await group.start()
    log = await group.leader()
    driver = log.driver
    assert driver is not None
    await group.election_timeouts(1)  # marks and mirrors of the election are written
    events = heartbeats = 0
    after = driver._after

    def count() -> None:
        nonlocal events
        events += 1
        after()

    send = driver.send

    def counted(to: NodeId, message: Message) -> None:
        nonlocal heartbeats
        heartbeats += 1
        send(to, message)

    driver._after = count  # type: ignore[method-assign]
    driver.send = counted
    await until(lambda: heartbeats >= 10)
    assert 5 <= events <= 5 * 3 * 2 + 10
