"""Work that several tasks wait for: done once, told to each, given up with the last of them."""

from __future__ import annotations

import asyncio

import pytest

from cluster.client.connection.shared_work import SharedWork

pytestmark = pytest.mark.virtual_time


class Work:
    """Takes a second; counts how often it was begun and given up."""

    begun = given_up = 0

    async def __call__(self) -> int:
        self.begun += 1
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return self.begun


async def test_those_who_ask_meanwhile_share_one_work() -> None:
    shared, work = SharedWork[int](), Work()
    assert await asyncio.gather(*[shared.get("a", work) for _ in range(3)]) == [1, 1, 1]
    assert await shared.get("a", work) == 2, "what is done is not kept"


async def test_one_of_two_that_is_cancelled_leaves_the_work_to_the_other() -> None:
    shared, work = SharedWork[int](), Work()
    first, second = [asyncio.ensure_future(shared.get("a", work)) for _ in range(2)]
    await asyncio.sleep(0.5)
    first.cancel()
    assert await second == 1
    assert work.given_up == 0


async def test_the_last_one_that_is_cancelled_gives_the_work_up() -> None:
    shared, work = SharedWork[int](), Work()
    waiting = [asyncio.ensure_future(shared.get("a", work)) for _ in range(2)]
    await asyncio.sleep(0.5)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert await shared.get("a", work) == 2, "nobody joins what was given up"
    assert work.given_up == 1


async def test_an_error_is_told_to_each_who_waits() -> None:
    async def fails() -> int:
        raise ValueError("no")

    shared = SharedWork[int]()
    found = await asyncio.gather(
        *[shared.get("a", fails) for _ in range(2)], return_exceptions=True
    )
    assert [str(error) for error in found] == ["no", "no"]
