"""Admitted commands that a machine is to apply together, each with its number. Pure.

    place in the log   5    6 6 6 6    7    8      9 …      four commands share an entry
    number             5    6 7 8 9   10   11     12 …

A command's number (`Entry.index`) is its entry's place in the log, or one more than that of the
command before, where several of an entry have taken the numbers up to there. So numbers grow, every
node gives the same ones, and those of a log without such entries are its places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from dledger.errors import StateMachineFailed
from dledger.machine.state_machine import Entry, say

C = TypeVar("C")


class Taken(NamedTuple, Generic[C]):
    """The commands that a batch held.

    Attributes:
        entries: the commands, in order.
        places: of their entries in the log: they follow each other, or all are one.
        runs: (session, sequences) of them, in their order.
    """

    entries: list[Entry[C]]
    places: list[int]
    runs: list[tuple[int, list[int]]]


class Batch(Generic[C]):
    """The batch of one node.

    Attributes:
        number: of the last command; smaller than the next entry's place, it is of no account.
    """

    def __init__(self, decode: Callable[[bytes], C]) -> None:
        self._decode = decode
        self._held: Taken[C] = Taken([], [], [])
        self.number = -1

    def first_number(self, place: int) -> int:
        """The number of the command that comes next, if its entry has this place."""
        return max(self.number + 1, place)

    def add(
        self,
        session: int,
        sequences: Sequence[int],
        rows: Sequence[tuple[int, int, bytes]],
        time_ms: int,
    ) -> None:
        """Add commands of one session: (place, term, bytes) of each.

        Places follow each other, or all are the same. Raises StateMachineFailed.
        """
        decode, (entries, places, runs) = self._decode, self._held
        before, number = len(entries), self.first_number(rows[0][0])
        try:
            for _, term, data in rows:
                entries.append(Entry(number, term, time_ms, decode(data)))
                number += 1
        except Exception as error:  # by the user's code
            place = rows[len(entries) - before][0]
            raise StateMachineFailed(place, f"decode raised {say(error)}") from error
        self.number = number - 1
        places += [place for place, _, _ in rows]
        if runs and runs[-1][0] == session:
            runs[-1][1].extend(sequences)
        else:
            runs.append((session, list(sequences)))

    def take(self) -> Taken[C]:
        """All that was added; the batch is empty again."""
        held, self._held = self._held, Taken([], [], [])
        return held
