"""@replicated for code without an event loop: commands and queries return their results.

    @replicated
    class Counter:                              with on_node(Counter, config) as counter:
        value = 0                                   counter.add(2)       on every node, once
        @command                                    counter.total()      linearizable
        def add(self, n: int) -> int: …
        @query
        def total(self) -> int: …

As `dledger.objects.replicated`, whose text has the rules of a command; take all names of one class
from the same module. Inside a command a blocking call raises LogUsageError.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar, overload
from weakref import WeakKeyDictionary

from dledger.blocking.lifetime import Lifetime
from dledger.blocking.loop_thread import LoopThread
from dledger.blocking.node import ReplicatedNode
from dledger.config import RaftConfig
from dledger.machine.node import Consistency
from dledger.objects import replicated as _replicated
from dledger.objects.replicated import entry_of, replicated

__all__ = ["On", "command", "entry_of", "on_node", "query", "read", "replicated"]

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

#: Where each object runs.
_threads: WeakKeyDictionary[_replicated.RunningObject, LoopThread] = WeakKeyDictionary()


class command(_replicated.command[S, P, R]):
    """Marks a method that changes the object: called, it gives the method's result.

    Callable on any node; raises as `ReplicatedNode.propose`.
    """

    @overload  # type: ignore[override]  # a result where the base has an awaitable
    def __get__(self, instance: None, owner: type) -> command[S, P, R]: ...
    @overload
    def __get__(self, instance: S, owner: type) -> Callable[P, R]: ...
    def __get__(self, instance: S | None, owner: type) -> Any:
        if instance is None:
            return self
        return _blocking(instance, super().__get__(instance, owner))


class query(_replicated.query[S, P, R]):
    """Marks a method that only reads: it sees all that was acknowledged before.

    Its result is a copy. Raises as `ReplicatedNode.read`.
    """

    @overload  # type: ignore[override]  # as above
    def __get__(self, instance: None, owner: type) -> query[S, P, R]: ...
    @overload
    def __get__(self, instance: S, owner: type) -> Callable[P, R]: ...
    def __get__(self, instance: S | None, owner: type) -> Any:
        if instance is None:
            return self
        return _blocking(instance, super().__get__(instance, owner))


class On(Generic[S]):
    """An object that is not started yet: `with` starts it, gives it, and stops it.

    Attributes:
        target: the object.
    """

    def __init__(self, inner: _replicated.On[S], thread: LoopThread | None) -> None:
        self.target = inner.target
        self._running = _replicated.running_of(inner.target)
        self._life = Lifetime(self._running, thread)
        _threads[self._running] = self._life.thread

    @property
    def node(self) -> ReplicatedNode[list[Any], Any]:
        """For its status and its members."""
        return ReplicatedNode.of(self._life.thread, self._running.node)

    def __enter__(self) -> S:
        """Raises as `ReplicatedNode.start`."""
        self._life.start()
        return self.target

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._life.close()


def on_node(
    plain: type[S], config: RaftConfig, *, thread: LoopThread | None = None, **options: Any
) -> On[S]:
    """An object of a class on this node. `options`: as of `ReplicatedObject`.

    `thread`: shared with others; None: one of its own (lifetime.py). Raises LogUsageError for a
    class without `@replicated`.
    """
    return On(_replicated.on_node(plain, config, **options), thread)


def read(
    target: S, fn: Callable[[S], T], *, consistency: Consistency = Consistency.LINEARIZABLE
) -> T:
    """The value of `fn(target)`, which looks only and copies. Raises as `ReplicatedNode.read`."""
    thread = _threads[_replicated.running_of(target)]
    return thread.run(_replicated.read(target, fn, consistency=consistency))


def _blocking(instance: object, method: Callable[P, Awaitable[R]]) -> Callable[P, R]:
    thread = _threads[_replicated.running_of(instance)]

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        async def work() -> R:
            return await method(*args, **kwargs)

        return thread.run(work())

    return call
