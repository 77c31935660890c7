"""Accounts of the log: on every node from the entry on that says them, never without a chief."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.broker.node import BrokerNode
from cluster.core.access.signature import sign
from cluster.core.feature_level import LEVEL
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import FLAG_ONEWAY, Frame, encode_frame
from cluster.protocol.offset_id import encode_offset_id
from dledger.core.types import Index
from dledger.errors import NodeFailed

from .access_world import Ask, heartbeat, new_topic, pop, pull, send
from .by_hand import HandBroker, HandClient
from .conftest import MakeBrokers
from .harness import Brokers, RawClient, until

NO_PERMISSION, INVALID, NOT_FOUND, AGAIN = 16, 29, 22, 14
SECRET = "drawn-for-this-test-alone"
CHIEF = {"accessKey": "the-chief", "secretKey": SECRET, "admin": True}
WRITER = {"accessKey": "a-writer", "secretKey": SECRET, "topicPerms": ["orders=PUB"]}
SETTINGS = {"cluster_secret": "one for all of this test"}


async def asked(
    client: RawClient, code: int, ask: Ask, key: str = "", secret: str = SECRET
) -> Frame:
    ext = {name: str(value) for name, value in ask.ext.items()}
    if key:
        ext["AccessKey"] = key
        ext["Signature"] = sign(ext, ask.body, secret, 479)
    return await client.ask(code, ext, ask.body)


async def create_topics(client: RawClient, count: int) -> None:
    """Topics t0, t1 and so on; each is an entry of the audit log."""
    for number in range(count):
        assert (await asked(client, 17, new_topic(f"t{number}"))).code == 0


def change(**parts: Any) -> Ask:
    return Ask(body=json.dumps(parts).encode())


async def test_the_first_account_guards_every_node_for_the_connections_that_are_open(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3, **SETTINGS) as brokers:
        leader = await brokers.leader()
        follower = await brokers.follower()
        clients = [await brokers.client(node) for node in (leader, follower)]
        for client in clients:
            assert (await asked(client, 17, new_topic("orders"))).code == 0
            assert (await asked(client, 310, send("orders"))).code == 0
        refused = await asked(clients[1], Code.CHANGE_ACCOUNTS, change(create=[WRITER]))
        assert refused.code == INVALID
        assert "administrator" in (refused.remark or "")
        made = await asked(clients[1], Code.CHANGE_ACCOUNTS, change(create=[CHIEF, WRITER]))
        assert made.code == 0, made.remark
        await until(lambda: all(node.parts.access.is_on for node in brokers.running()))
        for client in clients:
            for code, ask in ((21, Ask()), (34, Ask(body=b"{}")), (17, new_topic("more"))):
                assert (await asked(client, code, ask)).code == NO_PERMISSION, code
            end = leader.parts.state.queue_ends("orders", 1)
            lost = client.ask(310, {k: str(v) for k, v in send("orders").ext.items()}, b"x")
            await until(lost.done, "the connection is closed, or the send refused")
            assert lost.exception() is not None or lost.result().code == NO_PERMISSION
            assert leader.parts.state.queue_ends("orders", 1) == end
        for node in (leader, follower):
            client = await brokers.client(node)
            sent = await asked(client, 310, send("orders"), "a-writer")
            assert sent.code == 0, sent.remark
            assert (await asked(client, 310, send("orders"))).code == NO_PERMISSION
            assert (await asked(client, 21, Ask({"a": 1}), "a-writer")).code == NO_PERMISSION
            assert (await asked(client, 21, Ask(), "the-chief")).code == 0


async def test_an_account_that_changes_does_so_on_open_connections_of_every_node(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3, **SETTINGS) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        await _begin(brokers, leader)
        clients = [await brokers.client(node) for node in (leader, follower)]
        chief = await brokers.client(leader)
        for number, client in enumerate(clients):
            assert (await asked(client, 310, send("orders", o=number), "a-writer")).code == 0
        changes: tuple[Mapping[str, Any], ...] = (
            {"topicPerms": []},
            {"topicPerms": None, "defaultTopicPerm": "PUB"},
            {"status": "disable"},
            {"status": None},
            {"secretKey": "another-secret-altogether"},
        )
        for number, row in enumerate(changes):
            altered = change(alter=[{"accessKey": "a-writer", **row}])
            answer = await asked(chief, Code.CHANGE_ACCOUNTS, altered, "the-chief")
            assert answer.code == 0, answer.remark
            wanted = 0 if number in (1, 3) else NO_PERMISSION
            rows = leader.parts.state.accounts.rows()
            await until(
                lambda rows=rows: all(
                    node.parts.state.accounts.rows() == rows for node in brokers.running()
                )
            )
            for at, client in enumerate(clients):
                ask = send("orders", o=f"{number}-{at}")
                assert (await asked(client, 310, ask, "a-writer")).code == wanted, (number, at)


async def test_the_last_administrator_stays_however_two_are_deleted(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(1) as brokers:
        leader = await brokers.leader()
        client = await _begin(brokers, leader)
        second = {**CHIEF, "accessKey": "the-second"}
        await _changed(client, create=[second])
        both = [
            asked(client, Code.CHANGE_ACCOUNTS, change(delete=[key]), "the-chief")
            for key in ("the-chief", "the-second")
        ]
        codes = [answer.code for answer in await asyncio.gather(*both)]
        assert sorted(codes)[0] == 0
        assert sorted(codes)[1] != 0
        left = "the-second" if codes[0] == 0 else "the-chief"
        for parts in (
            {"delete": [left]},
            {"alter": [{"accessKey": left, "admin": False}]},
            {"alter": [{"accessKey": left, "status": "disable"}]},
        ):
            answer = await asked(client, Code.CHANGE_ACCOUNTS, change(**parts), left)
            assert answer.code == INVALID
            assert "no administrator would be left" in (answer.remark or "")


async def test_accounts_outlive_a_restart_with_and_without_a_checkpoint(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(1) as brokers:
        leader = await brokers.leader()
        await _begin(brokers, leader)
        for saved in (False, True):
            if saved:
                await leader.parts.admin.housekeeping.checkpoint()
            await brokers.stop_node(0)
            leader = await brokers.start_node(0)
            await brokers.leader()
            client = await brokers.client(leader)
            assert (await asked(client, 21, Ask())).code == NO_PERMISSION
            assert (await asked(client, 21, Ask(), "the-chief")).code == 0


async def test_a_leader_believes_no_follower_that_has_not_heard_of_accounts(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3, **SETTINGS) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        await _begin(brokers, leader)
        rows = follower.parts.state.accounts.rows()
        follower.parts.state.accounts.restore(())  # as one that lags
        client = await brokers.client(follower)
        for ask in (send("orders"), send("orders", o=1)):
            answer = await _answer(client, 310, ask)
            assert answer in (None, AGAIN)
        assert (await asked(client, 17, new_topic("made"))).code == AGAIN
        assert (await asked(client, 17, new_topic("more"), "a-writer")).code == NO_PERMISSION
        assert leader.parts.state.topics.get("made") is None
        assert (await asked(client, 17, new_topic("made"), "the-chief")).code == 0
        follower.parts.state.accounts.restore(rows)


async def test_several_nodes_have_no_accounts_without_the_cluster_secret(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        await until(lambda: 0 not in leader.parts.log.driver.roster.levels().values())
        client = await brokers.client(leader)
        answer = await asked(client, Code.CHANGE_ACCOUNTS, change(create=[CHIEF]))
        assert answer.code == INVALID
        assert "cluster_secret" in (answer.remark or "")
        assert not leader.parts.access.is_on


async def test_a_level_that_settings_raised_does_not_stand_for_the_cluster_secret(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        roster = leader.parts.log.driver.roster
        await until(lambda: set(roster.levels().values()) == {LEVEL})
        client = await brokers.client(leader)
        answer = await client.ask(Code.UPDATE_BROKER_CONFIG, body=b"reserved_hours=48")
        assert answer.code == 0, answer.remark
        answer = await asked(client, Code.CHANGE_ACCOUNTS, change(create=[CHIEF]))
        assert answer.code == INVALID
        assert "cluster_secret" in (answer.remark or "")
        assert not leader.parts.access.is_on


async def test_who_says_to_be_a_node_and_proves_nothing_is_believed_nothing(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        leader.parts.state.accounts.replay([CHIEF], ())  # and then the secret was taken away
        liar = await brokers.client(leader)
        hello = {
            "clientAddress": "10.0.0.1:1",
            "node": follower.config.node_id,
            "life": "1",
            "to": leader.config.node_id,
        }
        liar.write(encode_frame(Frame(Code.FORWARD_HELLO, 1, hello, flag=FLAG_ONEWAY)))
        ext = {"AccessKey": "the-chief", "Signature": "guessed"}
        for code, ask in ((17, new_topic("made")), (Code.LIST_ACCOUNTS, Ask())):
            more = {name: str(value) for name, value in ask.ext.items()}
            answer = await liar.ask(code, ext | more, ask.body)
            assert answer.code == NO_PERMISSION
            assert "proves nothing" in (answer.remark or "")
        assert leader.parts.state.topics.get("made") is None


def test_what_waited_for_a_leader_is_not_served_without_an_account_that_came_meanwhile(
    tmp_path: Path,
) -> None:
    broker = HandBroker(tmp_path, **SETTINGS)
    client = HandClient(broker)
    waiting = client.ask(17, new_topic("made").ext)
    assert waiting.answer is None
    broker.parts.state.accounts.replay([CHIEF], ())
    broker.lead()
    broker.commit()
    assert waiting.code == NO_PERMISSION
    assert broker.parts.state.topics.get("made") is None
    broker.close()


async def test_a_producer_id_is_its_accounts_from_the_first_account_of_the_log_on(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(1) as brokers:
        leader = await brokers.leader()
        client = await _begin(brokers, leader)
        await _changed(client, create=[{**WRITER, "accessKey": "another"}])
        client = await brokers.client(leader)
        ours = {"properties": "__PID\x01p-1\x02__SEQ\x010\x02"}
        assert (await asked(client, 310, send("orders", **ours), "a-writer")).code == 0
        await until(lambda: leader.parts.state.producers.owner("p-1") == "a-writer")
        answer = await asked(client, 310, send("orders", o="x", **ours), "another")
        assert answer.code == NO_PERMISSION
        assert "another account" in (answer.remark or "")


async def test_a_client_of_before_the_first_account_goes_on_by_its_connection(
    make_brokers: MakeBrokers,
) -> None:
    """Its registration has no account yet; on another connection the id is another client's."""
    async with make_brokers(3, **SETTINGS) as brokers:
        leader = await brokers.leader()
        clients = [await brokers.client(node) for node in (leader, await brokers.follower())]
        for number, client in enumerate(clients):
            beat = heartbeat(f"app@{number}", ("producers",), ("g",))
            assert (await asked(client, 34, beat)).code == 0
        registry = leader.parts.registry
        await until(lambda: registry.consumer_ids("g") == ["app@0", "app@1"])
        await _begin(brokers, leader)
        thief = await brokers.client(leader)
        for number, client in enumerate(clients):
            beat = heartbeat(f"app@{number}", ("producers",), ("g",))
            assert (await asked(thief, 34, beat, "the-chief")).code == NO_PERMISSION
            assert (await asked(client, 34, beat)).code == NO_PERMISSION
            for _ in range(2):
                told = await asked(client, 34, beat, "the-chief")
                assert told.code == 0, told.remark


async def test_no_client_reads_the_records_that_hold_secrets(make_brokers: MakeBrokers) -> None:
    async with make_brokers(1) as brokers:
        leader = await brokers.leader()
        client = await _begin(brokers, leader)
        topic = "rmq_sys_dledger_accounts"
        assert leader.parts.state.queue_ends(topic, 1) == [1]
        store = leader.parts.log.store
        (index,) = (at for at in range(1, store.last.index + 1) if SECRET in text_of(store, at))
        position = leader.parts.reader.place(Index(index)).position
        times = {"beginTimestamp": 0, "endTimestamp": 1}
        victim = await brokers.client(leader)
        joined = await asked(victim, 34, heartbeat("victim@1", (), ("g",)), "the-chief")
        assert joined.code == 0
        member = {"consumerGroup": "g", "clientId": "victim@1"}
        for code, ask in (
            (11, pull(topic, "g")),
            (361, pull(topic, "g")),
            (12, Ask({"topic": topic, "key": "k", "maxNum": 9, **times})),
            (33, Ask({"offset": position})),
            (33, Ask({"offset": position, "topic": "orders"})),
            (36, Ask({"group": "g", "offset": position, "delayLevel": 0})),
            (309, Ask({**member, "msgId": encode_offset_id("127.0.0.1", 1, position)})),
            (Code.POP_MESSAGE, pop(topic, "g")),
            (Code.PEEK_MESSAGE, pop(topic, "g")),
        ):
            answer = await asked(client, code, ask, "the-chief")
            assert answer.code == NO_PERMISSION, (code, answer.remark)
            assert SECRET.encode() not in answer.body
        assert {notice.code for notice in victim.notices} <= {Code.NOTIFY_CONSUMER_IDS_CHANGED}
        client, before = await brokers.client(leader), leader.parts.state.accounts.rows()
        record = json.dumps({"put": [{**CHIEF, "accessKey": "smuggled"}]}).encode()
        for more in ({}, {"properties": f"REAL_TOPIC\x01{topic}\x02DELAY\x011\x02"}):
            sent = send(topic, record, **more)
            assert (await asked(client, 310, sent, "the-chief")).code != 0
        assert leader.parts.state.accounts.rows() == before
        listed = await asked(client, Code.LIST_ACCOUNTS, Ask(), "the-chief")
        assert SECRET not in listed.body.decode()
        found = json.loads(listed.body)
        assert [row["accessKey"] for row in found["accounts"]] == ["a-writer", "the-chief"]
        assert found["on"] is True


async def test_what_cannot_be_an_account_is_refused_and_changes_nothing(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(1) as brokers:
        leader = await brokers.leader()
        client = await _begin(brokers, leader)
        before = leader.parts.state.accounts.rows()
        for code, parts in (
            (INVALID, {"create": [{**WRITER, "accessKey": "short"}]}),
            (INVALID, {"create": [{**WRITER, "accessKey": "another", "secretKey": "12345678"}]}),
            (INVALID, {"create": [{**WRITER, "topicPerms": ["a=SUB"]}]}),
            (INVALID, {"create": [{**WRITER, "accessKey": "another", "unknown": 1}]}),
            (NOT_FOUND, {"alter": [{"accessKey": "nobody-at-all"}]}),
            (NOT_FOUND, {"delete": ["nobody-at-all"]}),
            (INVALID, {"remove": []}),
            (INVALID, {"delete": "the-chief"}),
        ):
            answer = await asked(client, Code.CHANGE_ACCOUNTS, change(**parts), "the-chief")
            assert answer.code == code, (parts, answer.remark)
        assert (
            await asked(client, Code.CHANGE_ACCOUNTS, change(put=before), "the-chief")
        ).code == 0
        assert leader.parts.state.accounts.rows() == before


async def test_an_account_of_a_nodes_own_file_comes_first(
    make_brokers: MakeBrokers, tmp_path: Any
) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text("accounts:\n- {accessKey: the-chief, secretKey: of-the-file, admin: true}\n")
    async with make_brokers(1, acl_file=str(file)) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        made = change(create=[CHIEF, WRITER])
        assert (await asked(client, Code.CHANGE_ACCOUNTS, made, "the-chief")).code == NO_PERMISSION
        answer = await asked(client, Code.CHANGE_ACCOUNTS, made, "the-chief", "of-the-file")
        assert answer.code == 0, answer.remark
        assert (await asked(client, 21, Ask(), "the-chief")).code == NO_PERMISSION
        assert (await asked(client, 21, Ask({"a": 1}), "the-chief", "of-the-file")).code == 0
        assert (await asked(client, 310, send("orders"), "a-writer")).code == 0


async def _begin(brokers: Brokers, leader: BrokerNode) -> RawClient:
    """A topic, an administrator and a writer; a client of the leader."""
    await until(lambda: 0 not in leader.parts.log.driver.roster.levels().values())
    client = await brokers.client(leader)
    assert (await asked(client, 17, new_topic("orders"))).code == 0
    answer = await asked(client, Code.CHANGE_ACCOUNTS, change(create=[CHIEF, WRITER]))
    assert answer.code == 0, answer.remark
    await until(lambda: all(node.parts.access.is_on for node in brokers.running()))
    return client


def text_of(store: Any, index: int) -> str:
    """An entry's body, as far as it is text."""
    return bytes(store.entry(Index(index)).body).decode("latin-1")


async def _changed(client: RawClient, **parts: Any) -> None:
    answer = await asked(client, Code.CHANGE_ACCOUNTS, change(**parts), "the-chief")
    assert answer.code == 0, answer.remark


async def _answer(client: RawClient, code: int, ask: Ask) -> int | None:
    """The answer's code; None: the connection was closed instead."""
    try:
        return (await asked(client, code, ask)).code
    except (ConnectionError, NodeFailed):
        return None
