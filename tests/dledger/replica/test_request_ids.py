"""No process asks with a number that an earlier one of its node has used (S9)."""

from __future__ import annotations

from pathlib import Path

from dledger import RaftConfig, ReplicatedLog
from dledger.core.messages import (
    Message,
    RangeReply,
    RangeRequest,
    ReadIndexReply,
    ReadIndexRequest,
)
from dledger.core.types import Index, NodeId
from dledger.errors import DledgerError
from dledger.replica.request_ids import FIRST_ID_BITS, draw_first_id, numbers_from
from tests.dledger.file_group import FileGroup, FileHost, filled
from tests.dledger.replica.test_replica import Net, proposal


def test_numbers_count_up_from_where_a_process_begins() -> None:
    new_id = numbers_from(draw_first_id(lambda bits: (1 << bits) - 1))
    assert [new_id(), new_id()] == [(1 << FIRST_ID_BITS) - 1, 1 << FIRST_ID_BITS]


def test_the_answer_to_a_read_before_a_restart_serves_none_behind_it() -> None:
    net = Net()
    leader, follower = net.elect("n0"), net["n1"]
    asked: list[int] = []
    answers: list[DledgerError | None] = []
    for _ in range(2):
        follower.replica.read_index(answers.append, net.now)
        asked += [m.read_id for _, _, m in net.wires if isinstance(m, ReadIndexRequest)]
        net.wires.clear()
        if len(asked) == 1:
            follower.boot()
            leader.replica.propose(proposal([]), net.now)
            net.deliver()
            net.now += 0.2
            leader.replica.timer(net.now)
            net.deliver()
    assert asked[0] != asked[1]
    late = ReadIndexReply(NodeId("n0"), leader.replica.node.term, asked[0], Index(0))
    follower.replica.receive(late, net.now)
    assert answers == []
    follower.replica.receive(
        ReadIndexReply(NodeId("n0"), leader.replica.node.term, asked[1], Index(0)), net.now
    )
    assert answers == [None]


class Asked:
    """Notes what a host asks peers for, and sends nothing of it."""

    def __init__(self, host: FileHost) -> None:
        self.requests: list[RangeRequest] = []
        send = host.send

        def noting(to: NodeId, message: Message) -> None:
            if isinstance(message, RangeRequest):
                self.requests.append(message)
            else:
                send(to, message)

        host.send = noting  # type: ignore[method-assign]


def _until_asked(group: FileGroup, asked: Asked, count: int) -> RangeRequest:
    for _ in range(60):
        if len(asked.requests) >= count:
            return asked.requests[count - 1]
        group.run(0.1)
    raise AssertionError("nobody was asked for the range")


def test_that_a_peer_lacked_a_range_before_a_restart_says_nothing_behind_it() -> None:
    """What no majority has is given up, so who lacks it is counted."""
    group, victim = filled()
    asked = Asked(victim)
    group.rot(victim.name, 3)
    before = _until_asked(group, asked, 1)
    victim.kill()
    victim.boot()
    asked.requests.clear()
    behind = _until_asked(group, asked, 1)
    assert behind.request_id != before.request_id
    assert victim.replica.repair is not None
    for peer in group.hosts.values():
        if peer is not victim:
            nothing = RangeReply(peer.name, before.request_id, behind.prev, behind.prev.index)
            victim.replica.receive(nothing, group.now)
    assert victim.replica.repair.status().refused == ()
    assert victim.replica.repair._without == set()


async def test_each_start_of_a_node_draws_where_its_numbers_begin(tmp_path: Path) -> None:
    """Also with a seed, which draws everything else alike."""
    config = RaftConfig(
        "n0",
        {"n0": ("127.0.0.1", 0)},
        str(tmp_path),
        cluster_id="c",
        data_file_size=4 << 20,
        index_file_size=32 * 20_000,
        entry_size_max=1 << 20,
        seed=7,
    )
    ReplicatedLog.format(config)
    first = []
    for _ in range(2):
        async with ReplicatedLog(config) as log:
            first.append(log.driver.replica._new_id())
    assert first[0] != first[1]
