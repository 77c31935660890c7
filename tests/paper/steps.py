"""Steps that many tests of the paper begin with: logs as drawn in its figures, candidacies, ranges.

The paper counts entries from 1 and this log from 0; the figures' logs are lists of terms here.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeVar

from dledger.core import events as ev
from dledger.core.messages import AppendEntries, VoteReply, VoteRequest
from dledger.core.types import EntryId, HardState, Index, NodeId, Role, Term, TermRun
from tests.dledger.core.net import Net

N0, N1, N2, N3, N4 = (NodeId(f"n{number}") for number in range(5))

M = TypeVar("M")


def runs_of(terms: Sequence[int], first: int = 0) -> tuple[TermRun, ...]:
    """[1, 1, 4] → (1, last 1) (4, last 2)."""
    runs, last = [], first - 1
    for term, group in itertools.groupby(terms):
        last += len(list(group))
        runs.append(TermRun(Term(term), Index(last)))
    return tuple(runs)


def terms_of(net: Net, name: str) -> list[int]:
    """The log of a node, entry by entry."""
    log = net.raft(name).log
    return [log.term_at(index) or 0 for index in range(log.last.index + 1)]


def begin_with(net: Net, name: str, terms: Sequence[int], term: int | None = None) -> None:
    """`name` comes up with this log on its disk; `term`: what its vote file says."""
    node = NodeId(name)
    known = Term(max(terms, default=0) if term is None else term)
    net.nodes[node].hard = HardState(known, None, 1)
    net.nodes[node] = net._make(node, list(runs_of(terms)))
    net._run(node, net.raft(name).start(net.now))


def ranged(
    sender: NodeId, term: int, prev: tuple[int, int], terms: Sequence[int] = (), commit: int = -1
) -> AppendEntries:
    """AppendEntries with entries of `terms` behind `prev`, which is (term, index)."""
    prev_term, prev_index = prev
    return AppendEntries(
        sender,
        Term(term),
        EntryId(Term(prev_term), Index(prev_index)),
        Index(prev_index + len(terms)),
        Index(commit),
        runs_of(terms, prev_index + 1),
    )


def receive(net: Net, name: str, message: object) -> None:
    """The message arrives; answers are on the wires."""
    net.handle(name, ev.MessageReceived(message))  # type: ignore[arg-type]


def answers(net: Net, kind: type[M]) -> list[M]:
    """Messages of a kind that are on their way."""
    return [message for _, _, message in net.wires if isinstance(message, kind)]


def time_out(net: Net, name: str, after: float = 1.0) -> None:
    """Its election timer fires, `after` seconds from now; what it asks is on the wires."""
    net.now += after
    net.raft(name).state.election_deadline = net.now
    net.handle(name, ev.TimerFired())


def stand(net: Net, name: str, after: float = 1.0) -> None:
    """It has passed its rehearsal (pre-vote); its real vote requests are on the wires."""
    others = list(net.wires)
    time_out(net, name, after)
    net.wires = others
    raft = net.raft(name)
    running = Term(raft.term + 1)
    for other in net.names:
        if other != name and raft.role is Role.PRE_CANDIDATE:
            receive(net, name, VoteReply(other, running, running, granted=True, pre=True))
    assert raft.role is Role.CANDIDATE


def ask(net: Net, voter: str, request: VoteRequest) -> VoteReply:
    """What `voter` answers to `request`."""
    net.wires.clear()
    receive(net, voter, request)
    (answer,) = answers(net, VoteReply)
    net.wires.clear()
    return answer


def leaders(net: Net) -> list[str]:
    """Who believes to lead, whatever the term."""
    return [name for name, node in net.nodes.items() if node.raft.role is Role.LEADER]
