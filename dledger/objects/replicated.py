"""@replicated: a plain class of yours, the same on every node.

    @replicated                                 async with on_node(Counter, config) as counter:
    class Counter:                                  await counter.add(2)       on every node, once
        value = 0                                   await counter.total()      linearizable
        @command                                    counter.value              what is here now
        def add(self, n: int) -> int: …
        @query
        def total(self) -> int: …

A command's arguments and result travel as JSON, and it runs on every node, in the order of the log:
it may use its object and arguments, and `entry_of(self)` for time, but no clock, chance or file.
The object's attributes are its state; they are JSON values, or the class has `snapshot(self) ->
bytes` and `restore(self, state: bytes)`, as plain methods. Nodes compare states of a class that has
`checksum(self) -> int`, as `ReplicatedStateMachine.checksum` says.

A restored object has values as JSON has them: a list that two attributes had is two lists, and a
member of an `IntEnum` a number. An attribute that the class makes as a `defaultdict`, `Counter` or
`OrderedDict` is one again.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, BinaryIO, Concatenate, Generic, ParamSpec, TypeVar, overload

from dledger.config import RaftConfig
from dledger.errors import LogUsageError
from dledger.machine.freezing import Freezing
from dledger.machine.node import Consistency
from dledger.machine.state_machine import Entry, called_at_once
from dledger.objects.attributes import Piece, attributes_of, kinds_of, lines_of, pieces_of
from dledger.objects.class_state import (
    check_containers,
    check_state,
    containers_of,
    plain_method,
)
from dledger.objects.frozen import give_up
from dledger.objects.replicated_object import ReplicatedObject
from dledger.objects.state_lines import InLines

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

#: The attribute of an object that leads to its node; no part of its state.
_BOUND = "_replicated"
#: The attribute of a class that `@replicated` was written above: its containers as they were then.
_MARK = "_is_replicated"


class command(Generic[S, P, R]):
    """Marks a method that changes the object: awaited, it gives the method's result.

    Callable on any node; raises as `ReplicatedNode.propose`, and LogUsageError for arguments that
    the method does not take. Inside it, call plain methods only, and raise `CommandRefused` before
    the first change to refuse. Another error stops the nodes.
    """

    def __init__(self, method: Callable[Concatenate[S, P], R]) -> None:
        self.method = called_at_once(method)
        self._signature = inspect.signature(method)
        self.__doc__ = method.__doc__
        self._name = method.__name__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> command[S, P, R]: ...
    @overload
    def __get__(self, instance: S, owner: type) -> Callable[P, Awaitable[R]]: ...
    def __get__(self, instance: S | None, owner: type) -> Any:
        if instance is None:
            return self
        running = running_of(instance)

        def propose(*args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
            if running.machine.entry is not None:
                raise LogUsageError(
                    f"{self._name} was called inside a command; move the common part into a "
                    "plain method and call that"
                )
            self._check(args, kwargs)
            return running.node.propose([self._name, args, kwargs])

        return propose

    def _check(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Raises LogUsageError for a call that would fail on every node, and stop them all."""
        try:
            self._signature.bind(None, *args, **kwargs)
        except TypeError as error:
            raise LogUsageError(
                f"{self._name}{self._signature} is not called like this: {error}; change the call"
            ) from None


class query(Generic[S, P, R]):
    """Marks a method that only reads: awaited, it sees all that was acknowledged before.

    Its result is a copy. Raises as `ReplicatedNode.read`. A plain method sees what is here now.
    """

    def __init__(self, method: Callable[Concatenate[S, P], R]) -> None:
        self.method = called_at_once(method)
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> query[S, P, R]: ...
    @overload
    def __get__(self, instance: S, owner: type) -> Callable[P, Awaitable[R]]: ...
    def __get__(self, instance: S | None, owner: type) -> Any:
        if instance is None:
            return self
        running = running_of(instance)

        def look(*args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
            return running.node.read(lambda: copy.deepcopy(self.method(instance, *args, **kwargs)))

        return look


class ObjectMachine(InLines[list[Any], Any]):
    """Commands are [method, arguments, named arguments]; the state is the object."""

    def __init__(self, target: Any) -> None:
        """`target`: as its class makes it."""
        self.target = target
        self._has_snapshot = plain_method(type(target), "snapshot") is not None
        self._has_restore = plain_method(type(target), "restore") is not None
        # By its class, and not by what an attribute is now: on every node the same.
        self._kinds = {} if self._has_restore else kinds_of(vars(target))
        #: A state that may not be whole yet; its owner is the one that writes it.
        self._freezing: weakref.ref[Freezing[Piece]] | None = None
        #: Of the command that runs now.
        self.entry: Entry[list[Any]] | None = None

    def apply(self, entry: Entry[list[Any]]) -> Any:
        """Call the method; only one that is marked as a command."""
        name, args, kwargs = entry.command
        method = getattr(type(self.target), name, None)
        if not isinstance(method, command):
            raise TypeError(f"{type(self.target).__name__} has no command {name}")
        self._take_rest()
        self.entry = entry
        try:
            return copy.deepcopy(method.method(self.target, *args, **kwargs))
        finally:
            self.entry = None

    def snapshot(self) -> bytes | Freezing[Piece]:
        """By the class itself, or its attributes, which are taken in pieces."""
        if self._has_snapshot:
            state: bytes = self.target.snapshot()
            return state
        self._take_rest()
        plain = type(self.target)
        check_containers(plain, getattr(plain, _MARK, {}))
        owner = plain.__name__
        values = {name: value for name, value in vars(self.target).items() if name != _BOUND}
        freezing = Freezing(pieces_of(values, owner), lambda pieces: lines_of(pieces, owner))
        self._freezing = weakref.ref(freezing)
        return freezing

    def restore_from(self, state: BinaryIO) -> Callable[[], None] | None:
        """By the class itself, or its attributes."""
        if self._has_restore:
            finish: Callable[[], None] | None = self.target.restore(state.read())
            return finish
        found, values = attributes_of(state, self._kinds), vars(self.target)

        def take() -> None:
            self._take_rest()
            before = {name: values.pop(name) for name in values.keys() - {_BOUND}}
            values.update(found)
            give_up(before)

        return take

    def _take_rest(self) -> None:
        """Take the rest of a state that is not whole, before a change."""
        if self._freezing is None:
            return
        freezing, self._freezing = self._freezing(), None
        if freezing is not None and not freezing.is_whole:
            freezing.finish()


class ComparedMachine(ObjectMachine):
    """The machine of a class that has `checksum`.

    Without it nothing is compared: a state may be large, or have many texts.
    """

    def checksum(self) -> int:
        """By the class itself."""
        number: int = self.target.checksum()
        return number


class RunningObject(ReplicatedObject[list[Any], Any]):
    """The node of one object."""

    def __init__(self, config: RaftConfig, target: Any, **options: Any) -> None:
        self.machine = machine_of(target)
        super().__init__(config, self.machine, **options)


class On(Generic[S]):
    """An object that is not started yet.

    Attributes:
        target: the object; node: its `ReplicatedNode`.
    """

    def __init__(self, target: S, running: RunningObject) -> None:
        self.target, self.node, self._running = target, running.node, running

    async def __aenter__(self) -> S:
        """Raises as `ReplicatedNode.start`."""
        await self._running.start()
        return self.target

    async def __aexit__(self, *_: object) -> None:
        await self._running.close()


def machine_of(target: object) -> ObjectMachine:
    """The machine of an object of a `@replicated` class."""
    has_checksum = plain_method(type(target), "checksum") is not None
    return (ComparedMachine if has_checksum else ObjectMachine)(target)


def replicated(plain: type[S]) -> type[S]:
    """Marks a class for `on_node`; see the module's text.

    Raises LogUsageError for one without commands, one that cannot be made without arguments, one
    whose state is not in its attributes alone, and methods for its state that cannot be called.
    """
    if not any(isinstance(getattr(plain, name), command) for name in dir(plain)):
        raise LogUsageError(f"{plain.__name__} has no commands; write @command above its methods")
    check_state(plain)
    try:
        with contextlib.suppress(ValueError):  # that of a built-in base, which `on_node` calls
            inspect.signature(plain).bind()
    except TypeError as error:
        raise LogUsageError(
            f"{plain.__name__} needs arguments ({error}); give them values, as every node and each "
            "restart begins with the same object"
        ) from error
    setattr(plain, _MARK, containers_of(plain))
    return plain


def on_node(plain: type[S], config: RaftConfig, **options: Any) -> On[S]:
    """An object of a class on this node: `async with` starts it, gives it, and stops it.

    `options`: as of `ReplicatedObject`. Raises LogUsageError for a class without `@replicated`.
    """
    if _MARK not in vars(plain):
        raise LogUsageError(f"{plain.__name__} is not replicated; write @replicated above it")
    target = plain()
    running = RunningObject(config, target, **options)
    vars(target)[_BOUND] = running
    return On(target, running)


async def read(
    target: S, fn: Callable[[S], T], *, consistency: Consistency = Consistency.LINEARIZABLE
) -> T:
    """The value of `fn(target)`, which looks only and copies. Raises as `ReplicatedNode.read`."""
    return await running_of(target).node.read(lambda: fn(target), consistency=consistency)


def entry_of(target: object) -> Entry[list[Any]]:
    """The entry of the command that runs now: its number, which grows, and the log's time.

    Raises LogUsageError outside of a command.
    """
    entry = running_of(target).machine.entry
    if entry is None:
        raise LogUsageError("no command runs now; call it inside a method that is one")
    return entry


def running_of(target: object) -> RunningObject:
    """The node of an object. Raises LogUsageError for one that is on none."""
    running = vars(target).get(_BOUND)
    if running is None:
        raise LogUsageError(f"this {type(target).__name__} is on no node; start it with `on_node`")
    assert isinstance(running, RunningObject)
    return running
