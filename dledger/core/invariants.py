"""Invariants: of one node, between two moments of a node, and of a cluster.

Each check returns sentences about broken invariants; an empty list means all is well. The simulator
asks after every event, tests after every step, and operators through collected status.

    one node      pointers: flushed ≤ last, commit ≤ last, matched < next, flushed ≤ matched
    two moments   term and commit never fall; one vote a term; a leader only appends;
                  nothing at or below commit is ever dropped
    a cluster     one leader a term; committed entries never change; a leader has them all
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from dledger.core.log_view import LogView
from dledger.core.node import RaftNode
from dledger.core.status import NodeStatus
from dledger.core.types import EntryId, Index, NodeId, Role, Term

#: Looked up on the class a member of an enum costs ten times as much, and every event asks.
_LEADER, _CANDIDATE = Role.LEADER, Role.CANDIDATE


def broken_in_state(status: NodeStatus) -> list[str]:
    """Relations within one node."""
    me, role, term, voted_for, leader, (last_term, last), flushed, commit, *_ = status
    wrong = []
    if flushed > last:
        wrong.append(f"{me}: flushed {flushed} is above the last entry {last}")
    if commit > last:
        wrong.append(f"{me}: commit {commit} is above the last entry {last}")
    if last_term > term:
        wrong.append(f"{me}: the last entry's term {last_term} is above {term}")
    if role is _LEADER:
        if leader != me:
            wrong.append(f"{me}: leads term {term} but names {leader} as leader")
        if voted_for != me:
            wrong.append(f"{me}: leads term {term} but voted for {voted_for}")
    elif role is _CANDIDATE and voted_for != me:
        wrong.append(f"{me}: stands in term {term} but voted for {voted_for}")
    for peer in status.peers:
        if not peer.flushed <= peer.matched < peer.next <= last + 1:
            wrong.append(
                f"{me}: of {peer.node_id}, flushed {peer.flushed} ≤ matched {peer.matched} < "
                f"next {peer.next} ≤ last {last} + 1 does not hold"
            )
    return wrong


def broken_between(before: NodeStatus, after: NodeStatus) -> list[str]:
    """Relations between two moments of one life of a node (no restart in between)."""
    _, role_then, term_then, vote_then, _, last_then, _, commit_then, *_ = before
    me, role, term, vote, _, (_, last), _, commit, *_ = after
    wrong = []
    if term < term_then:
        wrong.append(f"{me}: term fell from {term_then} to {term}")
    if commit < commit_then:
        wrong.append(f"{me}: commit fell from {commit_then} to {commit}")
    if term == term_then:
        if vote_then is not None and vote_then != vote:
            wrong.append(f"{me}: two votes in term {term}: {vote_then}, {vote}")
        if role_then is role is _LEADER and last < last_then.index:
            wrong.append(f"{me}: a leader dropped entries above {last}")
    if last < commit_then:
        wrong.append(f"{me}: the log ends at {last} below commit {commit_then}")
    return wrong


class ClusterChecker:
    """Whole-cluster checks over a run, restarts included. Feed it every node after every event."""

    def __init__(self) -> None:
        self.leaders: dict[Term, NodeId] = {}
        self.committed: list[Term] = []
        self.committed_in: list[Term] = []  # term in which each was first known to be committed

    def observe(self, node: RaftNode) -> list[str]:
        """Check one node against everything seen so far."""
        wrong = []
        if node.role is Role.LEADER:
            wrong += self._one_leader(node)
        wrong += self._prefix_differs(node)
        if node.commit >= len(self.committed):
            self._extend(node)
        return wrong

    def _one_leader(self, node: RaftNode) -> list[str]:
        """Election safety and leader completeness (paper figure 3)."""
        known = self.leaders.get(node.term)
        if known == node.node_id:
            return []
        self.leaders[node.term] = node.node_id
        wrong = []
        if known is not None:
            wrong.append(f"{known} and {node.node_id} both lead term {node.term}")
        # Only what was committed before its term: a node may win late, when a later term is ahead.
        before = bisect_left(self.committed_in, node.term)
        wrong += self.differs(node.log, node.node_id, "leads without", before)
        return wrong

    def _extend(self, node: RaftNode) -> None:
        for index in range(len(self.committed), node.commit + 1):
            term = node.log.term_at(index)
            assert term is not None
            self.committed.append(term)
            newest = self.committed_in[-1] if self.committed_in else node.term
            self.committed_in.append(max(newest, node.term))

    def differs(
        self, log: LogView, name: str, verb: str = "lacks", count: int | None = None
    ) -> list[str]:
        """State machine safety: the committed entries (the first `count`) are in `log`."""
        end = len(self.committed) if count is None else count
        index = _first_difference(log, self.committed, end)
        if index is None:
            return []
        entry = EntryId(self.committed[index], index)
        return [f"{name} {verb} committed entry {entry}: has term {log.term_at(index)}"]

    def _prefix_differs(self, node: RaftNode) -> list[str]:
        """Check that the node's committed entries are those that the cluster committed."""
        end = min(node.commit + 1, len(self.committed))
        index = _first_difference(node.log, self.committed, end)
        return [] if index is None else [f"{node.node_id} committed another entry at {index}"]


def _first_difference(log: LogView, terms: Sequence[Term], end: int) -> Index | None:
    """The first index below `end` where `log` has another term than `terms`, or none.

    Terms never fall, in the log as in what was committed: where the ends of a run of one are of its
    term in the other, all between them is. So it takes as long as there are runs, not entries.
    """
    index = log.first
    for term, last in log.runs:
        stop = Index(min(last + 1, end))
        if index >= stop:
            continue
        if terms[index] != term or terms[stop - 1] != term:
            return next(Index(i) for i in range(index, stop) if terms[i] != term)
        index = stop
    return index if index < end else None


def logs_match(logs: Iterable[tuple[str, LogView]]) -> list[str]:
    """Log matching by term runs: same (term, index) at some place, same terms below it."""
    named = list(logs)
    wrong = []
    for place, (left, a) in enumerate(named):
        for right, b in named[place + 1 :]:
            last = min(a.last.index, b.last.index)
            while last >= 0 and a.term_at(last) != b.term_at(last):
                last = Index(last - 1)
            for index in range(last, max(a.first, b.first) - 1, -1):
                if a.term_at(index) != b.term_at(index):
                    wrong.append(f"{left} and {right} agree at {last} but not at {index}")
                    break
    return wrong
