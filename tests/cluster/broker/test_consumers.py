"""What consumers ask: offsets, bounds, members; registrations and notices.

Source: docs/spec/remoting.md 2.3.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import Frame
from commitlog.records.message import decode_message

from .conftest import MakeBrokers
from .harness import Brokers, RawClient, until


async def filled(brokers: Brokers, number: int = 4) -> RawClient:
    client = await brokers.client(await brokers.leader())
    for i in range(number):
        assert (await client.send(body=b"%d" % i)).code == 0
    return client


def queue_of(client: RawClient, code: Code, queue: int = 0, **more: Any) -> asyncio.Future[Frame]:
    ext = {"topic": "T", "queueId": queue, "consumerGroup": "CG", **more}
    return client.ask(code, ext)


async def test_bounds(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers)
        assert (await queue_of(client, Code.GET_MAX_OFFSET)).ext == {"offset": "4"}
        assert (await queue_of(client, Code.GET_MIN_OFFSET)).ext == {"offset": "0"}
        assert (await queue_of(client, Code.GET_MAX_OFFSET, 1)).ext == {"offset": "0"}
        assert (await queue_of(client, Code.GET_MAX_OFFSET, 9)).code == 29
        assert (await client.ask(Code.GET_MAX_OFFSET, {"topic": "T"})).code == 29
        missing = await client.ask(Code.GET_MIN_OFFSET, {"topic": "nowhere", "queueId": 0})
        assert missing.code == 17


async def test_offsets_by_time(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers, 1)
        await brokers.next_millisecond()
        assert (await client.send()).code == 0
        data = (await client.pull()).body
        first = decode_message(data)
        second = decode_message(data, first.record_size)

        async def at(time_ms: int, **more: Any) -> str:
            found = await queue_of(
                client, Code.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=time_ms, **more
            )
            return found.ext["offset"]

        assert await at(0) == "0"
        assert await at(first.store_timestamp_ms) == "0"
        assert await at(first.store_timestamp_ms + 1) == "1"
        assert await at(second.store_timestamp_ms + 1) == "2"
        assert await at(first.store_timestamp_ms + 1, boundaryType="UPPER") == "0"
        assert await at(second.store_timestamp_ms + 9, boundaryType="UPPER") == "1"
        early = await queue_of(client, Code.GET_EARLIEST_MSG_STORETIME)
        assert early.ext["timestamp"] == str(first.store_timestamp_ms)
        empty = await queue_of(client, Code.GET_EARLIEST_MSG_STORETIME, 1)
        assert empty.ext["timestamp"] == "-1"


async def test_offsets_of_groups(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await filled(brokers)
        young = await queue_of(client, Code.QUERY_CONSUMER_OFFSET)
        assert (young.code, young.ext["offset"]) == (0, "0"), "a young topic begins at 0"
        strict = await queue_of(client, Code.QUERY_CONSUMER_OFFSET, setZeroIfNotFound="false")
        assert strict.code == 22
        assert (await queue_of(client, Code.UPDATE_CONSUMER_OFFSET, commitOffset=3)).code == 0
        found = await queue_of(client, Code.QUERY_CONSUMER_OFFSET)
        assert found.ext["offset"] == "3"
        assert (await queue_of(client, Code.UPDATE_CONSUMER_OFFSET, commitOffset=-1)).code == 29


async def test_an_old_queue_has_no_first_offset(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.broker.wiring._memory_bytes", lambda: 10)
    async with make_brokers() as brokers:
        client = await filled(brokers)
        assert (await queue_of(client, Code.QUERY_CONSUMER_OFFSET)).code == 22


async def test_commits_are_coalesced_and_a_query_sees_the_newest(make_brokers: MakeBrokers) -> None:
    """At most one record a second per group; a query does not wait for the second (R25)."""
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await filled(brokers, 2)
        assert (await queue_of(client, Code.UPDATE_CONSUMER_OFFSET, commitOffset=1)).code == 0
        before = leader.parts.log.store.last.index
        for offset in range(2, 30):
            ext = {"consumerGroup": "CG", "topic": "T", "queueId": 0, "commitOffset": offset}
            client.ask(Code.UPDATE_CONSUMER_OFFSET, ext, flag=2)
        found = await queue_of(client, Code.QUERY_CONSUMER_OFFSET)
        assert found.ext["offset"] == "29"
        assert leader.parts.log.store.last.index == before + 1


async def test_a_pull_may_commit_an_offset(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        await filled(brokers)
        follower = await brokers.follower()
        await until(lambda: follower.parts.derived.queue("T", 0) is not None)
        to_follower = await brokers.client(follower)
        pulled = await to_follower.pull(offset=0, sysFlag=5, commitOffset=2)
        assert pulled.code == 0
        offsets = (await brokers.leader()).parts.state.offsets
        await until(lambda: offsets.get("CG", "T", 0) == 2)


async def test_a_pull_served_late_takes_no_group_back(make_brokers: MakeBrokers) -> None:
    """One that waited while leaders changed carries what was committed long ago; 15 may go back."""
    async with make_brokers(3) as brokers:
        at_leader = await filled(brokers)
        to_follower = await brokers.client(await brokers.follower())
        await queue_of(at_leader, Code.UPDATE_CONSUMER_OFFSET, commitOffset=3)
        for client in (at_leader, to_follower):
            await client.pull(offset=0, sysFlag=5, commitOffset=2)
            await queue_of(client, Code.UPDATE_CONSUMER_OFFSET, 1, commitOffset=1)
            found = await queue_of(client, Code.QUERY_CONSUMER_OFFSET)
            assert found.ext["offset"] == "3"
        await queue_of(to_follower, Code.UPDATE_CONSUMER_OFFSET, commitOffset=1)
        found = await queue_of(to_follower, Code.QUERY_CONSUMER_OFFSET)
        assert found.ext["offset"] == "1"


async def test_offsets_are_logged_at_once_when_the_group_closes(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await filled(brokers)
        assert (await client.heartbeat()).code == 0
        assert (await queue_of(client, Code.UPDATE_CONSUMER_OFFSET, commitOffset=1)).code == 0
        begun = brokers.clock.now()
        ext = {"consumerGroup": "CG", "topic": "T", "queueId": 0, "commitOffset": 2}
        client.ask(Code.UPDATE_CONSUMER_OFFSET, ext, flag=2)
        left = {"clientID": client.client_id, "producerGroup": "", "consumerGroup": "CG"}
        assert (await client.ask(Code.UNREGISTER_CLIENT, left)).code == 0
        offsets = leader.parts.state.offsets
        await until(lambda: offsets.get("CG", "T", 0) == 2)
        assert brokers.clock.now() < begun + 0.9, "not a second after the last record"


async def test_members_hear_of_each_other(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        first, second = await brokers.client(leader), await brokers.client(leader)
        second.client_id = "client@2"
        ext = {"consumerGroup": "CG"}
        assert (await first.ask(Code.GET_CONSUMER_LIST_BY_GROUP, ext)).code == 1
        assert (await first.heartbeat()).code == 0
        assert (await second.heartbeat()).code == 0
        listed = await first.ask(Code.GET_CONSUMER_LIST_BY_GROUP, ext)
        assert listed.body == b'{"consumerIdList":["client@1","client@2"]}'
        await until(lambda: len(first.notices) >= 2)
        assert first.notices[-1].ext == {"consumerGroup": "CG"}
        assert first.notices[-1].is_oneway
        seen = len(first.notices)
        second.close()
        await until(lambda: len(first.notices) > seen)


async def test_a_heartbeat_creates_the_group_and_its_retry_topic(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        client = await brokers.client(await brokers.follower())
        assert (await client.heartbeat(group="New")).code == 0
        for node in brokers.running():
            state = node.parts.state
            await until(lambda state=state: state.groups.get("New") is not None)  # type: ignore[misc]
            assert state.topics.get("%RETRY%New") is not None
        assert (await client.heartbeat(group="bad group")).code == 29
        assert (await client.ask(Code.HEART_BEAT, body=b"{")).code != 0


async def test_without_auto_creation_a_group_must_exist(make_brokers: MakeBrokers) -> None:
    async with make_brokers(auto_create_groups=False) as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.heartbeat()).code == 26


@pytest.mark.parametrize("code", [9999, 513, 200070])
async def test_unknown_requests_say_so(make_brokers: MakeBrokers, code: int) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        answer = await client.ask(code, {"x": "y"})
        assert answer.code == 3
        assert (answer.remark or "").startswith(f" request type {code} not supported; ")
