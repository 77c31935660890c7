"""Settings changed in a running group: by request 25, on every node, and after a restart."""

from __future__ import annotations

import json

from cluster.core.feature_level import LEVEL
from cluster.protocol.codes import RequestCode as Code
from tests.waiting import eventually

from .conftest import MakeBrokers
from .harness import RawClient, until

NOT_THERE, INVALID, AGAIN = 17, 29, 14


async def lines(client: RawClient) -> dict[str, str]:
    answer = await client.ask(Code.GET_BROKER_CONFIG)
    return dict(line.split("=", 1) for line in answer.body.decode().splitlines())


async def test_a_setting_counts_on_every_node_and_after_a_restart(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3, reserved_hours=72) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        client = await brokers.client(follower)
        body = b"fileReservedTime=48\ndeleteWhen=04;16\ndisk_full_ratio=0.8"
        assert (await client.ask(Code.UPDATE_BROKER_CONFIG, body=body)).code == 0
        for node in brokers.running():
            live = node.parts.admin.ports.live
            await until(lambda live=live: live.now.reserved_hours == 48, "on each node")
            assert (live.now.delete_hours, live.now.disk_full_ratio) == ((4, 16), 0.8)
            assert node.config.reserved_hours == 72, "its own file says so still"
        told = await lines(await brokers.client(leader))
        assert told["fileReservedTime"] == "48"
        assert told["deleteWhen"] == "4,16"
        assert told["dledger.live.reserved_hours"] == "48"
        number = brokers.nodes.index(follower)
        await brokers.stop_node(number)
        await brokers.start_node(number)
        again = brokers.nodes[number]
        assert again is not None
        await until(lambda: again.parts.admin.ports.live.now.reserved_hours == 48, "restarted")
        client = await brokers.client(await brokers.leader())
        assert (await client.ask(Code.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=")).code == 0
        told = await lines(client)
        assert told["fileReservedTime"] == "72"
        assert "dledger.live.reserved_hours" not in told
        assert told["dledger.live.delete_hours"] == "4,16"


async def test_what_is_read_at_the_start_is_refused_with_its_place(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        before = leader.parts.log.store.last.index
        for body, wanted in (
            (b"maxMessageSize=1000", "write broker.body_size_max into the settings file"),
            (b"fileReservedTime=x", "fileReservedTime cannot be x"),
            (b"diskSpaceWarningLevelRatio=7", "is not within 0..1"),
            (b"pull_count_max=9999999", "at most pull_scan_max"),
            (b"fileReservedTime=1\nmaxMessageSize=1000", "body_size_max"),
        ):
            answer = await client.ask(Code.UPDATE_BROKER_CONFIG, body=body)
            assert answer.code == INVALID, body
            assert wanted in (answer.remark or ""), answer.remark
        changes = leader.parts.state.settings.values
        assert changes == {}, "all of a request or nothing"
        assert (await client.ask(25, body=b"fileReservedTime=")).code == 0
        last = leader.parts.log.store.last.index
        assert last - before <= 6, "audit entries at most"
        assert leader.parts.state.level.value == 0, "no mark either"


async def test_topics_are_created_by_sends_or_not(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.ask(25, body=b"autoCreateTopicEnable=false")).code == 0
        refused = await client.send("new-one")
        assert refused.code == NOT_THERE
        assert (await client.ask(25, body=b"autoCreateTopicEnable=true")).code == 0
        assert (await client.send("new-one")).code == 0


async def test_the_change_is_in_the_audit_log(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.ask(25, body=b"reserved_hours=48")).code == 0
        assert (await client.ask(25, body=b"maxMessageSize=1")).code == INVALID

        async def rows() -> list[dict[str, str]]:
            asked = {"count": "9", "brokerName": "broker-a"}
            found: list[dict[str, str]] = json.loads(
                (await client.ask(Code.LIST_AUDIT, asked)).body
            )["rows"]
            return found if len(found) == 2 else []

        refused, done = await eventually(rows, "both entries")
        assert (refused["outcome"], refused["target"]) == ("refused", "setting maxMessageSize")
        assert (done["outcome"], done["target"]) == ("done", "setting reserved_hours")
        assert done["command"] == "dledger config set reserved_hours 48"


async def test_a_member_of_an_older_version_keeps_settings_out_of_the_log(
    make_brokers: MakeBrokers,
) -> None:
    """Its state would be another one than that of the others (R28)."""
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        roster = leader.parts.log.driver.roster
        await until(lambda: set(roster.levels().values()) == {LEVEL})
        levels = roster.levels()
        older = next(iter(levels))
        roster.levels = lambda: {**levels, older: 1}  # type: ignore[method-assign]
        client = await brokers.client(leader)
        answer = await client.ask(25, body=b"reserved_hours=48")
        assert answer.code == AGAIN
        assert f"{older} did not say so" in (answer.remark or "")
        assert leader.parts.admin.ports.live.now.reserved_hours == 72
