"""Which hosts are heard, and hear this one: the silence of a host stands for that of its groups.

    every interval    beat to each other host ──► "I hear you", or not
    every interval    look: who has beaten within `limit`, and says that it hears us?

Both ways, because a leader that hears nobody steps down, while its followers hear its host still.
A host that slept itself, or was too busy to read, has heard nobody: nobody is lost for that. One
that is late with every look misses who is gone after as many looks as one that is in time.

Pure: the shell sends, and tells the groups when `look` has found something else (core/quiet.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from dledger.core.types import NodeId

#: A look that comes so many times later than the one before than it should: this host slept.
_LATE = 2.5
#: Elections of many groups that a host can take part in, one after another; seconds for each.
SPREAD_SECONDS_PER_GROUP = 0.001


class Beats:
    """The other hosts of one host; times in the caller's seconds."""

    def __init__(self, peers: Iterable[NodeId], interval: float, limit: float, now: float) -> None:
        self.interval, self._limit = interval, limit
        self._heard_at = dict.fromkeys(peers, float("-inf"))
        self._hears_us: set[NodeId] = set()
        self._looked_at = now
        #: As of the last look, or loss.
        self.watched: frozenset[NodeId] = frozenset()

    def heard(self, peer: NodeId, now: float, *, hears_us: bool) -> None:
        """A beat of `peer` has come."""
        if peer in self._heard_at:
            self._heard_at[peer] = now
            (self._hears_us.add if hears_us else self._hears_us.discard)(peer)

    def hears(self, peer: NodeId, now: float) -> bool:
        """Will the next beat to `peer` say that it is heard?"""
        return now - self._heard_at[peer] < self._limit

    def lost(self, peer: NodeId) -> bool:
        """Note that the connection of `peer` ended; True if it was watched until now."""
        if peer in self._heard_at:
            self._heard_at[peer] = float("-inf")
        was, self.watched = self.watched, self.watched - {peer}
        return was != self.watched

    def look(self, now: float) -> bool:
        """Has anything changed since the last look?"""
        late = now - self._looked_at
        if late < 0 or late > _LATE * self.interval:
            for peer in self.watched:  # the time that it slept is not counted, what it was awake is
                heard_at = self._heard_at[peer] + late - self.interval
                self._heard_at[peer] = min(now, heard_at)
        self._looked_at = now
        before = self.watched
        self.watched = frozenset(peer for peer in self._hears_us if self.hears(peer, now))
        return before != self.watched
