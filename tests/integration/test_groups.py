"""Two groups on the same three nodes: leaders spread, routes hold both, one leader's death stops
nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.client import connect
from cluster.local import plan
from cluster.local.launcher import LocalCluster
from tests.waiting import RAFT_TIMINGS, wait_until

SMALL = RAFT_TIMINGS | {
    "raft.data_file_size": str(16 << 20),
    "raft.index_file_size": str(1 << 20),
}


@pytest.fixture
def two_groups(tmp_path: Path, new_address: Callable[[], str]) -> Iterator[LocalCluster]:
    members = plan.plan(3, plan.scratch_hosts(3), groups=2)
    cluster = LocalCluster.create(tmp_path / "c", members, SMALL, tied=True)
    cluster.up()
    yield cluster
    cluster.down()


def test_leaders_spread_and_one_may_die(two_groups: LocalCluster) -> None:
    cluster = two_groups
    assert [member.name for member in cluster.profile.processes()] == ["ns", "n0", "n1", "n2"]
    wait_until(
        lambda: (cluster.leader(), cluster.leader("broker-b")) == ("n0", "n1"),
        "the preferred leader of each group",
    )

    async def run() -> tuple[int, set[str]]:
        brokers = set()
        acked = 0
        async with connect(cluster.nameserver) as client:
            await client.admin().create_topic("orders", 4)
            async with client.producer() as producer:
                for number in range(200):
                    if number == 50:
                        await asyncio.to_thread(cluster.kill, "n0")
                    receipt = await producer.send("orders", f"{number}".encode())
                    brokers.add(receipt.queue.broker_name)
                    acked += 1
        return acked, brokers

    acked, brokers = asyncio.run(run())
    assert acked == 200
    assert brokers == {"broker-a", "broker-b"}
    assert cluster.leader("broker-b") == "n1", "the other group keeps its leader"
    cluster.start("n0")
    wait_until(lambda: cluster.leader() == "n0", "the preferred leader leads again")


def test_each_group_is_a_log_of_its_own(two_groups: LocalCluster) -> None:
    for name in two_groups.brokers:
        folder = two_groups.folder(name)
        assert (folder / "data" / f"dledger-{name}" / "identity").exists()
        assert (folder / "data-broker-b" / f"dledger-{name}" / "identity").exists()
    statuses = two_groups.statuses()
    assert set(statuses) == {"n0", "n1", "n2", "n0.broker-b", "n1.broker-b", "n2.broker-b"}
