"""Reading and keeping audit entries leaves the event loop free; damage hides only itself."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from cluster.broker.access.audit import keeping, reading
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.core.topics import AUDIT_KEPT_TOPIC, AUDIT_TOPIC
from cluster.protocol.codes import RequestCode as Code
from commitlog.errors import StoreDamaged

from .access_world import Ask
from .conftest import MakeBrokers
from .harness import until
from .test_accounts import asked, create_topics
from .test_audit import entries
from .test_retention import FILE_SIZE, KEEP_NOTHING, RAFT, settle, trim, write

ENTRIES = 90


class Turns:
    """Counts what is done in each turn of the event loop."""

    def __init__(self) -> None:
        self.number = 0
        self.done: dict[str, Counter[int]] = {"read": Counter(), "written": Counter()}

    def next(self) -> None:
        self.number += 1
        self.handle = asyncio.get_running_loop().call_soon(self.next)

    def most(self, what: str) -> int:
        return max(self.done[what].values(), default=0)

    def total(self, what: str) -> int:
        return sum(self.done[what].values())


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    found = Turns()
    record, write_records = RecordReader.record, StateWriter.write_records

    def read_one(self: RecordReader, position: int) -> Any:
        found.done["read"][found.number] += 1
        return record(self, position)

    def write_some(self: StateWriter, records: Any, done: Any) -> None:
        kept = sum(one.topic == AUDIT_KEPT_TOPIC for one in records)
        found.done["written"][found.number] += kept
        write_records(self, records, done)

    monkeypatch.setattr(RecordReader, "record", read_one)
    monkeypatch.setattr(StateWriter, "write_records", write_some)
    return found


async def test_no_turn_reads_or_writes_many_entries(
    make_brokers: MakeBrokers, turns: Turns
) -> None:
    """L2: a leader that kept thousands in one go would send no heartbeat meanwhile."""
    async with make_brokers(1, raft=RAFT, **KEEP_NOTHING) as brokers:
        node = await brokers.leader()
        client = await brokers.client(node)
        await create_topics(client, ENTRIES)
        await write(client, 130)
        await settle([node])
        turns.next()
        assert len(await entries(client)) == ENTRIES
        assert turns.total("read") >= ENTRIES
        await trim(brokers, FILE_SIZE)
        assert turns.total("written") == ENTRIES
        assert len(await entries(client)) == ENTRIES, "now from those that were written again"
        turns.handle.cancel()
        assert turns.most("read") <= 2 * reading.PIECE_COUNT, "two pieces meet where topics end"
        assert turns.most("written") <= keeping.WRITTEN_COUNT


async def test_entries_kept_for_a_decision_are_not_written_again_for_the_next(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More files may expire before the decision about the first ones is applied."""
    async with make_brokers(1, raft=RAFT, **KEEP_NOTHING) as brokers:
        node = await brokers.leader()
        retention = node.parts.housekeeping.retention
        begun: list[tuple[int, int]] = []
        monkeypatch.setattr(
            retention, "_keep", lambda first, position, _: begun.append((first, position))
        )
        for name in ("_spare_followers", "_spare_deferred"):
            monkeypatch.setattr(retention, name, lambda position: position)
        monkeypatch.setattr(retention, "_expired", lambda: 3 * FILE_SIZE)
        retention._decide()
        monkeypatch.setattr(retention, "_asked", 2 * FILE_SIZE)
        retention._decide()
        assert begun == [(0, 3 * FILE_SIZE), (2 * FILE_SIZE, 3 * FILE_SIZE)]


async def test_a_leadership_that_ends_while_entries_are_kept_lets_no_file_go(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(1, raft=RAFT, **KEEP_NOTHING) as brokers:
        node = await brokers.leader()
        client = await brokers.client(node)
        await create_topics(client, ENTRIES)
        await write(client, 130)
        await settle([node])
        retention, keeping = node.parts.housekeeping.retention, node.parts.control.keeping

        def begun() -> bool:
            retention.look()
            return not keeping.begin(0, 0, lambda: None)

        await until(begun)
        retention.look()  # does not begin a second time
        node.parts.leadership_parts.leadership_ended()
        for _ in range(2 * ENTRIES):
            await asyncio.sleep(0)
        assert retention._asked == 0
        await trim(brokers, FILE_SIZE)
        assert len(await entries(client)) == ENTRIES


async def test_a_damaged_entry_hides_no_other_one(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_brokers(1, raft=RAFT, **KEEP_NOTHING) as brokers:
        node = await brokers.leader()
        client = await brokers.client(node)
        await create_topics(client, 5)
        queue = node.parts.derived.queue(AUDIT_TOPIC, 0)
        assert queue is not None
        damaged, record = queue.read(2, 1)[0].physical_offset, RecordReader.record

        def harmed(self: RecordReader, position: int) -> Any:
            if position == damaged:
                raise StoreDamaged("a test says so", position=position)
            return record(self, position)

        monkeypatch.setattr(RecordReader, "record", harmed)
        for way in ({}, {"after": -1}):
            page = json.loads(
                (await asked(client, Code.LIST_AUDIT, Ask({"maxNum": 9, **way}))).body
            )
            assert sorted(row["number"] for row in page["rows"]) == [0, 1, 3, 4], way
            assert page["damaged"] == 1
        await write(client, 130)
        await settle([node])
        await trim(brokers, FILE_SIZE)
        rows = await entries(client)
        assert [row["number"] for row in rows] == [4, 3, 1, 0], "the others are kept"
