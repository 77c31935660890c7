"""The leaders that a node has seen, the newest last: a bounded list. Pure.

role changes of the replica ─► told ─► a row for each term that has a leader

A node tells why a lead moved only of the elections that it won itself, since it alone knows why it
stood: a follower that did not hear from its leader asks first whether it would be elected
(pre-candidate), and one that the leader has appointed stands at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dledger.core.types import NodeId, Role, Term

KEPT: Final = 200
"""Rows; older ones are forgotten."""
NOT_HEARD: Final = "not-heard"
HANDED_OVER: Final = "handed-over"
NOT_TOLD: Final = ""
REASONS: Final = (NOT_TOLD, NOT_HEARD, HANDED_OVER)


@dataclass(frozen=True, slots=True)
class LeadSeen:
    """One leader of one term.

    Attributes:
        at_ms: when this node learned of it, in ms since 1970 by its own clock.
        why: NOT_HEARD: it had not heard from the leader before; HANDED_OVER: that one appointed
            it; NOT_TOLD: another node was elected, or no leader before it is known.
    """

    at_ms: int
    term: int
    leader: str
    why: str


class LeadHistory:
    """One per replica.

    Attributes:
        since_ms: what was before this moment is not in it; moves on as old rows are forgotten.
        changes: so often a row came or went since this object was made.
    """

    def __init__(self, since_ms: int, rows: Iterable[LeadSeen] = ()) -> None:
        """`rows`: those that are known already, terms rising."""
        self.since_ms, self.changes = since_ms, 0
        self._rows: deque[LeadSeen] = deque(rows, maxlen=KEPT)
        self._stands_because = NOT_TOLD

    @property
    def rows(self) -> list[LeadSeen]:
        """The oldest first."""
        return list(self._rows)

    def told(self, role: Role, term: Term, leader: NodeId | None, at_ms: int) -> None:
        """The replica's role, term and leader now; a row that is there already stays."""
        if role is Role.PRE_CANDIDATE:
            self._stands_because = NOT_HEARD
        elif role is Role.CANDIDATE:
            self._stands_because = self._stands_because or HANDED_OVER
        else:
            self._known(role, term, leader, at_ms)
            self._stands_because = NOT_TOLD

    def _known(self, role: Role, term: Term, leader: NodeId | None, at_ms: int) -> None:
        if leader is None:
            return
        while self._rows and self._rows[-1].term > term:
            self._rows.pop()  # of another history: a node's term never falls
            self.changes += 1
        last = self._rows[-1] if self._rows else None
        if last is not None and term <= last.term:
            return
        has_won = role is Role.LEADER and last is not None and last.leader != leader
        why = self._stands_because if has_won else NOT_TOLD
        is_full = len(self._rows) == KEPT
        self._rows.append(LeadSeen(at_ms, term, leader, why))
        if is_full:
            self.since_ms = self._rows[0].at_ms
        self.changes += 1
