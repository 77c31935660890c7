"""Section 5.3, "Log replication", and the parts of 5.5 that speak of it."""

from __future__ import annotations

import pytest

from dledger.core import effects as fx
from dledger.core.events import MessageReceived
from dledger.core.messages import AppendEntries, AppendReply, Heartbeat
from dledger.core.replication import SafetyViolation
from dledger.core.types import NO_INDEX, EntryId, Role, Term
from tests.dledger.core.net import Net

from .steps import N0, N1, N2, answers, begin_with, ranged, receive, terms_of

#: Figure 7: "When the leader at the top comes to power, it is possible that any of scenarios (a-f)
#: could occur in follower logs."
FIGURE_7_LEADER = [1, 1, 1, 4, 4, 5, 5, 6, 6, 6]
FIGURE_7 = {
    "a": [1, 1, 1, 4, 4, 5, 5, 6, 6],
    "b": [1, 1, 1, 4],
    "c": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6],
    "d": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7],
    "e": [1, 1, 1, 4, 4, 4, 4],
    "f": [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3],
}


def led(count: int = 3) -> Net:
    """Led by n0, its no-op committed everywhere."""
    net = Net(count)
    net.elect("n0")
    net.run(0.2)
    return net


def applied(net: Net, name: str) -> list[int]:
    """Up to where this node was told to apply, step by step."""
    effects = net.nodes[net.raft(name).node_id].effects
    return [e.index for e in effects if isinstance(e, fx.CommitAdvanced)]


def test_the_leader_appends_and_sends_to_all_in_parallel() -> None:
    """ "The leader appends the command to its log as a new entry, then issues AppendEntries RPCs
    in parallel to each of the other servers to replicate the entry." """
    # Given a leader of five,
    net = led(5)
    # when a client's command comes,
    effects = net.propose("n0")
    # then it is in the leader's log, and on its way to four before anybody answered.
    assert isinstance(effects[0], fx.AppendLocal)
    assert net.raft("n0").log.last.index == 1
    sent = [to for _, to, m in net.wires if isinstance(m, AppendEntries) and m.last == 1]
    assert sorted(sent) == ["n1", "n2", "n3", "n4"]


def test_an_entry_is_committed_once_a_majority_has_it() -> None:
    """ "A log entry is committed once the leader that created the entry has replicated it on a
    majority of the servers." """
    # Given a leader of five with a new entry, and three followers that hear nothing,
    net = led(5)
    for name in ("n2", "n3", "n4"):
        net.isolate(name)
    net.propose("n0")
    net.deliver()
    # when two of five have it, then it is not committed;
    assert net.raft("n0").commit == 0
    # when three have it, then it is.
    net.heal()
    net.isolate("n3")
    net.isolate("n4")
    net.run(1.0)
    assert net.raft("n0").commit == 1


def test_a_commit_takes_all_preceding_entries_along() -> None:
    """ "This also commits all preceding entries in the leader's log, including entries created by
    previous leaders." """
    # Given a leader whose log has uncommitted entries of terms 1 and 2,
    net = Net()
    begin_with(net, "n0", [1, 1, 2])
    # when it is elected and its own first entry is on a majority,
    net.elect("n0")
    # then everything is committed.
    assert terms_of(net, "n0") == [1, 1, 2, 3]
    assert net.raft("n0").commit == 3


def test_the_leader_tries_for_ever_also_after_it_answered_the_client() -> None:
    """ "If followers crash or run slowly, or if network packets are lost, the leader retries
    AppendEntries RPCs indefinitely (even after it has responded to the client)." """
    # Given entries that a majority has, and a follower of which every message is lost,
    net = led()
    net.isolate("n2")
    net.propose("n0", 5)
    net.run(0.2)
    assert net.raft("n0").commit == 5
    # when it hears again, half a minute later, without another command,
    net.run(30.0)
    net.heal()
    net.run(1.0)
    # then it has them.
    assert net.raft("n2").log.last == net.raft("n0").log.last


def test_followers_learn_of_the_commit_by_appends_and_heartbeats() -> None:
    """ "The leader keeps track of the highest index it knows to be committed, and it includes that
    index in future AppendEntries RPCs (including heartbeats)." """
    # Given an entry that is committed and of which followers do not know that,
    net = led()
    net.propose("n0")
    net.deliver()
    assert (net.raft("n0").commit, net.raft("n1").commit) == (1, 0)
    # when the next heartbeat comes to n1, and the next append to n2,
    net.drop = lambda _s, to, m: to == N2 and isinstance(m, Heartbeat)
    net.run(0.11)
    net.propose("n0")
    net.deliver()
    # then both know.
    assert (net.raft("n1").commit, net.raft("n2").commit) == (1, 1)


def test_entries_are_applied_in_log_order() -> None:
    """ "Once a follower learns that a log entry is committed, it applies the entry to its local
    state machine (in log order)." """
    # Given a group,
    net = led()
    # when entries are committed in steps,
    for count in (1, 3, 2):
        net.propose("n0", count)
        net.run(0.2)
    # then every node was told to apply each once, forward.
    for name in net.names:
        steps = applied(net, name)
        assert steps == sorted(set(steps))
        assert steps[-1] == 6


def test_entries_without_a_matching_predecessor_are_refused() -> None:
    """ "If the follower does not find an entry in its log with the same index and term, then it
    refuses the new entries." """
    for prev in ((1, 5), (2, 1), (-1, 0)):
        # Given a follower with two entries of term 1,
        net = Net()
        begin_with(net, "n1", [1, 1])
        # when entries come behind one that it lacks, or has in another term,
        receive(net, "n1", ranged(N0, 3, prev, [3], commit=9))
        # then it refuses, and its log and commit are as they were.
        assert not answers(net, AppendReply)[-1].success
        assert terms_of(net, "n1") == [1, 1]
        assert net.raft("n1").commit == NO_INDEX


def test_same_index_and_term_means_the_same_log_up_to_there() -> None:
    """ "If two entries in different logs have the same index and term, then the logs are identical
    in all preceding entries." """
    for seed in range(6):
        # Given a group in which leaders and connections come and go,
        net = Net(5, seed=seed)
        for turn in range(8):
            net.isolate(net.random.choice(net.names))
            net.run(1.2)
            for name in net.names:
                net.propose(name, 1 + turn % 3)
            net.heal()
        # when its logs are compared at any moment, then the property holds;
        net.check_logs()
        # and when nothing disturbs it any more, all are equal.
        net.run(3.0)
        assert len({tuple(terms_of(net, name)) for name in net.names}) == 1


@pytest.mark.parametrize("follower", sorted(FIGURE_7))
def test_figure_7_one_by_one(follower: str) -> None:
    """ "Conflicting entries in follower logs will be overwritten with entries from the leader's
    log." """
    # Given the leader of figure 7 and one of its followers (n2's log is the leader's),
    net = Net()
    for name, terms in (("n0", FIGURE_7_LEADER), ("n1", FIGURE_7[follower])):
        begin_with(net, name, terms, term=7)
    begin_with(net, "n2", FIGURE_7_LEADER, term=7)
    # when it comes to power for term 8,
    net.elect("n0")
    net.run(1.0)
    # then the follower has the leader's log, and what they had in common was never dropped.
    assert terms_of(net, "n1") == [*FIGURE_7_LEADER, 8]
    common = 0
    for ours, theirs in zip(FIGURE_7_LEADER, FIGURE_7[follower], strict=False):
        if ours != theirs:
            break
        common += 1
    assert all(index >= common - 1 for name, index in net.truncations if name == N1)
    drops = follower in "cdef"
    assert bool(net.truncations) == drops


def test_figure_7_all_at_once() -> None:
    """ "It is possible that any of scenarios (a-f) could occur in follower logs." """
    # Given the seven servers of the figure,
    net = Net(7)
    for name, terms in zip(net.names, [FIGURE_7_LEADER, *FIGURE_7.values()], strict=True):
        begin_with(net, name, terms, term=7)
    # when the leader comes to power,
    net.elect("n0")
    net.run(1.0)
    # then c and d had to be outvoted, and all logs are the leader's.
    assert {tuple(terms_of(net, name)) for name in net.names} == {(*FIGURE_7_LEADER, 8)}
    assert {node.raft.commit for node in net.nodes.values()} == {10}


def test_next_index_begins_behind_the_leaders_last_entry() -> None:
    """ "When a leader first comes to power, it initializes all nextIndex values to the index just
    after the last one in its log." """
    # Given a server with three entries,
    net = Net()
    for name in net.names:
        begin_with(net, name, [1, 1, 1])
    # when it comes to power,
    net.drop = lambda _s, _t, m: isinstance(m, AppendReply)
    net.elect("n0")
    # then it asked first for what is behind those three (its no-op is the fourth entry).
    assert [peer.next for peer in net.raft("n0").status().peers] == [3, 3]


def test_a_conflict_costs_one_message_for_each_term_and_not_for_each_entry() -> None:
    """ "One AppendEntries RPC will be required for each term with conflicting entries, rather than
    one RPC per entry." """
    # Given a follower with 3 terms of 50 entries each that the leader does not have,
    net = Net()
    ours = [1] * 10 + [9] * 200
    theirs = [1] * 10 + [2] * 50 + [3] * 50 + [4] * 50
    for name, terms in (("n0", ours), ("n1", theirs), ("n2", ours)):
        begin_with(net, name, terms)
    refused = 0

    def count(_source: object, _target: object, message: object) -> bool:
        nonlocal refused
        refused += isinstance(message, AppendReply) and not message.success
        return False

    net.drop = count
    # when the leader comes to power,
    net.elect("n0")
    net.run(1.0)
    # then it was refused a handful of times at most.
    assert terms_of(net, "n1") == terms_of(net, "n0")
    assert 1 <= refused <= 4


def test_a_leader_never_overwrites_its_own_log() -> None:
    """ "A leader never overwrites or deletes entries in its own log." """
    # Given a leader with entries,
    net = led()
    net.propose("n0", 5)
    net.run(0.2)
    before = terms_of(net, "n0")
    # when somebody claims to lead the same term, with other entries,
    claim = MessageReceived(ranged(N1, net.raft("n0").term, (-1, -1), [1]))
    with pytest.raises(SafetyViolation, match="both lead"):
        net.raft("n0").handle(claim, net.now)
    # then the node stops at that, and its log is as it was.
    assert terms_of(net, "n0") == before
    assert net.truncations == []


def test_one_round_commits_and_one_slow_follower_does_not_matter() -> None:
    """ "A new entry can be replicated with a single round of RPCs to a majority of the cluster;
    and a single slow follower will not impact performance." """
    # Given a leader and a follower that is silent,
    net = led()
    net.isolate("n2")
    # when a command comes, and one message and its answer travel,
    net.propose("n0")
    exchanged = 0
    while net.raft("n0").commit < 1:
        net.deliver(rounds=1)
        exchanged += 1
    # then it is committed, without any time having passed.
    assert exchanged <= 4  # to n1, to n2 (lost), n1's answer, and one to spare


def test_5_5_appends_are_idempotent() -> None:
    """ "If a follower receives an AppendEntries request that includes log entries already present
    in its log, it ignores those entries in the new request." """
    # Given a follower with five entries,
    net = Net()
    message = ranged(N0, 1, (-1, -1), [1] * 5)
    receive(net, "n1", message)
    before = len(net.nodes[N1].effects)
    # when the same entries come again, all and some,
    for again in (message, ranged(N0, 1, (-1, -1), [1, 1]), ranged(N0, 1, (1, 1), [1, 1])):
        receive(net, "n1", again)
    # then nothing is written and nothing dropped, and each is answered.
    later = net.nodes[N1].effects[before:]
    assert not [e for e in later if isinstance(e, (fx.AppendReceived, fx.TruncateAfter))]
    assert [m.success for m in answers(net, AppendReply)] == [True] * 4
    assert net.raft("n1").log.last == EntryId(Term(1), net.raft("n1").log.last.index)
    assert net.raft("n1").log.last.index == 4


def test_5_5_a_server_that_crashes_before_it_answers_does_the_work_again() -> None:
    """ "If a server crashes after completing an RPC but before responding, then it will receive
    the same RPC again after it restarts. Raft RPCs are idempotent, so this causes no harm." """
    # Given a follower that has an entry on disk and crashes before its answer leaves,
    net = led()
    net.drop = lambda source, _t, m: source == N1 and isinstance(m, AppendReply)
    net.propose("n0")
    net.deliver()
    net.restart(N1)
    # when it is back,
    net.drop = lambda *_: False
    net.isolate("n2")
    net.run(1.5)
    # then it is asked again, counted, and has the entry once.
    leader = net.leader()
    assert net.raft(leader).commit == net.raft(leader).log.last.index
    assert terms_of(net, "n0") == terms_of(net, "n1")
    assert net.raft(leader).role is Role.LEADER
