"""What must always hold, in one place: of one node, between two moments of a node, of a cluster.

Each check returns sentences about what is broken; an empty list means all is well. The simulator
asks after every event, tests after every step, and operators through collected status.

    one node      pointers: flushed ≤ last, commit ≤ last, matched < next, flushed ≤ matched
    two moments   term and commit never fall; one vote a term; a leader only appends;
                  nothing at or below commit is ever dropped
    a cluster     one leader a term; committed entries never change; a leader has them all
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from dledger.core.log_view import LogView
from dledger.core.node import RaftNode
from dledger.core.status import NodeStatus
from dledger.core.types import EntryId, Index, NodeId, Role, Term


def broken_in_state(status: NodeStatus) -> list[str]:
    """Relations within one node."""
    me, wrong = status.node_id, []
    if status.flushed > status.last.index:
        wrong.append(f"{me}: flushed {status.flushed} is above the last entry {status.last.index}")
    if status.commit > status.last.index:
        wrong.append(f"{me}: commit {status.commit} is above the last entry {status.last.index}")
    if status.last.term > status.term:
        wrong.append(f"{me}: the last entry's term {status.last.term} is above {status.term}")
    if status.role is Role.LEADER and status.leader != me:
        wrong.append(f"{me}: leads term {status.term} but names {status.leader} as leader")
    if status.role is Role.CANDIDATE and status.voted_for != me:
        wrong.append(f"{me}: stands in term {status.term} but voted for {status.voted_for}")
    if status.role is Role.LEADER and status.voted_for != me:
        wrong.append(f"{me}: leads term {status.term} but voted for {status.voted_for}")
    for peer in status.peers:
        if not peer.flushed <= peer.matched < peer.next <= status.last.index + 1:
            wrong.append(
                f"{me}: of {peer.node_id}, flushed {peer.flushed} ≤ matched {peer.matched} < "
                f"next {peer.next} ≤ last {status.last.index} + 1 does not hold"
            )
    return wrong


def broken_between(before: NodeStatus, after: NodeStatus) -> list[str]:
    """Relations between two moments of one life of a node (no restart in between)."""
    me, wrong = after.node_id, []
    if after.term < before.term:
        wrong.append(f"{me}: term fell from {before.term} to {after.term}")
    if after.commit < before.commit:
        wrong.append(f"{me}: commit fell from {before.commit} to {after.commit}")
    if after.term == before.term:
        if before.voted_for not in (None, after.voted_for):
            wrong.append(
                f"{me}: two votes in term {after.term}: {before.voted_for}, {after.voted_for}"
            )
        if before.role is after.role is Role.LEADER and after.last.index < before.last.index:
            wrong.append(f"{me}: a leader dropped entries above {after.last.index}")
    if after.last.index < before.commit:
        wrong.append(f"{me}: the log ends at {after.last.index} below commit {before.commit}")
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
        if node.commit >= len(self.committed):
            self._extend(node)
        return wrong

    def committed_through(self) -> Index:
        """Highest index that any node ever knew to be committed."""
        return Index(len(self.committed) - 1)

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
        for index, term in enumerate(self.committed[:count]):
            if log.term_at(index) != term:
                entry = EntryId(term, Index(index))
                return [f"{name} {verb} committed entry {entry}: has term {log.term_at(index)}"]
        return []

    def prefix_differs(self, node: RaftNode) -> list[str]:
        """What a node believes committed is what the cluster committed."""
        for index in range(min(node.commit + 1, len(self.committed))):
            if node.log.term_at(index) != self.committed[index]:
                return [f"{node.node_id} committed another entry at {index}"]
        return []


def logs_match(logs: Iterable[tuple[str, LogView]]) -> list[str]:
    """Log matching by term runs: same (term, index) at some place, same terms below it."""
    named = list(logs)
    wrong = []
    for place, (left, a) in enumerate(named):
        for right, b in named[place + 1 :]:
            last = min(a.last.index, b.last.index)
            while last >= 0 and a.term_at(last) != b.term_at(last):
                last = Index(last - 1)
            for index in range(last, -1, -1):
                if a.term_at(index) != b.term_at(index):
                    wrong.append(f"{left} and {right} agree at {last} but not at {index}")
                    break
    return wrong
