"""A group of three replicas, or the ends of peer connections, stopped when the test ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest_asyncio

from dledger import RaftConfig
from dledger.runtime.group_clock import GroupClock
from tests.dledger.runtime.ends import End, Make
from tests.dledger.runtime.group import PORT, Group


@pytest_asyncio.fixture
async def group(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[Group]:
    made = Group(tmp_path, new_address)
    yield made
    await made.close()


@pytest_asyncio.fixture
async def make(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[Make]:
    peers = {name: (new_address(), PORT) for name in ("n0", "n1")}
    ends: list[End] = []

    def make_one(
        name: str,
        incarnation: int = 7,
        group: str = "default",
        clocks: GroupClock | None = None,
        **values: object,
    ) -> End:
        config = RaftConfig(
            node_id=name,
            peers=peers,
            data_dir=tmp_path / name,
            **{"reconnect_min_ms": 5, "reconnect_max_ms": 20} | values,  # type: ignore[arg-type]
        )
        ends.append(End(config, incarnation, group, clocks=clocks))
        return ends[-1]

    yield make_one
    for end in ends:
        await end.transport.stop()
        assert not end.died
