"""A real folder of a node, which tests may damage."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import pytest_asyncio

from dledger import DledgerError, RaftConfig, ReplicatedLog
from tests.waiting import eventually

ENTRIES = 200


@pytest.fixture
def config(tmp_path: Path, new_address: Callable[[], str]) -> RaftConfig:
    """Of one node that is all of its group."""
    return RaftConfig(
        node_id="n0",
        peers={"n0": (new_address(), 20911)},
        data_dir=tmp_path / "dledger-n0",
        cluster_id="c",
        data_file_size=1 << 16,
        index_file_size=32 * 2048,
        entry_size_max=1 << 12,
    )


async def answers(log: ReplicatedLog) -> bool:
    """Whether it takes an entry by now."""
    with contextlib.suppress(DledgerError):
        await log.append(b"are you there?")
        return True
    return False


@pytest_asyncio.fixture
async def data(tmp_path: Path, config: RaftConfig) -> Path:
    """A node's data folder, whose log was closed."""
    ReplicatedLog.format(config)
    log = ReplicatedLog(config)
    await log.start()
    await eventually(lambda: log.is_leader, "the only node leads")
    await eventually(lambda: answers(log), "the log takes an entry")
    for _ in range(ENTRIES):
        await log.append(os.urandom(500))
    await log.close()
    return tmp_path
