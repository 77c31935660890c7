"""Nodes leave and come back while tagged entries are appended: none lost, doubled or reordered."""

from __future__ import annotations

import asyncio
import random

from dledger import DledgerError

from .group import Group, until

BATCH = 20


async def produce(
    group: Group, ended: asyncio.Event, producer: str, acknowledged: dict[int, int]
) -> None:
    """Send numbers in order, again until each is acknowledged; number → index."""
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
            await until(lambda: ended.is_set() or any(o.is_leader for o in group.logs.values()))
            await asyncio.sleep(0)


async def test_restarts_under_load_lose_double_and_reorder_nothing(group: Group) -> None:
    await group.start()
    await group.leader()
    ended, chance = asyncio.Event(), random.Random(3)
    acknowledged: dict[str, dict[int, int]] = {name: {} for name in ("p", "q", "r")}
    producers = [asyncio.create_task(produce(group, ended, *mine)) for mine in acknowledged.items()]

    async def acknowledge(count: int) -> None:
        goal = sum(map(len, acknowledged.values())) + count
        await until(lambda: sum(map(len, acknowledged.values())) >= goal)

    for _ in range(4):
        await acknowledge(chance.randrange(400))
        name = (await group.leader()).config.node_id
        await group.stop(name)
        await acknowledge(chance.randrange(300))
        await group.start(name)
    ended.set()
    await asyncio.gather(*producers)
    last = await (await group.leader()).append(b"the end")
    for log in group.logs.values():
        await log.wait(last)
        stored: dict[str, list[int]] = {name: [] for name in acknowledged}
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
