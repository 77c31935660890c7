"""Snapshots in the rules: what is deleted, who is sent a state, what a follower keeps (L4, R15)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.configuration import (
    INITIAL,
    ChangeKind,
    Configuration,
    ConfigurationEntry,
    of_voters,
)
from dledger.core.log_view import LogView
from dledger.core.messages import AppendEntries, AppendReply, SnapshotChunk, SnapshotReply
from dledger.core.node import RaftNode
from dledger.core.replication import SafetyViolation
from dledger.core.types import (
    NO_ENTRY,
    NO_INDEX,
    EntryId,
    HardState,
    Index,
    NodeId,
    Role,
    Term,
    TermRun,
)

from . import build
from .net import Net

NAMES = tuple(NodeId(f"n{i}") for i in range(3))
ANCHOR = EntryId(Term(2), Index(9))
GROUP = of_voters((*NAMES, NodeId("n3")))


def follower(
    *runs: TermRun,
    anchor: EntryId = NO_ENTRY,
    configurations: Sequence[ConfigurationEntry] = (),
) -> RaftNode:
    """n1, with that log on disk, in term 3."""
    return build.node(
        log=runs,
        hard=HardState(Term(3), None, 1),
        jitter=lambda: 0.5,
        anchor=anchor,
        configurations=configurations,
    )


def hear(node: RaftNode, message: object) -> list[fx.Effect]:
    return node.handle(ev.MessageReceived(message), 0.0)  # type: ignore[arg-type]


def chunk(offset: int = 0, term: int = 3) -> SnapshotChunk:
    return SnapshotChunk(NAMES[0], Term(term), ANCHOR, GROUP, offset)


def replies(effects: list[fx.Effect]) -> list[object]:
    return [effect.message for effect in effects if isinstance(effect, fx.Send)]


def test_a_follower_without_the_anchor_keeps_each_chunk_and_asks_for_the_next() -> None:
    node = follower(TermRun(Term(1), Index(4)))
    assert fx.ReceiveSnapshot(chunk()) in hear(node, chunk())
    (reply,) = replies(node.handle(ev.SnapshotReceived(ANCHOR, GROUP, 700, False), 0.1))
    assert reply == SnapshotReply(NAMES[1], Term(3), ANCHOR.index, 700)
    assert node.log.last == (1, 4), "nothing has changed yet"


def test_a_whole_snapshot_replaces_the_log_and_the_group() -> None:
    """The anchor is committed: it counts as matched, flushed, and as the last entry for votes."""
    node = follower(TermRun(Term(1), Index(4)))
    hear(node, chunk())
    effects = node.handle(ev.SnapshotReceived(ANCHOR, GROUP, 900, True), 0.1)
    assert fx.InstallSnapshot(ANCHOR, GROUP) in effects
    assert (node.log.last, node.log.first, node.commit) == (ANCHOR, 10, 9)
    assert node.configuration == GROUP
    (reply,) = replies(effects)
    assert isinstance(reply, AppendReply)
    assert (reply.success, reply.matched, reply.flushed) == (True, 9, 9)
    follows = AppendEntries(
        NAMES[0], Term(3), ANCHOR, Index(11), Index(9), (TermRun(Term(3), Index(11)),)
    )
    assert any(isinstance(effect, fx.AppendReceived) for effect in hear(node, follows))


def test_a_whole_snapshot_takes_the_place_of_configurations_in_the_log() -> None:
    """R20: the entries that said so are gone, and so is what they said."""
    old = ConfigurationEntry(Index(3), of_voters(NAMES[:2]))
    node = follower(TermRun(Term(1), Index(4)), configurations=[old])
    assert (node.configuration, node.configuration_index) == (old.configuration, 3)
    hear(node, chunk())
    has_it = AppendReply(NAMES[1], Term(3), True, NO_INDEX, Index(9), Index(9), NO_ENTRY)
    assert node.handle(ev.SnapshotReceived(ANCHOR, GROUP, 900, True), 0.1) == [
        fx.InstallSnapshot(ANCHOR, GROUP),
        fx.ConfigurationChanged(GROUP, INITIAL),
        fx.Send(NAMES[0], has_it, 0),
    ]
    assert (node.configuration, node.configuration_index) == (GROUP, INITIAL)
    assert node.configurations_in(Index(0), Index(99)) == ()


@pytest.mark.parametrize("last", [9, 12])
def test_a_follower_with_the_anchor_keeps_its_log(last: int) -> None:
    """W25: what is good is not thrown away for a snapshot, not even a whole one."""
    node = follower(TermRun(Term(2), Index(last)))
    (reply,) = replies(hear(node, chunk()))
    assert isinstance(reply, AppendReply)
    assert (reply.success, reply.matched) == (True, 9)
    effects = node.handle(ev.SnapshotReceived(ANCHOR, GROUP, 900, True), 0.1)
    assert not any(isinstance(effect, fx.InstallSnapshot) for effect in effects)
    assert node.log.last == (2, last)


def test_a_chunk_of_an_older_term_is_answered_with_the_newer_one() -> None:
    node = follower()
    (reply,) = replies(hear(node, chunk(term=2)))
    assert isinstance(reply, AppendReply)
    assert (reply.success, reply.term) == (False, 3)
    assert node.leader is None


def test_another_entry_than_the_one_committed_here_stops_the_node() -> None:
    node = follower(TermRun(Term(1), Index(4)), TermRun(Term(3), Index(12)))
    follows = AppendEntries(
        NAMES[0], Term(3), EntryId(Term(3), Index(12)), Index(12), Index(12), ()
    )
    hear(node, follows)
    assert node.commit == 12
    with pytest.raises(SafetyViolation, match="committed another entry"):
        hear(node, chunk())


def test_a_range_before_what_was_deleted_here_is_answered_as_matched() -> None:
    """Decided and deleted: whoever leads has it, and goes on behind it."""
    node = follower(anchor=ANCHOR)
    early = AppendEntries(NAMES[0], Term(3), EntryId(Term(1), Index(3)), Index(3), Index(9), ())
    (reply,) = replies(hear(node, early))
    assert isinstance(reply, AppendReply)
    assert (reply.success, reply.matched, reply.flushed) == (True, 9, 9)


def leader() -> Net:
    net = Net()
    net.elect("n0")
    for _ in range(5):
        net.propose("n0", 2)
    net.deliver()
    return net


def drop(net: Net, name: str, index: int) -> None:
    term = net.raft(name).log.term_at(index)
    assert term is not None
    net.handle(name, ev.PrefixDropped(EntryId(term, Index(index))))


def test_a_leader_offers_what_is_gone_and_sends_what_is_asked_for() -> None:
    net = leader()
    drop(net, "n0", 6)
    node = net.raft("n0")
    last = node.log.last.index
    net.nodes[NodeId("n0")].effects.clear()
    net.handle("n0", ev.PeerDisconnected(NodeId("n2")))
    node.progress[NodeId("n2")].become_probe()  # type: ignore[index]
    progress = node.progress[NodeId("n2")]
    progress.flushed = progress.matched = Index(-1)
    progress.next = Index(3)
    net.handle("n0", ev.MessageReceived(_rejection(node)))
    offers = _sent(net)
    assert [(s.anchor.index, s.offset, s.size_max) for s in offers] == [(6, 0, 0)]
    net.handle("n0", ev.MessageReceived(SnapshotReply(NodeId("n2"), node.term, Index(6), 40)))
    assert (_sent(net)[-1].offset, _sent(net)[-1].size_max) == (40, 256 << 10)
    net.handle("n0", ev.MessageReceived(SnapshotReply(NodeId("n2"), node.term, Index(4), 40)))
    assert (_sent(net)[-1].offset, _sent(net)[-1].size_max) == (0, 0), "another one by now"
    done = AppendReply(NodeId("n2"), node.term, True, Index(-1), Index(6), Index(6), NO_ENTRY)
    net.handle("n0", ev.MessageReceived(done))
    assert progress.next == last + 1
    assert progress.mode.value == "replicate"


def _rejection(node: RaftNode) -> AppendReply:
    return AppendReply(
        NodeId("n2"), node.term, False, Index(2), Index(-1), Index(-1), EntryId(Term(0), Index(1))
    )


def _sent(net: Net) -> list[fx.SendSnapshot]:
    effects = net.nodes[NodeId("n0")].effects
    return [effect for effect in effects if isinstance(effect, fx.SendSnapshot)]


def test_the_group_outlives_the_entries_that_made_it() -> None:
    """R20: deleted configurations are what the log begins with."""
    net = leader()
    net.join("n3")
    net.change("n0", ChangeKind.ADD_LEARNER, "n3")
    net.deliver()
    wanted = net.configuration("n0")
    assert wanted.member(NodeId("n3")) is not None
    net.propose("n0", 1)
    net.deliver()
    drop(net, "n0", net.raft("n0").commit)
    assert net.configuration("n0") == wanted
    assert net.raft("n0").configuration_at(net.raft("n0").commit) == wanted
    net.change("n0", ChangeKind.REMOVE, "n3")
    net.deliver()
    assert net.configuration("n0").member(NodeId("n3")) is None
    assert net.raft("n0").role is Role.LEADER
    assert net.configuration("n0") != Configuration()


def test_the_view_of_a_log_whose_beginning_is_gone() -> None:
    view = LogView([TermRun(Term(1), Index(3)), TermRun(Term(2), Index(8))])
    view.drop_through(EntryId(Term(2), Index(5)))
    assert (view.first, view.anchor, view.last) == (6, (2, 5), (2, 8))
    assert [view.term_at(index) for index in (4, 5, 6, 8, 9)] == [None, 2, 2, 2, None]
    assert view.floor(Term(1), 7) == (2, 5), "below it all is decided"
    assert view.floor(Term(2), 3) == (2, 5)
    view.truncate_after(5)
    assert view.last == (2, 5)
    view.restart(EntryId(Term(4), Index(20)))
    assert (view.first, view.last, view.runs) == (21, (4, 20), [])


# -- a state for what is damaged here and deleted elsewhere ----------------------------------------


def in_need(last: int = 12, first: int = 6, commit: int = 12) -> RaftNode:
    """A follower with the anchor in its log, and damage before it that is deleted elsewhere."""
    node = follower(TermRun(Term(2), Index(last)))
    runs = AppendEntries(NAMES[0], Term(3), EntryId(Term(2), Index(last)), Index(last), commit, ())
    hear(node, runs)
    node.handle(ev.StateNeeded(Index(first), NAMES[2]), 0.0)
    return node


def test_one_in_need_of_a_state_asks_its_leader_which_there_is() -> None:
    node = in_need()
    (asked,) = replies(node.handle(ev.StateNeeded(Index(6), NAMES[2]), 0.1))
    assert asked == SnapshotReply(NAMES[1], Term(3), Index(-1), 0)


def test_one_in_need_takes_the_state_and_keeps_what_is_behind_it() -> None:
    """What it has acknowledged stays: only the beginning of its log goes (S2, L4)."""
    node = in_need()
    assert fx.ReceiveSnapshot(chunk()) in hear(node, chunk())
    effects = node.handle(ev.SnapshotReceived(ANCHOR, GROUP, 900, True), 0.1)
    assert effects == [fx.TakeState(ANCHOR)]
    assert node.log.last == (2, 12)
    node.handle(ev.PrefixDropped(ANCHOR), 0.2)
    assert (node.log.first, node.log.last) == (10, (2, 12))


@pytest.mark.parametrize(
    "node", [in_need(commit=8), in_need(last=9, commit=9)], ids=["not-decided", "nothing-behind"]
)
def test_a_state_is_taken_only_below_what_is_decided_and_goes_on_here(node: RaftNode) -> None:
    hear(node, chunk())
    assert node.handle(ev.SnapshotReceived(ANCHOR, GROUP, 900, True), 0.1) == []


@pytest.mark.parametrize("first", [10, -1])
def test_a_state_that_helps_nothing_is_not_received(first: int) -> None:
    """It ends before the damage, or all was mended meanwhile."""
    node = in_need(first=first)
    (reply,) = replies(hear(node, chunk()))
    assert isinstance(reply, AppendReply)
    assert reply.success


def test_a_leader_answers_the_question_and_goes_on_sending_ranges() -> None:
    net = leader()
    node, peer = net.raft("n0"), NodeId("n2")
    ask = ev.MessageReceived(SnapshotReply(peer, node.term, Index(-1), 0))
    net.handle("n0", ask)
    assert _sent(net) == [], "nothing is gone yet"
    drop(net, "n0", 6)
    net.handle("n0", ask)
    net.handle("n0", ev.MessageReceived(SnapshotReply(peer, node.term, Index(6), 40)))
    assert [(s.to, s.offset, s.size_max) for s in _sent(net)] == [
        (peer, 0, 0),
        (peer, 40, 256 << 10),
    ]
    assert node.progress[peer].mode.value == "replicate"
    net.propose("n0", 1)
    net.deliver()
    assert net.raft("n2").log.last == node.log.last


def test_a_leader_in_need_of_a_state_hands_over_to_who_has_it() -> None:
    net = leader()
    net.handle("n0", ev.StateNeeded(Index(3), NodeId("n2")))
    net.deliver()
    assert net.raft("n2").role is Role.LEADER
