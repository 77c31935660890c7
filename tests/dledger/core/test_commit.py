"""The commit index (rules S3, S4): one method sets it and refuses to go back.

`advance_commit` counts a majority (test_replication.py: S4, figure 8), a follower takes what its
leader says (R4) and a snapshot moves it to its anchor; all three call `State.commit_to`.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dledger.core
from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.messages import AppendEntries, AppendReply, Heartbeat, HeartbeatReply
from dledger.core.types import NO_ENTRY, NO_INDEX, HardState, Index, NodeId, Role, Term, TermRun

from . import build
from .net import Net

N0, N1 = NodeId("n0"), NodeId("n1")
RUN = (TermRun(Term(1), Index(2)),)


def test_only_commit_to_assigns_the_commit_index() -> None:
    found = []
    for path in Path(dledger.core.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            targets = node.targets if isinstance(node, ast.Assign) else []
            found += [
                (path.name, ast.unparse(target))
                for target in targets
                if isinstance(target, ast.Attribute) and target.attr == "commit"
            ]
    assert found == [("state.py", "self.commit")]


def test_commit_to_asserts_that_commit_never_goes_back() -> None:
    state = build.state(log=[(1, 9)])
    state.commit_to(Index(4))
    state.commit_to(Index(4))
    with pytest.raises(AssertionError, match="from 4 to 3"):
        state.commit_to(Index(3))
    assert state.commit == 4


def test_append_of_a_first_range_gives_these_effects_in_this_order() -> None:
    """Follower n1, empty, takes entries 0..2 of which its leader has committed 0 and 1.

    The new term is to be on disk before any answer leaves (D1: `after`), the log gets the entries,
    the commit index follows the leader's; the answer waits until the entries are on disk (D3).
    """
    raft = build.node("n1")
    message = AppendEntries(N0, Term(1), NO_ENTRY, Index(2), Index(1), RUN)
    assert raft.handle(ev.MessageReceived(message), 0.0) == [
        fx.PersistHardState(1, HardState(Term(1), None, 1)),
        fx.RoleChanged(Role.FOLLOWER, Term(1), N0),
        fx.AppendReceived(message, Index(0)),
        fx.CommitAdvanced(Index(1)),
    ]
    matched = AppendReply(N1, Term(1), True, NO_INDEX, Index(2), Index(2), NO_ENTRY)
    assert raft.handle(ev.EntriesFlushed(Index(2)), 0.0) == [fx.Send(N0, matched, 1)]


def test_heartbeat_with_a_commit_beyond_the_log_commits_what_matched() -> None:
    """R4: the leader has committed 9, this follower has matched 2 of its entries."""
    raft = build.node("n1")
    message = AppendEntries(N0, Term(1), NO_ENTRY, Index(2), NO_INDEX, RUN)
    raft.handle(ev.MessageReceived(message), 0.0)
    answer = HeartbeatReply(N1, Term(1), 7, Index(2), NO_INDEX, 0.0)
    assert raft.handle(ev.MessageReceived(Heartbeat(N0, Term(1), Index(9), 7)), 0.0) == [
        fx.CommitAdvanced(Index(2)),
        fx.Send(N0, answer, 1),
    ]


def test_heartbeat_before_any_range_matched_commits_nothing() -> None:
    """R4: entries 0..9 are here, yet of an earlier term: this leader may hold others there."""
    raft = build.node("n1", log=[(1, 9)])
    effects = raft.handle(ev.MessageReceived(Heartbeat(N0, Term(2), Index(9), 7)), 0.0)
    answer = HeartbeatReply(N1, Term(2), 7, NO_INDEX, NO_INDEX, 0.0)
    assert effects == [
        fx.PersistHardState(1, HardState(Term(2), None, 1)),
        fx.RoleChanged(Role.FOLLOWER, Term(2), N0),
        fx.Send(N0, answer, 1),
    ]


def test_a_follower_that_waits_for_the_commit_is_told_at_once() -> None:
    """It has entry 4 on disk, and would learn with the next heartbeat that a majority has it."""
    net = Net()
    leader = net.elect("n0")
    net.run(0.2)
    net.propose(leader, 4)
    net.deliver()
    assert (net.raft(leader).commit, net.raft("n1").commit) == (4, 0)
    told = net.handle(leader, ev.CommitWanted(N1))
    (sent,) = (effect for effect in told if isinstance(effect, fx.Send))
    assert sent.to == N1
    net.deliver()
    assert [net.raft(name).commit for name in ("n1", "n2")] == [4, 0]


def test_who_does_not_lead_tells_no_commit() -> None:
    net = Net()
    net.elect("n0")
    assert net.handle("n1", ev.CommitWanted(NodeId("n2"))) == []
    assert net.handle("n0", ev.CommitWanted(NodeId("n9"))) == [], "no member"


def test_telling_the_commit_proves_no_leadership_for_a_later_read() -> None:
    """Its answer belongs to the heartbeat before, which a read that came since must not take."""
    net = Net()
    leader = net.elect("n0")
    net.handle(leader, ev.CommitWanted(N1))
    echo = list(net.wires)
    net.isolate(leader)
    net.handle(leader, ev.ReadRequested(1))
    net.wires[:] = echo
    net.heal()
    net.deliver()
    assert not any(isinstance(e, fx.ReadReady) for e in net.nodes[N0].effects)
