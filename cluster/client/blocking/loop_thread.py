"""An event loop in its own thread, for the blocking client."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from cluster.errors import ClientClosed

T = TypeVar("T")


class LoopThread:
    """Runs coroutines in its loop and waits for their results. Any number of threads may use it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._closing = threading.Lock()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="dledger-client", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result.

        If the waiting thread is interrupted (Ctrl-C), the coroutine is cancelled.

        Raises:
            ClientClosed: after `close`, or when another thread closes meanwhile.
            Exception: the coroutine's own.
        """
        if self._loop.is_closed():
            work.close()
            raise ClientClosed("the client is closed; connect again")
        assert threading.current_thread() is not self._thread, "it would wait for itself"
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ClientClosed("the client was closed by another thread; connect again") from None
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], T]) -> T:
        """Call a plain function in the loop's thread."""

        async def work() -> T:
            return function()

        return self.run(work())

    def start(self, function: Callable[[], asyncio.Future[T]]) -> concurrent.futures.Future[T]:
        """Call a function that returns an asyncio future. Returns a future for threads."""
        outer: concurrent.futures.Future[T] = concurrent.futures.Future()

        def copy(inner: asyncio.Future[T]) -> None:
            if not outer.set_running_or_notify_cancel():
                return
            error = inner.exception()
            if error is None:
                outer.set_result(inner.result())
            else:
                outer.set_exception(error)

        self.call(lambda: function().add_done_callback(copy))
        return outer

    def close(self) -> None:
        """Cancel the coroutines of other threads, stop the loop and end the thread."""
        with self._closing:
            if self._loop.is_closed():
                return
            asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
