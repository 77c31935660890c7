"""Two administrators who change one row at the same time: no change is taken back by the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.broker.admin.expected_rows import check_expected
from cluster.broker.kernel.write.rows_in_log import RowsInLog
from cluster.client.admin import group_settings, topics
from cluster.client.routing.leader_requests import ask_leader
from cluster.client.routing.routes import DEFAULT_TOPIC
from cluster.errors import IllegalOperation
from cluster.nameserver.server import NameServer
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import EMPTY
from cluster.protocol.json_body import ABSENT, dump, row_digest
from tests.cluster.broker.harness import Brokers
from tests.waiting import eventually


async def test_changes_of_both_count(tmp_path: Path, new_address: Callable[[], str]) -> None:
    async with NameServer(new_address(), 9876, warm_up_seconds=0.0) as server:
        brokers = Brokers(tmp_path, [new_address()], {"name_servers": (server.address,)})
        await brokers.start()
        try:
            async with cluster.connect(server.address) as mq:
                await eventually(mq.routes.registered, "the node is registered")
                await groups_change_together(mq)
                await topics_change_together(mq)
                await a_stale_row_is_refused(mq)
        finally:
            await brokers.close()


async def groups_change_together(mq: Any) -> None:
    groups = mq.admin().groups()
    await groups.create("billing")
    await asyncio.gather(
        groups.alter("billing", retries=3),
        groups.alter("billing", broadcast=False),
        groups.alter("billing", consume=False),
        groups.alter("billing", retry_queues=2),
    )
    (row,) = (await groups.settings("billing")).values()
    assert (row.retries, row.broadcast, row.consume, row.retry_queues) == (3, False, False, 2)
    made = await asyncio.gather(*(groups.create("twice", retries=count) for count in (4, 5)))
    assert made[0] == made[1], "one creates it, and it stays as it is for the other"


async def topics_change_together(mq: Any) -> None:
    admin = mq.admin()
    await admin.create_topic("orders", 2)
    await asyncio.gather(admin.alter_topic("orders", 8), admin.alter_topic("orders", perm=4))
    row = await admin.topic_settings("orders")
    assert (row.write_queues, row.perm) == (8, 4)


async def a_stale_row_is_refused(mq: Any) -> None:
    old = await group_settings.bean_of(mq.instance, "broker-a", "billing")

    async def put(row: dict[str, Any], expected: dict[str, str]) -> None:
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        await ask_leader(mq.instance, "broker-a", DEFAULT_TOPIC, code, expected, body=dump(row))

    await put({**old, "retryMaxTimes": 7}, EMPTY)  # as mqadmin does
    with pytest.raises(IllegalOperation, match="billing was changed by another administrator"):
        await put({**old, "retryMaxTimes": 8}, {"expected": row_digest(old)})
    with pytest.raises(IllegalOperation, match="billing was changed"):
        await put({**old, "retryMaxTimes": 8}, {"expected": ABSENT})
    now = await group_settings.bean_of(mq.instance, "broker-a", "billing")
    assert now == {**old, "retryMaxTimes": 7}


async def test_one_who_is_always_late_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    async def refused(instance: Any, broker: str, topic: str, code: int, *_: Any, **__: Any) -> Any:
        asked.append(code)
        if code == RequestCode.GET_TOPIC_CONFIG:
            body = b'{"readQueueNums":1,"writeQueueNums":1,"perm":6}'
            return type("Answer", (), {"body": body})
        raise IllegalOperation("orders was changed by another administrator")

    monkeypatch.setattr(topics, "ask_leader", refused)
    monkeypatch.setattr(topics, "CHANGE_PAUSE_SECONDS", 0)
    with pytest.raises(IllegalOperation):
        await topics.alter_on(None, "b", "orders", lambda old: old)  # type: ignore[arg-type]
    assert len(asked) == 2 * topics.CHANGE_ATTEMPTS


def test_a_change_that_is_not_applied_yet_holds_the_next_one_up() -> None:
    in_log, row = RowsInLog(), {"a": 1, "b": [2]}
    expected = row_digest({"b": [2], "a": 1})
    check_expected(in_log, "orders", row, expected)
    in_log.logged(1, frozenset({"orders"}))
    with pytest.raises(IllegalOperation, match="orders is being changed just now"):
        check_expected(in_log, "orders", row, expected)
    check_expected(in_log, "orders", row, None)
    check_expected(in_log, "other", row, expected)
    in_log.ended(1, None)
    check_expected(in_log, "orders", row, expected)
    in_log.logged(2, frozenset({"orders"}))
    in_log.leadership_ended()
    check_expected(in_log, "orders", row, expected)
