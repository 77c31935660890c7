"""Three brokers: followers pass requests on (R18), a new leader goes on where the old one ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from cluster.protocol.codes import RequestCode
from commitlog.records.message import decode_message
from dledger.errors import NotLeader
from tests.waiting import within

from .conftest import MakeBrokers
from .harness import OWN, RawClient, bodies, until


@pytest.mark.parametrize("how", [{}, OWN, {"kind": 1}], ids=["json", "own", "binary"])
async def test_a_follower_takes_sends_and_pulls(make_brokers: MakeBrokers, how: dict) -> None:
    async with make_brokers(3) as brokers:
        follower = await brokers.follower()
        client = await brokers.client(follower, **how)
        answers = await asyncio.gather(*(client.send(body=b"%d" % i) for i in range(20)))
        assert [a.code for a in answers] == [0] * 20, answers[0].remark
        assert sorted(int(a.ext["queueOffset"]) for a in answers) == list(range(20))
        pulled = await client.pull(suspend_ms=3000)
        assert pulled.code == 0, pulled.remark
        assert len(bodies(pulled.body)) > 0
        assert follower.parts.links.forwarded >= 20
        # The client's own address is what the record holds, not the follower's.
        port = client._writer.get_extra_info("sockname")[1]
        assert decode_message(pulled.body).born_host.port == port


async def test_a_follower_answers_found_by_itself_and_bounds_through_the_leader(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        to_leader, to_follower = await brokers.client(leader), await brokers.client(follower)
        for _ in range(3):
            assert (await to_leader.send()).code == 0
        await until(lambda: follower.parts.derived.queue("T", 0) is not None)
        await until(lambda: follower.parts.derived.queue("T", 0).max_offset == 3)
        before = follower.parts.links.forwarded
        assert (await to_follower.pull()).code == 0
        assert follower.parts.links.forwarded == before
        found = await to_follower.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": 0})
        assert found.ext["offset"] == "3"
        assert follower.parts.links.forwarded == before + 1
        beyond = await to_follower.pull(offset=99)
        assert (beyond.code, beyond.ext["nextBeginOffset"]) == (21, "3")
        assert follower.parts.links.forwarded == before + 2


async def test_a_new_leader_continues_queue_offsets(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        for number in range(7):
            assert (await client.send(body=b"%d" % number)).code == 0
        await brokers.stop_node(int(leader.config.node_id[1:]))
        second = await brokers.leader()
        assert second is not leader
        client = await brokers.client(second)
        assert (await client.send(body=b"7")).ext["queueOffset"] == "7"
        pulled = await client.pull(offset=0)
        assert bodies(pulled.body) == [b"%d" % i for i in range(8)]


async def test_a_repeat_after_failover_is_stored_once(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        first = [await client.numbered("p1", i, b"%d" % i) for i in range(4)]
        assert [a.code for a in first] == [0] * 4
        await brokers.stop_node(int(leader.config.node_id[1:]))
        client = await brokers.client(await brokers.leader())
        again = [await client.numbered("p1", i, b"%d" % i) for i in range(6)]
        assert [a.code for a in again] == [0] * 6
        assert [a.ext["queueOffset"] for a in again] == [str(i) for i in range(6)]
        assert [a.ext["msgId"][16:] for a in again[:4]] == [a.ext["msgId"][16:] for a in first]
        assert bodies((await client.pull()).body) == [b"%d" % i for i in range(6)]


async def test_sends_in_flight_when_the_leader_steps_down_are_answered(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3, leader_wait_seconds=0.3) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await client.send()).code == 0
        for number, node in enumerate(brokers.nodes):
            if node is not leader:
                await brokers.stop_node(number)
        sends = [client.send() for _ in range(10)]
        answers = await within(asyncio.gather(*sends), "answers")
        assert {a.code for a in answers} == {14}, "stock clients retry 14 and nothing else"


async def test_consumers_see_each_other_wherever_they_are(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        await brokers.leader()
        clients: list[RawClient] = []
        for number, node in enumerate(brokers.running()):
            client = await brokers.client(node)
            client.client_id = f"client@{number}"
            clients.append(client)
            assert (await client.heartbeat()).code == 0
        for client in clients:
            listed = await client.ask(
                RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "CG"}
            )
            assert listed.body == b'{"consumerIdList":["client@0","client@1","client@2"]}'
        await until(lambda: all(len(client.notices) > 0 for client in clients[:2]))
        before = len(clients[0].notices)
        clients[2].close()
        await until(lambda: len(clients[0].notices) > before)
        assert clients[0].notices[-1].code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


async def everything(client: RawClient, topic: str = "T") -> list[tuple[int, bytes]]:
    """(queue offset, body) of all messages of queue 0."""
    found: list[tuple[int, bytes]] = []
    offset = 0
    while True:  # until the end of the queue
        pulled = await client.pull(topic=topic, offset=offset)
        if pulled.code != 0:
            return found
        at = 0
        while at < len(pulled.body):
            message = decode_message(pulled.body, at)
            found.append((message.queue_offset, message.body))
            at += message.record_size
        offset = int(pulled.ext["nextBeginOffset"])


async def test_a_lost_leadership_leaves_no_hole_and_no_double(make_brokers: MakeBrokers) -> None:
    """Sends of a leader without its majority: in doubt, then each stored once (R8, R9)."""
    async with make_brokers(3, leader_wait_seconds=0.2) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader, **OWN)
        assert {(await client.numbered("p", i, b"%d" % i)).code for i in range(3)} == {0}
        others = [i for i, node in enumerate(brokers.nodes) if node is not leader]
        for number in others:
            await brokers.stop_node(number)
        doubtful = [client.numbered("p", i, b"%d" % i) for i in range(3, 9)]
        codes = {(await within(answer, "an answer")).code for answer in doubtful}
        assert codes <= {31904, 14, 31901}, codes
        for number in others:
            await brokers.start_node(number)
        client = await brokers.client(await brokers.leader(), **OWN)
        answers = [await client.numbered("p", i, b"%d" % i) for i in range(3, 12)]
        assert [a.code for a in answers] == [0] * 9, [a.remark for a in answers]
        assert [int(a.ext["queueOffset"]) for a in answers] == list(range(3, 12))
        assert await everything(client) == [(i, b"%d" % i) for i in range(12)]


async def test_offsets_committed_before_a_failover_are_seen_after_it(
    make_brokers: MakeBrokers,
) -> None:
    """A query after a failover never reads an older offset than was acknowledged (R25)."""
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(await brokers.follower())
        assert (await client.send()).code == 0
        ext = {"consumerGroup": "CG", "topic": "T", "queueId": 0, "commitOffset": 1}
        assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)).code == 0
        await brokers.stop_node(int(leader.config.node_id[1:]))
        await brokers.leader()
        for node in brokers.running():
            asker = await brokers.client(node)
            found = await asker.ask(RequestCode.QUERY_CONSUMER_OFFSET, ext)
            assert found.ext["offset"] == "1"


async def test_a_waiting_pull_survives_a_change_of_leader(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        term = leader.parts.log.status().term
        client = await brokers.client(leader)
        assert (await client.send(body=b"0")).code == 0
        waiting = client.pull(offset=1, suspend_ms=8000)
        await until(lambda: leader.parts.polls.count == 1)
        done = asyncio.get_running_loop().create_future()
        leader.parts.log.transfer(None, done.set_result)
        assert await within(done, "a planned move") is None
        second = await brokers.leader()
        assert second.parts.log.status().term > term
        assert (await (await brokers.client(second)).send(body=b"1")).code == 0
        woken = await within(waiting, "an answer")
        assert bodies(woken.body) == [b"1"]


async def test_replicas_derive_the_same(make_brokers: MakeBrokers) -> None:
    """Queues and index are byte-identical on every replica, state too."""
    async with make_brokers(3) as brokers:
        client = await brokers.client(await brokers.leader(), **OWN)
        sends = [
            client.send(topic=f"T{i % 3}", queue=i % 4, properties=f"KEYS\x01k{i}\x02")
            for i in range(60)
        ]
        assert {(await answer).code for answer in sends} == {0}
        assert (await client.heartbeat()).code == 0
        last = (await brokers.leader()).parts.log.store.last.index
        for node in brokers.running():
            derived = node.parts.derived
            await until(lambda derived=derived: derived.dispatched >= last)  # type: ignore[misc]
        states = {node.parts.state.to_checkpoint() for node in brokers.running()}
        assert len(states) == 1
        for number in range(3):
            await brokers.stop_node(number)
        trees = []
        for number in range(3):
            root = brokers.root / f"n{number}" / "consumequeue"
            files = {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}
            trees.append(files)
        assert len(trees[0]) >= 12
        assert trees[0] == trees[1] == trees[2]


async def test_a_leader_that_steps_down_drops_what_only_leaders_have(
    make_brokers: MakeBrokers,
) -> None:
    """Queue offsets and numbers of entries that may never commit are forgotten (R9)."""
    async with make_brokers(3, leader_wait_seconds=0.2) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader, **OWN)
        assert (await client.numbered("p", 0)).code == 0
        for number, node in enumerate(brokers.nodes):
            if node is not leader:
                await brokers.stop_node(number)
        parts = leader.parts
        doubtful = [client.numbered("p", i) for i in range(1, 5)]
        await until(lambda: not parts.leadership.leads)
        assert parts.tables.queue_offsets.take("T", 0) == 1, "the applied end, no more"
        assert parts.state.producers.next_sequence("p", "T/0") == 1
        parts.tables.queue_offsets.drop()
        await within(asyncio.wait(doubtful), "answers")
        assert parts.appender.in_flight_count == 0
        assert parts.appender.in_flight_bytes == 0


async def test_requests_outlive_the_leader_they_were_passed_to(make_brokers: MakeBrokers) -> None:
    """The leader dies with a client's pull parked on it: the follower asks the next one."""
    async with make_brokers(3) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        client = await brokers.client(follower)
        assert (await client.send(body=b"0")).code == 0
        waiting = client.pull(offset=1, suspend_ms=8000)
        await until(lambda: leader.parts.polls.count == 1)
        await brokers.stop_node(int(leader.config.node_id[1:]))
        bound = client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": 0})
        assert (await within(bound, "an answer")).ext["offset"] == "1"
        assert (await client.send(body=b"1")).code == 0
        assert bodies((await within(waiting, "an answer")).body) == [b"1"]


async def test_a_leader_that_cannot_be_reached_is_refused_in_time(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3, leader_wait_seconds=0.2) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        client = await brokers.client(follower)
        assert (await client.send()).code == 0
        follower.parts.links.lead_by(None)
        await leader.parts.server.stop_listening()
        follower.parts.links.lead_by(leader.config.node_id)
        tried = follower.parts.links.forwarded
        for asked in (client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": 0}),
                      client.send()):  # fmt: skip
            assert (await within(asked, "a refusal", 2.5)).code == 14
        assert follower.parts.links.forwarded == tried + 2, "each was tried once"


@pytest.mark.parametrize("through", ["leader", "follower"])
async def test_reads_that_a_leadership_took_with_it_are_asked_of_the_next(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch, through: str
) -> None:
    """A stock consumer waits three seconds after a pull that failed, and 20 after a position."""
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader if through == "leader" else await brokers.follower())
        assert (await client.send(body=b"0")).code == 0
        refused: list[object] = []
        queue = {"topic": "T", "queueId": 0}

        def ended(ready: Callable[[Exception], None], *_: object) -> None:
            refused.append(ready)
            ready(NotLeader(None))

        monkeypatch.setattr(leader.parts.log, "read_index", ended)
        group = {**queue, "consumerGroup": "G", "setZeroIfNotFound": "true"}
        asked = [
            client.ask(RequestCode.GET_MAX_OFFSET, queue),
            client.ask(RequestCode.QUERY_CONSUMER_OFFSET, group),
            client.pull(offset=1, suspend_ms=300),
        ]
        waiting = [asyncio.ensure_future(one) for one in asked]
        await until(lambda: len(refused) == 3)
        monkeypatch.undo()
        leader.parts.log.transfer(None, lambda _: None)
        found = [await within(answer, "an answer") for answer in waiting]
        assert [answer.code for answer in found] == [0, 0, 19]
        assert found[0].ext["offset"] == "1"


@pytest.mark.parametrize("through", ["leader", "follower"])
async def test_a_planned_move_fails_no_send_of_a_foreign_client(
    make_brokers: MakeBrokers, through: str
) -> None:
    """It gives up after three answers within milliseconds, so it must not be told to try again,
    and what it is told to send again it stores twice."""
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader if through == "leader" else await brokers.follower())
        assert (await client.send()).code == 0
        sends = []
        moved: list[object] = []
        term = leader.parts.log.status().term
        for number in range(300):
            if number == 50:
                leader.parts.log.transfer(None, moved.append)
            sends.append(asyncio.ensure_future(client.send(body=b"%d" % number)))
            # Some are on their way at any time, also while the lead moves.
            await until(lambda: sum(not one.done() for one in sends) < 20)
        answers = await asyncio.gather(*sends)
        assert moved == [None]
        # On a busy machine whom it appointed may lose the lead again, even back to it.
        assert (await brokers.leader()).parts.log.status().term > term
        assert [a.code for a in answers] == [0] * 300, {a.remark for a in answers if a.code}
        assert sorted(int(a.ext["queueOffset"]) for a in answers) == list(range(1, 301))
