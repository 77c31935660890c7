"""The user's machine in a run: notes its commands and results, and refuses a wrong use of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, NamedTuple

from dledger.errors import CommandRefused
from dledger.machine.state_machine import (
    Entry,
    ReplicatedStateMachine,
    State,
    has_checksum,
)

#: Told of the seconds that a command has taken.
Took = Callable[[float], None]


class Applied(NamedTuple):
    """One command as a node applied it; `result`: as bytes."""

    index: int  # type: ignore[assignment]  # hides tuple.index
    time_ms: int
    data: bytes
    result: bytes


class NotedMachine(ReplicatedStateMachine[bytes, bytes]):
    """One process's machine.

    Attributes:
        plain: the user's.
        applied: its commands since the process, or the newest state of a leader, has begun.
        is_threads: a thread gives it a state, so it must not be used.
    """

    def __init__(self, plain: ReplicatedStateMachine[Any, Any], cost: float, took: Took) -> None:
        """`cost`: virtual seconds of one command, told to `took`."""
        self.plain, self.applied = plain, list[Applied]()
        self.compare_every = plain.compare_every  # type: ignore[misc]
        self.result_bytes_max = plain.result_bytes_max  # type: ignore[misc]
        self.results_bytes_max = plain.results_bytes_max  # type: ignore[misc]
        self.is_threads = False
        self._cost, self._took = cost, took

    def _is_used(self, name: str) -> None:
        assert not self.is_threads, f"{name} is called while a thread gives the machine a state"

    def apply(self, entry: Entry[bytes]) -> bytes:
        """As the user's, with a byte in front: was it done, or refused?"""
        self._is_used("apply")
        result = apply_bytes(self.plain, entry.index, entry.time_ms, entry.command)
        self._note(entry, result)
        return result

    def _note(self, entry: Entry[bytes], result: bytes) -> None:
        self._took(self._cost)
        self.applied.append(Applied(entry.index, entry.time_ms, entry.command, result))

    def snapshot(self) -> State | Callable[[], State]:
        """As the user's."""
        self._is_used("snapshot")
        return self.plain.snapshot()

    def restore(self, state: bytes) -> Callable[[], None] | None:
        """Give the user's machine this state."""
        return self.plain.restore(state)

    def restore_from(self, state: BinaryIO) -> Callable[[], None] | None:
        """Give the user's machine this state."""
        return self.plain.restore_from(state)

    def look(self, look: Callable[[Any], Any]) -> Any:
        """The finding of a client in the user's machine."""
        self._is_used("read")
        return look(self.plain)

    def checksum(self) -> int:
        """As the user's; 0 for one that has none, on every node alike."""
        self._is_used("checksum")
        return self.plain.checksum() if has_checksum(self.plain) else 0

    def encode(self, command: bytes) -> bytes:
        """The command itself: commands are bytes."""
        return command

    def decode(self, data: bytes) -> bytes:
        """As `encode`."""
        return data

    def encode_result(self, result: bytes) -> bytes:
        """As `encode`."""
        return result

    def decode_result(self, data: bytes) -> bytes:
        """As `encode`."""
        return data


class NotedBatches(NotedMachine):
    """The machine of a process, where the user's has an `apply_batch` of its own."""

    def apply_batch(self, entries: Sequence[Entry[bytes]]) -> list[bytes | CommandRefused]:
        """As the user's."""
        plain = self.plain
        decoded = [
            Entry(one.index, 1, one.time_ms, plain.decode(one.command[4:])) for one in entries
        ]
        self._is_used("apply_batch")
        found = list(plain.apply_batch(decoded))
        assert len(found) == len(entries), f"{len(found)} results for {len(entries)} commands"
        results = list[bytes | CommandRefused]()
        for entry, result in zip(entries, found, strict=True):
            is_refused = isinstance(result, CommandRefused)
            data = _refused(result) if is_refused else b"D" + plain.encode_result(result)
            self._note(entry, data)
            results.append(data)
        return results


def noted(plain: ReplicatedStateMachine[Any, Any], cost: float, took: Took) -> NotedMachine:
    """A new process's machine; arguments as those of `NotedMachine`."""
    has_batches = type(plain).apply_batch is not ReplicatedStateMachine.apply_batch
    return (NotedBatches if has_batches else NotedMachine)(plain, cost, took)


def apply_bytes(
    plain: ReplicatedStateMachine[Any, Any], index: int, time_ms: int, data: bytes
) -> bytes:
    """The answer of a machine to a command; its first 4 bytes only make it one of a kind."""
    try:
        result = plain.apply(Entry(index, 1, time_ms, plain.decode(data[4:])))
    except CommandRefused as refused:
        return _refused(refused)
    return b"D" + plain.encode_result(result)


def _refused(refused: Any) -> bytes:
    return b"R" + str(refused.happened).encode()
