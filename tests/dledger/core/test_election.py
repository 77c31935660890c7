"""Elections: paper 5.2 and 5.4.1, dissertation 4.2.3 (stickiness) and 9.6 (pre-vote)."""

from __future__ import annotations

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.messages import Heartbeat, VoteReply, VoteRequest
from dledger.core.types import EntryId, Index, NodeId, Reason, Role, Term

from .net import Net

N0, N1, N2 = NodeId("n0"), NodeId("n1"), NodeId("n2")


def test_a_group_elects_one_leader_and_it_opens_its_term_with_a_noop() -> None:
    net = Net()
    leader = net.elect()
    assert net.raft(leader).term >= 1  # W15: a fresh group never elects in term 0
    assert net.raft(leader).log.last == EntryId(net.raft(leader).term, Index(0))
    assert all(node.raft.commit == 0 for node in net.nodes.values())


def test_a_single_node_leads_alone() -> None:
    net = Net(1)
    assert net.elect() == "n0"
    assert net.raft("n0").commit == 0


def test_no_message_reveals_a_term_before_it_is_on_disk() -> None:
    """D1: the candidacy and the granted vote wait for their hard state."""
    net = Net()
    for node in net.nodes.values():
        node.auto_persist = False
    net.now = 1.0
    net.handle("n0", ev.TimerFired())
    net.deliver()
    assert net.raft("n0").role is Role.CANDIDATE
    assert not net.wires, "vote requests left before term and vote were on disk"
    net.persist("n0")
    net.deliver()
    assert net.raft("n0").role is Role.CANDIDATE, "a vote was counted before it was on disk"
    assert any(isinstance(m, VoteReply) for _, _, m in net.nodes[N1].held)
    net.persist("n1")
    net.deliver()
    assert net.raft("n0").role is Role.LEADER


def test_own_vote_counts_only_when_it_is_on_disk() -> None:
    net = Net()
    net.nodes[N0].auto_persist = False
    net.now = 1.0
    net.handle("n0", ev.TimerFired())
    net.deliver()
    term = net.raft("n0").term
    net.handle("n0", ev.MessageReceived(VoteReply(N1, term, term, granted=True, pre=False)))
    assert net.raft("n0").role is Role.CANDIDATE
    net.persist("n0")
    assert net.raft("n0").role is Role.LEADER


def test_one_vote_a_term() -> None:
    net = Net()
    last = EntryId(Term(-1), Index(-1))
    net.handle("n2", ev.MessageReceived(VoteRequest(N0, Term(5), last, pre=False)))
    net.handle("n2", ev.MessageReceived(VoteRequest(N1, Term(5), last, pre=False)))
    answers = [m for _, _, m in net.wires if isinstance(m, VoteReply)]
    assert [(m.granted) for m in answers] == [True, False]
    net.restart(N2)
    net.handle("n2", ev.MessageReceived(VoteRequest(N1, Term(5), last, pre=False)))
    assert not net.wires[-1][2].granted, "the vote was forgotten in a restart"


def test_a_vote_that_is_repeated_is_counted_once() -> None:
    """S7: votes are a set of peer ids."""
    net = Net(5)
    net.now = 1.0
    net.handle("n0", ev.TimerFired())
    net.wires.clear()
    for _ in range(5):
        reply = VoteReply(N1, Term(1), Term(1), granted=True, pre=True)
        net.handle("n0", ev.MessageReceived(reply))
    assert net.raft("n0").role is Role.PRE_CANDIDATE


def test_a_shorter_or_older_log_gets_no_vote() -> None:
    """W13, S6: the comparison uses the last entry of the log, not the election term."""
    net = Net()
    leader = net.elect("n0")
    net.isolate("n2")
    net.propose(leader, 5)
    net.deliver()
    net.heal()
    net.now += 10.0
    stale = net.raft("n2").log.last
    for voter in ("n0", "n1"):
        if voter == leader:
            continue
        request = VoteRequest(N2, Term(99), stale, pre=False)
        net.wires.clear()
        net.handle(voter, ev.MessageReceived(request))
        assert not net.wires[-1][2].granted


def test_an_isolated_node_never_raises_a_term_and_always_rejoins() -> None:
    """L1 (W17): pre-vote keeps the term of whoever cannot win."""
    net = Net()
    leader = net.elect("n0")
    term = net.raft(leader).term
    for _ in range(20):
        net.isolate("n2")
        net.run(2.0)
        assert net.raft("n2").term == term
        net.heal()
        net.run(0.5)
        assert net.leader() == leader
        assert net.raft("n2").leader == leader
    assert net.raft(leader).term == term


def test_a_healthy_leader_is_not_voted_away() -> None:
    """Stickiness: within the lease a voter neither grants nor takes the term."""
    net = Net()
    leader = net.elect("n0")
    term = net.raft(leader).term
    net.run(0.3)
    last = net.raft("n1").log.last
    for pre in (True, False):
        request = VoteRequest(N2, Term(term + 5), last, pre=pre)
        net.handle("n1", ev.MessageReceived(request))
        assert not net.wires[-1][2].granted
        net.handle(leader, ev.MessageReceived(request))
    assert net.raft("n1").term == term
    assert net.raft(leader).role is Role.LEADER


def test_a_leader_that_nobody_hears_gives_up() -> None:
    """Check-quorum (L1)."""
    net = Net()
    leader = net.elect("n0")
    net.isolate(leader)
    net.run(1.0)
    assert net.raft(leader).role is not Role.LEADER


def test_heartbeats_alone_do_not_keep_a_leader_whose_data_does_not_move() -> None:
    """R5: the bulk lane hangs while heartbeats flow."""
    net = Net()
    leader = net.elect("n0")
    net.drop = lambda _s, _t, m: type(m).__name__ == "AppendEntries"
    net.propose(leader)
    net.run(2.2)
    assert net.raft(leader).role is Role.LEADER
    net.run(1.5)
    assert net.raft(leader).role is not Role.LEADER or net.raft(leader).term > 1


def test_a_stuck_node_with_a_higher_term_brings_the_group_to_it() -> None:
    net = Net()
    leader = net.elect("n0")
    net.raft("n2").state.term = Term(9)
    net.raft("n2").state.leader = None
    net.run(3.0)
    assert net.raft(net.leader()).term >= 9
    assert all(n.raft.leader == net.leader() for n in net.nodes.values())
    assert leader in net.names


def test_strangers_are_not_heard_while_a_leader_is_alive() -> None:
    """One that is not known may be a member by an entry that has not come: it may ask, no more."""
    net = Net()
    net.elect("n0")
    term = net.raft("n1").term
    stranger = NodeId("nx")
    last = EntryId(Term(9), Index(9))
    net.handle("n1", ev.MessageReceived(VoteRequest(stranger, Term(9), last, pre=False)))
    assert not net.wires[-1][2].granted  # type: ignore[union-attr]
    effects = net.handle("n1", ev.MessageReceived(Heartbeat(stranger, Term(9), Index(0), 1)))
    assert effects == []
    assert (net.raft("n1").term, net.raft("n1").leader) == (term, "n0")


def test_strangers_are_never_counted() -> None:
    net = Net()
    net.now = 1.0
    net.handle("n0", ev.TimerFired())
    for reply in (
        VoteReply(NodeId("nx"), Term(1), Term(1), granted=True, pre=True),
        VoteReply(NodeId("nx"), Term(9), Term(1), granted=False, pre=True),
    ):
        assert net.handle("n0", ev.MessageReceived(reply)) == []
    assert (net.raft("n0").role, net.raft("n0").term) == (Role.PRE_CANDIDATE, 0)


def test_a_broken_leader_connection_is_looked_into_soon_but_harms_nobody() -> None:
    net = Net()
    leader = net.elect("n0")
    term = net.raft(leader).term
    net.handle("n1", ev.PeerDisconnected(NodeId(leader)))
    assert net.raft("n1").deadline() <= net.now + 0.15
    net.run(2.0)
    assert net.leader() == leader
    assert net.raft(leader).term == term


def test_transfer_hands_over_and_refuses_proposals_meanwhile() -> None:
    net = Net()
    leader = net.elect("n0")
    net.run(0.3)
    net.handle(leader, ev.TransferRequested(N1, 7))
    effects = net.propose(leader)
    assert isinstance(effects[0], fx.ProposalRejected)
    assert effects[0].reason is Reason.LEADER_TRANSFERRING
    net.deliver()
    net.run(0.2)
    assert net.leader() == "n1"
    done = [e for e in net.nodes[N0].effects if isinstance(e, fx.TransferDone)]
    assert done == [fx.TransferDone(7, ok=True, reason=None)]


def test_a_transfer_waits_until_what_was_proposed_before_is_acknowledged() -> None:
    """The target has it; the leader's own disk and the third node's have not, so nobody is told."""
    net = Net()
    leader = net.elect("n0")
    net.run(0.2)
    net.nodes[N0].auto_flush = net.nodes[N2].auto_flush = False
    net.propose(leader)
    last = net.raft(leader).log.last.index
    net.handle(leader, ev.TransferRequested(N1, 7))
    net.run(0.1)
    status = net.raft(leader).status()
    assert (net.raft("n1").status().flushed, status.commit) == (last, last - 1)
    assert net.leader() == leader, "it is not told to stand yet"
    net.flush(leader, last)
    net.run(0.1)
    assert net.leader() == "n1"
    done = [e for e in net.nodes[N0].effects if isinstance(e, fx.CommitAdvanced)]
    assert done[-1].index >= last


def test_transfer_to_a_silent_node_is_refused_and_to_a_dying_one_taken_back() -> None:
    net = Net()
    leader = net.elect("n0")
    net.run(0.2)
    net.isolate("n1")
    net.handle(leader, ev.TransferRequested(N1, 8))
    net.run(0.7)
    assert net.leader() == leader
    net.handle(leader, ev.TransferRequested(N1, 9))
    done = [e for e in net.nodes[N0].effects if isinstance(e, fx.TransferDone)]
    assert [(d.transfer_id, d.reason) for d in done] == [
        (8, Reason.TIMEOUT),
        (9, Reason.FALL_BEHIND_TOO_MUCH),
    ]
    assert isinstance(net.propose(leader)[0], fx.AppendLocal)


def test_the_preferred_node_gets_the_lead_when_it_has_been_well_for_a_while() -> None:
    net = Net(preferred=N2)
    leader = net.elect("n0")
    net.run(2.0)
    assert net.leader() == leader
    net.run(6.0)
    assert net.leader() == "n2"


def test_the_preferred_node_gets_the_lead_under_load_too() -> None:
    """Its disk is always one entry behind what is committed, as it is while clients write."""
    net = Net(preferred=N2)
    leader = net.elect("n0")
    net.nodes[N2].auto_flush = False
    for _ in range(400):
        if leader != net.leader():
            break
        accepted = isinstance(net.propose(leader)[0], fx.AppendLocal)
        net.deliver()
        net.flush("n2", net.raft("n2").log.last.index - accepted)
        net.run(0.02)
    assert net.now < 8.5, "within a second after the wait"
    assert net.leader() == "n2"


def test_reads_do_not_keep_the_leader_from_its_timer() -> None:
    """A read every 20 ms starts a round of heartbeats each: check-quorum and the rest still run."""
    net = Net(preferred=N2)
    leader = net.elect("n0")
    for number in range(400):
        if leader != net.leader():
            break
        net.handle(leader, ev.ReadRequested(number))
        net.run(0.02)
        fresh = net.now - net.raft(leader).state.quorum_at < 0.3
        assert fresh or leader != net.leader(), "stickiness needs it fresh"
    assert net.leader() == "n2", "who should lead does, while clients read"


def test_a_failed_disk_ends_everything_at_once() -> None:
    """D5: no vote, no acknowledgement, no lead."""
    net = Net()
    leader = net.elect("n0")
    net.handle(leader, ev.StorageFailed(Reason.DISK_ERROR, "EIO"))
    assert net.raft(leader).role is Role.FAILED
    assert net.raft(leader).deadline() == float("inf")
    net.wires.clear()
    last = EntryId(Term(99), Index(99))
    net.handle(leader, ev.MessageReceived(VoteRequest(N1, Term(99), last, pre=False)))
    net.handle(leader, ev.MessageReceived(Heartbeat(N1, Term(99), Index(0), 1)))
    assert net.wires == []
    assert net.propose(leader)[0].reason is Reason.DISK_ERROR
    net.run(2.0)
    assert net.leader() in ("n1", "n2")
