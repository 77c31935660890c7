"""A majority is lost for good (R6): what the survivor says first, and the group it begins."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from commitlog.errors import StoreLocked
from dledger import ReplicatedLog
from dledger.runtime.unsafe_recovery import look, recover

from .group import Group, until


async def test_the_survivor_becomes_the_group_and_others_join_again(group: Group) -> None:
    await group.start()
    leader = await group.leader()
    index = await leader.append(b"kept")
    for log in group.logs.values():
        await log.wait(index)
    folder = Path(group.configs["n1"].data_dir)
    with pytest.raises(StoreLocked):
        look(folder)
    await group.close()
    for name in ("n0", "n2"):
        shutil.rmtree(group.configs[name].data_dir)
    found = look(folder)
    assert found.members == ("n0", "n1", "n2")
    assert found.last >= index
    assert "Never start n0, n2 again" in found.sentence()
    assert look(folder) == found, "a look changes nothing"
    assert recover(folder) == found
    alone = ReplicatedLog(group.configs["n1"])
    async with alone:
        await until(lambda: alone.is_leader)
        await alone.read_barrier()
        assert [member.node_id for member in alone.members] == ["n1"]
        assert (await alone.read(index)).body == b"kept"
        ReplicatedLog.format(group.configs["n0"], joins=True)
        async with ReplicatedLog(group.configs["n0"]) as joiner:
            visitors = alone.driver.parts.roster.visitors
            await until(lambda: "n0" in visitors)
            await alone.add_member("n0")
            await joiner.wait(await alone.append(b"two again"))
            await until(lambda: len([m for m in alone.members if m.standing.value == "voter"]) == 2)
