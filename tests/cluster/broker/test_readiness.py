"""/readyz of real nodes: it says "ready" when a client is served, and else why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.broker.node import BrokerNode
from cluster.local.node_admin import NodeAdmin
from cluster.settings.node import AdminConfig
from commitlog.files.disk_usage import DiskUsage

from .conftest import MakeBrokers
from .harness import until


def why(node: BrokerNode) -> str:
    return NodeAdmin(node, AdminConfig()).not_ready()


class NearlyFull:
    """What `DiskSpace` asks the file system for."""

    def usage(self, _path: Path) -> DiskUsage:
        return DiskUsage(total=100, free=5)


async def test_a_node_is_ready_when_it_serves_and_says_why_when_not(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_brokers(3) as brokers:
        leader = await brokers.leader()
        for node in brokers.nodes:
            assert node is not None
            await until(lambda node=node: why(node) == "")
            client = await brokers.client(node)
            assert (await client.send()).code == 0, "led or passed on"
        follower = next(node for node in brokers.nodes if node is not leader)
        assert follower is not None
        with monkeypatch.context() as patched:
            patched.setattr(follower.parts.disk, "_files", NearlyFull())
            await until(lambda: why(follower).startswith("the disk of this node is low: the disk"))
            assert why(leader) == ""
        await until(lambda: why(follower) == "")
        for number, node in enumerate(brokers.nodes):
            if node is not follower:
                await brokers.stop_node(number)
        await until(lambda: why(follower) == "no leader is known")


async def test_a_leader_is_not_ready_before_its_tables_show_its_term(
    make_brokers: MakeBrokers,
) -> None:
    """It leads, and what it would answer from is not there yet: nothing is dispatched."""
    async with make_brokers() as brokers:
        node = await brokers.leader()
        assert why(node) == ""
        leadership = node.parts.leadership
        told = leadership.ready
        leadership.ready = lambda _term: None  # type: ignore[method-assign]
        leadership.role_changed(leadership.role, leadership.term, leadership.leader)
        assert (
            why(node) == f"this node leads term {leadership.term} and its tables are not loaded yet"
        )
        leadership.ready = told  # type: ignore[method-assign]
        leadership.ready(leadership.term)
        assert why(node) == ""
