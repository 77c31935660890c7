"""An event loop in a thread of its own, for callers without one.

    any thread ─► run(coroutine) ─► the loop's thread ─► its result, or its error
       timeout, Ctrl-C, cancel of a future ─► the coroutine is cancelled there

Any number of threads may use one.
"""

from __future__ import annotations

import abc
import asyncio
import concurrent.futures
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from dledger.errors import LogUsageError, NodeFailed
from dledger.runtime.loop import loop_factory

T = TypeVar("T")

_log = logging.getLogger(__name__)

CLOSE_SECONDS_MAX = 10.0
"""`LoopThread.close` waits no longer for the thread's end; it is a daemon."""

_CLOSED = "it was closed, perhaps by another thread; start a new one on its folder"


class Closing(abc.ABC):
    """`with` closes it."""

    @abc.abstractmethod
    def close(self) -> None:
        """End it; a second call has no effect."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class LoopThread(Closing):
    """Runs coroutines in its loop and waits for their results. Starts with the first of them."""

    def __init__(
        self,
        name: str = "dledger-blocking",
        closed: Callable[[], Exception] = lambda: NodeFailed(_CLOSED),
        factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        """`name`: of the thread; `closed`: makes the error after `close`; `factory`: a loop."""
        self._name, self._closed_error = name, closed
        self._factory = factory or loop_factory() or asyncio.new_event_loop
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._started: set[concurrent.futures.Future[Any]] = set()

    @property
    def is_closed(self) -> bool:
        """Was it closed? Then its thread has ended."""
        return self._closed

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine and return its result.

        It is cancelled after `timeout` seconds, and when the waiting thread is interrupted
        (Ctrl-C).

        Raises:
            TimeoutError: the time is over, and the coroutine has ended.
            NodeFailed: after `close`, or when another thread closes meanwhile. Or what `closed`
                makes.
            LogUsageError: inside the loop itself, which would wait for itself.
            Exception: the coroutine's own.
        """
        try:
            loop = self._running()
        except Exception:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(_within(work, timeout), loop)
        return self.result(future)

    def call(self, function: Callable[[], T]) -> T:
        """Call a plain function in the loop's thread. Raises as `run`."""

        async def work() -> T:
            return function()

        return self.run(work())

    def end(self, function: Callable[[], object]) -> None:
        """As `call`, for the end of a subscription: in the loop's thread too, and after `close`."""
        if threading.current_thread() is self._thread:
            function()
            return
        with contextlib.suppress(type(self._closed_error())):
            self.call(function)

    def check_outside(self) -> None:
        """Raises LogUsageError in the loop's thread, which would wait for itself."""
        if threading.current_thread() is self._thread:
            raise LogUsageError(
                "a blocking call inside the event loop would wait for itself; call it from another "
                "thread, or use the async classes there"
            )

    def start(self, function: Callable[[], asyncio.Future[T]]) -> concurrent.futures.Future[T]:
        """Call a function that returns an asyncio future. Returns a future for threads.

        To cancel the one cancels the other. Raises as `run`.
        """
        outer: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._started.add(outer)
        outer.add_done_callback(self._started.discard)

        def copy(inner: asyncio.Future[T]) -> None:
            if inner.cancelled():
                outer.cancel()
            if not outer.set_running_or_notify_cancel():
                return
            error = inner.exception()
            if error is None:
                outer.set_result(inner.result())
            else:
                outer.set_exception(error)

        def begin() -> asyncio.Future[T]:
            inner = function()
            inner.add_done_callback(copy)
            return inner

        inner = self.call(begin)

        def cancel(ended: concurrent.futures.Future[T]) -> None:
            if ended.cancelled() and self._loop is not None and not inner.done():
                with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended anyway
                    self._loop.call_soon_threadsafe(inner.cancel)

        outer.add_done_callback(cancel)
        return outer

    def result(self, future: concurrent.futures.Future[T]) -> T:
        """The result of a future that `start` returned. Ctrl-C cancels it. Raises as `run`."""
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise self._closed_error() from None
        except BaseException:
            future.cancel()
            raise

    @contextlib.contextmanager
    def entered(
        self, manager: contextlib.AbstractAsyncContextManager[T], timeout: float | None = None
    ) -> Iterator[T]:
        """An async context manager as one for `with`; `timeout`: for its beginning."""
        value = self.run(_enter(manager), timeout)
        try:
            yield value
        except BaseException as error:
            if not self.run(_leave(manager, error)):
                raise
        else:
            self.run(_leave(manager, None))

    def close(self) -> None:
        """Cancel the coroutines of other threads, stop the loop and end the thread; idempotent.

        Calls of other threads raise `closed`'s error. A loop that does not end is left behind with
        a warning. Raises LogUsageError in the loop's thread.
        """
        self.check_outside()
        with self._lock:
            self._closed = True
            loop, self._loop = self._loop, None
            if loop is None:
                return
            assert self._thread is not None
            with contextlib.suppress(TimeoutError):  # a coroutine may swallow its cancellation
                asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result(CLOSE_SECONDS_MAX)
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(CLOSE_SECONDS_MAX)
            if self._thread.is_alive():
                _log.warning(
                    "%s did not end: something in its loop was not closed, perhaps a node; close "
                    "what was started in it first",
                    self._name,
                )
            for future in list(self._started):
                if not future.done() and future.set_running_or_notify_cancel():
                    future.set_exception(self._closed_error())

    def _running(self) -> asyncio.AbstractEventLoop:
        loop = self._loop
        if loop is None:
            with self._lock:
                if self._closed:
                    raise self._closed_error()
                if self._loop is None:
                    self._loop = self._factory()
                    self._thread = threading.Thread(
                        target=_run, args=(self._loop,), name=self._name, daemon=True
                    )
                    self._thread.start()
                loop = self._loop
        self.check_outside()
        return loop


class Iterating(Closing, Generic[T]):
    """The values of an async iterator, for `for` and `with`."""

    def __init__(self, thread: LoopThread, inner: AsyncIterator[T]) -> None:
        self._thread, self._inner = thread, inner
        self._next: asyncio.Task[T] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        return self.next()

    def next(self, timeout: float | None = None) -> T:
        """The next one. Raises TimeoutError after so many seconds; then none is lost: ask again."""
        try:
            return self._thread.run(self._asked(timeout))
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """End the iteration and close the async iterator."""

        async def ended() -> None:
            if self._next is not None:
                self._next.cancel()
                await asyncio.wait([self._next])
            closing = getattr(self._inner, "aclose", None)
            if closing is not None:
                await closing()

        self._thread.run(ended())

    async def _asked(self, seconds: float | None) -> T:
        if self._next is None:
            self._next = asyncio.ensure_future(_anext(self._inner))
        done, _ = await asyncio.wait([self._next], timeout=seconds)
        if not done:
            raise TimeoutError(f"no next one within {seconds} s; ask again")
        found, self._next = self._next, None
        return found.result()


async def _anext(inner: AsyncIterator[T]) -> T:
    return await anext(inner)


async def _within(work: Coroutine[Any, Any, T], seconds: float | None) -> T:
    async with asyncio.timeout(seconds):
        return await work


async def _enter(manager: contextlib.AbstractAsyncContextManager[T]) -> T:
    return await manager.__aenter__()


async def _leave(
    manager: contextlib.AbstractAsyncContextManager[Any], error: BaseException | None
) -> bool:
    if error is None:
        return bool(await manager.__aexit__(None, None, None))
    return bool(await manager.__aexit__(type(error), error, error.__traceback__))


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """The thread: its loop until it is stopped, and the loop's end.

    uvloop waits there for handles that are still open, for ever when nobody closes them.
    """
    loop.run_forever()
    loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
