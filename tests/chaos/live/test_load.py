"""The load's workers: spread in time, and at the end when their messages are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chaos.live.load import Load

pytestmark = pytest.mark.virtual_time


class Receipt:
    position = 1


class Producer:
    """Acknowledges at once and writes down when."""

    def __init__(self) -> None:
        self.at: list[float] = []

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def send(self, topic: str, body: bytes, *, key: str) -> Receipt:
        self.at.append(asyncio.get_running_loop().time())
        return Receipt()


class Client:
    def __init__(self) -> None:
        self.made = Producer()

    def producer(self) -> Producer:
        return self.made


async def test_nobody_waits_behind_the_last_message() -> None:
    client: Any = Client()
    loop = asyncio.get_running_loop()
    load = Load(client, "T", workers=4, pause=60.0, clock=loop.time)
    began = loop.time()
    await load.run(lambda worker: [("only", b"x")] if worker == 0 else [])
    assert loop.time() == began
    assert load.sent == 1
    assert load.waiting.nobody


async def test_messages_are_spread_over_the_workers() -> None:
    client: Any = Client()
    load = Load(client, "T", workers=3, pause=0.3, clock=asyncio.get_running_loop().time)
    await load.run(lambda worker: [(f"{worker}-{n}", b"x") for n in range(2)])
    steps = [b - a for a, b in zip(client.made.at, client.made.at[1:], strict=False)]
    assert steps == [pytest.approx(0.1)] * 5
