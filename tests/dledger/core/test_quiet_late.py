"""Late messages and losses that one side saw wake both ends of a group (R30)."""

from __future__ import annotations

import pytest

from dledger.core import events as ev
from dledger.core.configuration import ChangeKind
from dledger.core.messages import AppendEntries, HeartbeatReply
from dledger.core.types import NO_INDEX, NodeId

from .net import Net
from .test_quiet import CHECK, quiet, silent, watch, watching


def late_append(net: Net, leader: str) -> AppendEntries:
    """A range that was sent twice, and comes late on the bulk link."""
    state = net.raft(leader).state
    last = state.log.last
    return AppendEntries(NodeId(leader), state.term, last, last.index, state.commit, ())


def with_learner() -> tuple[Net, str]:
    net, leader = watching()
    net.join("n3")
    net.change(leader, ChangeKind.ADD_LEARNER, "n3")
    net.run(0.2)
    for name in net.names:
        watch(net, name, *(other for other in net.names if other != name))
    net.run(2.0)
    assert quiet(net) == set(net.names)
    return net, leader


def test_a_late_message_of_the_leader_does_not_make_a_quiet_follower_stand() -> None:
    net, leader = silent()
    follower = net.followers()[0]
    net.handle(follower, ev.MessageReceived(late_append(net, leader)))
    for _ in range(200):
        net.run(0.01)
        assert net.raft(follower).leader == leader


def test_a_late_message_of_the_leader_does_not_cost_a_learner_its_leader() -> None:
    net, leader = with_learner()
    net.handle("n3", ev.MessageReceived(late_append(net, leader)))
    net.run(CHECK / 2, step=0.05)
    assert net.raft("n3").leader == leader


def test_a_loss_of_hosts_that_one_side_alone_saw_does_not_cost_a_learner_its_leader() -> None:
    net, leader = with_learner()
    others = [name for name in net.names if name != "n3"]
    watch(net, "n3", *(name for name in others if name != leader))
    net.run(0.1)
    watch(net, "n3", *others)
    net.run(1.0)
    assert net.raft("n3").leader == leader


def test_a_follower_that_woke_again_before_the_leader_is_quiet_is_not_left() -> None:
    net, leader = watching()
    one, other = net.followers()
    net.drop = lambda source, _to, message: (
        source == other and isinstance(message, HeartbeatReply) and message.quiet
    )
    net.run(1.0)
    assert one in quiet(net)
    assert leader not in quiet(net)
    net.handle(one, ev.DamageNoted(NO_INDEX))  # anything of its own
    net.drop = lambda *_: False
    state = net.raft(leader).state
    said = net.raft(other).state
    net.wires.append(  # its answer, which was late
        (
            NodeId(other),
            NodeId(leader),
            HeartbeatReply(
                NodeId(other), state.term, state.round, said.matched, said.flushed, quiet=True
            ),
        )
    )
    net.deliver()
    assert (leader in quiet(net)) <= (one in quiet(net))


def without_host(net: Net, leader: str) -> None:
    """The learner is down, and was on no host; the others go on to watch each other."""
    net.isolate("n3")
    hosts = [name for name in net.names if name != "n3"]
    for name in hosts:
        watch(net, name, *(other for other in hosts if other != name))
    net.raft("n3").state.watched = None
    net.handle(leader, ev.CommitWanted(NodeId("n3")))  # anything that wakes it


@pytest.mark.parametrize("moment", range(0, 60, 3))
def test_a_learner_that_connects_while_its_leader_falls_silent_hears_of_it(moment: int) -> None:
    """Behind the last heartbeat, and before the answers by which the leader is silent."""
    net, leader = with_learner()
    without_host(net, leader)
    net.run(0.2)
    net.run(0.01 * moment)
    net.heal()
    heard = net.raft("n3").state.heard_leader_at
    net.handle(leader, ev.PeerConnected(NodeId("n3")))
    net.run(1.0)
    assert net.raft("n3").state.heard_leader_at > heard


def test_a_connection_between_the_last_heartbeat_and_its_answers_puts_silence_off() -> None:
    net, leader = with_learner()
    without_host(net, leader)
    state = net.raft(leader).state
    isolated = net.drop
    net.drop = lambda source, to, message: (
        isolated(source, to, message) or (isinstance(message, HeartbeatReply) and message.quiet)
    )
    net.run(0.2)
    while not state.asked_quiet:
        net.run(0.01)
    assert not state.quiet
    net.drop = isolated
    net.wires.clear()
    net.heal()
    net.handle(leader, ev.PeerConnected(NodeId("n3")))
    for one, other in ((name, leader) for name in net.names if name not in (leader, "n3")):
        said = net.raft(one).state
        net.wires.append(
            (
                NodeId(one),
                NodeId(other),
                HeartbeatReply(
                    NodeId(one), state.term, state.round, said.matched, said.flushed, quiet=True
                ),
            )
        )
    heard = net.raft("n3").state.heard_leader_at
    net.deliver()
    assert not state.quiet
    net.run(0.5)
    assert net.raft("n3").state.heard_leader_at > heard
