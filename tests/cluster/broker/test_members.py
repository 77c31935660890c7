"""Members of a broker's group come and go: 31012, 31013, addresses, registrations, forwarding."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from cluster.broker.node import BrokerNode
from cluster.broker.peer_addresses import PeerAddresses
from cluster.protocol.codes import RequestCode as Code
from dledger.core.configuration import ChangeKind, Configuration, Member
from dledger.core.types import NodeId, Term
from dledger.errors import DledgerError

from .conftest import MakeBrokers
from .harness import CLIENT_PORT, PEER_PORT, Brokers, RawClient, until


@asynccontextmanager
async def joiner(brokers: Brokers, host: str) -> AsyncIterator[BrokerNode]:
    """Node n3, formatted to join; the others' settings do not name it."""
    raft = replace(
        brokers.raft(0),
        node_id="n3",
        peers={**brokers.raft(0).peers, "n3": (host, PEER_PORT)},
        data_dir=brokers.root / "n3" / "dledger-n3",
    )
    config = replace(
        brokers.config(0),
        node_id="n3",
        root=brokers.root / "n3",
        listen_host=host,
        peers={f"n{i}": f"{h}:{CLIENT_PORT}" for i, h in enumerate(brokers.hosts)},
    )
    BrokerNode.format(raft, joins=True)
    node = BrokerNode(config, raft)
    await node.start()
    try:
        yield node
    finally:
        await node.close()


async def asked(client: RawClient, kind: str, node: str, *, dry: bool = False) -> Any:
    fields = {"kind": kind, "node": node, "dryRun": str(dry).lower()}
    return await client.ask(Code.CHANGE_MEMBERS, fields)


def standings(body: bytes) -> dict[str, str]:
    return {row["node"]: row["standing"] for row in json.loads(body)["members"]}


async def test_a_node_joins_serves_and_outlives_the_leader(
    make_brokers: MakeBrokers, new_address: Callable[[], str]
) -> None:
    async with make_brokers(3) as brokers, joiner(brokers, new_address()) as third:
        leader = await brokers.leader()
        follower = await brokers.follower()
        client = await brokers.client(follower)  # every request is passed on to the leader
        assert (await client.send()).code == 0
        driver = leader.parts.log.driver
        await until(lambda: driver.roster.unknown_visitors())
        listed = await client.ask(Code.LIST_MEMBERS)
        found = json.loads(listed.body)
        assert standings(listed.body) == dict.fromkeys(("n0", "n1", "n2"), "voter")
        assert [visitor["node"] for visitor in found["visitors"]] == ["n3"]
        assert (found["majority"], found["may_fail"]) == (2, 1)
        assert (found["may_fail_now"], found["uncounted"]) == (1, {})

        dry = await asked(client, "add", "n3", dry=True)
        assert standings(dry.body)["n3"] == "joining"
        assert "n3" not in standings((await client.ask(Code.LIST_MEMBERS)).body)

        assert (await asked(client, "add", "n3")).code == 0
        core = third.parts.log.driver
        await until(lambda: core.members.voters == ("n0", "n1", "n2", "n3"))
        await until(lambda: leader.parts.leadership.leads)
        assert leader.parts.config.peers["n3"] == third.address

        through = await brokers.client(third)
        assert (await through.send()).code == 0, "a new node passes sends on"
        status = leader.parts.log.status
        await until(lambda: status().configuration_index <= status().commit)
        gone = leader.config.node_id
        removed = await asked(client, "remove", gone)
        assert removed.code == 0
        assert gone not in standings(removed.body)

        async def is_served() -> bool:
            answer = await through.send()
            assert answer.code in (0, 14, 1500, 31901), answer
            return answer.code == 0

        await until(is_served, "a send after the leader left")
        await until(lambda: gone not in core.members.names)


async def test_what_cannot_be_is_refused_with_the_reason(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        client = await brokers.client(await brokers.leader())
        stranger = await asked(client, "add", "n9")
        assert stranger.code == 1500
        assert "n9 has not called this node" in (stranger.remark or "")
        unknown = await asked(client, "remove", "n9")
        told = "no member has this name; dledger member list shows those there are"
        assert (unknown.code, unknown.remark) == (29, told)
        wrong = await asked(client, "explode", "n1")
        assert wrong.code == 29
        assert "add, add-learner, remove, readmit" in (wrong.remark or "")
        same = await asked(client, "readmit", "n1")
        assert "has not come back as another incarnation" in (same.remark or "")


async def test_a_change_lets_go_first_what_was_collected_in_this_turn(
    make_brokers: MakeBrokers,
) -> None:
    """A batch that is open counts on the next index of the log; the change must not take it."""
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        parts, driver = leader.parts, leader.parts.log.driver
        batch = parts.appender.open()
        body = parts.machine.noop_body(Term(driver.replica.node.term))
        batch.bodies.append(body)
        batch.size += len(body)
        done: asyncio.Future[DledgerError | None] = asyncio.get_running_loop().create_future()
        driver.change(
            ChangeKind.REMOVE, NodeId((await brokers.follower()).config.node_id), done.set_result
        )
        assert driver.replica.node.configuration_index == batch.first_index + 1
        assert await done is None
        client = await brokers.client(leader)
        assert (await client.send()).code == 0


def test_addresses_follow_the_group_and_settings_win() -> None:
    peers = PeerAddresses("n0", {"n1": "proxy:1", "n2": "b:2"})
    peers.follow(Configuration(()))
    assert dict(peers) == {"n1": "proxy:1", "n2": "b:2"}
    peers.follow(
        Configuration(
            (
                Member(NodeId("n0"), address="x:1 a:1"),
                Member(NodeId("n1"), address="y:1 b:1"),
                Member(NodeId("n3"), address="z:1 c:1"),
                Member(NodeId("n4"), address="z:2"),
            )
        )
    )
    assert dict(peers) == {"n1": "proxy:1", "n3": "c:1"}


def test_a_member_that_moved_is_where_it_says() -> None:
    """It was replaced on another machine, and the settings still name the old one."""
    peers = PeerAddresses(
        "n0", {"n1": "old:1", "n2": "proxy:1"}, {"n1": ("old", 2), "n2": ("b", 2)}
    )
    moved = Member(NodeId("n1"), address="new:2 new:1")
    peers.follow(Configuration((moved, Member(NodeId("n2"), address="b:2 b:1"))))
    assert dict(peers) == {"n1": "new:1", "n2": "proxy:1"}
