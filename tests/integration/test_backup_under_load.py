"""Backups beside a producer at full speed; the cluster is destroyed and made of its backup."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from cluster.cli import dledger
from cluster.client import connect
from cluster.local.launcher import LocalCluster
from tests.conftest import MakeCluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
TOPIC = "letters"
ROUNDS = 20
IN_FLIGHT = 256


def run(*arguments: str) -> None:
    """A command that succeeds."""
    found = CliRunner().invoke(dledger, list(arguments))
    assert found.exit_code == 0, found.stderr


async def produce(
    cluster: LocalCluster, acknowledged: dict[int, float], ended: asyncio.Event
) -> None:
    """Numbered messages, `IN_FLIGHT` at a time; number → when its answer had come."""
    async with connect(cluster.nameserver) as client, client.producer() as producer:
        number = 0

        async def send(one: int) -> None:
            await producer.send(TOPIC, str(one).encode(), key=str(one % 50))
            acknowledged[one] = time.monotonic()

        while not ended.is_set():
            await asyncio.gather(*(send(number + one) for one in range(IN_FLIGHT)))
            number += IN_FLIGHT


async def everything(cluster: LocalCluster) -> list[tuple[int, int]]:
    """(number, store time in ms) of every message, each once."""
    found = []
    async with (
        connect(cluster.nameserver) as client,
        client.consumer(TOPIC, group="readers") as consumer,
    ):
        while (message := await consumer.receive(time_limit=5.0)) is not None:
            found.append((int(message.body), message.store_timestamp_ms))
            consumer.ack(message)
    assert len(found) == len(set(found)), "doubled"
    return found


def restored(place: str, root: Path, *options: str) -> list[tuple[int, int]]:
    """The messages of a cluster made of the backup."""
    run("restore", place, "--root", str(root), "--any-port", "--yes", *options)
    cluster = LocalCluster(root, tied=True)
    try:
        cluster.up()
        return asyncio.run(everything(cluster))
    finally:
        cluster.down()


def test_lost_cluster_has_what_was_acknowledged_before_the_last_round(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    """And a restore to a moment has the messages up to it, and no others."""
    cluster, place = make_cluster(), str(tmp_path / "backup")
    acknowledged: dict[int, float] = {}
    marks: list[float] = []  # when the last complete round had begun

    async def story() -> None:
        ended = asyncio.Event()
        producing = asyncio.create_task(produce(cluster, acknowledged, ended))
        for _ in range(ROUNDS):
            began = time.monotonic()
            await asyncio.to_thread(run, "backup", "run", place, "--root", str(cluster.root))
            marks.append(began)
        ended.set()
        await producing

    asyncio.run(story())
    cluster.down()
    for node in ("n0", "n1", "n2"):
        shutil.rmtree(cluster.folder(node))

    run("backup", "verify", place)
    found = restored(place, tmp_path / "whole")
    safe = {number for number, moment in acknowledged.items() if moment < marks[-1]}
    assert len(safe) > 1000
    assert safe <= {number for number, _ in found}, "lost"
    assert {number for number, _ in found} <= set(range(len(acknowledged) + IN_FLIGHT))

    times = sorted(ms for _, ms in found)
    moment_ms = times[len(times) // 2]
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment_ms // 1000))
    exact = f"{text}.{moment_ms % 1000:03}+00:00"
    half = restored(place, tmp_path / "half", "--to-time", exact)
    assert sorted(half) == sorted(row for row in found if row[1] <= moment_ms)
    print(
        f"{len(acknowledged)} acknowledged, {len(safe)} of them before the last round, "
        f"{len(found)} restored, up to {exact}: {len(half)}"
    )
