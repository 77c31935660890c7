"""The audit log stands in no change's way, and strangers cannot push entries out of it."""

from __future__ import annotations

import errno
import functools
import json

import pytest

from cluster.broker.access.audit import requests
from cluster.broker.access.audit.trail import REFUSALS_AT_ONCE
from cluster.broker.node import BrokerNode
from cluster.core.topics import AUDIT_KEPT_TOPIC, AUDIT_TOPIC
from cluster.protocol.codes import RequestCode as Code
from dledger.log.port import WantedSpace

from .access_world import Ask, new_topic
from .conftest import MakeBrokers
from .harness import until
from .test_accounts import asked, create_topics
from .test_audit import entries, gathered, said
from .test_retention import FILE_SIZE, KEEP_NOTHING, RAFT, delete_files, settle, write

ROOM_BYTES = 1500
"""More than the decision to delete files takes, and less than six audit entries."""


def fill_disk(node: BrokerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file can be made, and the last one has ROOM_BYTES."""
    space, store = node.parts.log.store.space, node.parts.log.store
    end = store.end_position + ROOM_BYTES

    def make(_space: object, wanted: WantedSpace) -> None:
        if wanted.end > end:
            raise OSError(errno.ENOSPC, "no space, says a test")

    monkeypatch.setattr(type(space), "make", make)


async def test_entries_without_room_do_not_keep_old_files(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L5: what frees space takes no more than the log keeps free for it."""
    async with make_brokers(1, raft=RAFT, **KEEP_NOTHING) as brokers:
        node = await brokers.leader()
        client = await brokers.client(node)
        await create_topics(client, 6)
        await write(client, 200)
        await settle([node])
        fill_disk(node, monkeypatch)
        await delete_files(brokers, 2 * FILE_SIZE)
        assert node.parts.state.queue_end(AUDIT_KEPT_TOPIC, 0) == 0


async def test_a_full_disk_refuses_no_change_of_members(make_brokers: MakeBrokers) -> None:
    async with make_brokers(1) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        check = leader.parts.log.driver._disk_check
        assert check is not None
        check._watch.full = "no space for more of the log: said by a test"
        check.look()
        assert (await asked(client, 17, new_topic("orders"))).code != 0
        added = await asked(client, Code.CHANGE_MEMBERS, Ask({"kind": "add-learner", "node": "n7"}))
        assert "takes no more entries" not in (added.remark or "")
        assert "no space" not in (added.remark or "")


async def test_following_from_a_time_on_gets_past_what_is_older(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "LOOKS_MAX", 2)
    async with make_brokers(1) as brokers:
        client = await brokers.client(await brokers.leader())
        for name in ("a", "b", "c"):
            assert (await asked(client, 17, new_topic(name))).code == 0
        ask = Ask({"maxNum": 9, "after": -1, "sinceMs": 1 << 50})
        page = json.loads((await asked(client, Code.LIST_AUDIT, ask)).body)
        assert (page["rows"], page["next"]) == ([], 1)


async def test_a_clone_of_several_topics_has_one_entry(make_brokers: MakeBrokers) -> None:
    async with make_brokers(1) as brokers:
        client = await brokers.client(await brokers.leader())
        for topic in ("a", "b"):
            assert (await client.send(topic)).code == 0
            place = {"consumerGroup": "CG", "topic": topic, "queueId": 0, "commitOffset": 1}
            assert (await client.ask(Code.UPDATE_CONSUMER_OFFSET, place)).code == 0
        clone = {"srcGroup": "CG", "destGroup": "CG2", "topic": ""}
        assert (await asked(client, Code.CLONE_GROUP_OFFSET, Ask(clone))).code == 0
        assert said(await entries(client)) == [("group clone", "group CG2", "begun")]


async def test_refusals_push_out_nothing_that_was_done(make_brokers: MakeBrokers) -> None:
    settings = {**KEEP_NOTHING, "audit_bytes_max": 4000}
    async with make_brokers(1, raft=RAFT, **settings) as brokers:
        node = await brokers.leader()
        client = await brokers.client(node)
        for name in ("orders", "news"):
            assert (await asked(client, 17, new_topic(name))).code == 0
        for _ in range(REFUSALS_AT_ONCE):
            await asked(client, 17, new_topic("no such name!"))
        await write(client, 1)
        ports = node.parts.admin.ports
        kept = functools.partial(
            gathered, node.config, ports.derived, ports.reader, now_ms=ports.now_ms()
        )
        texts = [record.body.decode() for record in kept(first=0, position=1 << 40)]
        done = [text for text in texts if '"outcome":"done"' in text]
        assert [json.loads(text)["target"] for text in done] == ["topic orders", "topic news"]
        assert 0 < len(texts) - len(done) < REFUSALS_AT_ONCE
        queue = ports.derived.queue(AUDIT_TOPIC, 0)
        assert queue is not None
        second = queue.read(1, 1)[0].physical_offset
        texts = [record.body.decode() for record in kept(first=second, position=1 << 40)]
        assert not any("topic orders" in text for text in texts), "it was written again before"


async def test_what_began_and_came_to_nothing_is_told_among_many_refusals(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(1) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        for _ in range(REFUSALS_AT_ONCE + 1):
            await asked(client, 17, new_topic("no such name!"))
        removed = await asked(client, Code.CHANGE_MEMBERS, Ask({"kind": "remove", "node": "n7"}))
        assert removed.code != 0
        state = leader.parts.state
        await until(lambda: state.queue_end(AUDIT_TOPIC, 0) == REFUSALS_AT_ONCE + 2)
        rows = await entries(client, target="node n7")
        assert [row["outcome"] for row in rows] == ["refused", "begun"]
