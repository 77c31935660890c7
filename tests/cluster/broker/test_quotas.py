"""Quotas of accounts in a running group: retriable refusals, at once, of that account alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.broker.admin_state import snapshot
from cluster.client import ClientConfig
from cluster.client.config import Account
from cluster.core.access.quota import Quota
from cluster.core.feature_level import LEVEL
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import Frame
from tests.waiting import eventually, limit

from .access_world import new_topic, send
from .conftest import MakeBrokers
from .harness import Brokers, RawClient, until
from .test_accounts import CHIEF, SECRET, SETTINGS, WRITER, asked, change

BUSY, AGAIN = 2, 14
OTHER = {**WRITER, "accessKey": "b-writer"}


async def begin(brokers: Brokers, **quota: Any) -> RawClient:
    """Two writers, one with that quota; a client at the leader."""
    leader = await brokers.leader()
    roster = leader.parts.log.driver.roster
    await until(lambda: set(roster.levels().values()) <= {LEVEL}, "levels are known")
    client = await brokers.client(leader)
    assert (await asked(client, 17, new_topic("orders"))).code == 0
    rows = [CHIEF, {**WRITER, **quota}, OTHER]
    made = await asked(client, Code.CHANGE_ACCOUNTS, change(create=rows))
    assert made.code == 0, made.remark
    await until(lambda: all(node.parts.access.is_on for node in brokers.running()))
    return await brokers.client(leader)


async def burst(client: RawClient, count: int, key: str) -> list[Frame]:
    """Answers to sends that are made together."""
    sends = (asked(client, 310, send("orders", o=number), key) for number in range(count))
    return await asyncio.gather(*sends)


async def test_more_than_the_quota_is_refused_and_no_other_account_is(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3, **SETTINGS) as brokers:
        client = await begin(brokers, maxMessages=1)
        answers = await burst(client, 40, "a-writer")
        refused = [answer for answer in answers if answer.code == BUSY]
        assert {answer.code for answer in answers} == {0, BUSY}
        assert "1 messages a second are its quota" in (refused[0].remark or "")
        assert {answer.code for answer in await burst(client, 40, "b-writer")} == {0}
        leader = await brokers.leader()
        wanted = 80 - len(refused)  # what is refused is not stored
        await until(lambda: sum(leader.parts.state.queue_ends("orders", 1)) == wanted)
        by_follower = await brokers.client(await brokers.follower())
        answers = await burst(by_follower, 20, "a-writer")
        assert BUSY in {answer.code for answer in answers}, "the leader counts for every node"
        refusals = leader.parts.access.quotas.refused
        assert set(refusals) == {"a-writer"}
        status = snapshot(leader.parts, "")
        assert status["quota_refusals"] == refusals


async def test_our_producer_waits_for_its_quota_and_loses_nothing(
    make_brokers: MakeBrokers, tmp_path: Path
) -> None:
    async with make_brokers(**SETTINGS) as brokers:
        await begin(brokers, maxMessages=20)
        leader = await brokers.leader()
        config = ClientConfig(account=Account("a-writer", SECRET), request_timeout=limit(10))
        async with (
            cluster.connect(leader.parts.advertised, config) as mq,
            mq.producer() as producer,
        ):
            sends = (producer.send("orders", b"x", key=str(n)) for n in range(60))
            receipts = await asyncio.gather(*sends)
        assert len({(one.queue, one.queue_offset) for one in receipts}) == 60
        assert 0 < leader.parts.access.quotas.refused["a-writer"] < 60 * 6, "it pauses for longer"


async def test_a_quota_changes_on_open_connections(make_brokers: MakeBrokers) -> None:
    async with make_brokers(**SETTINGS) as brokers:
        client = await begin(brokers)
        leader = await brokers.leader()
        assert leader.parts.state.level.value == 1, "no quota, so no mark of its level"
        assert {answer.code for answer in await burst(client, 40, "a-writer")} == {0}
        assert leader.parts.access.quotas._uses == {}, "without a quota nothing is kept"
        for quota, wanted in (({"maxBytes": 1}, {0, BUSY}), ({"maxBytes": None}, {0})):
            altered = change(alter=[{"accessKey": "a-writer", **quota}])
            answer = await asked(client, Code.CHANGE_ACCOUNTS, altered, "the-chief")
            assert answer.code == 0, answer.remark
            found = {answer.code for answer in await burst(client, 40, "a-writer")}
            assert found == wanted, quota
        assert leader.parts.access.quotas._uses == {}
        assert leader.parts.state.level.value == 2


async def test_a_send_pays_once_when_it_waits_and_nothing_when_it_is_refused(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_brokers(**SETTINGS) as brokers:
        client = await begin(brokers, maxMessages=1_000, defaultTopicPerm="PUB")
        quotas = (await brokers.leader()).parts.access.quotas
        paid: list[int] = []
        count = quotas.count_send

        def counted(key: str, quota: Quota, messages: int, size: int) -> None:
            paid.append(messages)
            count(key, quota, messages, size)

        given = quotas.give_back

        def back(key: str, quota: Quota, messages: int, size: int) -> None:
            paid.append(-messages)
            given(key, quota, messages, size)

        monkeypatch.setattr(quotas, "count_send", counted)
        monkeypatch.setattr(quotas, "give_back", back)
        late = await asked(client, 310, send("made-by-its-first-send"), "a-writer")
        assert (late.code, paid) == (0, [1, -1, 1]), "it waited for its topic, and paid once"
        refused = await asked(client, 310, send("orders", e=99), "a-writer")
        assert refused.code not in (0, BUSY), refused.remark
        assert sum(paid) == 1
        assert (await asked(client, 310, send("orders", o=1), "a-writer")).code == 0
        assert sum(paid) == 2


async def test_sends_that_wait_for_new_topics_keep_to_the_quota(
    make_brokers: MakeBrokers,
) -> None:
    """Each would hold memory, and make a topic, of an account that may send one in a second."""
    async with make_brokers(**SETTINGS) as brokers:
        client = await begin(brokers, maxMessages=1, defaultTopicPerm="PUB")
        topics = (await brokers.leader()).parts.state.topics
        before = len(topics)
        sends = (asked(client, 310, send(f"new-{number}"), "a-writer") for number in range(8))
        answers = [answer.code for answer in await asyncio.gather(*sends)]
        assert answers.count(0) == len(topics) - before, answers
        assert set(answers) == {0, BUSY}, "those beyond the quota made no topic"


async def test_an_administrator_gets_in_beyond_its_quota_of_connections(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(**SETTINGS) as brokers:
        first = await begin(brokers)
        alter = change(alter=[{"accessKey": "the-chief", "maxConnections": 1}])
        assert (await asked(first, Code.CHANGE_ACCOUNTS, alter, "the-chief")).code == 0
        assert (await asked(first, 310, send("orders"), "the-chief")).code == 0
        second = await brokers.client(await brokers.leader())
        refused = await asked(second, 310, send("orders", o=1), "the-chief")
        assert refused.code == BUSY, "its other requests keep to the quota"
        more = change(alter=[{"accessKey": "the-chief", "maxConnections": 2}])
        assert (await asked(second, Code.CHANGE_ACCOUNTS, more, "the-chief")).code == 0
        assert (await asked(second, 310, send("orders", o=2), "the-chief")).code == 0


async def test_connections_beyond_the_quota_are_served_when_others_close(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(**SETTINGS) as brokers:
        first = await begin(brokers, maxConnections=1)
        second = await brokers.client(await brokers.leader())
        assert (await asked(first, 310, send("orders"), "a-writer")).code == 0
        refused = await asked(second, 310, send("orders", o=1), "a-writer")
        assert refused.code == BUSY
        assert "1 connections to a node are its quota" in (refused.remark or "")
        assert (await asked(second, 310, send("orders", o=2), "b-writer")).code == 0
        first.close()

        async def served() -> bool:
            return (await asked(second, 310, send("orders", o=3), "a-writer")).code == 0

        await eventually(served, "the other connection is closed")


async def test_a_member_of_an_older_version_keeps_quotas_out_of_the_log(
    make_brokers: MakeBrokers,
) -> None:
    """It would pass the row over, and have no such account (R28)."""
    async with make_brokers(3, **SETTINGS) as brokers:
        client = await begin(brokers)
        for node in brokers.running():  # whichever leads
            roster = node.parts.log.driver.roster
            await until(lambda roster=roster: set(roster.levels().values()) == {LEVEL})
            older = dict.fromkeys(roster.levels(), 1)
            roster.levels = lambda older=older: older  # type: ignore[method-assign]
        altered = change(alter=[{"accessKey": "a-writer", "maxMessages": 5}])
        answer = await asked(client, Code.CHANGE_ACCOUNTS, altered, "the-chief")
        assert answer.code == AGAIN
        assert "quotas of accounts need every member at feature level 2" in (answer.remark or "")
        altered = change(alter=[{"accessKey": "a-writer", "admin": False}])
        answer = await asked(client, Code.CHANGE_ACCOUNTS, altered, "the-chief")
        assert answer.code == 0, "all else changes"
