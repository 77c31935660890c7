"""InFlightLimiter for messages on their way: a send costs the same however many wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.client.producer.in_flight_limiter import InFlightLimiter
from tests.waiting import limit

SENDS = 3_000


class Counted(asyncio.Future[Any]):
    """Every look at it that is not by its own place is counted."""

    looked_at = 0

    def __eq__(self, other: object) -> bool:
        Counted.looked_at += 1
        return self is other

    def __hash__(self) -> int:
        return id(self)


@pytest.mark.parametrize("ends", [0, SENDS // 2], ids=["all sent", "half cancelled"])
async def test_room_for_many_senders_looks_at_each_once(
    monkeypatch: pytest.MonkeyPatch, ends: int
) -> None:
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "create_future", lambda: Counted(loop=loop))
    room = InFlightLimiter(10, 1 << 20)
    order = []

    async def send(number: int) -> None:
        if room.is_full:
            await room.wait(limit(60))
        room.take(1)
        room.let_in()
        order.append(number)
        await asyncio.sleep(0)
        room.give(1, 1)

    Counted.looked_at = 0
    senders = [asyncio.ensure_future(send(number)) for number in range(SENDS)]
    await asyncio.sleep(0)
    for task in senders[SENDS - ends :]:
        task.cancel()
    await asyncio.gather(*senders, return_exceptions=True)
    assert order == list(range(SENDS - ends))
    assert Counted.looked_at <= SENDS
    assert (room.count, room.size) == (0, 0)
