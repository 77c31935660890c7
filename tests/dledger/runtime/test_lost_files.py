"""A running group whose node lost both copies of a small file; a node alone that did (R2, R6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from dledger import HardStateLost, ReplicatedLog
from dledger.core.configuration import Standing
from dledger.core.types import NodeId
from dledger.durable.double_slot import FILE_SIZE
from dledger.runtime.unsafe_recovery import look, recover

from .group import Group, until

N1 = NodeId("n1")


def lose(group: Group, node: str, name: str) -> None:
    """Of a stopped node."""
    (Path(group.configs[node].data_dir) / name).write_bytes(b"\xa5" * FILE_SIZE)


def contents(folder: Path) -> dict[str, bytes]:
    """Of the files right in a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("name", ["hardstate", "flushmark"])
async def test_a_node_that_forgot_keeps_its_log_and_votes_again_when_it_is_readmitted(
    group: Group, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    await group.start()
    leader = await group.leader()
    if leader is not group.logs["n0"]:
        await leader.transfer("n0")
    index = await (await group.leader()).append(b"kept")
    await group.logs["n1"].wait(index)
    await group.stop("n1")
    lose(group, "n1", name)
    for told in (1, 2):  # at each start until it is readmitted
        await group.start("n1")
        assert caplog.text.count("dledger member replace n1 --yes") == told
        if told == 1:
            await group.stop("n1")
    n0, n1 = group.logs["n0"], group.logs["n1"]
    assert n1.driver.hard.state.forgot
    assert n1.driver.replica.log.last.index >= index, "its log is there before anything was sent"
    visitors, life = n0.driver.parts.roster.visitors, n1.driver.hard.state.incarnation
    await until(lambda: "n1" in visitors and visitors[N1].incarnation == life)
    await n0.readmit_member("n1")
    await until(
        lambda: (
            all(member.standing is Standing.VOTER for member in n0.members) and len(n0.members) == 3
        )
    )
    await group.stop("n2")
    await n1.wait(await n0.append(b"two of three, n1 among them"))


@pytest.mark.parametrize("name", ["hardstate", "flushmark"])
async def test_a_node_alone_that_forgot_says_so_and_the_command_it_names_helps(
    group: Group, name: str
) -> None:
    group.change("n0", peers={"n0": group.configs["n0"].peers["n0"]})
    await group.start("n0")
    index = await (await group.leader()).append(b"kept")
    await group.close()
    lose(group, "n0", name)
    folder = Path(group.configs["n0"].data_dir)
    before = contents(folder)
    for _ in range(2):
        with pytest.raises(HardStateLost, match=f"{name} .* dledger member recover .* --unsafe"):
            await ReplicatedLog(group.configs["n0"]).start()
    assert contents(folder) == before, "nothing was touched"
    assert name in look(folder).sentence()
    recover(folder)
    async with ReplicatedLog(group.configs["n0"]) as alone:
        await until(lambda: alone.is_leader)
        assert (await alone.read(index)).body == b"kept"
