"""The all-seeing observer: every invariant after every event, on all nodes and all disks.

`dledger.core.invariants` gives the rules of one node and of a cluster by term. Added here, because
only the simulator can see it:

    log matching       (index, term) has one chain checksum for ever, on every node: equal bytes
    state machine      what any node commits at an index is what every node commits there
    completeness       a new leader holds the last entry that anybody ever committed
    durable majority   when an entry is committed, a majority would have it after a power cut
    flushed is true    nothing that a node calls flushed could be lost
    promises           no message reveals a lower term than an earlier one, or a second vote
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from chaos.sim.members import MemberWatch
from chaos.sim.node import SimNode
from chaos.sim.storage import DiskView, durable_hard_states, durable_mark
from chaos.sim.trace import Trace
from commitlog.records.record import MAGIC_BLANK
from dledger.core.invariants import broken_between, broken_in_state
from dledger.core.messages import Message, RangeReply, RangeRequest, VoteReply, VoteRequest
from dledger.core.progress import Progress
from dledger.core.status import NodeStatus
from dledger.core.types import NO_INDEX, EntryId, Index, NodeId, Role


class Violated(BaseException):
    """An invariant is broken. It is a BaseException so that it ends the run through all code under
    way."""

    def __init__(self, name: str, detail: str) -> None:
        self.name, self.detail = name, detail
        super().__init__(f"{name}: {detail}")


class Written(NamedTuple):
    """One entry as it is on some disk. Once committed, it is the same on every node for ever."""

    term: int
    chain_crc: int
    position: int
    size: int


class _Seen:
    """The watch's memory of one node between two events."""

    __slots__ = (
        "applied",
        "commit",
        "entries",
        "first",
        "flushed",
        "judged",
        "last",
        "looks",
        "revealed",
        "status",
    )

    def __init__(self) -> None:
        self.revealed = -1
        self.entries: list[Written] = []
        self.judged = NO_INDEX  # entries up to here are known to be the cluster's
        self.flushed = NO_INDEX
        self.first = 0  # lowest index that is still in its log
        self.new_process()

    def new_process(self) -> None:
        """Forgets the state of the ended process. Promises and bytes stay, because the new process
        is judged by them."""
        self.status: NodeStatus | None = None
        self.looks: tuple[object, ...] = ()
        self.applied = NO_INDEX
        self.last: EntryId | None = None
        self.commit = NO_INDEX


_VOTES = (VoteReply, VoteRequest)
_LEADER = Role.LEADER
_new = tuple.__new__  # a named tuple in half the time of calling its class
#: Of repair: they promise nothing.
_WITHOUT_TERM = (RangeRequest, RangeReply)


def _in_order(followers: Mapping[NodeId, Progress], last: int) -> bool:
    """The relation of `broken_in_state` for followers, without a picture; False asks for one."""
    for follower in followers.values():
        if not follower.flushed <= follower.matched < follower.next <= last + 1:
            return False
    return True


class Watch:
    """`chaos.sim.node.Observer`."""

    def __init__(self, nodes: int, trace: Trace) -> None:
        self._trace = trace
        self._majority = nodes // 2 + 1
        self._nodes: list[SimNode] = []
        self.members: MemberWatch | None = None
        self._seen = [_Seen() for _ in range(nodes)]
        self._leaders: dict[int, tuple[int, int]] = {}
        self._votes: dict[tuple[int, int], str] = {}
        self._chain: dict[tuple[int, int], int] = {}
        self.committed: list[Written] = []
        self._commit_terms: list[int] = []  # in which term each was committed; never falls
        self.checks = 0

    def attach(self, nodes: list[SimNode]) -> None:
        """Sets the nodes to watch, before the first of them starts."""
        self._nodes = nodes

    def replaced(self, node: SimNode) -> None:
        """Forgets a node that has a new disk: it has promised and written no entry yet."""
        self._seen[node.index] = _Seen()
        self._votes = {key: to for key, to in self._votes.items() if key[0] != node.index}

    def violation(self, name: str, detail: str) -> NoReturn:
        """Raises Violated, which ends the run."""
        raise Violated(name, detail)

    # -- Observer ----------------------------------------------------------------------------

    def started(self, node: SimNode) -> None:
        """Forgets values that may go back with a new process, such as the commit index."""
        self._seen[node.index].new_process()

    def sending(self, node: SimNode, to: NodeId, message: Message) -> None:
        """Promises that leave the node (D1): terms never fall, one vote a term."""
        if isinstance(message, _WITHOUT_TERM):
            return
        seen = self._seen[node.index]
        vote = type(message) in _VOTES
        if not vote and message.term == seen.revealed:
            return
        if isinstance(message, VoteReply | VoteRequest):
            if message.pre:
                return
            if isinstance(message, VoteRequest):
                self._voted(node, message.term, node.id)
            elif message.granted:
                self._voted(node, message.request_term, to)
        if vote or message.term > seen.revealed:
            self._check_promise(node, seen, to, message, message.term)
        if message.term < seen.revealed:
            self.violation(
                "term-fell", f"{node.id} sends term {message.term} after {seen.revealed}: {message}"
            )
        seen.revealed = message.term

    def _check_promise(
        self, node: SimNode, seen: _Seen, to: NodeId, message: Message, term: int
    ) -> None:
        """D1, R7, R1: term and vote are in both slots, and the mark is up to date, on disk."""
        for state in durable_hard_states(node.disk):
            if state is None or state.term < term:
                self.violation("term-not-durable", f"{node.id} has {state} on disk: {message}")
            voted = to if isinstance(message, VoteReply) and message.granted else None
            if isinstance(message, VoteRequest):
                voted = node.id
            if voted is None or state.term != term:
                continue
            if state.voted_for != voted:
                self.violation("vote-not-durable", f"{node.id} has {state} on disk: {message}")
            if durable_mark(node.disk) < min(node.flushed_at_vote, seen.flushed):
                self.violation("vote-before-mark", f"{node.id}: flushed {seen.flushed}: {message}")

    def _voted(self, node: SimNode, term: int, candidate: str) -> None:
        first = self._votes.setdefault((node.index, term), candidate)
        if first != candidate:
            self.violation(
                "second-vote", f"{node.id} votes for {first} and {candidate} in term {term}"
            )

    def stepped(self, node: SimNode) -> None:
        """Checks each invariant that the node's changes may break. Raises Violated."""
        replica, storage = node.replica, node.storage
        if replica is None or storage is None:
            return
        self.checks += 1
        core, log, seen = replica.node, storage.log, self._seen[node.index]
        last, flushed = log.last, log.flushed
        term, role, leader, commit = core.standing
        looks = (term, role, leader, commit, last, flushed)
        self._trace.step(node.index, term, last[1], commit)
        # The picture is a function of these, but for a leader's view of its followers.
        if looks != seen.looks or (role is _LEADER and not _in_order(core.progress, last[1])):
            seen.looks = looks
            self._check_status(seen, core.status())
        elif replica.applied == seen.applied:
            return
        seen.applied = replica.applied
        if self.members is not None:
            self.members.look(node, node.scheduler.now)
        if replica.failure is not None:
            return
        if log.first_index != seen.first:
            self._take_beginning(node, seen, log.first_index)
        if last != seen.last:
            self._read_log(node, seen, last)
            if core.log.last != last:
                self.violation("view", f"{node.id}: core {core.log.last}, storage {last}")
        if flushed != seen.flushed:
            self._check_flushed(node, seen, flushed)
        if role is _LEADER:
            self._check_leader(node, seen, term)
        if commit > seen.commit:
            self._check_commit(node, seen, commit, term)
        if replica.applied > commit and replica.applied >= len(self.committed):
            self.violation("pointers", f"{node.id}: applied {replica.applied} > {commit}")

    # -- one node ----------------------------------------------------------------------------

    def _check_status(self, seen: _Seen, status: NodeStatus) -> None:
        wrong = broken_in_state(status)
        if seen.status is not None:
            wrong += broken_between(seen.status, status)
        seen.status = status
        if wrong:
            self.violation("core-invariant", "; ".join(wrong))

    def _take_beginning(self, node: SimNode, seen: _Seen, first: Index) -> None:
        """Takes the entries below `first` from the decided log: the node deleted them or never had
        them."""
        if first > len(self.committed):
            self.violation("deleted-undecided", f"{node.id}: its log begins at {first}")
        seen.entries[:first] = self.committed[:first]
        seen.first, seen.last = first, None
        seen.flushed = max(seen.flushed, Index(first - 1))
        seen.judged = max(seen.judged, Index(first - 1))

    def _read_log(self, node: SimNode, seen: _Seen, last: EntryId) -> None:
        """Reads the changes of the node's log from its bytes."""
        entries, view = seen.entries, node.view
        keep = min(len(entries), last.index + 1)
        while keep > seen.first and view.chain_crc(entries[keep - 1][2]) != entries[keep - 1][1]:
            keep -= 1
        if keep < len(entries):
            if keep <= seen.commit:
                self.violation(
                    "dropped-committed", f"{node.id}: cut to {keep - 1} below {seen.commit}"
                )
            del entries[keep:]
            seen.flushed = min(seen.flushed, Index(keep - 1))
            seen.judged = min(seen.judged, Index(keep - 1))
        for index in range(keep, last.index + 1):
            self._read_entry(node, entries, index)
        seen.last = last

    def entries_of(self, node: SimNode) -> tuple[Sequence[Written], int]:
        """Returns (the node's entries from index 0 on, the index up to which they are on disk)."""
        seen = self._seen[node.index]
        return seen.entries, seen.flushed

    def _read_entry(self, node: SimNode, entries: list[Written], index: int) -> None:
        position = entries[-1][2] + entries[-1][3] if entries else 0
        header = node.view.header(position)
        if not header or header[0] == MAGIC_BLANK:
            position = node.view.next_file(position)
            header = node.view.header(position)
        if not header or header[2] != index or header[4] != position:
            self.violation("header", f"{node.id}: entry {index} not at {position}, but {header}")
        _, size, _, term, _, _, chain_crc, _, _ = header
        known = self._chain.setdefault((index, term), chain_crc)
        if known != chain_crc:
            self.violation("log-matching", f"{node.id}: entry {index} of term {term} has two forms")
        entries.append(_new(Written, (term, chain_crc, position, size)))

    def _check_flushed(self, node: SimNode, seen: _Seen, flushed: Index) -> None:
        """D3: entries that a node counts as flushed survive any power cut now."""
        if flushed > seen.flushed:
            first, last = seen.entries[seen.flushed + 1], seen.entries[flushed]
            if not node.view.is_durable(first[2], last[2] + last[3]):
                self.violation(
                    "flushed-not-durable",
                    f"{node.id}: of {seen.flushed + 1}..{flushed} some can still be lost",
                )
        seen.flushed = flushed
        # A truncation meanwhile lowers what a vote under way has to have marked.
        node.flushed_at_vote = min(node.flushed_at_vote, flushed)

    # -- the cluster -------------------------------------------------------------------------

    def _check_leader(self, node: SimNode, seen: _Seen, term: int) -> None:
        """Election safety and leader completeness (paper figure 3)."""
        known = self._leaders.get(term)
        me = (node.index, node.boot)
        if known == me:
            return
        if known is not None:
            self.violation(
                "two-leaders", f"n{known[0]} (life {known[1]}) and {node.id} lead term {term}"
            )
        self._leaders[term] = me
        # Only what was committed before this term binds: a slow candidate may win an old term late.
        index = bisect_left(self._commit_terms, term) - 1
        if index < 0:
            return
        mine = seen.entries[index][:2] if index < len(seen.entries) else None
        if mine != self.committed[index][:2]:
            self.violation(
                "leader-completeness",
                f"{node.id} leads term {term} without committed entry {index}: has {mine}",
            )

    def _check_commit(self, node: SimNode, seen: _Seen, commit: Index, term: int) -> None:
        """State machine safety, and that the majority is real."""
        committed, entries = self.committed, seen.entries
        known = len(committed)
        for index in range(seen.judged + 1, min(commit + 1, known)):
            if committed[index] != entries[index]:
                self.violation(
                    "state-machine-safety",
                    f"{node.id} commits {entries[index]} at {index}, where {committed[index]} was",
                )
        if commit >= known:
            new = entries[known : commit + 1]
            committed += new
            self._commit_terms += [term] * len(new)
            holders = [other.index for other in self._nodes if _holds(other.view, new)]
            if not self._is_majority(node, holders):
                self.violation(
                    "not-on-majority",
                    f"{node.id} commits {known}..{commit} in term {term}, safe only on {holders}",
                )
        seen.judged = max(seen.judged, commit)
        seen.commit = commit

    def _is_majority(self, node: SimNode, holders: list[int]) -> bool:
        if self.members is None:
            return len(holders) >= self._majority
        return self.members.is_majority(node, {NodeId(f"n{number}") for number in holders})


def _holds(view: DiskView, entries: list[Written]) -> bool:
    """Would this machine have these entries after the worst power cut?

    The chain checksum of the last one stands for all before it.
    """
    last = entries[-1]
    if view.chain_crc(last.position) != last.chain_crc:
        return False
    return view.is_durable(entries[0].position, last.position + last.size)
