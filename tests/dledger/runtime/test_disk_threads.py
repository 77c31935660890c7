"""Disk work of many replicas on a few threads: in order for each, and nobody waits for a few."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest_asyncio

from dledger.replica.ports import SyncWork
from dledger.runtime.disk_threads import DiskThreads, SharedDiskQueue
from dledger.runtime.owned import Owned
from tests.waiting import eventually, limit


@dataclass
class Task:
    """Notes its name when it runs; waits for `goes_on` where it is given."""

    name: str
    ran: list[str]
    goes_on: threading.Event | None = None
    error: Exception | None = None
    running: list[str] = field(default_factory=list)
    done: bool = False
    cancelled: bool = False

    def run(self) -> None:
        self.running.append(self.name)
        assert len(self.running) == 1, "one piece of a queue at a time"
        if self.goes_on is not None:
            assert self.goes_on.wait(limit(30))
        if self.error is not None:
            raise self.error
        self.ran.append(self.name)
        self.running.remove(self.name)


class Queues:
    """Queues on two threads, and what they reported."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.ended: list[tuple[str, BaseException | None]] = []
        self.now = 0.0
        self.died: list[BaseException] = []
        self._owned = Owned(self.died.append)
        assert self._owned.loop is asyncio.get_running_loop()
        self.threads = DiskThreads("threads-under-test", 2, self._owned)

    def queue(self) -> SharedDiskQueue:
        return self.threads.queue(self._owned, self._done, lambda: self.now)

    def _done(self, work: SyncWork, error: BaseException | None) -> None:
        assert isinstance(work.task, Task)
        self.ended.append((work.task.name, error))

    async def until(self, *names: str) -> None:
        """These have ended."""
        await eventually(lambda: set(names) <= {name for name, _ in self.ended}, "their end", 30)


@pytest_asyncio.fixture
async def queues() -> AsyncIterator[Queues]:
    made = Queues()
    yield made
    await asyncio.to_thread(made.threads.stop, limit(30))
    assert not any(thread.name.startswith("threads-under") for thread in threading.enumerate())


async def test_work_of_a_queue_is_done_in_order_and_one_at_a_time(queues: Queues) -> None:
    queue, running = queues.queue(), list[str]()
    names = [f"w{number}" for number in range(200)]
    for name in names:
        queue.submit(SyncWork("mend", Task(name, queues.ran, running=running)))
    await queues.until(*names)
    assert queues.ran == names
    assert [name for name, _ in queues.ended] == names


async def test_one_queue_that_hangs_holds_no_other_up(queues: Queues) -> None:
    hangs, works, goes_on = queues.queue(), queues.queue(), threading.Event()
    for name in ("h0", "h1", "h2"):
        hangs.submit(SyncWork("log", Task(name, queues.ran, goes_on)))
    works.submit(SyncWork("log", Task("w", queues.ran)))
    await queues.until("w")
    assert queues.ran == ["w"]
    goes_on.set()
    await queues.until("h0", "h1", "h2")


async def test_work_that_waits_for_a_thread_has_begun_for_who_watches(queues: Queues) -> None:
    """Two threads hang; the third replica's sync does not come back either."""
    goes_on, third = threading.Event(), queues.queue()
    for name in ("a", "b"):
        queues.queue().submit(SyncWork("log", Task(name, queues.ran, goes_on)))
    queues.now = 5.0
    third.submit(SyncWork("log", Task("c", queues.ran)))
    assert (third.times.kind, third.times.under_way_since()) == ("log", 5.0)
    queues.now = 8.0
    goes_on.set()
    await queues.until("a", "b", "c")
    assert third.times.under_way_since() is None


async def test_work_that_waits_behind_work_that_ends_is_no_stall(queues: Queues) -> None:
    """One thread hangs, the other one works: the third replica's turn will come."""
    hangs, goes_on, third = threading.Event(), threading.Event(), queues.queue()
    for name, event in (("a", hangs), ("b", goes_on), ("c", hangs)):
        queues.queue().submit(SyncWork("log", Task(name, queues.ran, event)))
    third.submit(SyncWork("log", Task("d", queues.ran)))
    queues.now = 6.0
    goes_on.set()
    await queues.until("b")
    assert third.times.under_way_since() == 6.0
    queues.now = 7.0
    hangs.set()
    await queues.until("a", "c", "d")
    assert third.times.longest == 0.0, "it ran for no time, and is not slow"


async def test_an_error_is_the_works_own(queues: Queues) -> None:
    queue, error = queues.queue(), OSError(5, "Input/output error")
    queue.submit(SyncWork("log", Task("bad", queues.ran, error=error)))
    await queues.until("bad")
    queues.queue().submit(SyncWork("log", Task("good", queues.ran)))
    await queues.until("good")
    assert queues.ended == [("bad", error), ("good", None)]


async def test_stop_waits_for_its_own_work(queues: Queues) -> None:
    queue, goes_on = queues.queue(), threading.Event()
    queue.submit(SyncWork("log", Task("slow", queues.ran, goes_on)))
    await asyncio.to_thread(queue.stop, 0.01)
    assert queues.ran == [], "it is left behind when the time is over"
    goes_on.set()
    await asyncio.to_thread(queue.stop, limit(30))
    assert queues.ran == ["slow"]
    await queues.until("slow")


async def test_withdrawn_work_waits_for_no_thread(queues: Queues) -> None:
    """Both threads are busy for another replica; what this one has withdrawn is left out."""
    goes_on, queue = threading.Event(), queues.queue()
    for name in ("a", "b"):
        queues.queue().submit(SyncWork("log", Task(name, queues.ran, goes_on)))
    work = SyncWork("generations", Task("late", queues.ran))
    queue.submit(work)
    work.withdrawn = True
    await asyncio.to_thread(queue.stop, limit(30))
    await queues.until("late")
    assert queues.ran == [], "it has ended, and the threads are still busy"
    queue.submit(SyncWork("log", Task("next", queues.ran)))
    goes_on.set()
    await queues.until("a", "b", "next")
    assert "late" not in queues.ran


async def test_a_mistake_in_a_call_is_told_and_ends_no_thread(queues: Queues) -> None:
    def mistake() -> None:
        raise ZeroDivisionError("a mistake")

    for _ in range(4):
        queues.threads.run(mistake)
    queues.queue().submit(SyncWork("log", Task("good", queues.ran)))
    await queues.until("good")
    await eventually(lambda: len(queues.died) == 4, "that all are told", 30)
    assert all(isinstance(error, ZeroDivisionError) for error in queues.died)
