"""Starting, stopping, checkpoints, exports, name servers, failing."""

from __future__ import annotations

import asyncio
import errno
import json
import operator
from pathlib import Path

import pytest

from cluster.broker.admin import housekeeping
from cluster.broker.node import BrokerNode
from cluster.broker.registration import Registrar
from cluster.nameserver.server import NameServer
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import FLAG_ONEWAY
from commitlog.errors import StoreLocked
from commitlog.files.disk_usage import DiskUsage
from commitlog.files.system import OsFileSystem
from commitlog.queues import consume_queues
from commitlog.store.config_json import parse_config
from dledger.core.types import Index
from dledger.runtime.driver import Driver
from tests.waiting import within

from .conftest import MakeBrokers
from .harness import OWN, Brokers, RawClient, bodies, handled, until


async def fill(brokers: Brokers, number: int, first: int = 0) -> None:
    client = await brokers.client(await brokers.leader())
    sends = (client.send(body=b"%d" % i) for i in range(first, first + number))
    assert {answer.code for answer in await asyncio.gather(*sends)} == {0}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


async def test_a_node_that_stops_reads_its_closed_log_no_more(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries may be applied while it stops; a look at them is on its way then."""
    stop = Driver.stop

    async def stopped(driver: Driver) -> None:
        await stop(driver)
        derived.state.applied = Index(derived.applied - 2)  # as if these two came last
        derived._run()
        await asyncio.sleep(0)  # where it would say that the node has failed

    monkeypatch.setattr(Driver, "stop", stopped)
    async with make_brokers() as brokers:
        await fill(brokers, 3)
        node = await brokers.leader()
        derived = node.parts.derived
        await node.close()
        assert node._failed is not None
        assert not node._failed.done()


async def test_a_restart_begins_at_the_checkpoint(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        await fill(brokers, 20)
        await brokers.stop_node(0)
        node = await brokers.start_node(0)
        await brokers.leader()
        await until(lambda: node.parts.derived.behind == 0)
        assert node.parts.derived.entries <= 2, "only what is new was dispatched"
        client = await brokers.client(node)
        assert len(bodies((await client.pull()).body)) == 20


@pytest.mark.parametrize("lost", ["state.ckpt", "dispatched"])
async def test_derived_files_can_be_lost(make_brokers: MakeBrokers, lost: str) -> None:
    """Queues, index and state are derived: without a checkpoint they are made again, the same."""
    async with make_brokers() as brokers:
        await fill(brokers, 20)
        await brokers.stop_node(0)
        queues = brokers.root / "n0" / "consumequeue"
        before = tree(queues)
        (brokers.root / "n0" / lost).unlink()
        node = await brokers.start_node(0)
        await brokers.leader()
        await until(lambda: node.parts.derived.behind == 0)
        client = await brokers.client(node)
        assert len(bodies((await client.pull()).body)) == 20
        await brokers.stop_node(0)
        after = tree(queues)
        assert {name: after[name] for name in before} == before


async def test_a_crash_after_the_checkpoint_costs_nothing(make_brokers: MakeBrokers) -> None:
    """Queue entries behind the checkpoint are cut and derived again from committed entries."""
    async with make_brokers() as brokers:
        await fill(brokers, 10)
        leader = await brokers.leader()
        await until(lambda: leader.parts.derived.behind == 0)
        await leader.parts.housekeeping.checkpoint()
        await fill(brokers, 10, 10)
        root = brokers.root / "n0"
        saved = (root / "state.ckpt").read_bytes(), (root / "dispatched").read_bytes()
        await brokers.stop_node(0)
        (root / "state.ckpt").write_bytes(saved[0])
        (root / "dispatched").write_bytes(saved[1])
        await brokers.start_node(0)
        client = await brokers.client(await brokers.leader())
        assert bodies((await client.pull()).body) == [b"%d" % i for i in range(20)]
        assert (await client.send()).ext["queueOffset"] == "20"


async def test_a_checkpoint_of_very_many_queues_is_begun_in_parts(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume_queues, "PART_COUNT", 1)
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        for queue in range(4):
            assert (await client.send(queue=queue)).code == 0
        leader = await brokers.leader()
        await until(lambda: leader.parts.derived.behind == 0)
        changed, left = leader.parts.derived.files.queues._changed, []
        begin = leader.parts.derived.begin_checkpoint
        monkeypatch.setattr(
            leader.parts.derived,
            "begin_checkpoint",
            lambda: (left.append(len(changed)), begin())[1],
        )
        await leader.parts.housekeeping.checkpoint()
        assert left == [1], "the others were synced before"
        assert leader.parts.housekeeping.checkpoints == 1


def commit_offset(client: RawClient, offset: int) -> None:
    place = {"consumerGroup": "CG", "topic": "T", "queueId": 0, "commitOffset": offset}
    client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, place, flag=FLAG_ONEWAY)


@pytest.mark.parametrize("number", [1, 3])
async def test_a_stop_leaves_no_offset_of_a_consumer_unlogged(
    make_brokers: MakeBrokers, number: int
) -> None:
    """Those of the second that has not passed yet, and those that come while it stops."""
    async with make_brokers(number) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await client.send()).code == 0
        for offset in (1, 2, 3):
            commit_offset(client, offset)
            await handled(client)
        stopped = brokers.nodes.index(leader)
        await brokers.stop_node(stopped)
        if number == 1:
            await brokers.start_node(stopped)
        table = (await brokers.leader()).parts.state.offsets
        assert table.get("CG", "T", 0) == 3


async def test_an_offset_that_comes_while_a_node_alone_stops_is_logged(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await client.send()).code == 0

        async def late(_: object) -> None:
            for offset in (1, 2, 3):
                commit_offset(client, offset)
                await handled(client)

        monkeypatch.setattr(leader, "_drain", late)
        await brokers.stop_node(0)
        await brokers.start_node(0)
        table = (await brokers.leader()).parts.state.offsets
        assert table.get("CG", "T", 0) == 3


async def test_a_node_that_stops_answers_until_name_servers_have_heard_of_it(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent name server costs seconds; a client that sends meanwhile must not wait for them."""
    told, heard = asyncio.Event(), asyncio.Event()
    close = Registrar.close

    async def slow(registrar: Registrar) -> None:
        told.set()
        await heard.wait()
        await close(registrar)

    monkeypatch.setattr(Registrar, "close", slow)
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        stopping = asyncio.create_task(brokers.stop_node(0))
        await told.wait()
        assert (await client.send()).code == 0
        heard.set()
        await stopping
        await brokers.start_node(0)


async def test_a_start_that_derived_much_is_followed_by_a_checkpoint(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a node that is killed again and again would derive more at each start."""
    monkeypatch.setattr(housekeeping, "START_CHECKPOINT_BYTES", 1000)
    async with make_brokers() as brokers:
        await fill(brokers, 20)
        leader = await brokers.leader()
        await until(lambda: leader.parts.derived.behind == 0)
        keeping = leader.parts.housekeeping
        await keeping._once()
        assert keeping.checkpoints == 1
        await fill(brokers, 20, 20)
        await until(lambda: leader.parts.derived.behind == 0)
        await keeping._once()
        assert keeping.checkpoints == 1, "from then on by time and size"


async def test_a_folder_is_opened_once(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        node = await brokers.leader()
        second = BrokerNode(node.config, node.raft)
        with pytest.raises(StoreLocked, match="open in another process"):
            await second.start()
        await fill(brokers, 1)


async def test_a_taken_port_leaves_nothing_open(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        await brokers.stop_node(0)
        config, raft = brokers.config(0), brokers.raft(0)
        blocker = await asyncio.start_server(
            lambda r, w: w.close(), config.listen_host, config.listen_port
        )
        with pytest.raises(OSError, match="cannot listen"):
            await BrokerNode(config, raft).start()
        blocker.close()
        await blocker.wait_closed()
        await brokers.start_node(0)
        await brokers.leader()


@pytest.mark.parametrize(
    "step", ["registrar._current", "housekeeping.checkpoint", "derived.files.close"]
)
async def test_a_part_that_fails_at_a_stop_keeps_nothing_open_and_the_mark_of_a_crash(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    async with make_brokers() as brokers:
        await fill(brokers, 3)
        node = await brokers.leader()

        def fails() -> None:
            raise OSError(errno.EIO, "broken on purpose")

        part, _, method = step.rpartition(".")
        with monkeypatch.context() as patched:
            patched.setattr(operator.attrgetter(part)(node.parts), method, fails)
            with pytest.raises(OSError, match="broken on purpose"):
                await brokers.stop_node(0)
        assert (brokers.root / "n0" / "abort").exists()
        await brokers.start_node(0)
        client = await brokers.client(await brokers.leader())
        assert len(bodies((await client.pull()).body)) == 3
        await brokers.stop_node(0)
        assert not (brokers.root / "n0" / "abort").exists(), "a clean exit"


async def test_config_files_are_exported_in_rocketmqs_shape(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        client = await brokers.client(await brokers.leader())
        assert (await client.send()).code == 0
        assert (await client.heartbeat()).code == 0
        ext = {"consumerGroup": "CG", "topic": "T", "queueId": 0, "commitOffset": 1}
        assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)).code == 0
        await brokers.stop_node(0)
        config = brokers.root / "n0" / "config"
        topics = parse_config((config / "topics.json").read_bytes())
        assert topics["topicConfigTable"]["T"]["writeQueueNums"] == 4
        assert topics["dataVersion"]["counter"] >= 1
        groups = parse_config((config / "subscriptionGroup.json").read_bytes())
        assert groups["subscriptionGroupTable"]["CG"]["retryMaxTimes"] == 16
        offsets = parse_config((config / "consumerOffset.json").read_bytes())
        assert offsets["offsetTable"]["T@CG"] == {"0": 1}
        assert b"{0:1" in (config / "consumerOffset.json").read_bytes(), "fastjson's bare keys"
        assert not (brokers.root / "n0" / "abort").exists(), "a clean exit"


async def test_name_servers_are_told_who_leads(
    make_brokers: MakeBrokers, free_address: str
) -> None:
    server = NameServer(free_address, 9876, warm_up_seconds=0.0)
    await server.start()
    dead = f"{free_address}:9877"
    servers = (server.address, dead)
    async with make_brokers(3, name_servers=servers, registration_seconds=5.0) as brokers:
        leader = await brokers.leader()
        asker = await brokers.client_of(server.address)

        async def route(topic: str) -> dict[str, str]:
            answer = await asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            return dict(json.loads(answer.body)["brokerDatas"][0]["brokerAddrs"]) if (
                answer.code == 0
            ) else {}  # fmt: skip

        async def leads(address: str) -> None:
            async def is_told() -> bool:
                return (await route("TBW102")).get("0") == address

            await until(is_told, "the leader's address at the name server")

        await leads(leader.address)
        client = await brokers.client(leader)
        assert (await client.send(topic="Fresh")).code == 0
        await until(lambda: route("Fresh"), "the route of a topic that was made by a send")
        await brokers.stop_node(int(leader.config.node_id[1:]))
        await leads((await brokers.leader()).address)
    await server.close()


async def test_own_clients_are_told_of_a_new_leader(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        follower = await brokers.follower()
        own, stock = await brokers.client(follower, **OWN), await brokers.client(follower)
        assert (await own.send()).code == (await stock.send()).code == 0
        await brokers.stop_node(int(leader.config.node_id[1:]))
        second = await brokers.leader()
        await until(lambda: own.notices)
        assert own.notices[-1].code == RequestCode.NOTIFY_LEADER_CHANGED
        assert own.notices[-1].ext["leader"] == second.address
        assert int(own.notices[-1].ext["term"]) == second.parts.log.status().term
        assert stock.notices == []


async def test_a_full_disk_refuses_producers_and_serves_consumers(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers() as brokers:
        await fill(brokers, 1)
        leader = await brokers.leader()
        leader.parts.disk.used_ratio = 0.95
        client = await brokers.client(leader)
        refused = await client.send()
        assert refused.code == 14
        assert "disk" in (refused.remark or "")
        assert (await client.pull()).code == 0
        leader.parts.disk.used_ratio = 0.5
        assert (await client.send()).code == 0


async def test_a_leader_with_a_full_disk_lets_another_lead(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_brokers(3) as brokers:
        await fill(brokers, 1)
        full = await brokers.leader()
        monkeypatch.setattr(full.parts.disk, "_files", NearlyFull())
        await until(lambda: full.status()["disk"] == "low")
        assert full.status()["disk_detail"].startswith("the disk is 95% full")
        await until(lambda: full.status()["role"] != "leader")
        client = await brokers.client(await brokers.leader())
        assert (await client.send()).code == 0


class NearlyFull:
    """What `DiskSpace` asks the file system for."""

    def usage(self, _path: Path) -> DiskUsage:
        return DiskUsage(total=100, free=5)


async def test_no_room_for_checkpoint_and_exports_refuses_producers_and_passes(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_files: OsFileSystem, path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    async with make_brokers() as brokers:
        await fill(brokers, 1)
        leader = await brokers.leader()
        client = await brokers.client(leader)
        keeping = leader.parts.housekeeping
        with monkeypatch.context() as patched:
            patched.setattr(OsFileSystem, "write_atomic", refused)
            await keeping.export()
            await keeping.checkpoint()
            answer = await client.send()
            assert (answer.code, keeping.checkpoints) == (14, 0)
            assert "No space left on device" in (answer.remark or "")
        await keeping.export()
        await keeping.checkpoint()
        assert keeping.checkpoints == 1
        assert (leader.config.root / "config" / "topics.json").exists()
        assert (await client.send()).code == 0
        assert leader.status()["failed"] == ""


async def test_a_mistake_in_derived_state_stops_the_node(make_brokers: MakeBrokers) -> None:
    """What cannot be derived is never passed over: the node stops and says why."""
    async with make_brokers() as brokers:
        leader = await brokers.leader()

        def broken(*_: object) -> None:
            raise ValueError("broken on purpose")

        leader.parts.derived.state.apply = broken  # type: ignore[method-assign]
        client = await brokers.client(leader)
        answer = await client.send()
        assert answer.code == 14, "never acknowledged"
        error = await within(leader.failed(), "the failure of the node")
        assert "broken on purpose" in str(error)
        assert leader.status()["role"] == "failed"
        brokers.nodes[0] = None
        await leader.close()
        brokers.mistakes.clear()


async def test_status_is_plain_values(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        await fill(brokers, 3)
        status = (await brokers.leader()).status()
        assert json.loads(json.dumps(status)) == status
        assert status["serving"] == "leading"
        assert status["dispatched_index"] <= status["applied_index"] <= status["committed_index"]
        assert status["committed_index"] <= status["last_index"]
        assert status["messages_in"] == 3
        assert {peer["node_id"] for peer in status["peers"]} < {"n0", "n1", "n2"}
        assert {peer["disk"] for peer in status["peers"]} == {status["disk"]} == {"good"}
