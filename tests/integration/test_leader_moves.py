"""`dledger leader`: the lead moves on purpose, and nothing that is under way is lost by it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

from cluster.client import Admin, connect
from cluster.errors import InvalidRequest
from cluster.local.launcher import LocalCluster
from tests.waiting import limit


def dledger(cluster: LocalCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cluster.cli", *arguments, "-a", cluster.nameserver],
        capture_output=True,
        text=True,
        timeout=limit(60),
    )


def test_the_lead_moves_while_messages_are_sent(local_cluster: LocalCluster) -> None:
    async def run() -> list[int]:
        async with connect(local_cluster.nameserver) as client:
            admin = Admin(client)
            await admin.create_topic("moves", 1)
            offsets: list[int] = []

            async def send() -> None:
                async with client.producer() as producer:
                    for number in range(300):
                        offsets.append((await producer.send("moves", b"%d" % number)).queue_offset)

            sending = asyncio.ensure_future(send())
            for _ in range(3):
                before = local_cluster.leader()
                moved = await admin.transfer_leader("broker-a")
                assert moved["leader"] != before
                assert moved["address"] == local_cluster.profile.member(moved["leader"]).client
            await sending
            with pytest.raises(
                InvalidRequest, match="n9 is no node of broker-a; name one of n0, n1, n2"
            ):
                await admin.transfer_leader("broker-a", "n9")
            return offsets

    assert asyncio.run(run()) == list(range(300)), "in order, nothing lost, nothing twice"


def test_by_command(local_cluster: LocalCluster) -> None:
    before = local_cluster.leader()
    target = next(name for name in ("n0", "n1") if name != before)
    done = dledger(local_cluster, "leader", "move", "broker-a", target, "-o", "json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["broker"], row["leader"]) == ("broker-a", target)
    assert local_cluster.leader() == target
    spread = dledger(local_cluster, "leader", "spread", "-o", "json")
    assert spread.returncode == 0, spread.stderr
    assert json.loads(spread.stdout)[0]["leader"] == "n0", "the first broker name at the first node"
    wrong = dledger(local_cluster, "leader", "move", "broker-a", "n9")
    assert wrong.returncode == 1
    assert "name one of n0, n1, n2" in wrong.stderr
