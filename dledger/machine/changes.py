"""Changes: a value of a node that its user follows, by a function or by a loop.

    stop = node.leader_changes.subscribe(print)          called with each new value, until stop()
    async for leader in node.leader_changes: …           the value now, then the newest

A loop that is slower than the changes misses values in between and never the newest one. A function
that raises is told of in the node's log; the node and the other functions go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

from dledger.errors import NodeFailed

T = TypeVar("T")
#: Told that a user's function raised, inside the `except`.
Spared = Callable[[str], None]


class Changes(Generic[T]):
    """The subscriptions to one value; used on the node's event loop."""

    def __init__(self, value: T, what: str, spared: Spared) -> None:
        self._value, self._what, self._spared = value, what, spared
        self._failure: NodeFailed | None = None
        self._functions: dict[object, Callable[[T], object]] = {}
        self._looking: dict[asyncio.Future[None], None] = {}  # an empty set is three times as large

    @property
    def value(self) -> T:
        """As this node knows it now."""
        return self._value

    def subscribe(self, function: Callable[[T], object]) -> Callable[[], None]:
        """Call `function(value)` with every new value, on the event loop; it must not block.

        Returns a function that ends it.
        """
        key = object()
        self._functions[key] = function

        def stop() -> None:
            self._functions.pop(key, None)

        return stop

    async def __aiter__(self) -> AsyncIterator[T]:
        """The value now and each newer one. Raises NodeFailed when the node stops."""
        seen: object = self  # no value is this
        while True:  # until the caller has enough, or the node stops
            if self._failure is not None:
                raise self._failure
            if self._value != seen:
                seen = self._value
                yield self._value
                continue
            changed = asyncio.get_running_loop().create_future()
            self._looking[changed] = None
            try:
                await changed
            finally:
                self._looking.pop(changed, None)

    # -- for the node ------------------------------------------------------------------------------

    def tell(self, value: T) -> None:
        """The value is another one, or is not."""
        if value != self._value:
            self._value = value
            self.tell_all(value)
            self._wake()

    def tell_all(self, value: T) -> None:
        """Call the functions with it."""
        for function in list(self._functions.values()):
            try:
                function(value)
            except Exception:  # a mistake of the user's function is no reason for a node to stop
                self._spared(f"a function that follows {self._what} raised")

    def fail(self, failure: NodeFailed) -> None:
        """There will be no newer value: loops end with it."""
        self._failure = self._failure or failure
        self._wake()

    def _wake(self) -> None:
        looking, self._looking = self._looking, {}
        for changed in looking:
            if not changed.done():
                changed.set_result(None)
