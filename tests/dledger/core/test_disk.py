"""L5: an unhealthy disk. A node whose disk hangs neither votes, stands nor leads; others do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.leading import FULL_FRAME_BYTES_MAX
from dledger.core.messages import AppendEntries, DiskReport, TimeoutNow, VoteReply, VoteRequest
from dledger.core.types import DiskHealth, EntryId, Index, NodeId, Reason, Role, Term

from .net import Net

N0, N1, N2 = NodeId("n0"), NodeId("n1"), NodeId("n2")
SLOW = 0.2  # seconds per sync, where the others take a millisecond
FAST = 0.001


def check(net: Net, name: str, health: DiskHealth, sync_seconds: float = FAST) -> None:
    net.handle(name, ev.DiskChecked(health, "of this test", sync_seconds))
    net.deliver()


def hang(net: Net, name: str) -> None:
    """Nothing that it writes from here on becomes durable."""
    net.nodes[NodeId(name)].auto_flush = False
    check(net, name, DiskHealth.STALLED)


def refusal(effects: list[fx.Effect]) -> Reason | None:
    return next((e.reason for e in effects if isinstance(e, fx.ProposalRejected)), None)


def test_a_leader_whose_disk_hangs_hands_over_and_what_was_under_way_is_decided() -> None:
    net = Net()
    leader = net.elect("n0")
    net.nodes[N0].auto_flush = False
    net.propose(leader, 5)
    hang(net, leader)
    successor = net.leader()
    assert successor != "n0"
    assert net.raft(successor).commit == net.raft(successor).log.last.index
    net.run(1.0)
    assert net.raft("n0").leader == successor
    assert net.raft("n0").commit == net.raft(successor).commit, "the five entries are committed"


def test_proposals_are_refused_while_it_hands_over() -> None:
    net = Net()
    leader = net.elect("n0")
    net.cut = {(N0, N1), (N0, N2)}
    net.propose(leader, 1)  # nobody has it: the successor is not told yet
    hang(net, leader)
    assert refusal(net.propose(leader)) is Reason.LEADER_TRANSFERRING


def test_it_goes_although_no_follower_can_catch_up() -> None:
    """Heartbeats go on while its disk hangs and its data does not arrive: not for ever (#503)."""
    net = Net()
    leader = net.elect("n0")
    net.drop = lambda source, _, m: source == N0 and type(m).__name__ == "AppendEntries"
    net.propose(leader, 5)
    hang(net, leader)
    net.run(2.0)
    assert net.raft("n0").role is Role.FOLLOWER
    assert net.leader() != "n0"


def test_it_stays_while_no_voter_with_a_healthy_disk_is_heard() -> None:
    """L2: one disk under all nodes pauses, and nobody is elected for that."""
    net = Net()
    leader = net.elect("n0")
    term = net.raft(leader).term
    for name in ("n1", "n2", "n0"):
        hang(net, name)
    net.run(3.0)
    assert net.raft("n0").role is Role.LEADER
    assert net.raft("n0").term == term


def test_a_disk_that_hangs_votes_for_nobody() -> None:
    net = Net()
    check(net, "n2", DiskHealth.STALLED)
    last = EntryId(Term(-1), Index(-1))
    for pre in (True, False):
        net.handle("n2", ev.MessageReceived(VoteRequest(N0, Term(5), last, pre=pre)))
    assert not [m for _, _, m in net.wires if isinstance(m, VoteReply)]
    assert net.raft("n2").status().voted_for is None


def test_a_disk_that_hangs_does_not_stand() -> None:
    net = Net()
    net.elect("n0")
    hang(net, "n1")
    net.isolate("n0")
    net.isolate("n2")
    net.run(3.0)
    assert net.raft("n1").role is Role.FOLLOWER
    assert net.raft("n1").leader is None


def test_a_candidate_whose_disk_hangs_gives_up() -> None:
    net = Net()
    net.isolate("n0")
    net.now = 1.0
    net.handle("n0", ev.TimerFired())
    assert net.raft("n0").role is Role.PRE_CANDIDATE
    check(net, "n0", DiskHealth.STALLED)
    assert net.raft("n0").role is Role.FOLLOWER


UNHEALTHY = [health for health in DiskHealth if health is not DiskHealth.GOOD]


@pytest.mark.parametrize("health", UNHEALTHY)
def test_leadership_is_not_handed_to_a_disk_that_is_not_healthy(health: DiskHealth) -> None:
    """W24: not on request, not because it is preferred, not by a leader that has not heard it."""
    net = Net(preferred=N1)
    leader = net.elect("n0")
    check(net, "n1", health)
    done = net.handle(leader, ev.TransferRequested(N1, 7))
    assert fx.TransferDone(7, ok=False, reason=Reason.UNHEALTHY_DISK) in done
    net.run(12.0)
    assert net.leader() == "n0"
    net.handle("n1", ev.MessageReceived(TimeoutNow(N0, net.raft("n1").term)))
    assert net.raft("n1").role is Role.FOLLOWER
    check(net, "n1", DiskHealth.GOOD)
    net.run(12.0)
    assert net.leader() == "n1", "a disk that is trusted again leads again"


def test_a_disk_that_recovers_stands_after_the_others() -> None:
    for seed in range(20):
        net = Net(seed=seed)
        net.elect("n0")
        for health in (DiskHealth.STALLED, DiskHealth.RECOVERING):
            check(net, "n1", health)
        net.isolate("n0")
        net.run(3.0)
        assert net.raft("n2").role is Role.LEADER


def test_a_disk_that_recovers_stands_when_nobody_else_can() -> None:
    net = Net()
    net.elect("n0")
    net.isolate("n2")
    net.propose("n0", 1)
    net.deliver()
    for health in (DiskHealth.STALLED, DiskHealth.RECOVERING):
        check(net, "n1", health)
    net.heal()
    net.isolate("n0")
    net.run(6.0)
    assert net.raft("n1").role is Role.LEADER, "only it has what was acknowledged"


@pytest.mark.parametrize("health", [DiskHealth.LOW, DiskHealth.FULL])
def test_a_leader_without_room_hands_over_once(health: DiskHealth) -> None:
    net = Net()
    net.elect("n0")
    check(net, "n0", health)
    successor = net.leader()
    assert successor != "n0"
    for _ in range(5):
        check(net, "n0", health)
        net.run(1.0)
    assert net.leader() == successor


def test_a_leader_without_room_for_files_takes_no_proposals_and_stays_when_nobody_has() -> None:
    net = Net()
    leader = net.elect("n0")
    for name in ("n1", "n2", "n0"):
        check(net, name, DiskHealth.FULL)
    net.run(2.0)
    assert net.leader() == leader
    assert refusal(net.propose(leader)) is Reason.DISK_FULL
    check(net, leader, DiskHealth.RECOVERING)
    assert refusal(net.propose(leader)) is Reason.DISK_FULL, "nobody else takes it"
    before = net.raft(leader).log.last.index
    effects = net.handle(leader, ev.ProposalReceived(1, 100, "trim", frees_space=True))
    assert any(isinstance(effect, fx.AppendLocal) for effect in effects)
    assert net.raft(leader).log.last.index == before + 1, "what frees space is taken"
    check(net, "n1", DiskHealth.RECOVERING)
    assert refusal(net.propose(leader)) is None


def test_full_disks_that_leave_no_majority_refuse_proposals_and_one_of_three_does_not() -> None:
    net = Net()
    leader = net.elect("n0")
    check(net, "n1", DiskHealth.FULL)
    assert refusal(net.propose(leader)) is None
    assert net.raft(leader).full_voters == ()
    check(net, "n2", DiskHealth.FULL)
    assert refusal(net.propose(leader)) is Reason.DISK_FULL
    assert net.raft(leader).full_voters == (N1, N2)
    check(net, "n2", DiskHealth.GOOD)
    assert refusal(net.propose(leader)) is None


def test_a_full_disk_and_a_silent_voter_leave_no_majority_that_takes_the_log() -> None:
    net = Net()
    leader = net.elect("n0")
    net.isolate("n2")
    net.run(1.0)
    assert refusal(net.propose(leader)) is None, "silence alone refuses nothing"
    check(net, "n1", DiskHealth.FULL)
    assert refusal(net.propose(leader)) is Reason.DISK_FULL
    net.cut = set()
    net.run(0.5)
    assert refusal(net.propose(leader)) is None


def test_a_new_leader_is_told_of_a_full_disk_at_once() -> None:
    net = Net()
    net.elect("n0")
    for name in ("n1", "n2"):
        check(net, name, DiskHealth.FULL)
    net.isolate("n0")
    net.run(5.0)
    leader = net.leader()
    other = next(name for name in ("n1", "n2") if name != leader)
    assert net.raft(leader).progress[NodeId(other)].disk_health is DiskHealth.FULL


def full_and_stuck(net: Net) -> str:
    """A leader whose followers are full, hear it and take none of the entries that it sends."""
    leader = net.elect("n0")
    net.run(0.3)
    net.drop = lambda _, target, m: isinstance(m, AppendEntries) and m.last > m.prev.index
    net.propose(leader, 5)
    for name in ("n1", "n2"):
        check(net, name, DiskHealth.FULL)
    return leader


def test_full_followers_that_get_no_further_leave_the_leader_in_place_and_reads_go_on() -> None:
    net = Net()
    leader = full_and_stuck(net)
    term = net.raft(leader).term
    net.run(10.0)
    assert (net.leader(), net.raft(leader).term) == (leader, term)
    effects = net.handle(leader, ev.ReadRequested(7))
    net.deliver()
    effects = net.nodes[NodeId(leader)].effects
    assert any(isinstance(effect, fx.ReadReady) and effect.read_id == 7 for effect in effects)
    net.drop = lambda *_: False
    net.run(1.0)
    assert net.raft(leader).commit == net.raft(leader).log.last.index


def test_a_full_follower_is_sent_one_small_range_at_a_time() -> None:
    net = Net()
    leader = full_and_stuck(net)
    net.run(2.0)
    sent = net.nodes[NodeId(leader)].effects
    sent.clear()
    net.run(1.0)
    ranges = [e for e in sent if isinstance(e, fx.SendAppend) and not e.probe]
    assert ranges
    assert {e.size_max for e in ranges} == {FULL_FRAME_BYTES_MAX}
    assert len(ranges) <= 2 * 11, "two followers, ten heartbeats"


def test_a_node_without_space_for_the_first_entry_of_a_leadership_does_not_stand() -> None:
    net = Net()
    net.elect("n0")
    net.isolate("n0")
    net.isolate("n2")
    full = ev.DiskChecked(DiskHealth.FULL, "of this test", may_not_lead=True)
    net.handle("n1", full)
    net.run(5.0)
    assert net.raft("n1").role is Role.FOLLOWER
    net.handle("n1", replace(full, may_not_lead=False))
    net.run(5.0)
    assert net.raft("n1").role is Role.PRE_CANDIDATE


def test_a_node_without_space_for_the_first_entry_is_not_appointed() -> None:
    net = Net()
    net.elect("n0")
    net.handle("n1", ev.DiskChecked(DiskHealth.GOOD, may_not_lead=True))
    net.handle("n1", ev.MessageReceived(TimeoutNow(N0, net.raft("n1").term)))
    assert net.raft("n1").role is Role.FOLLOWER


def watch(net: Net, seconds: float, **sync_seconds: float) -> None:
    """Checks once a second, on every node, beside what else goes on."""
    for _ in range(int(seconds)):
        for name in net.names:
            check(net, name, DiskHealth.GOOD, sync_seconds.get(name, FAST))
        net.run(1.0)


def test_a_leader_much_slower_than_others_for_long_hands_over_once_and_stands_back() -> None:
    net = Net()
    net.elect("n0")
    watch(net, 9, n0=SLOW)
    assert net.leader() == "n0", "a burst moves nothing"
    watch(net, 3, n0=SLOW)
    successor = net.leader()
    assert successor != "n0"
    assert net.raft("n0").disk.health is DiskHealth.SLOW
    watch(net, 90, n0=SLOW)
    assert net.leader() == successor
    watch(net, 59)
    assert net.raft("n0").disk.health is DiskHealth.SLOW, "not before a while without trouble"
    watch(net, 3)
    assert net.raft("n0").disk.health is DiskHealth.GOOD


@pytest.mark.parametrize(
    "sync_seconds",
    [
        {"n0": SLOW, "n1": SLOW, "n2": SLOW / 2},  # as slow as the others
        {"n0": 0.04, "n1": FAST, "n2": FAST},  # slower, and quick enough
        {"n0": SLOW, "n1": 0.0, "n2": 0.0},  # nobody knows how long the others take
    ],
)
def test_a_slow_leader_stays_where_another_would_be_no_gain(
    sync_seconds: dict[str, float],
) -> None:
    net = Net()
    net.elect("n0")
    watch(net, 30, **sync_seconds)
    assert net.leader() == "n0"


def test_slow_syncs_of_an_earlier_leadership_are_not_counted_in_the_next() -> None:
    net = Net()
    net.elect("n0")
    watch(net, 9, n0=SLOW)
    net.handle("n0", ev.TransferRequested(N1, 1))
    net.deliver()
    assert net.leader() == "n1"
    net.run(5.0)
    net.handle("n1", ev.TransferRequested(N0, 1))
    net.deliver()
    assert net.leader() == "n0"
    for name in ("n1", "n2"):  # they report first
        check(net, name, DiskHealth.GOOD, FAST)
    net.deliver()
    watch(net, 9, n0=SLOW)
    assert net.leader() == "n0", "a burst moves nothing"


def test_slow_syncs_with_pauses_are_no_slow_disk() -> None:
    net = Net()
    net.elect("n0")
    for _ in range(5):
        watch(net, 8, n0=SLOW)
        watch(net, 1)
    assert net.leader() == "n0"


def test_a_report_counts_for_the_term_that_it_was_made_in() -> None:
    net = Net()
    leader = net.elect("n0")
    old = Term(net.raft(leader).term - 1)
    net.handle(leader, ev.MessageReceived(DiskReport(N1, old, DiskHealth.STALLED, FAST)))
    assert net.raft(leader).progress[N1].disk_health is DiskHealth.GOOD
    check(net, "n1", DiskHealth.STALLED)
    assert net.raft(leader).progress[N1].disk_health is DiskHealth.STALLED
