"""What a quiet group tells of itself: its leader lives, its followers are counted on (R30)."""

from __future__ import annotations

from dledger.core import events as ev

from .test_quiet import quiet, silent, watch


def test_a_quiet_leader_does_not_say_that_its_group_is_down() -> None:
    net, leader = silent()
    net.run(2.0)
    net.handle(leader, ev.DiskChecked(net.raft(leader).disk.health))
    assert leader in quiet(net)
    margin = net.raft(leader).margin()
    assert margin is not None
    assert (margin.may_fail_now, dict(margin.uncounted)) == (1, {})


def test_a_host_that_is_gone_is_not_counted_on_by_a_quiet_leader() -> None:
    net, leader = silent()
    one, other = net.followers()
    net.isolate(other)
    watch(net, leader, one)
    net.run(2.0)
    net.handle(leader, ev.DiskChecked(net.raft(leader).disk.health))
    assert leader in quiet(net)
    margin = net.raft(leader).margin()
    assert margin is not None
    assert (margin.may_fail_now, set(margin.uncounted)) == (0, {other})


def test_the_leader_of_a_quiet_group_lives_for_those_who_ask_at_the_door() -> None:
    """`Roster.strangers`: one that no configuration names is not let in beside it (4.1)."""
    net, leader = silent()
    net.run(2.0)
    for name in net.names:
        net.handle(name, ev.DiskChecked(net.raft(name).disk.health))
        assert name in quiet(net)
        assert net.raft(name).live_leader() == leader
