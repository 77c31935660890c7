"""Late messages and losses that one side saw wake both ends of a group (R30)."""

from __future__ import annotations

from dledger.core import events as ev
from dledger.core.configuration import ChangeKind
from dledger.core.messages import AppendEntries, HeartbeatReply
from dledger.core.types import NO_INDEX, NodeId

from .net import Net
from .test_quiet import CHECK, quiet, silent, watch, watching


def late_append(net: Net, leader: str) -> AppendEntries:
    """A range that was sent twice, and comes late on the bulk link."""
    state = net.raft(leader)._state
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
    state = net.raft(leader)._state
    said = net.raft(other)._state
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
