"""The group changes over real sockets and files: dissertation chapter 4, rules R6 and R20."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dledger import ReplicatedLog
from dledger.core.configuration import Standing
from dledger.core.types import Role
from dledger.errors import MembershipRefused, NotLeader

from .group import PORT, Group, until


def voters(log: ReplicatedLog) -> set[str]:
    return {m.node_id for m in log.members if m.standing is Standing.VOTER}


def newcomer(group: Group, name: str, address: str) -> ReplicatedLog:
    """Formatted to join; it knows the others, they do not know it."""
    known = dict(next(iter(group.configs.values())).peers)
    config = replace(
        next(iter(group.configs.values())),
        node_id=name,
        peers={**known, name: (address, PORT)},
        data_dir=Path(next(iter(group.configs.values())).data_dir).parent / name,
    )
    ReplicatedLog.format(config, joins=True)
    return ReplicatedLog(config)


def dialled(group: Group, name: str) -> bool:
    """Does any other node have a link to it?"""
    others = [log for log in group.logs.values() if log.config.node_id != name]
    return any(link.startswith(f"{name}/") for log in others for link in log.status().links)


async def forgetting(group: Group, monkeypatch: pytest.MonkeyPatch) -> tuple[ReplicatedLog, str]:
    """A leader and a follower's name; links to who is no member go soon."""
    monkeypatch.setattr("dledger.runtime.transport.GONE_SECONDS", 0.3)
    await group.start()
    return await group.leader(), next(log.config.node_id for log in group.followers())


async def called(leader: ReplicatedLog, log: ReplicatedLog) -> None:
    """Until `log` has said hello to the leader, in this life of it."""
    visitors = leader.driver.parts.roster.visitors
    me = log.driver.parts.member
    await until(
        lambda: (
            (seen := visitors.get(me.node_id)) is not None and (seen.incarnation == me.incarnation)
        )
    )


async def test_a_fourth_node_joins_and_the_leader_goes(
    group: Group, new_address: Callable[[], str]
) -> None:
    await group.start()
    leader = await group.leader()
    bodies = [os.urandom(200) for _ in range(50)]
    indexes = await asyncio.gather(*[leader.append(body) for body in bodies])
    joiner = newcomer(group, "n3", new_address())
    async with joiner:
        with pytest.raises(MembershipRefused, match="n4 has not called this node"):
            await leader.add_member("n4")
        await called(leader, joiner)
        await leader.add_member("n3")
        await until(lambda: voters(joiner) == {"n0", "n1", "n2", "n3"})
        assert (await joiner.read(indexes[-1])).body == bodies[-1]
        with pytest.raises(NotLeader):
            await joiner.remove_member("n0")
        core = leader.driver.replica.node
        await until(lambda: core.commit >= core.configuration_index)
        await leader.remove_member(leader.config.node_id)
        rest = [log for log in (*group.logs.values(), joiner) if log is not leader]
        await until(lambda: any(log.status().node.role is Role.LEADER for log in rest))
        await until(lambda: all(leader.config.node_id not in voters(log) for log in rest))
        chosen = next(log for log in rest if log.status().node.role is Role.LEADER)
        await chosen.read_barrier()  # its no-op is committed: it takes entries
        last = await chosen.append(b"without it")
        await joiner.wait(last)


async def test_the_group_is_found_again_after_a_restart_of_all(group: Group) -> None:
    await group.start()
    leader = await group.leader()
    gone = next(log.config.node_id for log in group.followers())
    await leader.remove_member(gone)
    await group.close()
    stay = [name for name in group.configs if name != gone]
    for name in stay:
        await group.start(name)
    leader = await group.leader()
    assert {m.node_id for m in leader.members} == set(stay)
    await leader.append(b"two are enough")


async def test_a_wiped_node_is_counted_only_after_it_was_readmitted(group: Group) -> None:
    await group.start()
    leader = await group.leader()
    index = await leader.append(b"kept")
    name = next(log.config.node_id for log in group.followers())
    await group.stop(name)
    config = group.configs[name]
    shutil.rmtree(config.data_dir)
    ReplicatedLog.format(config, joins=True)
    wiped = ReplicatedLog(config)
    async with wiped:
        await called(leader, wiped)
        await leader.append(b"meanwhile")
        assert wiped.status().node.last.index < index, "it was sent the log"
        await leader.readmit_member(name)
        standing = {m.node_id: m.standing for m in leader.members}
        assert standing[name] in (Standing.RETURNING, Standing.VOTER)
        await until(lambda: voters(wiped) == {"n0", "n1", "n2"})
        assert (await wiped.read(index)).body == b"kept"
        with pytest.raises(MembershipRefused, match="has not come back as another incarnation"):
            await leader.readmit_member(name)


async def test_two_nodes_that_were_formatted_to_join_elect_nothing(group: Group) -> None:
    """R6: two emptied folders are a majority of the three names, and must not be one."""
    for name, config in group.configs.items():
        if name != "n0":
            ReplicatedLog.format(config, joins=True)
    logs = [ReplicatedLog(group.configs[name]) for name in ("n1", "n2")]
    try:
        for log in logs:
            await log.start()
        await group.election_timeouts(3)
        assert all(log.status().node.term == 0 for log in logs)
    finally:
        for log in logs:
            await log.close()


async def test_a_removed_node_is_refused_when_it_comes_back(group: Group) -> None:
    await group.start()
    leader = await group.leader()
    name = next(log.config.node_id for log in group.followers())
    await group.stop(name)
    await leader.remove_member(name)
    term = leader.status().node.term
    gone = ReplicatedLog(group.configs[name])
    async with gone:
        await until(
            lambda: any("knows no peer" in link.error for link in gone.status().links.values())
        )
        await group.election_timeouts(2)
        assert leader.status().node.term == term
        assert leader.status().node.role is Role.LEADER


async def test_nobody_dials_a_removed_node_for_ever(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, name = await forgetting(group, monkeypatch)
    await leader.remove_member(name)
    await until(lambda: not dialled(group, name))
    index = await leader.append(b"goes on")
    assert (await leader.read(index)).body == b"goes on"


async def test_one_that_calls_after_it_was_removed_is_told_and_not_dialled_for_ever(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was away meanwhile; whoever has an answer for it dials it, after the others were done."""
    leader, name = await forgetting(group, monkeypatch)
    await group.stop(name)
    await leader.remove_member(name)
    await until(lambda: not dialled(group, name))
    await group.start(name)
    await until(lambda: dialled(group, name))
    await until(lambda: not dialled(group, name))
    assert name not in voters(leader)
