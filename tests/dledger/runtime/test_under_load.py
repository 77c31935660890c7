"""Nodes leave and come back while tagged entries are appended: none lost, doubled or reordered."""

from __future__ import annotations

import asyncio
import random

from dledger import DledgerError

from .group import Group

BATCH = 20


async def produce(group: Group, producer: str, ended: asyncio.Event) -> dict[int, int]:
    """Send numbers in order, again until each is acknowledged; number → index."""
    acknowledged: dict[int, int] = {}
    while not ended.is_set():
        leader = next((log for log in group.logs.values() if log.is_leader), None)
        sequence = len(acknowledged)
        try:
            assert leader is not None
            answers = await asyncio.gather(
                *[
                    leader.append(b"%d" % number, producer=producer, sequence=number)
                    for number in range(sequence, sequence + BATCH)
                ],
                return_exceptions=True,
            )
        except (AssertionError, DledgerError):
            answers = []
        for number, answer in enumerate(answers, sequence):
            if isinstance(answer, DledgerError):
                break
            assert isinstance(answer, int)
            acknowledged[number] = answer
        if len(acknowledged) < sequence + BATCH:
            await asyncio.sleep(0.01)
    return acknowledged


async def test_restarts_under_load_lose_double_and_reorder_nothing(group: Group) -> None:
    await group.start()
    await group.leader()
    ended, chance = asyncio.Event(), random.Random(3)
    producers = {name: asyncio.create_task(produce(group, name, ended)) for name in ("p", "q", "r")}
    for _ in range(4):
        await asyncio.sleep(chance.random() * 0.4)
        name = (await group.leader()).config.node_id
        await group.stop(name)
        await asyncio.sleep(chance.random() * 0.3)
        await group.start(name)
    ended.set()
    acknowledged = {name: await task for name, task in producers.items()}
    last = await (await group.leader()).append(b"the end")
    for log in group.logs.values():
        await log.wait(last)
        stored: dict[str, list[int]] = {name: [] for name in producers}
        async for entry in log.committed():
            if entry.tag is not None:
                numbers = stored[entry.tag.producer]
                assert entry.tag.sequence == len(numbers), "in order, none twice, none missing"
                assert acknowledged[entry.tag.producer].get(len(numbers)) in (None, -1, entry.index)
                numbers.append(entry.tag.sequence)
            if entry.index == last:
                break
        for name, numbers in acknowledged.items():
            assert len(stored[name]) >= len(numbers) > 0, "what was acknowledged is there"
