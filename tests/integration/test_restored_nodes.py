"""A cluster of several machines is lost; each makes the folder of its node from the backup."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.settings.node import build_node, read_node
from tests.integration.nodes_by_hand import ByHand, by_hand, dledger, done, init_three
from tests.waiting import wait_until

NODES = ("n0", "n1", "n2")
COUNT = 30


async def send(address: str, first: int, last: int) -> None:
    async with cluster.connect(address) as client, client.producer() as producer:
        for number in range(first, last):
            receipt = await producer.send("letters", b"%d" % number, queue_id=0)
            assert receipt.queue_offset == number


async def read(address: str, count: int) -> list[int]:
    async with cluster.connect(address) as client, client.reader("letters") as reader:
        found = [await reader.receive(30.0) for _ in range(count)]
    return [int(one.body) for one in found if one is not None]


def started(nodes: ByHand) -> None:
    for name in NODES:
        nodes.run(name)
    for name in NODES:
        nodes.serves(name)


def lost(nodes: ByHand) -> None:
    """All have ended, and their disks are gone; files of settings are kept elsewhere."""
    for name in NODES:
        assert nodes.stop(name) == 0
        settings = build_node(read_node(nodes.file(name), {}))
        shutil.rmtree(settings.raft.data_dir)
        kept = {nodes.file(name), nodes.file(name).parent}
        for path in [*Path(settings.broker.root).iterdir()]:
            if path not in kept:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def rows(*arguments: str) -> list[dict[str, Any]]:
    return list(json.loads(done(*arguments, "-o", "json").splitlines()[0]))


@pytest.mark.timeout(180)
def test_each_machine_makes_its_own_folder(tmp_path: Path, new_address: Callable[[], str]) -> None:
    hosts = [new_address() for _ in NODES]
    place = str(tmp_path / "backup")
    with by_hand(tmp_path) as nodes:
        address = nodes.name_server(new_address())
        init_three(nodes, hosts, address)
        started(nodes)
        done("topic", "create", "letters", "-q", "1", "-a", address)
        asyncio.run(send(address, 0, COUNT))
        done("backup", "run", place, "--node", str(nodes.file("n0")))
        begun, ended = rows("audit", "--target", "backup", "-a", address)
        assert (begun["verb"], ended["verb"]) == ("backup begin", "backup end")
        assert begun["target"] == ended["target"] == f"backup {place}"
        assert begun["via"] == "cli"
        assert "@" in begun["by"]
        told = ended["parameters"]["details"]
        assert told["rounds"] == 1
        index = rows("backup", "show", place)[0]["to_index"]
        assert told["to_index"] == {"default": index}
        file = str(nodes.file("n0"))
        alone = ["restore", place, "--node", file, "--to-index", str(index), "--yes"]
        code, said = dledger(*alone)
        assert code != 0
        assert "n1 runs at" in said, "it could lead those that have more than the backup"
        assert "dledger node replace" in said
        lost(nodes)

        code, said = dledger("restore", place, "--node", file, "--yes")
        assert (code, f"give --to-index, of the whole backup {index}," in said) == (2, True)
        code, said = dledger("restore", place, "--node", file, "--to-index", str(index))
        assert (code, "nothing was written" in said) == (0, True)
        made = [
            rows(
                "restore", place, "--node", str(nodes.file(name)), "--to-index", str(index), "--yes"
            )
            for name in NODES
        ]
        assert len({row["checksum"] for (row,) in made}) == 1
        assert {row["to_index"] for (row,) in made} == {index}
        started(nodes)
        wait_until(lambda: asyncio.run(read(address, COUNT)) == [*range(COUNT)], "all is there")
        asyncio.run(send(address, COUNT, COUNT + 5))
        left = {row["verb"] for row in rows("audit", "--target", "backup", "-a", address)}
        assert "backup end" not in left, "it is behind the backup's mark"
        code, said = dledger("restore", place, "--node", file, "--to-index", str(index), "--yes")
        assert code != 0, "its folder is in use"


@pytest.mark.timeout(180)
def test_a_folder_that_was_restored_otherwise_stops_its_node(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    """Its entry at the end is another one at the same place; the others serve all that there is."""
    hosts = [new_address() for _ in NODES]
    place = str(tmp_path / "backup")
    with by_hand(tmp_path) as nodes:
        address = nodes.name_server(new_address())
        init_three(nodes, hosts, address)
        started(nodes)
        done("topic", "create", "letters", "-q", "1", "-a", address)
        asyncio.run(send(address, 0, COUNT))
        done("backup", "run", place, "--node", str(nodes.file("n0")))
        lost(nodes)
        last = rows("backup", "show", place)[0]["to_index"]
        for name, index in zip(NODES, (last, last, last - 5), strict=True):
            made = ["restore", place, "--node", str(nodes.file(name)), "--to-index", str(index)]
            done(*made, "--yes")
        for name in NODES[:2]:
            nodes.run(name)
        for name in NODES[:2]:
            nodes.serves(name)
        nodes.run("n2")
        assert f"entry {last - 4} of term 1 has chain checksum" in nodes.fails("n2")
        assert asyncio.run(read(address, COUNT)) == [*range(COUNT)]
