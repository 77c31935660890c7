"""Commands that wait for their results, and late ones: their callers were told so. Pure.

    sent, no result in time ─► ProposalTimedOut ─► again ─┬─► the result, when it is here by now
                                 (LateCommand)            └─► sent again under its own number

A late command keeps its number: the session's `lowest` stays below it, so every node still knows
whether it was applied, and asking again applies it once in all. Few are kept: `late_max` commands
of `late_bytes_max` bytes, and none whose number is far behind the newest, because a session holds a
window of numbers only. One whose result has come keeps that, and its own bytes no more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dledger.errors import DledgerError
from dledger.machine.applier import Found

Done = Callable[[object, DledgerError | None], None]

LATE_BYTES_MAX = 64 << 20
"""Of the commands that are late: 1,000 of a few KiB, or 16 of 4 MiB."""


@dataclass(slots=True)
class Outstanding:
    """One command. `maybe`: attempts that may have been taken; `refused`: why the last was not."""

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
    """A command that was late; `found`: its result, when it came after all."""

    sequence: int
    one: Outstanding
    found: Found | None = None

    @property
    def size(self) -> int:
        """Bytes that are kept for sending it again."""
        return len(self.one.data) if self.found is None else 0


@dataclass(slots=True)
class LateCommands:
    """Of one node, by number. `late_max`: so many are kept, 0 for none; `bytes_max`: of their data.

    The newest is kept whatever its size.
    """

    late_max: int
    bytes_max: int = LATE_BYTES_MAX
    _kept: dict[int, LateCommand] = field(default_factory=dict)
    _size: int = 0

    def keep(self, sequence: int, one: Outstanding) -> LateCommand:
        """Keep one that may have been applied; those that are late for longest make way."""
        late = LateCommand(sequence, one)
        while self._kept and (
            len(self._kept) >= self.late_max or self._size + late.size > self.bytes_max
        ):
            self._remove(next(iter(self._kept)))
        self._kept[sequence] = late
        self._size += late.size
        return late

    def take(self, late: object) -> LateCommand | None:
        """It is asked for again; None: it is not kept any more, or was asked for before."""
        if not isinstance(late, LateCommand) or self._kept.get(late.sequence) is not late:
            return None
        return self._remove(late.sequence)

    def told(self, sequence: int, found: Found) -> None:
        """A result; of a command that is late, or of none here."""
        late = self._kept.get(sequence)
        if late is not None:
            self._size -= late.size
            late.found = found
            late.one.data = b""

    def lowest(self, otherwise: int) -> int:
        """The smallest number without a result, or `otherwise` when that is smaller."""
        return min([otherwise, *(late.sequence for late in self.waiting())])

    def forget_below(self, sequence: int) -> None:
        """Numbers below are too old for the session's window."""
        for old in [old for old in self._kept if old < sequence]:
            self._remove(old)

    def waiting(self) -> list[LateCommand]:
        """Those without a result."""
        return [late for late in self._kept.values() if late.found is None]

    def drop(self, late: LateCommand) -> None:
        """Whether it was applied will never be known here."""
        self._remove(late.sequence)

    def _remove(self, sequence: int) -> LateCommand:
        late = self._kept.pop(sequence)
        self._size -= late.size
        return late
