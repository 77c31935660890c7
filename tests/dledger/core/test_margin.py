"""How many more members may fail now: who is counted on, and of which configurations."""

from __future__ import annotations

import pytest

from dledger.core import events as ev
from dledger.core.configuration import ChangeKind
from dledger.core.margin import LACKS_SETTLED, Margin
from dledger.core.messages import AppendEntries, AppendReply, DiskReport, HeartbeatReply
from dledger.core.progress import REJECTIONS, Mode
from dledger.core.types import NO_ENTRY, NO_INDEX, DiskHealth, Index, NodeId

from .net import Net

N0, N1, N2, N3 = NodeId("n0"), NodeId("n1"), NodeId("n2"), NodeId("n3")


def group(count: int = 3, **settings: object) -> Net:
    net = Net(count, **settings)
    net.elect("n0")
    net.propose("n0", 5)
    net.run(0.5)
    return net


def margin(net: Net) -> Margin:
    found = net.raft("n0").margin()
    assert found is not None
    return found


def test_everybody_is_counted_on_and_only_a_leader_knows() -> None:
    net = group(5)
    assert margin(net) == Margin(3, 2, 2, {})
    assert net.raft("n1").margin() is None


def test_a_silent_member_is_one_less_and_one_that_is_back_counts_again() -> None:
    net = group()
    net.isolate("n2")
    net.run(0.5)
    assert margin(net) == Margin(2, 1, 0, {N2: "does not answer"})
    net.heal()
    net.run(1.0)
    assert margin(net) == Margin(2, 1, 1, {})


def test_too_few_are_a_number_below_zero() -> None:
    net = group(5)
    for name in ("n1", "n2", "n3"):
        net.isolate(name)
    net.run(0.4)  # before it gives up
    assert margin(net).may_fail_now == -1


def test_one_that_answers_and_is_far_behind_is_not_counted_on() -> None:
    net = group(transfer_lag_max=10, stall_factor=1000.0)
    net.drop = lambda _, to, message: to == N2 and isinstance(message, AppendEntries)
    net.propose("n0", 11)
    net.run(0.5)
    assert margin(net) == Margin(2, 1, 0, {N2: "is 11 entries behind"})


def test_one_that_answers_and_never_has_more_on_disk_is_not_counted_on() -> None:
    net = group()
    net.nodes[N2].auto_flush = False
    net.propose("n0", 1)
    net.run(4.0)
    assert margin(net) == Margin(2, 1, 0, {N2: "answers and gets no further"})


@pytest.mark.parametrize("health", [DiskHealth.FULL, DiskHealth.STALLED])
def test_a_disk_that_takes_no_log_counts_for_nothing(health: DiskHealth) -> None:
    net = group()
    report = DiskReport(N1, net.raft("n1").term, health, 0.0)
    net.handle("n0", ev.MessageReceived(report))
    assert margin(net) == Margin(2, 1, 0, {N1: f"its disk is {health.name.lower()}"})


def test_a_leaders_own_full_disk_counts_for_nothing() -> None:
    net = group()
    for name in ("n1", "n2"):  # nobody to hand over to, so it leads on
        report = DiskReport(NodeId(name), net.raft(name).term, DiskHealth.LOW, 0.0)
        net.handle("n0", ev.MessageReceived(report))
    net.handle("n0", ev.DiskChecked(DiskHealth.FULL, "no room"))
    assert margin(net) == Margin(2, 1, 0, {N0: "its disk is full"})


def test_one_that_lost_its_disk_is_in_the_majority_and_not_counted_on() -> None:
    net = group()
    net.wipe("n2")
    net.drop = lambda _, to, message: to == N2 and isinstance(message, AppendEntries)
    net.change("n0", ChangeKind.READMIT, "n2", incarnation=7)
    net.deliver()
    assert margin(net) == Margin(2, 1, 0, {N2: "has not got the log back yet"})


def test_who_only_follows_changes_nothing() -> None:
    net = group()
    net.join("n3")
    net.isolate("n3")
    net.change("n0", ChangeKind.ADD_LEARNER, "n3", incarnation=7)
    net.run(0.5)
    assert margin(net) == Margin(2, 1, 1, {})


def test_while_a_change_is_not_committed_both_configurations_count() -> None:
    """Of four, n3 is gone and is being removed: three would have one to spare, four have none."""
    net = group(4)
    net.isolate("n3")
    net.run(0.5)
    assert margin(net) == Margin(3, 1, 0, {N3: "does not answer"})
    net.drop = lambda _, to, message: to != N0 and isinstance(message, AppendEntries)
    net.change("n0", ChangeKind.REMOVE, "n3")
    net.deliver()
    assert net.configuration("n0").voters == (N0, N1, N2)
    assert margin(net) == Margin(2, 1, 0, {N3: "is being removed"})
    net.drop = lambda *_: False
    net.run(0.5)
    assert margin(net) == Margin(2, 1, 1, {})


def test_of_what_would_be() -> None:
    net = group()
    net.isolate("n2")
    net.run(0.5)
    now = net.configuration("n0")
    without = type(now)(tuple(m for m in now.members if m.node_id != N2))
    assert net.raft("n0").margin(without) == Margin(2, 0, 0, {})


@pytest.mark.parametrize("writes", [False, True])
def test_one_that_lost_what_it_acknowledged_is_told_and_is_not_believed_less(writes: bool) -> None:
    """D3: a disk that lied, in one incarnation; what it had acknowledged stays counted (S5)."""
    net = group()
    before = net.raft("n0").progress[N2]
    flushed = before.flushed
    net.restart(N2, keep=Index(flushed - 2))
    for _ in range(8):
        net.run(0.1)
        if writes:
            net.propose("n0", 1)
    assert margin(net) == Margin(2, 1, 0, {N2: LACKS_SETTLED})
    assert net.raft("n0").progress[N2].flushed == flushed
    assert net.leader() == N0
    net.restart(N0)  # the next leadership asks anew, and sends it what it lacks
    net.elect("n1")
    net.run(1.0)
    found = net.raft("n1").margin()
    assert found is not None
    assert found.uncounted == {}


def asked_again(net: Net) -> AppendReply:
    """n2 is asked for its newest entry and its answer is lost; a rejection of that, made before."""
    term, progress = net.raft("n0").term, net.raft("n0").progress[N2]
    net.drop = lambda source, _, message: source == N2 and isinstance(message, AppendReply)
    net.handle("n0", ev.PeerDisconnected(N2))
    assert (progress.mode, progress.next) == (Mode.PROBE, progress.flushed + 1)
    return AppendReply(N2, term, False, progress.flushed, NO_INDEX, NO_INDEX, NO_ENTRY)


def test_a_late_rejection_however_often_it_comes_is_none_of_a_lost_entry() -> None:
    """S2: it was made before the entry came, and comes again with one open question."""
    net = group()
    late = asked_again(net)
    net.handle("n0", ev.PeerDisconnected(N2))
    progress, before = net.raft("n0").progress[N2], net.raft("n0").progress[N2].matched
    for _ in range(3 * REJECTIONS):
        net.handle("n0", ev.MessageReceived(late))
    assert (progress.rejections, progress.matched) == (1, before)
    assert margin(net).uncounted == {}


def test_rejections_before_and_after_a_success_are_not_added_up() -> None:
    """Its heartbeats say that it has the entry, so rejections between them are late ones."""
    net = group()
    late = asked_again(net)
    for _ in range(3 * REJECTIONS):
        net.handle("n0", ev.MessageReceived(late))
        net.run(0.11)
    assert margin(net).uncounted == {}


def test_rejections_of_another_question_than_the_open_one_do_not_count() -> None:
    net = group()
    late = asked_again(net)
    net.drop = lambda source, _, message: (
        source == N2 and isinstance(message, (AppendReply, HeartbeatReply))
    )
    earlier = AppendReply(
        N2, late.term, False, Index(late.prev_index - 1), NO_INDEX, NO_INDEX, NO_ENTRY
    )
    for _ in range(2 * REJECTIONS):
        net.handle("n0", ev.MessageReceived(earlier))
        net.run(0.11)
    assert margin(net).uncounted == {}
