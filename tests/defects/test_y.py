"""Defects of PySyncObj in the rules: docs/spec/raft_log.md 5, Y1 Y2 Y4 Y5 Y7 Y8 Y9 Y12 Y13."""

from __future__ import annotations

import itertools

import pytest

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.configuration import ChangeKind
from dledger.core.messages import AppendReply, Heartbeat, VoteReply, VoteRequest
from dledger.core.types import NO_ENTRY, EntryId, HardState, Index, NodeId, Role, Term
from tests.dledger.core.net import Net
from tests.dledger.log.crash_files import CrashDisk
from tests.dledger.log.stores import make, reopen
from tests.paper.steps import (
    N0,
    N1,
    N2,
    answers,
    ask,
    begin_with,
    ranged,
    receive,
    stand,
    terms_of,
    time_out,
)

from .groups import led, save


def test_y01_the_term_survives_a_restart() -> None:
    """There: term 0 after a restart, although the last entry is of term 5."""
    disk = CrashDisk()
    save(make(disk).hard_state, 7, None)
    disk.crash(keep=0.0)
    assert reopen(disk).hard_state.state == HardState(Term(7), None, 7)
    net = Net()
    begin_with(net, "n1", [5], term=6)
    net.restart(N1)
    assert net.raft("n1").term == 6
    begin_with(net, "n2", [5], term=0)  # an imported log: never below its last entry's
    assert net.raft("n2").term == 5


def test_y02_the_vote_survives_a_restart() -> None:
    """There: granted in term 7, restarted, granted in term 7 to another candidate."""
    disk = CrashDisk()
    save(make(disk).hard_state, 7, "n2")
    disk.crash(keep=0.0)
    assert reopen(disk).hard_state.state.voted_for == "n2"
    net = Net()
    assert ask(net, "n1", VoteRequest(N0, Term(7), NO_ENTRY, pre=False)).granted
    net.restart(N1)
    assert not ask(net, "n1", VoteRequest(N2, Term(7), NO_ENTRY, pre=False)).granted


def test_y04_acknowledgements_of_another_term_are_not_counted() -> None:
    """There: they carry no term, and a late one raises the match index of a later leadership."""
    net = led(entries=3)
    net.isolate("n0")
    net.propose("n0", 5)
    term = net.raft("n0").term
    late = AppendReply(N1, Term(term - 1), True, Index(3), Index(8), Index(8), NO_ENTRY)
    receive(net, "n0", late)
    assert net.raft("n0").commit == 3
    assert [peer.matched for peer in net.raft("n0").status().peers] == [3, 3]
    receive(net, "n0", AppendReply(N1, term, True, Index(3), Index(8), Index(8), NO_ENTRY))
    net.flush("n0")
    assert net.raft("n0").commit == 8


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_y05_late_and_shorter_appends_remove_nothing(order: tuple[int, ...]) -> None:
    """There: everything behind prevLogIdx is deleted first; a duplicate removed entries 3 and 4."""
    net = Net()
    receive(net, "n1", ranged(N0, 1, (-1, -1), [1, 1, 1, 1, 1], commit=4))
    duplicates = [
        ranged(N0, 1, (-1, -1), [1, 1, 1]),
        ranged(N0, 1, (1, 0), [1]),
        ranged(N0, 1, (1, 2), []),
    ]
    for place in order:
        receive(net, "n1", duplicates[place])
        assert terms_of(net, "n1") == [1] * 5
    assert net.truncations == []
    assert all(reply.success for reply in answers(net, AppendReply))


def test_y07_commit_covers_only_what_was_checked_against_this_leader() -> None:
    """There: a message without a previous entry moved commit from 1 to 4 on unverified entries."""
    messages = (
        ranged(N2, 2, (-1, -1), [], commit=9),
        Heartbeat(N2, Term(2), Index(9), 1),
        ranged(N2, 2, (1, 1), [], commit=9),
    )
    for message, commit in zip(messages, (-1, -1, 1), strict=True):
        net = Net()
        begin_with(net, "n1", [1, 1, 1, 1, 1])
        receive(net, "n1", message)
        assert net.raft("n1").commit == commit


def test_y08_a_vote_that_is_repeated_is_one_vote() -> None:
    """There: a counter goes up with each answer."""
    for pre in (True, False):
        net = Net(5)
        if pre:
            time_out(net, "n0")
        else:
            stand(net, "n0")
        role = net.raft("n0").role
        for _ in range(9):
            receive(net, "n0", VoteReply(N1, Term(1), Term(1), granted=True, pre=pre))
        assert net.raft("n0").role is role
        receive(net, "n0", VoteReply(N2, Term(1), Term(1), granted=True, pre=pre))
        assert net.raft("n0").role is not role


def test_y09_a_leader_opens_its_term_and_commits_by_it() -> None:
    """There it is right, too; it must stay so here."""
    net = Net()
    for name in net.names:
        begin_with(net, name, [1, 1])
    net.drop = lambda _s, _t, m: isinstance(m, AppendReply)
    net.elect("n0")
    assert net.raft("n0").log.last == (2, 2)
    old = AppendReply(N1, Term(2), True, Index(1), Index(1), Index(1), NO_ENTRY)
    receive(net, "n0", old)
    assert net.raft("n0").commit == -1
    own = AppendReply(N1, Term(2), True, Index(1), Index(2), Index(2), NO_ENTRY)
    receive(net, "n0", own)
    assert net.raft("n0").commit == 2


def test_y12_pre_vote_and_stickiness() -> None:
    """There: neither."""
    net = led(entries=1)
    term = net.raft("n0").term
    net.isolate("n2")
    net.run(5.0)
    assert net.raft("n2").term == term
    net.heal()
    better = EntryId(Term(90), Index(99))
    assert not ask(net, "n1", VoteRequest(N2, Term(91), better, pre=False)).granted
    net.run(0.3)
    assert {node.raft.term for node in net.nodes.values()} == {term}


def test_y12_transfer_and_read_index() -> None:
    """There: neither."""
    net = led(entries=4)
    net.handle("n2", ev.ReadRequested(5))
    net.deliver()
    ready = [e for e in net.nodes[N2].effects if isinstance(e, fx.ReadReady)]
    assert ready == [fx.ReadReady(5, Index(4))]
    net.handle("n0", ev.TransferRequested(N1, 1))
    net.deliver()
    assert net.leader() == "n1"


def test_y12_a_leader_without_a_majority_gives_up_soon() -> None:
    """There: after 30 s."""
    net = led()
    net.isolate("n0")
    net.run(1.2)
    assert net.raft("n0").role is not Role.LEADER


def test_y13_views_of_the_group_are_those_of_the_logs_also_after_restarts() -> None:
    """There: they may differ for ever after a restart."""
    net = led(entries=2)
    net.isolate("n0")
    net.change("n0", ChangeKind.REMOVE, "n2")
    net.restart(N0)
    assert net.configuration("n0").voters == (N0, N1), "its log says so"
    net.elect("n1")
    net.heal()
    net.run(1.0)
    for _ in range(2):
        views = {net.configuration(name).voters for name in net.names}
        assert views == {(N0, N1, N2)}
        for name in net.names:
            net.restart(NodeId(name))
    net.run(2.0)
    net.join("n3")
    net.change(net.leader(), ChangeKind.ADD, "n3")
    net.run(2.0)
    for name in net.names:
        net.restart(NodeId(name))
    assert len({net.configuration(name) for name in net.names}) == 1
    assert len(net.configuration("n3").voters) == 4
