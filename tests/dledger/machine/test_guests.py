"""Logs and nodes that share a host's parts, and what is left of a group when another one ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from dledger import ReplicatedLog
from dledger.errors import LogUsageError
from tests.virtual_loop import LoopClock

from .hosts import Hosts
from .test_host import Adder


@pytest_asyncio.fixture
async def hosts(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[Hosts]:
    made = Hosts(tmp_path, new_address, quiescence=None)
    await made.start("n0")
    yield made
    await made.close()


async def test_a_log_that_finds_its_group_open_takes_nothing_from_the_one_that_runs(
    hosts: Hosts, tmp_path: Path
) -> None:
    """Which is still told of other hosts, and closed with its own."""
    host = hosts.hosts["n0"]
    node = await host.open("a", Adder(), create=True, members=["n0"])
    twin = replace(host.config_of("a", ["n0"]), data_dir=tmp_path / "twin")
    ReplicatedLog.format(twin)
    log = ReplicatedLog(twin, clock=LoopClock(), extend=host.share)
    with pytest.raises(LogUsageError, match="open on n0 already"):
        await log.start()
    parts = node.log.driver.parts.host
    assert parts is not None
    assert parts._guests["a"] is node.log.driver
    assert "a" in parts.links.beats._groups
    assert host.groups == ("a",)
    await hosts.stop("n0")
    assert node.failure is not None
    assert "this node was closed" in str(node.failure)
