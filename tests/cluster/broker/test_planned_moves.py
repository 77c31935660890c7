"""Planned moves: the lead handed over, a node that stops, who is told 1500.

Source: docs/spec/remoting.md 1.4.
"""

from __future__ import annotations

import asyncio

import pytest

from cluster.core.topics import TopicConfig
from cluster.errors import PlannedMove
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.codes import code_for, understands_go_away
from cluster.protocol.frames import Frame
from dledger.errors import OutcomeUnknown
from tests.waiting import within

from .conftest import MakeBrokers
from .harness import OWN, Brokers, RawClient, until


@pytest.mark.parametrize(
    ("version", "code"), [(409, 14), (475, 14), (476, 1500), (479, 1500), (31001, 1500)]
)
def test_only_clients_that_connect_again_are_sent_away(version: int, code: int) -> None:
    assert code_for(PlannedMove, version) == code
    assert understands_go_away(version) is (code == 1500 and version < 31001)


async def leading(brokers: Brokers) -> str:
    return (await brokers.leader()).config.node_id


async def move(client: RawClient, ext: dict[str, str]) -> Frame:
    """The answer to 31011, asked again when a slow machine let the appointed node's time pass."""
    for _ in range(5):
        answer = await client.ask(Code.TRANSFER_LEADER, ext)
        if answer.code != 1500:
            break
        assert "the lead" in (answer.remark or "")
    return answer


async def test_the_lead_is_moved_by_id_by_address_and_to_the_best(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3) as brokers:
        follower = await brokers.follower()
        client = await brokers.client(follower)
        assert (await client.send()).code == 0
        answer = await move(client, {"node": follower.config.node_id})
        assert (answer.code, answer.ext["node"]) == (0, follower.config.node_id)
        assert answer.ext["address"] == follower.address
        assert await leading(brokers) == follower.config.node_id
        other = await brokers.follower()
        moved = await move(client, {"node": other.address})
        assert moved.ext["node"] == await leading(brokers) == other.config.node_id
        while True:  # until the appointed node wins in its time
            led_before = await leading(brokers)
            best = await client.ask(Code.TRANSFER_LEADER, {})
            if best.code != 1500:
                break
        assert (best.code, best.ext["node"] != led_before) == (0, True)
        assert (await client.send()).code == 0


async def test_a_move_whose_answer_was_lost_is_not_made_twice(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a follower passed on is asked again of the next leader: the lead has moved by then."""
    async with make_brokers(3) as brokers:
        follower = await brokers.follower()
        links, passed_on = follower.parts.links, []
        client = await brokers.client(follower)
        monkeypatch.setattr(links, "send", lambda *request: passed_on.append(request))
        asked = asyncio.ensure_future(client.ask(Code.TRANSFER_LEADER, {}))
        await until(lambda: passed_on)
        monkeypatch.undo()
        moved = await move(await brokers.client(await brokers.leader()), {})
        leader = await leading(brokers)
        ((connection, frame, _, again),) = passed_on
        again(connection, [frame], False)
        again(connection, [frame], True)
        answer = await asked
        assert (answer.code, answer.ext["node"]) == (0, leader)
        assert leader == moved.ext["node"] == await leading(brokers)


async def test_a_move_that_cannot_be_is_refused_with_the_reason(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        unknown = await client.ask(Code.TRANSFER_LEADER, {"node": "n9"})
        assert unknown.code == 29
        assert "name one of n0, n1, n2" in (unknown.remark or "")
        same = await client.ask(Code.TRANSFER_LEADER, {"node": leader.config.node_id})
        assert same.ext["node"] == leader.config.node_id
        down = brokers.nodes.index(await brokers.follower())
        await brokers.stop_node(down)
        silence = leader.raft.election_timeout_min_ms / 1000

        def is_silent() -> bool:
            (one,) = [p for p in leader.parts.log.status().peers if p.node_id == f"n{down}"]
            return brokers.clock.now() - one.heard_at > silence

        await until(is_silent, "a silence that is longer than an election timeout")
        refused = await client.ask(Code.TRANSFER_LEADER, {"node": f"n{down}"})
        assert refused.code == 1500, refused.remark
        assert "stays where it is" in (refused.remark or "")
        assert (await client.send()).code == 0


async def test_a_node_that_stops_sends_each_connection_away_once_and_serves_on(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3, drain_seconds=1.0) as brokers:
        leader = await brokers.leader()
        number = brokers.nodes.index(leader)
        new, old, own = [await brokers.client(leader, **how) for how in ({}, {"version": 409}, OWN)]
        for client in (new, old, own):
            assert (await client.send()).code == 0
        stopping = asyncio.ensure_future(brokers.stop_node(number))
        await until(lambda: leader.parts.router.leaving)
        told = await asyncio.gather(*(client.send(body=b"m") for client in (new, old, own)))
        assert [answer.code for answer in told] == [1500, 0, 0]
        again = await new.send(body=b"again")
        assert again.code == 0, "it may stay on the old connection"
        fresh = await brokers.client(leader)
        assert (await fresh.send(body=b"retried")).code == 0, "what it asks again is passed on"
        await stopping
        client = await brokers.client(await brokers.leader())
        found = await client.ask(Code.GET_MAX_OFFSET, {"topic": "T", "queueId": 0})
        assert found.ext["offset"] == "7"


async def test_requests_other_than_sends_are_sent_away_too_but_nothing_oneway(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3, drain_seconds=1.0) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await client.send()).code == 0
        stopping = asyncio.ensure_future(brokers.stop_node(brokers.nodes.index(leader)))
        await until(lambda: leader.parts.router.leaving)
        ext = {"consumerGroup": "CG", "topic": "T", "queueId": 0, "commitOffset": 1}
        client.ask(Code.UPDATE_CONSUMER_OFFSET, ext, flag=2)
        assert (await client.pull()).code == 1500
        assert (await client.pull()).code == 0
        await stopping
        table = (await brokers.leader()).parts.state.offsets
        await until(lambda: table.get("CG", "T", 0) == 1)


async def test_nobody_waits_for_a_drain_that_nobody_needs(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3, drain_seconds=60.0) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader, version=409)
        assert (await client.send()).code == 0
        await within(brokers.stop_node(brokers.nodes.index(leader)), "a stop without a drain")


async def test_what_was_being_created_is_told_when_the_lead_is_moved(
    make_brokers: MakeBrokers,
) -> None:
    """Its record is in the log, and this node has not dispatched it: it does not wait for ever."""
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await client.send()).code == 0
        writer = leader.parts.writer
        writer._when_dispatched = lambda *_: None
        errors: list[Exception | None] = []
        writer.create_topic(TopicConfig("New"), errors.append)
        assert (await move(client, {})).code == 0
        assert [type(error) for error in errors] == [OutcomeUnknown]
