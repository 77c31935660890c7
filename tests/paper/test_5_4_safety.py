"""Section 5.4, "Safety", and the rule on timing of 5.6."""

from __future__ import annotations

import pytest

from dledger.core.config import CoreConfig
from dledger.core.messages import AppendEntries, VoteRequest
from dledger.core.types import EntryId, Index, Role, Term
from tests.dledger.core.net import Net

from .steps import N0, N1, N2, N3, N4, ask, begin_with, leaders, terms_of, time_out


@pytest.mark.parametrize(
    ("own", "other", "granted"),
    [
        ([1, 1, 2], [1, 1, 3], True),  # "the log with the later term is more up-to-date"
        ([1, 1, 1, 1], [1, 3], True),  # also when it is shorter
        ([1, 3], [1, 1, 1, 1], False),
        ([1, 2, 2], [1, 2], False),  # "whichever log is longer is more up-to-date"
        ([1, 2], [1, 2, 2], True),
        ([1, 2], [1, 2], True),
        ([], [], True),
        ([1], [], False),
    ],
)
def test_5_4_1_the_voter_denies_its_vote_to_a_log_behind_its_own(
    own: list[int], other: list[int], granted: bool
) -> None:
    """ "The voter denies its vote if its own log is more up-to-date than that of the
    candidate." """
    for pre in (True, False):
        # Given a voter with a log,
        net = Net()
        begin_with(net, "n1", own)
        # when a candidate with another log asks, in a term far above both,
        last = EntryId(Term(other[-1] if other else -1), Index(len(other) - 1))
        reply = ask(net, "n1", VoteRequest(N0, Term(50), last, pre))
        # then the last entries decide, and the term of the election does not.
        assert reply.granted is granted


def test_5_4_1_no_candidate_wins_without_all_committed_entries() -> None:
    """ "Raft uses the voting process to prevent a candidate from winning an election unless its log
    contains all committed entries." """
    # Given entries that n0 and n1 have, and n2 not,
    net = Net()
    net.elect("n0")
    net.isolate("n2")
    net.propose("n0", 5)
    net.run(0.3)
    assert net.raft("n0").commit == 5
    # when n0 is away for a while, and n2 may stand as often as it likes,
    net.heal()
    net.drop = lambda _s, to, m: to == N2 and isinstance(m, AppendEntries)
    net.isolate("n0")
    net.run(5.0)
    # then n1 leads, or nobody.
    assert "n2" not in net.checker.leaders.values()
    assert net.raft("n1").role is Role.LEADER


def win(net: Net, name: str) -> None:
    """Others keep still; one answer may be needed to learn the term of the group."""
    for _ in range(3):
        time_out(net, name)
        net.deliver()
        if name in leaders(net):
            return
    raise AssertionError(f"{name} does not win")


def figure_8() -> Net:
    """Up to (c): S1 (n0) leads again, and its old entry 1 is on a majority; S5 is n4.

    Ours opens each leadership with a no-op; it plays the part of the entries in the figure.
    """
    net = Net(5)
    net.elect("n0")
    net.run(0.2)  # (a) S1 leads; its next entry comes to S2 only
    for name in (N2, N3, N4):
        net.isolate(name)
    net.propose("n0")
    net.deliver()
    net.heal()
    for name in (N0, N1):  # (b) S5 leads, by votes of S3, S4 and itself, and keeps its entry
        net.isolate(name)
    net.drop = lambda _s, _t, m: isinstance(m, AppendEntries)
    win(net, "n4")
    net.heal()
    net.isolate("n4")
    # (c) S1 leads again and brings its entry 1 to S3, and to nobody its no-op
    net.drop = lambda _s, to, m: isinstance(m, AppendEntries) and (m.last > 1 or to != N2)
    net.nodes[N0].frame_entries_max = 1
    win(net, "n0")
    net.run(0.2)
    holders = [name for name in net.names if net.raft(name).log.term_at(1) == 1]
    assert holders == ["n0", "n1", "n2"]
    return net


def test_5_4_2_entries_of_earlier_terms_are_not_committed_by_counting() -> None:
    """ "Raft never commits log entries from previous terms by counting replicas." """
    # Given figure 8 (c): an entry of term 1 on three of five, in a later term,
    net = figure_8()
    # when its leader has heard of all three,
    net.run(0.1)
    # then it is not committed;
    assert net.raft("n0").role is Role.LEADER
    assert net.raft("n0").commit == 0
    # (d) and S5 may still overwrite it,
    net.drop = lambda *_: False
    net.wires.clear()
    net.isolate("n0")
    net.isolate("n1")
    net.cut -= {(a, b) for a in (N2, N3, N4) for b in (N2, N3, N4)}
    win(net, "n4")
    net.run(0.5)
    net.heal()
    net.run(2.0)
    # then nobody has it, and no rule was broken.
    assert all(net.raft(name).log.term_at(1) != 1 for name in net.names)
    net.check_logs()


def test_5_4_2_an_entry_of_the_current_term_commits_them_all() -> None:
    """ "Once an entry from the current term has been committed in this way, then all prior entries
    are committed indirectly because of the Log Matching Property." """
    # Given figure 8 (c),
    net = figure_8()
    term = net.raft("n0").term
    # when (e) the leader's own entry comes to a majority too,
    net.drop = lambda *_: False
    net.run(1.0)
    # then both are committed, and S5 cannot win without them.
    assert net.raft("n0").commit >= 2
    assert terms_of(net, "n0")[:3] == [1, 1, term]
    net.heal()
    net.run(1.0)
    assert terms_of(net, "n4")[:3] == [1, 1, term]
    net.check_logs()


def test_5_4_3_leader_completeness() -> None:
    """ "If a log entry is committed in a given term, then that entry will be present in the logs of
    the leaders for all higher-numbered terms." """
    for seed in range(8):
        # Given five servers,
        net = Net(5, seed=seed)
        committed: list[int] = []
        # when two of them, chosen at random, are away in each round,
        for _ in range(6):
            for name in net.random.sample(net.names, 2):
                net.isolate(name)
            net.run(2.0)
            leader = net.leader()
            # then whoever leads has all that was committed before,
            assert terms_of(net, leader)[: len(committed)] == committed
            net.propose(leader, 2)
            net.run(0.3)
            now_committed = terms_of(net, leader)[: net.raft(leader).commit + 1]
            # and commits more.
            assert len(now_committed) > len(committed)
            committed = now_committed
            net.heal()


def test_5_5_a_lost_vote_request_is_asked_again() -> None:
    """ "If a follower or candidate crashes, then future RequestVote and AppendEntries RPCs sent to
    it will fail. Raft handles these failures by retrying indefinitely." """
    # Given three servers of which one is down, and the first twenty messages are lost,
    net = Net()
    net.isolate("n2")
    lost = iter(range(20))
    net.drop = lambda *_: next(lost, None) is not None
    # when time passes,
    net.run(5.0)
    # then the two have a leader.
    assert net.leader() in ("n0", "n1")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heartbeat_interval": 0.2, "election_timeout_min": 0.3}, "at most half"),
        ({"election_timeout_min": 0.6, "election_timeout_max": 0.6}, "votes split for ever"),
    ],
)
def test_5_6_timing_that_cannot_work_is_refused(settings: dict[str, float], message: str) -> None:
    """ "broadcastTime ≪ electionTimeout ≪ MTBF" """
    # Given a heartbeat that is not much shorter than the timeout, or a timeout without spread,
    config = CoreConfig(N0, (N0, N1, N2), **settings)  # type: ignore[arg-type]
    # when it is looked at, then the sentence names both numbers.
    with pytest.raises(ValueError, match=message):
        config.validate()
