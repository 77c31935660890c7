"""Commands that wait for results, and late ones: those callers got ProposalTimedOut. Pure.

    sent, no result in time ─► ProposalTimedOut ─► again ─┬─► the result, when it is here by now
                                 (LateCommand)            └─► sent again under its own number

A late command keeps its number: the session's `lowest` stays below it, so every node still knows
whether it was applied, and sending it again applies it once in all. At most `late_max` commands of
`late_bytes_max` bytes are kept, and none whose number is far behind the newest, because a session
remembers a window of numbers only. Once its result has come, a late command's bytes are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dledger.errors import DledgerError
from dledger.machine.applier import Found

Done = Callable[[object, DledgerError | None], None]

LATE_BYTES_MAX = 64 << 20
"""Bytes of all late commands: 1,000 of a few KiB, or 16 of 4 MiB."""


@dataclass(slots=True)
class Outstanding:
    """A command without a result. `maybe`: attempts that a leader may have taken; `refused`: why
    the last attempt was refused.
    """

    kind: int
    data: bytes
    done: Done
    ends_at: float
    given_up: Callable[[], bool]
    sent_at: float = -1.0
    maybe: int = 0
    refused: DledgerError | None = None


@dataclass(slots=True, eq=False)
class LateCommand:
    """A command that its caller waits for no more; `found`: its result, if it came after all."""

    sequence: int
    one: Outstanding
    found: Found | None = None

    @property
    def size(self) -> int:
        """Bytes that are kept for sending it again."""
        return len(self.one.data) if self.found is None else 0


@dataclass(slots=True)
class LateCommands:
    """The late commands of one node, by number.

    At most `late_max` (0: none) with `bytes_max` bytes are kept; the newest one in any case.
    """

    late_max: int
    bytes_max: int = LATE_BYTES_MAX
    _kept: dict[int, LateCommand] = field(default_factory=dict)
    _size: int = 0

    def keep(self, sequence: int, one: Outstanding) -> LateCommand:
        """Keep a command that may have been applied; drops the oldest late ones if need be."""
        late = LateCommand(sequence, one)
        while self._kept and (
            len(self._kept) >= self.late_max or self._size + late.size > self.bytes_max
        ):
            self._remove(next(iter(self._kept)))
        self._kept[sequence] = late
        self._size += late.size
        return late

    def take(self, late: object) -> LateCommand | None:
        """Remove and return a late command that is to be sent again; None if it is not here."""
        if not isinstance(late, LateCommand) or self._kept.get(late.sequence) is not late:
            return None
        return self._remove(late.sequence)

    def told(self, sequence: int, found: Found) -> None:
        """Keep a result if its command is a late one."""
        late = self._kept.get(sequence)
        if late is not None:
            self._size -= late.size
            late.found = found
            late.one.data = b""

    def lowest(self, otherwise: int) -> int:
        """The smallest number without a result, or `otherwise` when that is smaller."""
        return min([otherwise, *(late.sequence for late in self.waiting())])

    def forget_below(self, sequence: int) -> None:
        """Drop commands with numbers below `sequence`: the session has forgotten those."""
        for old in [old for old in self._kept if old < sequence]:
            self._remove(old)

    def waiting(self) -> list[LateCommand]:
        """The late commands without a result."""
        return [late for late in self._kept.values() if late.found is None]

    def drop(self, late: LateCommand) -> None:
        """Forget a late command: this node will never know whether it was applied."""
        self._remove(late.sequence)

    def _remove(self, sequence: int) -> LateCommand:
        late = self._kept.pop(sequence)
        self._size -= late.size
        return late
