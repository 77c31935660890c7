"""Signed requests that somebody recorded, sent again: at the same node, and through another one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

import cluster
from cluster.broker.node import BrokerNode
from cluster.client import Account, ClientConfig
from cluster.core.access.signature import sign
from cluster.errors import NotConnected
from cluster.nameserver.server import NameServer
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import Frame, FrameDecoder, encode_frame
from tests.waiting import eventually

from .access_world import ACCOUNTS, SETTINGS, TOPIC, Ask, Signing, new_topic, send
from .conftest import MakeBrokers
from .harness import Brokers

NO_PERMISSION = 16


def recorded(code: int, ask: Ask, key: str) -> Frame:
    """One request as a stock client signs it."""
    ext = {name: str(value) for name, value in ask.ext.items()} | {"AccessKey": key}
    ext["Signature"] = sign(ext, ask.body, f"secret-of-{key}", 479)
    return Frame(code, 1, ext, ask.body, version=479)


async def say(node: BrokerNode | NameServer, frame: Frame, host: str) -> Frame:
    """The answer that a client at `host` gets, on a connection of its own."""
    address, _, port = node.address.rpartition(":")
    reader, writer = await asyncio.open_connection(address, int(port), local_addr=(host, 0))
    try:
        writer.write(encode_frame(frame))
        decoder = FrameDecoder()
        while data := await reader.read(1 << 16):
            for answer in decoder.feed(data):
                if answer.is_response:
                    return answer
        raise ConnectionError("closed without an answer")
    finally:
        writer.close()
        await writer.wait_closed()


async def start(brokers: Brokers) -> BrokerNode:
    leader = await brokers.leader()
    boss = Signing(await brokers.client(leader), "account-admin")
    assert (await boss.ask(Code.UPDATE_AND_CREATE_TOPIC, new_topic(TOPIC))).code == 0
    return leader


@pytest.fixture
def accounts(tmp_path: Path) -> str:
    file = tmp_path / "plain_acl.yml"
    file.write_text(ACCOUNTS)
    return str(file)


def last(node: BrokerNode) -> int:
    return node.parts.log.store.last.index


@pytest.mark.parametrize("first", [0, 1, 2])
async def test_a_recorded_send_is_refused_by_every_node(
    make_brokers: MakeBrokers, accounts: str, first: int
) -> None:
    """`first`: where the client sends it: the leader (0) or a follower, which passes it on."""
    async with make_brokers(3, acl_file=accounts, **SETTINGS) as brokers:
        leader = await start(brokers)
        nodes = [leader, *(node for node in brokers.running() if node is not leader)]
        client, thief = brokers.hosts[:2]
        frame = recorded(Code.SEND_MESSAGE_V2, send(TOPIC), "account-write")
        assert (await say(nodes[first], frame, client)).code == 0
        stored = last(leader)
        for node in nodes:
            answer = await say(node, frame, thief)
            assert (answer.code, "another client" in (answer.remark or "")) == (NO_PERMISSION, True)
        assert last(leader) == stored
        for node in nodes:
            assert (await say(node, frame, client)).code == 0, "its own client tries again"


async def test_a_signed_look_deletes_no_topic(make_brokers: MakeBrokers, accounts: str) -> None:
    async with make_brokers(acl_file=accounts, **SETTINGS) as brokers:
        leader = await start(brokers)
        host = brokers.hosts[0]
        frame = recorded(Code.GET_TOPIC_STATS_INFO, Ask({"topic": TOPIC}), "account-admin")
        assert (await say(leader, frame, host)).code == 0
        deleted = await say(leader, frame._replace(code=int(Code.DELETE_TOPIC_IN_BROKER)), host)
        assert deleted.code == NO_PERMISSION
        assert (await say(leader, frame, host)).code == 0, "the topic is there"


async def test_fields_of_a_signed_send_are_not_cut_anew(
    make_brokers: MakeBrokers, accounts: str
) -> None:
    async with make_brokers(acl_file=accounts, **SETTINGS) as brokers:
        leader = await start(brokers)
        host = brokers.hosts[0]
        frame = recorded(Code.SEND_MESSAGE_V2, send(TOPIC, b"body"), "account-write")
        assert (await say(leader, frame, host)).code == 0
        stored = last(leader)
        moved = frame._replace(ext={**frame.ext, "zz": "bo"}, body=b"dy")
        assert (await say(leader, moved, host)).code == NO_PERMISSION
        assert last(leader) == stored


async def test_our_client_looks_at_a_topic_and_deletes_it(
    make_brokers: MakeBrokers, accounts: str, new_address: Callable[[], str]
) -> None:
    """Two requests with the same fields, one behind the other."""
    account = Account("account-admin", "secret-of-account-admin")
    async with NameServer(new_address(), 9876, warm_up_seconds=0.0) as server:
        named = {**SETTINGS, "acl_file": accounts, "name_servers": (server.address,)}
        async with (
            make_brokers(1, **named),
            cluster.connect(server.address, ClientConfig(account=account)) as mq,
        ):

            async def is_created() -> bool:
                with contextlib.suppress(NotConnected):
                    return bool(await mq.admin().create_topic("gone", 1))
                return False

            await eventually(is_created, "the topic")
            for _ in range(2):
                assert (await mq.admin().describe_topic("gone")).message_count == 0
            await mq.admin().delete_topic("gone")
            assert "gone" not in await mq.admin().list_topics()
