"""Work that several tasks wait for and that runs once at a time.

A task that asks for work under way joins the tasks that wait for it. When the last of them stops
waiting, the work is cancelled, so a cancelled task leaves no request behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class _Work(Generic[T]):
    """Work under way, and how many tasks wait for it."""

    def __init__(self, task: asyncio.Task[T]) -> None:
        self.task, self.waiting = task, 0


class SharedWork(Generic[T]):
    """Key → the work that runs for it."""

    def __init__(self) -> None:
        self._running: dict[str, _Work[T]] = {}

    async def get(self, key: str, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of the work for `key`; `begin` starts it if none is under way."""
        work = self._running.get(key)
        if work is None:
            work = self._running[key] = self._start(key, begin())
        work.waiting += 1
        try:
            return await asyncio.shield(work.task)
        finally:
            work.waiting -= 1
            if not work.waiting:
                work.task.cancel()  # has no effect on a finished task
                self._forget(key, work)

    async def close(self) -> None:
        """Cancel all work."""
        tasks = [work.task for work in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, key: str, doing: Coroutine[Any, Any, T]) -> _Work[T]:
        work = _Work(asyncio.ensure_future(doing))

        def ended(task: asyncio.Task[T]) -> None:
            self._forget(key, work)
            if not task.cancelled():
                task.exception()  # read, or asyncio would log an error that no task waits for

        work.task.add_done_callback(ended)
        return work

    def _forget(self, key: str, work: _Work[T]) -> None:
        if self._running.get(key) is work:
            del self._running[key]
