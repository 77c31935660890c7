"""The user's part: a state that commands change in the log's order, the same on every node.

    propose(command) ─► encode ─► the log ─► decode ─► apply(Entry) ─► result ─► the caller

`apply` runs on every node and again after a restart, so it may use only the state and the entry: no
clock (the entry has one), no random number, no file, no order of a set. Nodes compare checksums of
their results, and of their states if the machine has `checksum` (agreement.py): a node whose
machine differs although it must not is found by this.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Generic, TypeVar, cast

from commitlog.files.system import Buffer
from dledger.core.value import value
from dledger.errors import CommandRefused, LogUsageError
from dledger.machine.sessions import RESULTS_BYTES_MAX
from dledger.snapshots.state_file import FileParts

C = TypeVar("C")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

#: Writes no spaces: they would be a tenth of a small command. Made once, because `json.dumps` with
#: separators makes an encoder for each call, which takes half the time of a small result.
_encode_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode

_dumps: Callable[[object], bytes] | None = None
with contextlib.suppress(ImportError):  # without it the same bytes, in more time
    from orjson import dumps as _dumps
#: Types that both write alike. No float: orjson writes 1e16 for 1e+16, and null for NaN.
_is_alike = {str, int, bool, type(None)}.issuperset

#: Lists and objects of a command that may be in each other. Whether a deeper one can be read is up
#: to the release of Python and the calls around: it would stop every node, after each restart.
NESTED_MAX = 100
_TEXTS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_ALIKE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))

#: A state as bytes: all of them, parts of some KiB to MiB that follow each other, or a file.
State = Buffer | Iterable[Buffer] | Path
_READY = (bytes, bytearray, memoryview, Path)
_first_json = json.JSONDecoder().raw_decode


def _of_json(data: bytes) -> Any:
    """The value that `json_bytes` wrote, or that another writer of JSON did."""
    try:
        text = data.decode()
        found, end = _first_json(text)
        if end == len(text):
            return found
    except ValueError:  # no UTF-8, or no JSON at once
        pass
    return json.loads(data)  # accepts spaces and other encodings; its error says where


def json_bytes(found: object) -> bytes:
    """JSON of any value: the same bytes with orjson and without, as nodes compare them.

    Numbers, truth values and None need no encoder. orjson takes a tenth of the time of the standard
    library, and writes only texts, and lists of what both write alike.
    """
    if type(found) is int:  # not a bool
        return b"%d" % found
    if found is None:
        return b"null"
    if type(found) is bool:
        return b"true" if found else b"false"
    if _dumps is not None:
        values = found if type(found) is list else (found,)
        if _is_alike(map(type, values)):
            try:
                return _dumps(found)
            except TypeError:  # a number of more than 64 bits, or half of a surrogate pair
                return _encode_json(found).encode()
    return _encode_json(found).encode()


def _flat(text: bytes) -> bytes:
    """The text itself, unless it is nested too deeply. Raises ValueError."""
    if text.find(b"[", 1) < 0 and text.find(b"{", 1) < 0:  # finding is quicker than counting
        return text
    if text.count(b"[") + text.count(b"{") > NESTED_MAX:
        brackets = _TEXTS.sub(b"", text).translate(_ALIKE, _NO_BRACKETS)
        for _ in range(NESTED_MAX):
            brackets = brackets.replace(b"[]", b"")
        if brackets:
            raise ValueError(f"more than {NESTED_MAX} lists and objects are in each other")
    return text


@value
class Entry(Generic[C]):
    """One committed command.

    Attributes:
        index: the command's number: grows with each command, and is the same on every node. It is
            the index of the command's log entry, or more, as commands proposed together share one.
        term: term of the leader that appended it.
        time_ms: the log's time, milliseconds since 1970: the leader's wall clock as the group
            agrees with it, never less than that of the entry before.
        command: as `decode` returned it.
    """

    index: int
    term: int
    time_ms: int
    command: C


class ReplicatedStateMachine(ABC, Generic[C, R]):
    """Subclass it with `apply`, and with `snapshot` and `restore` where the log is to be cut.

    C is the type of commands and R that of results; both travel as JSON unless `encode` and the
    other three are overridden. Never pickle: a peer's bytes would run code.
    """

    #: Nodes compare their results once in this many entries; 0: never. It must be the same number
    #: on every node.
    compare_every: ClassVar[int] = 1000
    #: Bytes of one result; a longer one is not kept, and its caller gets `ResultNotKept` although
    #: the command was applied. The same number on every node.
    result_bytes_max: ClassVar[int] = 1 << 20
    #: Bytes of all results kept for callers that have not received them. The same on every node.
    results_bytes_max: ClassVar[int] = RESULTS_BYTES_MAX

    @abstractmethod
    def apply(self, entry: Entry[C]) -> R:
        """Change the state and return the result. Called on the event loop, on every node.

        To refuse a command, raise `CommandRefused`: that is its result, on every node. Any other
        exception stops the node with `StateMachineFailed`, as the state may be half changed.
        """

    def apply_batch(self, entries: Sequence[Entry[C]]) -> Sequence[R | CommandRefused]:
        """Apply several commands; override it if that is cheaper. One result each, in order."""
        results: list[R | CommandRefused] = []
        for entry in entries:
            try:
                results.append(self.apply(entry))
            except CommandRefused as refused:
                results.append(refused)
        return results

    def snapshot(self) -> State | Callable[[], State]:
        """The whole state, from which `restore` makes it anew on any node.

        Called on the event loop between two commands. Return bytes, their parts in order, or the
        Path of a file that was written for this, which the node reads in pieces; the machine may
        use the path again for the next state. An iterator that is returned is read to its end at
        once, while commands wait, and its parts are held.

        Or return a function that returns any of these. It is called in a thread while commands go
        on, so it may touch only what `snapshot` copied for it, never the machine's own attributes
        that commands change: the node cannot see that it does, and a state that holds half of a
        command would be restored. Of an iterator that it returns, as a generator function does,
        each part is written before the next is asked for, so only one is in memory; its `close` is
        called in any case. Without an override the log keeps every entry.
        """
        raise NotImplementedError

    def restore(self, state: bytes) -> Callable[[], None] | None:
        """Replace the state by one that `snapshot` wrote, on this node or another.

        Called in a thread, so that the event loop serves others meanwhile. The node calls nothing
        else of the machine until it returns, and no `read`; but a program that looks at the machine
        by itself sees half a state. Where that matters, build the state aside and return a function
        that puts it in place: the node calls it on the event loop, where `apply` is called, too.
        """
        raise NotImplementedError

    def restore_from(self, state: BinaryIO) -> Callable[[], None] | None:
        """As `restore`, from a file that is read forward only, from where it stands.

        Override it for a large state, so that only one piece at a time is in memory. Without an
        override it calls `restore` with the whole state.
        """
        return self.restore(state.read())

    def checksum(self) -> int:
        """A number of 32 bits by the state: the same on every node for the same state.

        Override it, and nodes compare their states, too, once in `compare_every` entries: a node
        whose state differs from a majority's stops, even if its results are still equal. It runs on
        the event loop of every node, so it should take a few ms. All nodes must have it or none.
        """
        raise NotImplementedError

    def keep(self, progress: bytes) -> None:
        """Make the state durable together with `progress`, both or neither, as a transaction does.

        Override it, and `kept`, for a machine with its state in files of its own: a restart then
        applies only the entries after the last call, and needs no snapshot. Between two calls
        `apply` and `restore` make no change durable. Called on the event loop before each
        `snapshot`, every `state_seconds` and when the node is closed, and after `restore`: in its
        thread, or on the loop behind the function that it returned.
        """
        raise NotImplementedError

    def kept(self) -> bytes | None:
        """The last `progress` in the machine's files, None if they are new; called at a start."""
        return None

    def encode(self, command: C) -> bytes:
        """A command as the log's bytes. Raises TypeError or ValueError where it cannot be.

        As JSON it has at most `NESTED_MAX` lists and objects in each other.
        """
        return _flat(json_bytes(command))

    def decode(self, data: bytes) -> C:
        """The command that `encode` wrote, by its bytes alone: many are decoded before the first of
        them is applied.
        """
        return cast(C, _of_json(data))

    def encode_result(self, result: R) -> bytes:
        """A result as bytes: the same on every node for the same result."""
        return json_bytes(result)

    def decode_result(self, data: bytes) -> R:
        """The result that `encode_result` wrote; called only after a node was sent a state."""
        return cast(R, _of_json(data))


def captured(state: State | Callable[[], State]) -> State | Callable[[], State]:
    """The result of `snapshot` as it is now: a generator is run to its end, a list copied.

    A function is left alone: `snapshot` promises that it sees no later changes.
    """
    if callable(state) or isinstance(state, _READY):
        return state
    with closed_behind(state):
        return tuple(state)


@contextlib.contextmanager
def in_parts(
    state: State | Callable[[], State],
) -> Iterator[Sequence[Buffer] | Iterator[Buffer]]:
    """The result of `snapshot` in parts; if it is a function, calls it, which may take long.

    Parts that are made one by one come as an iterator, which is closed behind the block.
    """
    found = state() if callable(state) else state
    if isinstance(found, Path):
        yield FileParts(found)
    elif isinstance(found, bytes | bytearray | memoryview):
        yield [found]
    elif isinstance(found, Sequence):
        yield cast("Sequence[Buffer]", found)
    else:
        with closed_behind(found):
            yield iter(found)


@contextlib.contextmanager
def closed_behind(found: object) -> Iterator[None]:
    """Call its `close` behind the block, if it has one: a generator's `finally` runs then."""
    try:
        yield
    finally:
        if callable(close := getattr(found, "close", None)):
            close()


def bytes_of(state: State | Callable[[], State]) -> bytes:
    """The result of `snapshot` as bytes; joins a large one, which takes time."""
    with in_parts(state) as parts:
        return b"".join(parts)


def has_checksum(machine: ReplicatedStateMachine[Any, Any]) -> bool:
    """True if the machine's class overrides `checksum`."""
    return type(machine).checksum is not ReplicatedStateMachine.checksum


def has_snapshots(machine: ReplicatedStateMachine[Any, Any]) -> bool:
    """True if the machine's class overrides `snapshot`."""
    return type(machine).snapshot is not ReplicatedStateMachine.snapshot


def called_at_once(method: F, *, may_yield: bool = False) -> F:
    """The method, if a call of it does all of its work. Raises LogUsageError for `async def`.

    And for a generator, unless it may be one. A call of either does nothing of what it says: an
    `apply` would stop every node, a `restore` would leave the machine empty.
    """
    is_generator = inspect.isgeneratorfunction(method) and not may_yield
    if is_generator or inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
        raise LogUsageError(
            f"{method.__qualname__} is {'a generator' if is_generator else '`async def`'}, and "
            "nodes call it as a plain function; write `def`, and nothing in it that waits"
        )
    return method


def check_methods(machine: ReplicatedStateMachine[Any, Any]) -> None:
    """Raises LogUsageError for methods of its class that are no plain ones."""
    for name in "apply", "restore", "restore_from", "keep", "kept", "checksum":
        called_at_once(getattr(type(machine), name))
    for name in "apply_batch", "snapshot":
        called_at_once(getattr(type(machine), name), may_yield=True)


def say(error: BaseException) -> str:
    """An error of the user's code, for a sentence."""
    return f"{type(error).__name__}: {error}"
