"""Damage of a running replica: told apart by verify, found by a scrub, mended (31014, 31015)."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from cluster.metrics.collector import StatusCollector
from cluster.protocol.codes import RequestCode as Code
from dledger.core.types import Index

from .conftest import MakeBrokers
from .harness import RawClient, until
from .test_retention import FILE_SIZE, RAFT, settle, write


async def ask(client: RawClient, code: Code, **ext: str) -> dict[str, object]:
    answer = await client.ask(code, ext)
    assert answer.code == 0, answer.remark
    found: dict[str, object] = orjson.loads(answer.body)
    return found


async def test_rot_is_told_found_and_mended_while_all_run(make_brokers: MakeBrokers) -> None:
    async with make_brokers(3) as brokers:
        leader, victim = await brokers.leader(), await brokers.follower()
        client = await brokers.client(leader)
        for _ in range(12):
            assert (await client.send()).code == 0
        log = victim.parts.log
        await until(lambda: log.applied == leader.parts.log.applied)
        number = int(victim.config.node_id[1:])
        folder = brokers.root / f"n{number}" / f"dledger-n{number}" / "data"
        (path,) = (Path(name) for name in folder.glob("0*"))
        before, position = path.read_bytes(), log.store.position_of(log.store.first_index + 5)
        brokers.damage(number, position + 60)

        mine = await brokers.client(victim)
        span = {"first": "0", "last": "10"}
        whole = await ask(client, Code.VERIFY_LOG, **span)
        found = await ask(mine, Code.VERIFY_LOG, **span)
        assert (whole["damaged"], whole["last"]) == (-1, 10)
        assert (found["damaged"], found["last"], found["node"]) == (5, 4, victim.config.node_id)
        assert "body of record 5" in str(found["reason"])
        upto = await ask(client, Code.VERIFY_LOG, first="0", last="4")
        assert upto["chain_crc"] == found["chain_crc"]

        state = await ask(mine, Code.SCRUB_LOG, start="true")
        assert state["node"] == victim.config.node_id
        repair = await until(lambda: log.driver.repair_status.restored_entries)
        assert repair
        await until(lambda: not log.driver.repair_status.damaged)
        assert path.read_bytes() == before
        assert (await ask(mine, Code.VERIFY_LOG, **span))["damaged"] == -1
        registry = CollectorRegistry()
        registry.register(StatusCollector(victim.status))
        metrics = generate_latest(registry).decode()
        assert "dledger_damaged_ranges{" in metrics
        assert " 0.0" in metrics.split("dledger_damaged_ranges{")[1].splitlines()[0]
        assert victim.status()["repair"]["found"] >= 1


async def test_a_span_that_cannot_be_is_refused(make_brokers: MakeBrokers) -> None:
    async with make_brokers(1) as brokers:
        client = await brokers.client(await brokers.leader())
        for first, last in (("-1", "4"), ("9", "4")):
            answer = await client.ask(Code.VERIFY_LOG, {"first": first, "last": last})
            assert answer.code != 0
            assert "give a first from 0 on" in (answer.remark or "")


@pytest.mark.parametrize("where", ["first", "where-a-file-begins"])
async def test_a_node_starts_over_damage_that_it_would_derive_from_and_is_mended(
    make_brokers: MakeBrokers, where: str
) -> None:
    """Without checkpoint and index files it reads all of its log; some records have rotted."""
    async with make_brokers(3, raft=RAFT, body_size_max=32 << 10) as brokers:
        leader, victim = await brokers.leader(), await brokers.follower()
        client = await brokers.client(leader)
        await write(client, 150)
        await settle(brokers.running())
        store = victim.parts.log.store
        end, queue = store.last.index, leader.parts.derived.queue("T", 0).max_offset
        begin_of_a_file = store.index_at(FILE_SIZE)
        # Of the first one its term rots, of the other its number: nothing at its place names it.
        rotting = {Index(0): 20, begin_of_a_file: 15}
        if where != "first":
            del rotting[Index(0)]
        places = {index: store.position_of(index) for index in rotting}
        folder, root = victim.raft.data_dir, victim.config.root
        for number in range(3):
            await brokers.stop_node(number)
        (root / "state.ckpt").unlink()
        for path in (folder / "index").glob("0*"):
            path.unlink()
        before = {path: path.read_bytes() for path in (folder / "data").glob("0*")}
        for index, position in places.items():
            flip(
                folder / "data" / f"{position - position % FILE_SIZE:020}",
                position % FILE_SIZE + rotting[index],
            )

        victim = await brokers.start_node(int(victim.config.node_id[1:]))
        told = [found["first"] for found in victim.status()["repair"]["damaged"]]
        assert told == [*places]
        assert victim.parts.state.applied < min(rotting)
        for number, node in enumerate(brokers.nodes):
            if node is None:
                await brokers.start_node(number)
        await until(lambda: victim.parts.state.applied >= end)
        assert victim.status()["repair"]["damaged"] == []
        assert victim.parts.derived.queue("T", 0).max_offset == queue
        assert all(path.read_bytes()[:1024] == content[:1024] for path, content in before.items())


def flip(path: Path, offset: int) -> None:
    """Change a bit of a file."""
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)
