"""One thread of an open store: started once, woken, stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Background:
    """A thread, and the condition on which it waits between its turns.

    `_stopping` is set once, under the condition; the thread ends when it sees it.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def _begin(self, run: Callable[[], None], name: str) -> None:
        self._thread = threading.Thread(target=run, name=f"commitlog-{name}", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Wake the thread, so that it looks for work again."""
        with self._condition:
            self._condition.notify_all()

    def stop(self) -> None:
        """End the thread and wait for it; returns at once when it was never started."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
