"""Log files that are no longer kept: who decides, what stays, what readers are told, who joins."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.broker.admin.retention import Retention
from cluster.broker.node import BrokerNode
from cluster.protocol.codes import RequestCode, ResponseCode
from commitlog.errors import StoreDamaged
from commitlog.files.system import OS_FILES

from .conftest import MakeBrokers
from .harness import Brokers, RawClient, bodies, until

FILE_SIZE = 256 << 10
#: Files that hold some sixty messages of 4 KB; they are expired at once, at any hour.
RAFT = {"data_file_size": FILE_SIZE, "index_file_size": 32 << 10, "entry_size_max": 128 << 10}
KEEP_NOTHING: dict[str, Any] = {
    "body_size_max": 32 << 10,
    "reserved_hours": 0,
    "delete_hours": tuple(range(24)),
    "follower_grace_seconds": 0,
}
BODY = b"b" * 4000


async def write(client: RawClient, count: int, topic: str = "T", **more: Any) -> None:
    answers = await asyncio.gather(*(client.send(topic, BODY, **more) for _ in range(count)))
    assert [a.code for a in answers] == [0] * count, answers[0].remark


async def settle(nodes: list[BrokerNode]) -> None:
    """Everything is dispatched, and saved with the states at beginnings of files."""
    end = max(node.parts.log.store.last.index for node in nodes)
    for node in nodes:
        log, derived = node.parts.log, node.parts.derived
        # A follower hears a little later than who asked that entries are committed.
        await until(lambda log=log, d=derived: log.applied >= end and d.behind == 0)
        await node.parts.housekeeping.checkpoint()


async def delete_files(brokers: Brokers, position: int) -> None:
    """Until every node that runs has deleted its files below `position`."""

    def done() -> bool:
        for node in brokers.running():
            node.parts.housekeeping.retention.look()
        return all(node.parts.log.first_position >= position for node in brokers.running())

    await until(done)


async def trim(brokers: Brokers, position: int) -> None:
    """The same, and queues and key index have forgotten what was in them."""
    await delete_files(brokers, position)
    await settle(brokers.running())


async def test_old_files_go_on_a_full_disk_where_messages_are_refused(
    make_brokers: MakeBrokers,
) -> None:
    """L5: what frees space must not wait for space."""
    async with make_brokers(1, raft=RAFT, **KEEP_NOTHING) as brokers:
        node = await brokers.leader()
        client = await brokers.client(node)
        await write(client, 200)
        await settle([node])
        check = node.parts.log.driver._disk_check
        assert check is not None
        check._watch.full = "no space for more of the log: said by a test"
        check.look()
        refused = await client.send("T", BODY)
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE, refused.remark
        await delete_files(brokers, 2 * FILE_SIZE)


async def test_old_files_go_and_the_rest_is_served_also_after_a_restart(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(1, raft=RAFT, **KEEP_NOTHING) as brokers:
        node = await brokers.leader()
        client = await brokers.client(node)
        await write(client, 3, "Early")
        await write(client, 200)
        await settle([node])
        await trim(brokers, 3 * FILE_SIZE)
        for restarts in range(2):
            store = node.parts.log.store
            assert not (node.raft.data_dir / "data" / f"{0:020}").exists()
            low = await client.ask(RequestCode.GET_MIN_OFFSET, {"topic": "T", "queueId": 0})
            first = int(low.ext["offset"])
            assert 100 < first < 200
            pulled = await client.pull(offset=first)
            assert bodies(pulled.body)[0] == BODY
            too_small = await client.pull(offset=first - 1)
            assert too_small.code == ResponseCode.PULL_OFFSET_MOVED
            assert int(too_small.ext["nextBeginOffset"]) == first
            early = await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "Early", "queueId": 0})
            assert early.ext["offset"] == "3"
            assert store.first_index > 100
            if not restarts:
                # The checkpoint is lost: all is derived again, from what is left and its state.
                await brokers.stop_node(0)
                (node.config.root / "state.ckpt").unlink()
                node = await brokers.start_node(0)
                await brokers.leader()
                client = await brokers.client(node)
                await until(lambda node=node: node.parts.derived.behind == 0)
        await write(client, 1, "Early")
        end = await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "Early", "queueId": 0})
        assert end.ext["offset"] == "4"


async def test_readers_are_told_where_to_go_on_as_soon_as_files_are_gone(
    make_brokers: MakeBrokers,
) -> None:
    """Not at the next checkpoint, when queues forget what pointed there."""
    async with make_brokers(1, raft=RAFT, **KEEP_NOTHING) as brokers:
        node = await brokers.leader()
        client = await brokers.client(node)
        await write(client, 3, "Early")
        await write(client, 200)
        await settle([node])
        await delete_files(brokers, 3 * FILE_SIZE)
        moved = await client.pull(offset=0)
        assert moved.code == ResponseCode.PULL_OFFSET_MOVED
        first = int(moved.ext["nextBeginOffset"])
        assert 100 < first < 200
        assert moved.ext["minOffset"] == str(first)
        assert bodies((await client.pull(offset=first)).body)[0] == BODY
        low = await client.ask(RequestCode.GET_MIN_OFFSET, {"topic": "T", "queueId": 0})
        assert low.ext["offset"] == str(first)
        early = await client.pull("Early", offset=0)
        assert (early.code, early.ext["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "3")


async def keep_what_waits(make_brokers: MakeBrokers, **waits: Any) -> None:
    """R16: one message waits, and the files around it may go."""
    async with make_brokers(1, raft=RAFT, **KEEP_NOTHING) as brokers:
        node = await brokers.leader()
        client = await brokers.client(node)
        await write(client, 70)
        await write(client, 1, "Later", **waits)
        await write(client, 200)
        await settle([node])
        waiting = node.parts.state.deferred.first_waiting()
        assert FILE_SIZE < waiting < 2 * FILE_SIZE
        await trim(brokers, FILE_SIZE)
        for _ in range(3):
            node.parts.housekeeping.retention.look()
        assert node.parts.state.log_start == FILE_SIZE
        assert node.parts.reader.record(waiting)


async def test_what_a_delayed_message_waits_for_stays(make_brokers: MakeBrokers) -> None:
    """A timer that has not come is not deleted with its file."""
    await keep_what_waits(make_brokers, properties="DELAY\x0118\x02")


async def test_what_an_open_half_message_waits_for_stays(make_brokers: MakeBrokers) -> None:
    """A transaction without an outcome is not lost with its file."""
    await keep_what_waits(make_brokers, properties="TRAN_MSG\x01true\x02PGROUP\x01PG\x02", f=4)


def test_no_file_goes_that_the_state_has_not_read_to_its_end() -> None:
    """What stands there and is not dispatched may have to wait."""
    state = SimpleNamespace(
        position=5 * FILE_SIZE - 1, deferred=SimpleNamespace(first_waiting=lambda: None)
    )
    beginning = SimpleNamespace(log=SimpleNamespace(file_size=FILE_SIZE))
    services: Any = SimpleNamespace(state=state)
    retention = Retention(services, cast(Any, beginning), OS_FILES, keep=lambda *_: True)
    assert retention._spare_deferred(9 * FILE_SIZE) == 4 * FILE_SIZE
    assert retention._spare_deferred(2 * FILE_SIZE) == 2 * FILE_SIZE


async def test_a_live_follower_that_lags_is_given_time(make_brokers: MakeBrokers) -> None:
    settings = {**KEEP_NOTHING, "follower_grace_seconds": 1000.0}
    async with make_brokers(3, raft=RAFT, **settings) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        client = await brokers.client(leader)
        await write(client, 200)
        await settle(brokers.running())
        retention = leader.parts.housekeeping.retention
        follower_id = follower.config.node_id
        progress = leader.parts.log.driver.replica.node.progress[follower_id]
        progress.flushed = 70  # what it had, had it been slow
        assert retention._spare_followers(3 * FILE_SIZE) == FILE_SIZE
        retention._waiting_since -= 1000.0
        assert retention._spare_followers(3 * FILE_SIZE) == 3 * FILE_SIZE


async def test_a_follower_whose_next_entry_is_gone_joins_a_living_cluster(
    make_brokers: MakeBrokers,
) -> None:
    """L4, R15: by the state that deleted entries led to, and byte ranges; then all is as usual."""
    async with make_brokers(3, raft=RAFT, **KEEP_NOTHING) as brokers:
        leader = await brokers.leader()
        lost = int((await brokers.follower()).config.node_id[1:])
        await brokers.stop_node(lost)
        client = await brokers.client(leader)
        await write(client, 3, "Early")
        await write(client, 250)
        await settle(brokers.running())
        await trim(brokers, 3 * FILE_SIZE)
        follower = await brokers.start_node(lost)
        end = leader.parts.log.store.last.index
        await until(lambda: follower.parts.log.store.last.index >= end)
        await until(lambda: follower.parts.state.applied >= end)
        assert follower.parts.log.first_position == leader.parts.log.first_position
        ours, theirs = follower.parts.state, leader.parts.state
        assert ours.all_ends() == theirs.all_ends()
        assert [row.name for row in ours.topics.logged()] == [
            row.name for row in theirs.topics.logged()
        ]
        assert follower.parts.derived.queue("Early", 0).max_offset == 3
        told = follower.status()
        assert told["first_index"] == leader.parts.log.store.first_index
        assert told["snapshot_index"] >= told["first_index"] - 1
        await write(client, 20)
        await brokers.stop_node(int(leader.config.node_id[1:]))  # what it took holds under it
        leader = await brokers.leader()
        client = await brokers.client(leader)
        await write(client, 5)
        high = await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": 0})
        assert high.ext["offset"] == "275"


async def test_a_follower_whose_state_and_checkpoint_are_lost_is_sent_the_state(
    make_brokers: MakeBrokers,
) -> None:
    """R15: it starts with its log alone, which stays, and serves when it was sent the state."""
    async with make_brokers(3, raft=RAFT, **KEEP_NOTHING) as brokers:
        leader, follower = await brokers.leader(), await brokers.follower()
        client = await brokers.client(leader)
        await write(client, 3, "Early")
        await write(client, 250)
        await settle(brokers.running())
        await trim(brokers, 3 * FILE_SIZE)
        number, folder = int(follower.config.node_id[1:]), follower.config.root
        first, end = follower.parts.log.first_position, follower.parts.log.store.last.index
        await brokers.stop_node(number)
        (folder / "state.ckpt").unlink()
        state = follower.raft.data_dir / "snapshots" / f"{first:020}"
        rotten = bytearray(state.read_bytes())
        rotten[60] ^= 1
        state.write_bytes(rotten)
        follower = await brokers.start_node(number)
        await until(lambda: follower.parts.state.applied >= end)
        assert follower.parts.log.first_position >= first
        theirs = leader.parts.state
        assert follower.parts.state.all_ends() == theirs.all_ends()
        assert follower.parts.derived.queue("Early", 0).max_offset == 3


async def test_a_node_alone_does_not_start_without_its_state(make_brokers: MakeBrokers) -> None:
    async with make_brokers(1, raft=RAFT, **KEEP_NOTHING) as brokers:
        node = await brokers.leader()
        client = await brokers.client(node)
        await write(client, 200)
        await settle([node])
        await trim(brokers, 2 * FILE_SIZE)
        first = node.parts.log.first_position
        await brokers.stop_node(0)
        (node.config.root / "state.ckpt").unlink()
        (node.raft.data_dir / "snapshots" / f"{first:020}").unlink()
        with pytest.raises(StoreDamaged, match="rebuild this replica"):
            await brokers.start_node(0)
