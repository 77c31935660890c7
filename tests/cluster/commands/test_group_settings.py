"""`dledger group create|alter`, `topic --perm` and `client list` against a real node."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

from cluster.nameserver.server import NameServer
from tests import command_line
from tests.cluster.broker.harness import Brokers
from tests.waiting import eventually


async def run(*arguments: str) -> tuple[int, str]:
    found = await asyncio.to_thread(command_line.run, *arguments, env=dict(os.environ))
    return found.returncode, found.stdout + found.stderr


async def test_groups_topics_and_clients(tmp_path: Path, new_address: Callable[[], str]) -> None:
    async with NameServer(new_address(), 9876, warm_up_seconds=0.0) as server:
        brokers = Brokers(tmp_path, [new_address()], {"name_servers": (server.address,)})
        await brokers.start()
        try:
            await settings_are_made_and_changed(server.address)
            await clients_are_listed(brokers, server.address)
        finally:
            await brokers.close()


async def settings_are_made_and_changed(address: str) -> None:
    async def made() -> bool:  # the node may have to register first
        return (await run("topic", "create", "T", "-q", "1", "-a", address))[0] == 0

    await eventually(made, "a topic", pause=0.05)
    for line, code, wanted in (
        ("topic alter T --perm read", 0, "T: 1 queues, read only"),
        ("topic create T --perm write", 1, "dledger topic alter T --perm write"),
        ("topic alter T --perm read-write", 0, "T: 1 queues\n"),
        ("group create billing --retries 3", 0, "billing: may read, 3 retries"),
        ("group create billing --retries 4", 1, "dledger group alter billing"),
        ("group alter billing", 2, "nothing to change was named"),
        ("group alter nobody --no-consume", 3, "dledger group list shows"),
        ("group alter billing --no-consume --no-broadcast", 0, "paused, 3 retries, no broad"),
        ("group describe billing", 0, "settings: paused, 3 retries, no broadcasting"),
        ("group alter billing --consume --retries 5", 0, "billing: may read, 5 retries, no broad"),
    ):
        found, said = await run(*line.split(), "-a", address)
        assert found == code, (line, said)
        assert wanted in said, (line, said)


async def clients_are_listed(brokers: Brokers, address: str) -> None:
    async def rows(*more: str) -> list[dict[str, str]]:
        code, said = await run("client", "list", *more, "-o", "json", "-a", address)
        assert code == 0, said
        return [{"kind": row["kind"], "group": row["group"]} for row in json.loads(said)]

    client = await brokers.client(await brokers.leader())
    await client.heartbeat("CG", "T")
    reads, sends = {"kind": "consumer", "group": "CG"}, {"kind": "producer", "group": "PG"}

    async def both() -> bool:
        return await rows() == [reads, sends]

    await eventually(both, "both are listed", pause=0.05)
    assert await rows("--kind", "consumers") == [reads]
    assert await rows("-g", "PG") == [sends]
    assert await rows("-g", "others") == []
    client.close()
