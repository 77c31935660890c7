"""A group that an administrator makes while its first member comes keeps the given settings."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.broker.kernel.write.state_writer import ensure_group
from cluster.core.subscription_groups import new_group
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.json_body import ABSENT, dump

from .access_world import Ask
from .conftest import MakeBrokers
from .harness import Brokers, nothing_is_appended, until
from .test_accounts import asked


async def retries_of(brokers: Brokers, group: str) -> int:
    bean = (await brokers.leader()).parts.state.groups.get(group)
    assert bean is not None
    return int(bean["retryMaxTimes"])


@pytest.mark.parametrize("admin_is_first", [True, False])
async def test_the_settings_of_the_administrator_stay(
    make_brokers: MakeBrokers, admin_is_first: bool
) -> None:
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        ports, client = leader.parts.admin_ports, await brokers.client(leader)
        told: list[Any] = []
        in_log = ports.writer.groups_in_log

        def member_comes() -> None:
            ensure_group(ports.state, ports.writer, "billing", told.append)

        bean = {**new_group("billing"), "retryMaxTimes": 3}
        with nothing_is_appended(leader):
            if not admin_is_first:
                member_comes()
            code = Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            made = asyncio.ensure_future(asked(client, code, Ask(body=dump(bean))))
            count = 1 if admin_is_first else 2
            await until(lambda: len(in_log) == count, "the administrator's is proposed")
            if admin_is_first:
                member_comes()
        assert (await made).code == 0
        await until(lambda: told, "the member's group is there")
        assert told == [None]
        assert await retries_of(brokers, "billing") == 3
        assert ports.state.topics.get("%RETRY%billing") is not None
        assert not ports.writer._groups_creating
        assert ports.writer.waiting == 0
        client.close()


async def test_a_group_that_is_being_made_is_not_absent(make_brokers: MakeBrokers) -> None:
    """An administrator has read that it is not there, and its first member comes before them."""
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        ports, client = leader.parts.admin_ports, await brokers.client(leader)
        told: list[Any] = []
        with nothing_is_appended(leader):
            ensure_group(ports.state, ports.writer, "billing", told.append)
            bean = {**new_group("billing"), "retryMaxTimes": 3}
            ask = Ask({"expected": ABSENT}, dump(bean))
            answer = await asked(client, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, ask)
            assert "billing is being changed just now" in str(answer.remark)
        await until(lambda: told, "the member's group is there")
        assert await retries_of(brokers, "billing") == 16
        client.close()


async def test_a_retry_topic_that_is_gone_comes_back_and_the_settings_stay(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(1) as brokers:
        leader = await brokers.leader()
        ports, client = leader.parts.admin_ports, await brokers.client(leader)
        bean = {**new_group("billing"), "retryMaxTimes": 3}
        code = Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        assert (await asked(client, code, Ask(body=dump(bean)))).code == 0
        gone = Ask({"topic": "%RETRY%billing"})
        assert (await asked(client, Code.DELETE_TOPIC_IN_BROKER, gone)).code == 0
        told: list[Any] = []
        ensure_group(ports.state, ports.writer, "billing", told.append)
        await until(lambda: told, "the retry topic is there")
        assert ports.state.topics.get("%RETRY%billing") is not None
        assert await retries_of(brokers, "billing") == 3
        client.close()
