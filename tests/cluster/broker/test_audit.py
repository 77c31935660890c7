"""The audit log: acknowledged changes have entries on every leader; strangers read nothing."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any

from cluster.broker.access.audit.keeping import Gathering
from cluster.broker.access.audit.trail import REFUSALS_AT_ONCE
from cluster.core.internal_topics import StateRecord
from cluster.core.topics import AUDIT_KEPT_TOPIC, AUDIT_TOPIC
from cluster.protocol.codes import RequestCode as Code

from .access_world import Ask, new_topic, send
from .conftest import MakeBrokers
from .harness import RawClient, until
from .test_accounts import CHIEF, NO_PERMISSION, SETTINGS, WRITER, asked, change, create_topics
from .test_retention import FILE_SIZE, KEEP_NOTHING, RAFT, settle, trim, write


async def entries(client: RawClient, key: str = "", **ext: Any) -> list[dict[str, Any]]:
    answer = await asked(client, Code.LIST_AUDIT, Ask({"maxNum": 200, **ext}), key)
    assert answer.code == 0, answer.remark
    return list(json.loads(answer.body)["rows"])


def gathered(*arguments: Any, **named: Any) -> list[StateRecord]:
    """What would be written again, the oldest first."""
    found = Gathering(*arguments, **named)
    while found.step():
        pass
    return found.records[::-1]


def said(rows: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(row["verb"], row["target"], row["outcome"]) for row in rows]


async def test_changes_stand_in_the_order_in_which_they_were_made(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(1) as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await asked(client, 17, new_topic("orders"))).code == 0
        group = json.dumps({"groupName": "billing"}).encode()
        assert (await asked(client, 200, Ask(body=group))).code == 0
        assert (await asked(client, 207, Ask({"groupName": "billing"}))).code == 0
        assert (await asked(client, 215, Ask({"topic": "orders"}))).code == 0
        rows = await entries(client)
        assert said(rows) == [
            ("topic delete", "topic orders", "done"),
            ("group delete", "group billing", "done"),
            ("group create", "group billing", "done"),
            ("topic create", "topic orders", "done"),
        ]
        oldest = rows[-1]
        assert oldest["command"].startswith("dledger topic create orders -q ")
        assert (oldest["client"], oldest["node"], oldest["code"]) == ("JAVA 479", "n0", 17)
        assert oldest["address"].startswith("127.")
        assert oldest["parameters"]["topic"] == "orders"
        assert [row["number"] for row in rows] == [3, 2, 1, 0]


async def test_pages_go_both_ways_and_filters_choose(make_brokers: MakeBrokers) -> None:
    async with make_brokers(1) as brokers:
        client = await brokers.client(await brokers.leader())
        for name in ("a", "b", "c", "d", "e"):
            assert (await asked(client, 17, new_topic(name))).code == 0
        page = await asked(client, Code.LIST_AUDIT, Ask({"maxNum": 2}))
        first = json.loads(page.body)
        assert [row["target"] for row in first["rows"]] == ["topic e", "topic d"]
        rest = await entries(client, before=first["next"])
        assert [row["target"] for row in rest] == ["topic c", "topic b", "topic a"]
        newer = await entries(client, after=rest[0]["number"])
        assert [row["target"] for row in newer] == ["topic d", "topic e"]
        assert said(await entries(client, target="topic b")) == [
            ("topic create", "topic b", "done")
        ]
        assert await entries(client, sinceMs=1 << 50) == []
        assert await entries(client, outcome="refused") == []
        wrong = await asked(client, Code.LIST_AUDIT, Ask({"maxNum": 0}))
        assert "give 1 to 200" in (wrong.remark or "")


async def test_refusals_are_kept_with_their_reasons_and_looks_are_not(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(1) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        refused = await asked(client, 17, new_topic("no such name!"))
        assert refused.code != 0
        for code, ask in ((21, Ask()), (Code.LIST_MEMBERS, Ask()), (202, Ask({"topic": "x"}))):
            await asked(client, code, ask)
        await until(lambda: leader.parts.state.queue_end(AUDIT_TOPIC, 0), "the refusal")
        rows = await entries(client)
        assert said(rows) == [("topic create", "topic no such name!", "refused")]
        assert rows[0]["why"]


async def test_an_acknowledged_change_has_its_entry_on_the_next_leader(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        client = await brokers.client(follower)  # which passes them on
        names = [f"topic-{number}" for number in range(12)]
        for name in names:
            assert (await asked(client, 17, new_topic(name))).code == 0
        await brokers.stop_node(int(leader.config.node_id[1:]))
        second = await brokers.leader()
        assert second is not leader
        client = await brokers.client(second)
        rows = await entries(client)
        assert [row["target"] for row in reversed(rows)] == [f"topic {name}" for name in names]
        assert {row["node"] for row in rows} == {leader.config.node_id}


async def test_a_move_of_the_lead_and_a_reset_have_entries_before_they_begin(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        client = await brokers.client(leader)
        assert (await client.send()).code == 0
        assert (await client.heartbeat()).code == 0
        reset = {"topic": "T", "group": "CG", "timestamp": -1, "isForce": "true"}
        assert (await asked(client, 222, Ask(reset))).code == 0
        moved = await asked(client, Code.TRANSFER_LEADER, Ask({"node": follower.config.node_id}))
        assert moved.code == 0, moved.remark
        await until(lambda: follower.parts.leadership.leads)
        rows = await entries(await brokers.client(follower))
        assert said(rows) == [
            ("leader move", f"node {follower.config.node_id}", "begun"),
            ("group reset", "group CG topic T", "begun"),
        ]
        assert rows[1]["command"] == "dledger group reset CG --topic T --to last"


async def test_accounts_are_named_secrets_are_not_and_strangers_get_nothing(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3, **SETTINGS) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        client = await brokers.client(leader)
        made = await asked(client, Code.CHANGE_ACCOUNTS, change(create=[CHIEF, WRITER]))
        assert made.code == 0, made.remark
        assert (await asked(client, 17, new_topic("orders"), "the-chief")).code == 0
        denied = await asked(client, 17, new_topic("mine"), "a-writer")
        assert denied.code == NO_PERMISSION
        assert (await asked(client, 17, new_topic("theirs"))).code == NO_PERMISSION
        await until(lambda: leader.parts.state.queue_end(AUDIT_TOPIC, 0) == 4, "the refusals")
        rows = await entries(client, "the-chief")
        assert [(row["verb"], row["account"], row["outcome"]) for row in rows] == [
            ("topic create", "", "refused"),
            ("topic create", "a-writer", "refused"),
            ("topic create", "the-chief", "done"),
            ("account create", "", "done"),
        ]
        assert "admin" in rows[1]["why"]
        text = json.dumps(rows)
        assert CHIEF["secretKey"] not in text
        assert rows[3]["parameters"]["create"][0]["secretKey"] == "***"
        for code, ask in _ways_in():
            for node in (leader, follower):
                stranger = await brokers.client(node)
                answer = await asked(stranger, code, ask, "a-writer")
                assert answer.code != 0, (code, node.config.node_id)
                assert b"the-chief" not in answer.body


async def test_an_account_that_is_not_proven_is_in_no_entry_of_a_change(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(1) as brokers:
        client = await brokers.client(await brokers.leader())
        named = {"AccessKey": "the-chief", "Signature": "of nobody"}
        topic = new_topic("orders")
        assert (await client.ask(17, {**topic.ext, **named}, topic.body)).code == 0
        assert [(row["account"], row["outcome"]) for row in await entries(client)] == [("", "done")]


def _ways_in() -> list[tuple[int, Ask]]:
    pull = {
        "consumerGroup": "CG", "queueId": 0, "queueOffset": 0, "maxMsgNums": 9, "sysFlag": 4,
        "commitOffset": 0, "suspendTimeoutMillis": 0, "subVersion": 0, "subscription": "*",
    }  # fmt: skip
    ways = [
        (int(Code.LIST_AUDIT), Ask({"maxNum": 9})),
        (int(Code.RECORD_ACTION), Ask({"verb": "x", "target": "y"})),
    ]
    for topic in (AUDIT_TOPIC, AUDIT_KEPT_TOPIC):
        ways += [(11, Ask({**pull, "topic": topic})), (310, send(topic)), (17, new_topic(topic))]
    return ways


async def test_the_topics_are_no_ordinary_ones_for_administrators_either(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(1) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await asked(client, 17, new_topic("orders"))).code == 0
        for code in (21, 305, Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER):
            assert b"audit" not in (await asked(client, code, Ask())).body
        for topic in (AUDIT_TOPIC, AUDIT_KEPT_TOPIC):
            for code, ask in (
                (310, send(topic)),
                (17, new_topic(topic)),
                (215, Ask({"topic": topic})),
            ):
                assert (await asked(client, code, ask)).code == NO_PERMISSION, (code, topic)
        assert leader.parts.state.queue_end(AUDIT_KEPT_TOPIC, 0) == 0


async def test_strangers_cannot_fill_the_log(make_brokers: MakeBrokers) -> None:
    async with make_brokers(1) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        wrong = new_topic("no such name!")
        for _ in range(REFUSALS_AT_ONCE + 20):
            await asked(client, 17, wrong)
        state = leader.parts.state
        await until(lambda: state.queue_end(AUDIT_TOPIC, 0) >= REFUSALS_AT_ONCE)
        rows = await entries(client, outcome="refused")
        assert REFUSALS_AT_ONCE <= len(rows) < REFUSALS_AT_ONCE + 10
        assert leader.parts.control.audit.uncounted > 0


async def test_a_tool_says_for_whom_it_asks_and_records_its_own_actions(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(1) as brokers:
        client = await brokers.client(await brokers.leader())
        told = {"auditVia": "console", "auditBy": "admin token"}
        action = {"verb": "dlq resend", "target": "group billing", "command": "dledger dlq resend"}
        body = json.dumps({"limit": 9, "password": "hidden"}).encode()
        assert (await asked(client, Code.RECORD_ACTION, Ask({**action, **told}, body))).code == 0
        (row,) = await entries(client)
        assert (row["verb"], row["via"], row["by"]) == ("dlq resend", "console", "admin token")
        assert row["command"] == "dledger dlq resend"
        assert row["parameters"]["details"] == {"limit": 9, "password": "***"}


async def test_a_change_that_the_log_refuses_is_not_in_it(make_brokers: MakeBrokers) -> None:
    async with make_brokers(1) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        appender = leader.parts.appender
        before = appender.in_flight_bytes
        appender.in_flight_bytes = 1 << 30
        refused = await asked(client, 17, new_topic("orders"))
        appender.in_flight_bytes = before
        assert refused.code != 0
        assert leader.parts.state.topics.get("orders") is None
        assert (await asked(client, 17, new_topic("orders"))).code == 0
        assert said(await entries(client)) == [("topic create", "topic orders", "done")]


async def test_entries_outlive_the_log_files_that_they_were_written_to(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(1, raft=RAFT, **KEEP_NOTHING) as brokers:
        node = await brokers.leader()
        client = await brokers.client(node)
        assert (await asked(client, 17, new_topic("first"))).code == 0
        for turn in range(2):  # the second one carries over what was carried over
            assert (await asked(client, 17, new_topic(f"turn-{turn}"))).code == 0
            await write(client, 130)
            await settle([node])
            position = node.parts.log.store.end_position // FILE_SIZE * FILE_SIZE
            await trim(brokers, position)
        rows = await entries(client)
        assert [row["target"] for row in rows] == ["topic turn-1", "topic turn-0", "topic first"]
        assert [row["number"] for row in rows] == [2, 1, 0]
        assert [row["target"] for row in await entries(client, after=0)] == [
            "topic turn-0",
            "topic turn-1",
        ]
        low = node.parts.derived.queue(AUDIT_TOPIC, 0).min_offset
        assert low == 3, "their own records are gone"


async def test_as_many_are_carried_over_as_days_and_bytes_allow(make_brokers: MakeBrokers) -> None:
    settings = {**KEEP_NOTHING, "audit_bytes_max": 1200}
    async with make_brokers(1, raft=RAFT, **settings) as brokers:
        node = await brokers.leader()
        client = await brokers.client(node)
        await create_topics(client, 6)
        await write(client, 130)
        await settle([node])
        await trim(brokers, FILE_SIZE)
        rows = await entries(client)
        assert 0 < len(rows) < 6
        assert rows[0]["target"] == "topic t5", "the oldest go first"
        ports, config = node.parts.admin.ports, node.config
        kept = functools.partial(
            gathered, derived=ports.derived, reader=ports.reader, first=0, position=1 << 40
        )
        now_ms = ports.now_ms()
        assert kept(config, now_ms=now_ms)
        assert kept(config, now_ms=now_ms + 91 * 24 * 3600 * 1000) == []
        assert kept(dataclasses.replace(config, audit_days=0), now_ms=now_ms) == []
