"""How far committed entries are applied in one turn of the event loop.

    commit 1,000,000, applied 0 ─► 4,096 ─► the loop's other work ─► 4,096 more ─► …

A node that starts has a whole log to apply, while the loop of its host has heartbeats of other
groups to send. In a calm life a turn commits fewer entries than that.
"""

from __future__ import annotations

from dledger.core.types import Index
from dledger.repair.repair import Repair

#: Entries of one turn. More: the loop stands still for longer; less: more turns.
AT_ONCE = 4096


class ApplyPace:
    """`is_behind`: entries that might be applied now are left for the next turn."""

    def __init__(self) -> None:
        self.is_behind = False

    def through(self, applied: Index, commit: Index, repair: Repair | None) -> Index:
        """The last entry to apply now: none that is damaged, and not too many.

        Only these are looked at: that reads them, and the rest of a long log would be read in
        every turn.
        """
        last = min(commit, Index(applied + AT_ONCE))
        whole = last
        if repair is not None and last > applied:
            whole = repair.whole_through(Index(applied + 1), last)
        self.is_behind = whole == last < commit  # damage: its repair goes on with the rest
        return whole
