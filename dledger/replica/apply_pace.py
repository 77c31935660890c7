"""How far committed entries are applied in one turn of the event loop.

    commit 1,000,000, applied 0 ─► 4,096 ─► the loop's other work ─► 4,096 more ─► …
    entries of 1 MiB            ─► 4     ─► the loop's other work ─► 4 more     ─► …

A node that starts has a whole log to apply, while the loop of its host has heartbeats of other
groups to send. In a calm life a turn commits less than that. A slow machine takes fewer
of a turn's entries: its `apply` returns the last one (ports.py). Then the next turns look at twice
as many as it took, as each look reads and verifies them.
"""

from __future__ import annotations

from bisect import bisect_right

from commitlog.errors import StoreDamaged
from dledger.core.types import NO_INDEX, Index
from dledger.log.port import LogStore
from dledger.repair.repair import Repair

#: Entries of one turn. More: the loop stands still for longer; less: more turns.
AT_ONCE = 4096
#: Bytes of one turn's entries, but for one entry that has more. As above: they are read from the
#: disk, verified and decoded, at some 100 MB/s.
BYTES_AT_ONCE = 4 << 20


class ApplyPace:
    """`is_behind`: entries that might be applied now are left; the shell asks again.

    `restoring`: the last entry of a state that a thread gives the machine, -1 for none; nothing is
    applied until it has it.
    """

    def __init__(self, log: LogStore) -> None:
        self.is_behind, self.restoring = False, NO_INDEX
        self._log, self._count_max = log, AT_ONCE

    def through(self, applied: Index, commit: Index, repair: Repair | None) -> Index:
        """The last entry to apply now: none that is damaged, and not too many.

        Only these are looked at: that reads them, and the rest of a long log would be read in
        every turn.
        """
        if self.restoring >= 0:
            self.is_behind = False  # its end asks again
            return applied
        if self.is_behind:
            return applied  # its turn comes
        last = min(commit, Index(applied + min(AT_ONCE, self._count_max)))
        if last > applied + 1:
            last = self._within_bytes(applied, last)
        whole = last
        if repair is not None and last > applied:
            whole = repair.whole_through(Index(applied + 1), last)
        self.is_behind = whole == last < commit  # damage: its repair goes on with the rest
        return whole

    def taken(self, applied: Index, given: Index, taken: Index | None) -> Index:
        """The last entry that the machine has applied, when it was `given` those up to that one.

        `taken`: what its `apply` has returned.
        """
        taken = given if taken is None else taken
        count = taken - applied
        if taken < given:
            self.is_behind = True
            if count:
                self._count_max = 2 * count
        elif count >= self._count_max:
            self._count_max = min(AT_ONCE, 2 * count)
        return taken

    def _within_bytes(self, applied: Index, last: Index) -> Index:
        log, first = self._log, Index(applied + 1)
        if first < log.first_index:
            return last  # a state is lacking, and nothing is applied before it is here
        try:
            end_max = log.position_of(first) + BYTES_AT_ONCE
            if log.position_of(Index(last + 1)) <= end_max:
                return last
            ends = range(first + 1, last + 2)
            fits = bisect_right(ends, end_max, key=lambda end: log.position_of(Index(end)))
            return Index(applied + max(fits, 1))
        except StoreDamaged:  # of a place, which is repaired; what is before it is applied
            return first
