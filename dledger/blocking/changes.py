"""A value of a node that its user follows, for code without an event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from dledger.blocking.loop_thread import Iterating, LoopThread
from dledger.machine.changes import Changes as AsyncChanges

T = TypeVar("T")


class Changes(Generic[T]):
    """`for leader in node.leader_changes:` gives the value now, then the newest, as it changes."""

    def __init__(self, thread: LoopThread, inner: AsyncChanges[T]) -> None:
        self._thread, self._inner = thread, inner

    @property
    def value(self) -> T:
        """As the node knows it now."""
        return self._inner.value

    def subscribe(self, function: Callable[[T], object]) -> Callable[[], None]:
        """Call `function(value)` with every new value, in the loop's thread; it must not block.

        Returns a function that ends it.
        """
        stop = self._thread.call(lambda: self._inner.subscribe(function))
        return lambda: self._thread.end(stop)

    def __iter__(self) -> Iterating[T]:
        """Raises NodeFailed when the node stops; `next(timeout)` bounds a wait."""
        return Iterating(self._thread, aiter(self._inner))
