"""Frames of every wrong kind against a live broker and a live name server.

Nothing crashes: no mistake of ours is logged, the process and every other connection go on. Nothing
leaks: tasks, descriptors, connections and parked pulls are what they were, and the same frames once
more take no more memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .fuzzing import FrameFuzzer, frames, is_whole
from .live import Live, memory, pour

SERVERS = ("broker", "nameserver")
GROWTH_OF_FRAME_MAX = 600  # bytes of memory a frame seen before may cost: stored messages, arenas
GROWTH_MAX = 24 << 20  # the log keeps its last 8 MiB in memory, the allocator some more


@pytest.fixture(scope="module")
def live(
    tmp_path_factory: pytest.TempPathFactory, new_address: Callable[[], str]
) -> Iterator[Live]:
    made = Live(tmp_path_factory.mktemp("fuzz"), new_address)
    try:
        yield made
    finally:
        made.close()


def _address(live: Live, server: str) -> str:
    return live.node.address if server == "broker" else live.nameserver.address


def _batches(seed: int, count: int, size: int = 500) -> Iterator[list[bytes]]:
    source = FrameFuzzer(seed)
    for begin in range(0, count, size):
        yield [source.next() for _ in range(min(size, count - begin))]


def _fuzz(live: Live, server: str, seed: int, count: int) -> None:
    address = _address(live, server)

    async def work() -> None:
        await live.others_are_served()
        before = await live.left()
        for batch in _batches(seed, count):
            await pour(address, batch)
            await live.others_are_served()
            assert not live.mistakes, live.mistakes[:3]
        assert await live.left(before) == before

    live.run(work())


def test_frames_are_of_both_kinds() -> None:
    """The source is no use if everything is refused at the first byte, or nothing is."""
    source = FrameFuzzer(1)
    whole = sum(is_whole(source.next()) for _ in range(2000))
    assert 1000 < whole < 1800


@pytest.mark.parametrize("server", SERVERS)
def test_mutated_and_invented_frames(live: Live, server: str) -> None:
    _fuzz(live, server, seed=7, count=2000)


@pytest.mark.parametrize("server", SERVERS)
def test_frames_that_hypothesis_makes(live: Live, server: str) -> None:
    _search(live, server, 20)


@pytest.mark.long
@pytest.mark.parametrize("server", SERVERS)
def test_more_frames_that_hypothesis_makes(live: Live, server: str) -> None:
    _search(live, server, 400)


def _search(live: Live, server: str, examples: int) -> None:
    @settings(
        max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(st.lists(frames, min_size=10, max_size=10))
    def search(some: list[bytes]) -> None:
        async def work() -> None:
            await pour(_address(live, server), some)
            await live.others_are_served()

        live.run(work())
        assert not live.mistakes, live.mistakes[:3]

    search()


@pytest.mark.parametrize("server", SERVERS)
def test_the_same_frames_again_take_no_more_memory(live: Live, server: str) -> None:
    count = 500
    for _ in range(2):
        _fuzz(live, server, seed=8, count=count)
    before = memory()
    _fuzz(live, server, seed=8, count=count)
    assert memory() - before < GROWTH_MAX + GROWTH_OF_FRAME_MAX * count


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("server", SERVERS)
def test_a_hundred_thousand_frames(live: Live, server: str) -> None:
    """In five runs of which the last is a repeat: what is left over does not grow with frames."""
    count = 11_000
    for seed in range(100, 104):
        _fuzz(live, server, seed, count)
    before = memory()
    _fuzz(live, server, 103, count)
    assert memory() - before < GROWTH_MAX + GROWTH_OF_FRAME_MAX * count
