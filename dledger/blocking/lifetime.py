"""`with` starts and closes: the common part of the blocking classes.

Each has a thread with an event loop of its own, or shares one that it is given: a slow `apply`
holds up all nodes of its thread, and a thread more costs a few switches for each call.
"""

from __future__ import annotations

from typing import Any, Self

from dledger.blocking.loop_thread import Closing, LoopThread
from dledger.runtime.lifetime import Lifetime as AsyncLifetime


class Lifetime(Closing):
    """Any number of threads may call its methods.

    Attributes:
        thread: where it runs; give it to others that are to run there, too.
    """

    def __init__(self, inner: Any, thread: LoopThread | None) -> None:
        self._inner = inner
        self.thread = self._thread = thread or LoopThread()
        self._owns_thread = thread is None

    def start(self) -> None:
        """As the async one; its thread ends when that fails."""
        assert isinstance(self._inner, AsyncLifetime)
        self._thread.check_outside()
        try:
            self._thread.run(self._inner.start())
        except BaseException:
            self._end_thread()
            raise

    def close(self) -> None:
        """As the async one, and end the thread; a second call has no effect.

        Raises LogUsageError in the loop's thread (a callback, `apply`): call it from another one.
        """
        assert isinstance(self._inner, AsyncLifetime)
        self._thread.check_outside()
        if self._thread.is_closed:
            return
        try:
            self._thread.run(self._inner.close())
        finally:
            self._end_thread()

    def _end_thread(self) -> None:
        if self._owns_thread:
            self._thread.close()

    def __enter__(self) -> Self:
        self.start()
        return self
