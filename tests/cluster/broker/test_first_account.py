"""The first account of the log is made when every member is there and understands it (R28)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cluster.broker.access.accounts import changes
from cluster.core.feature_level import LEVEL
from cluster.protocol.codes import RequestCode as Code
from dledger.core.status import NodeStatus

from .by_hand import HandBroker
from .conftest import MakeBrokers
from .harness import until
from .test_accounts import AGAIN, CHIEF, INVALID, SETTINGS, WRITER, asked, change


async def test_the_first_account_waits_for_members_of_an_older_version(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3, **SETTINGS) as brokers:
        leader = await brokers.leader()
        driver = leader.parts.log.driver
        await until(lambda: set(driver.roster.levels().values()) == {LEVEL})
        before = leader.parts.log.store.last.index
        levels = driver.roster.levels()
        older = next(iter(levels))
        driver.roster.levels = lambda: {**levels, older: 0}  # type: ignore[method-assign]
        client = await brokers.client(leader)
        answer = await asked(client, Code.CHANGE_ACCOUNTS, change(create=[CHIEF]))
        assert answer.code == AGAIN
        assert f"{older} did not say so" in (answer.remark or "")
        assert leader.parts.log.store.last.index == before, "no mark either"
        assert not leader.parts.access.is_on


async def test_the_first_account_waits_for_a_member_that_is_down(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3, **SETTINGS) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        roster, name = leader.parts.log.driver.roster, follower.config.node_id
        await until(lambda: set(roster.levels().values()) == {LEVEL})
        await brokers.stop_node(brokers.nodes.index(follower))
        await until(lambda: roster.levels()[name] == 0, "what it said is forgotten")
        client = await brokers.client(leader)
        answer = await asked(client, Code.CHANGE_ACCOUNTS, change(create=[CHIEF]))
        assert answer.code == AGAIN
        assert f"{name} did not say so; upgrade and start it" in (answer.remark or "")
        assert not leader.parts.access.is_on


async def test_the_first_account_waits_for_a_member_that_is_silent(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3, **SETTINGS) as brokers:
        leader = await brokers.leader()
        log, client = leader.parts.log, await brokers.client(leader)
        await until(lambda: set(log.driver.roster.levels().values()) == {LEVEL})
        status = log.status

        def silent() -> NodeStatus:
            found = status()
            first, *others = found.peers
            return found._replace(peers=(first._replace(heard_at=-60.0), *others))

        log.status = silent  # type: ignore[method-assign]
        answer = await asked(client, Code.CHANGE_ACCOUNTS, change(create=[CHIEF]))
        assert answer.code == AGAIN
        assert f"{status().peers[0].node_id} did not say so" in (answer.remark or "")


@pytest.mark.parametrize("chief", [{}, {"admin": False}, {"admin": True, "status": "disable"}])
def test_rows_without_an_administrator_are_not_read_where_there_is_no_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chief: dict[str, Any]
) -> None:
    """Anybody may ask for the first account."""
    broker = HandBroker(tmp_path, **SETTINGS)
    broker.lead()
    read = list[Any]()
    monkeypatch.setattr(changes, "logged_row", read.append)
    body = change(put=[WRITER, {**CHIEF, "admin": None, **chief}]).body
    refused = broker.client().ask(Code.CHANGE_ACCOUNTS, {}, body)
    broker.turn(1.0)
    assert refused.code == INVALID
    assert refused.answer is not None
    assert "no administrator would be left" in (refused.answer.remark or "")
    assert read == []
    broker.close()
