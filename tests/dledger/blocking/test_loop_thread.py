"""Coroutines in another thread's loop: their results, errors, ends and time limits."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from dledger import LogUsageError, NodeFailed
from dledger.blocking import Iterating, LoopThread, loop_thread
from tests.waiting import limit


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    with LoopThread() as made:
        yield made


def test_time_over_means_that_it_has_ended(thread: LoopThread) -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    with pytest.raises(TimeoutError):
        thread.run(work(), 0.01)
    assert ended == ["cancelled"]


def test_cancelling_a_future_cancels_what_runs(thread: LoopThread) -> None:
    inner: list[asyncio.Future[int]] = []

    def begin() -> asyncio.Future[int]:
        inner.append(asyncio.get_running_loop().create_future())
        return inner[0]

    outer = thread.start(begin)
    assert outer.cancel()
    ended = threading.Event()

    def look() -> None:
        inner[0].add_done_callback(lambda _: ended.set())

    thread.call(look)
    assert ended.wait(limit(60))
    assert inner[0].cancelled()


def test_close_ends_what_other_threads_wait_for(thread: LoopThread) -> None:
    begun = threading.Event()
    errors: list[BaseException] = []

    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    def wait() -> None:
        try:
            thread.run(work())
        except NodeFailed as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert begun.wait(limit(60))
    thread.close()
    waiting.join(limit(60))
    assert len(errors) == 1
    with pytest.raises(NodeFailed, match="closed"):
        thread.call(lambda: 1)


def test_a_loop_asks_again_after_time_was_over(thread: LoopThread) -> None:
    go = asyncio.Event()
    ended: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            await go.wait()
            yield 1
            yield 2
        finally:
            ended.append("end")

    with Iterating(thread, numbers()) as iterating:
        with pytest.raises(TimeoutError):
            iterating.next(0.01)
        thread.call(go.set)
        assert list(iterating) == [1, 2]
        with pytest.raises(StopIteration):
            next(iterating)
    with Iterating(thread, numbers()) as left:
        assert next(left) == 1
    assert ended == ["end", "end"]


def test_a_block_passes_its_error_and_may_keep_it(thread: LoopThread) -> None:
    @contextlib.asynccontextmanager
    async def forgiving() -> AsyncIterator[str]:
        with contextlib.suppress(KeyError):
            yield "value"

    with thread.entered(forgiving()) as value:
        raise KeyError(value)
    with pytest.raises(ValueError, match="not a key"), thread.entered(forgiving()):
        raise ValueError("not a key")


def test_a_close_in_the_loops_own_thread_is_refused_and_harms_nothing() -> None:
    """As a callback of `on_error` might try it; it used to hold the loop for ever."""
    with LoopThread() as thread:
        with pytest.raises(LogUsageError, match="another thread"):
            thread.call(thread.close)
        assert not thread.is_closed
        assert thread.call(lambda: 5) == 5


def test_futures_that_were_started_end_when_another_thread_closes() -> None:
    thread = LoopThread()
    waiting = thread.start(lambda: asyncio.get_running_loop().create_future())
    thread.close()
    with pytest.raises(NodeFailed):
        waiting.result(limit(30))


def test_what_ends_a_subscription_works_in_the_loop_and_after_the_end() -> None:
    ended: list[str] = []
    with LoopThread() as thread:
        thread.call(lambda: thread.end(lambda: ended.append("inside")))
        thread.end(lambda: ended.append("outside"))
    thread.end(lambda: ended.append("after"))
    assert ended == ["inside", "outside"]


class _Held(asyncio.SelectorEventLoop):
    """Its end waits, as uvloop's does for a handle that nobody closes."""

    let_go = threading.Event()

    def close(self) -> None:
        self.let_go.wait(limit(60))
        super().close()


def test_closing_waits_for_no_loop_that_does_not_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop_thread, "CLOSE_SECONDS_MAX", 0.01)
    made = LoopThread(factory=_Held)
    assert made.call(lambda: 1) == 1
    made.close()
    assert "did not end" in caplog.text
    assert made.is_closed
    _Held.let_go.set()
    assert made._thread is not None
    made._thread.join(limit(60))
    assert not made._thread.is_alive()
