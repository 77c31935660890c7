"""Folders of a Host's groups, whatever their names: what tools take them for."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from cluster.commands.folders import nodes_in
from cluster.commands.inspect import groups_in
from commitlog.files.system import OS_FILES
from dledger.objects.counter import ReplicatedCounter
from dledger.runtime import folder_names
from tests.dledger.machine.hosts import Hosts


@pytest_asyncio.fixture
async def hosts(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[Hosts]:
    """One that runs."""
    made = Hosts(tmp_path, new_address)
    await made.start("n0")
    yield made
    await made.close()


@pytest.mark.parametrize("name", ["dledgers", "identity2", "a.b-c_d", "data", "commitlog", "_"])
async def test_a_name_that_only_looks_odd_is_taken(hosts: Hosts, name: str) -> None:
    node = await hosts.hosts["n0"].open_object(name, ReplicatedCounter, create=True, members=["n0"])
    assert await node.add(4) == 4
    folder = Path(hosts.configs["n0"].data_dir)
    assert groups_in(OS_FILES, folder) == [folder / name]


async def test_a_group_whose_name_a_former_release_took_is_opened(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the tools take its folder for the group's that it is."""
    for name in ("dledger-old", "identity"):
        monkeypatch.setattr(folder_names, "is_free", lambda _: True)
        node = await hosts.hosts["n0"].open_object(
            name, ReplicatedCounter, create=True, members=["n0"]
        )
        assert await node.add(4) == 4
        await node.close()
        monkeypatch.undo()
        node = await hosts.hosts["n0"].open_object(name, ReplicatedCounter, members=["n0"])
        assert await node.add(1) == 5
        await node.close()
    folder = Path(hosts.configs["n0"].data_dir)
    wanted = [folder / "dledger-old", folder / "identity"]
    assert groups_in(OS_FILES, folder) == nodes_in([folder]) == wanted
    shutil.rmtree(folder / "identity")
    assert groups_in(OS_FILES, folder) == nodes_in([folder]) == wanted[:1]
