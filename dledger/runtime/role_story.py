"""Log lines about a node's roles: its leader, since which term, and why it asks for votes.

n0: n1 leads in term 3
n0: has not heard from n1, which leads term 3; asks whether a vote for itself would be won
n0: asks for votes in term 4
n0: leads in term 4
n0: led in term 4 and does not any more; nobody is known to lead term 5 yet
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from dledger.core.types import NodeId, Role, Term

_log = logging.getLogger(__name__)
_NO_TERM = Term(0)


@dataclass(slots=True)
class RoleStory:
    """Writes the log lines of one node. Call `told` with each change."""

    me: NodeId
    role: Role = Role.FOLLOWER
    term: Term = _NO_TERM
    leader: NodeId | None = None

    def told(self, role: Role, term: Term, leader: NodeId | None) -> None:
        """Log one line on a change of the role, the term or the leader."""
        said = self._said(role, term, leader)
        self.role, self.term, self.leader = role, term, leader
        if said:
            _log.info("%s: %s", self.me, said)

    def _said(self, role: Role, term: Term, leader: NodeId | None) -> str:
        if role is Role.LEADER:
            return f"leads in term {term}"
        if role is Role.CANDIDATE:
            return f"asks for votes in term {term}"
        if role is Role.PRE_CANDIDATE:
            missed = f"has not heard from {self.leader}, which leads term {self.term}"
            begun = missed if self.leader else f"has heard of no leader in term {term}"
            return f"{begun}; asks whether a vote for itself would be won"
        if role is Role.FAILED:
            return f"takes no part any more, from term {term} on; the lines before say why"
        led = f"led in term {self.term} and does not any more; "
        before = led if self.role is Role.LEADER else ""
        if leader is not None:
            return f"{before}{leader} leads in term {term}"
        return f"{before}nobody is known to lead term {term} yet" if before else ""
