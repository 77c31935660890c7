"""Commands against three real nodes in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from click.testing import CliRunner, Result

from cluster.cli import dledger
from cluster.commands.connecting import Reach
from cluster.commands.status import margins, remote_rows
from cluster.errors import NotConnected
from cluster.nameserver.server import NameServer
from tests.cluster.broker.harness import Brokers
from tests.waiting import eventually


@asynccontextmanager
async def three_nodes(folder: Path, new_address: Callable[[], str]) -> AsyncIterator[str]:
    """Three nodes that know each other; the address of their name server."""
    hosts = [new_address() for _ in range(3)]
    async with NameServer(new_address(), 9876, warm_up_seconds=0.0) as server:
        brokers = Brokers(folder, hosts, {"name_servers": (server.address,)})
        await brokers.start()
        try:
            yield server.address
        finally:
            await brokers.close()


async def run(*arguments: str) -> Result:
    """The command in a thread, as its loop is not the nodes' own."""
    return await asyncio.to_thread(CliRunner().invoke, dledger, list(arguments))


async def test_status_by_address_says_how_many_more_may_fail(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    async with three_nodes(tmp_path, new_address) as address:

        async def told() -> list[str]:
            try:
                rows = await asyncio.to_thread(remote_rows, Reach(address))
            except NotConnected:  # not registered yet
                return []
            return [said for said in margins(rows) if said.endswith("1 more may fail now")]

        assert await eventually(told, "the margin of three") == [
            "broker-a: 2 decide; 1 more may fail now"
        ]


async def test_move_without_the_broker_name_says_how_it_is_written(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    async with three_nodes(tmp_path, new_address) as address:

        async def refused() -> Result | None:
            found = await run("leader", "move", "n1", "-a", address)
            return found if "broker-a" in found.output else None  # it is registered by now

        found = await eventually(refused, "the refusal of a broker name that is not there")
        assert found is not None
        assert found.exit_code == 4
        assert "know no broker name n1" in found.output
        assert "dledger leader move broker-a n1" in found.output
