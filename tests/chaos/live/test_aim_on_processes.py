"""Targets on real processes, and clients that come and go; the cluster stays as it was."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import cast

from chaos.drivers import clients
from chaos.drivers.stage import Stage
from chaos.faults import Target
from chaos.live.aim import Aim, vote_of
from chaos.live.arena import Arena
from chaos.live.nodes import Nodes
from cluster.local.launcher import LocalCluster


async def test_a_running_node_tells_its_vote_by_its_disk(local_cluster: LocalCluster) -> None:
    nodes = Nodes(local_cluster)
    leader = await nodes.leader()
    aimed = await Aim(cast(Arena, nodes)).choose(Target.LAST_VOTER, Random(1), ())
    (voter,) = aimed.nodes
    state = vote_of(local_cluster.folder(voter) / "data" / f"dledger-{voter}")
    assert state is not None
    assert (voter != leader, state.voted_for) == (True, leader)
    assert aimed.because == f"{voter} voted for {leader} in term {state.term}"


async def test_a_node_that_is_stopped_for_a_while_follows_the_same_leader(
    local_cluster: LocalCluster,
) -> None:
    nodes = Nodes(local_cluster)
    leader = await nodes.leader()
    await nodes.settled()
    (follower, *_) = [node for node in local_cluster.brokers if node != leader]
    told = await Aim(cast(Arena, nodes)).let_lag(follower)
    assert told.startswith(f"{follower} was stopped for")
    await nodes.settled()
    assert await nodes.leader() == leader


async def test_clients_come_and_go(local_cluster: LocalCluster) -> None:
    stage = SimpleNamespace(arena=SimpleNamespace(cluster=local_cluster), seconds=0.3)
    told = await clients.churn(cast(Stage, stage))
    assert int(told.partition(" ")[0]) >= clients.AT_ONCE


async def test_clients_give_up_and_ask_again(local_cluster: LocalCluster) -> None:
    stage = SimpleNamespace(arena=SimpleNamespace(cluster=local_cluster), seconds=0.3)
    told = await clients.storm(cast(Stage, stage))
    assert told.endswith("requests were given up and asked again")
    assert int(told.partition(" ")[0]) >= clients.AT_ONCE  # each of them
