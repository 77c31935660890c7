"""Commands that wait for their results, and late ones: their callers were told so. Pure.

    sent, no result in time ─► ProposalTimedOut ─► again ─┬─► the result, when it is here by now
                                 (LateCommand)            └─► sent again under its own number

A late command keeps its number: the session's `lowest` stays below it, so every node still knows
whether it was applied, and asking again applies it once in all. Few are kept: `late_max`, and none
whose number is far behind the newest, because a session holds a window of numbers only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dledger.errors import DledgerError
from dledger.machine.applier import Found

Done = Callable[[object, DledgerError | None], None]


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


@dataclass(slots=True)
class LateCommands:
    """Of one node, by number. `late_max`: so many are kept; 0 for none."""

    late_max: int
    _kept: dict[int, LateCommand] = field(default_factory=dict)

    def keep(self, sequence: int, one: Outstanding) -> LateCommand:
        """Keep one that may have been applied; the one that has been late for longest makes way."""
        if len(self._kept) >= self.late_max:
            del self._kept[next(iter(self._kept))]
        late = self._kept[sequence] = LateCommand(sequence, one)
        return late

    def take(self, late: object) -> LateCommand | None:
        """It is asked for again; None: it is not kept any more, or was asked for before."""
        if not isinstance(late, LateCommand) or self._kept.get(late.sequence) is not late:
            return None
        return self._kept.pop(late.sequence)

    def told(self, sequence: int, found: Found) -> None:
        """A result; of a command that is late, or of none here."""
        if sequence in self._kept:
            self._kept[sequence].found = found

    def lowest(self, otherwise: int) -> int:
        """The smallest number without a result, or `otherwise` when that is smaller."""
        return min([otherwise, *(late.sequence for late in self.waiting())])

    def forget_below(self, sequence: int) -> None:
        """Numbers below are too old for the session's window."""
        for old in [old for old in self._kept if old < sequence]:
            del self._kept[old]

    def waiting(self) -> list[LateCommand]:
        """Those without a result."""
        return [late for late in self._kept.values() if late.found is None]

    def drop(self, late: LateCommand) -> None:
        """Whether it was applied will never be known here."""
        del self._kept[late.sequence]
