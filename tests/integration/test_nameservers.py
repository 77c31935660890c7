"""`dledger up --nameservers 3`: what they own is the same on all, and any one of them may die."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.client import connect
from cluster.errors import ClusterError, NotFound
from cluster.local import plan
from cluster.local.launcher import LocalCluster
from cluster.local.nameserver_files import SECRET_FILE
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import KvConfigRequest, encode
from tests.waiting import wait_until

from ..conftest import SMALL_FILES

NAMES = ("ns", "ns1", "ns2")
AGREED_SECONDS_MAX = 20.0  # three processes that start at once, and elect


@pytest.fixture
def three(tmp_path: Path, new_address: Callable[[], str]) -> Iterator[LocalCluster]:
    members = plan.plan(1, [new_address() for _ in range(4)], nameservers=3)
    cluster = LocalCluster.create(tmp_path / "c", members, SMALL_FILES, tied=True)
    cluster.up()
    try:
        yield cluster
    finally:
        cluster.down()


async def _ask(address: str, code: int, key: str, value: str | None = None) -> str:
    """Put or get a key of one name server; the value."""
    async with connect(address) as client:
        request = encode(KvConfigRequest("N", key, value))
        answer = await client.routes.ask_nameserver(code, request)
        return answer.ext.get("value", "")


def put(address: str, key: str, value: str) -> None:
    """Until a majority agrees."""

    def is_put() -> bool:
        try:
            asyncio.run(_ask(address, RequestCode.PUT_KV_CONFIG, key, value))
        except ClusterError:
            return False
        return True

    wait_until(is_put, "a majority that agrees", AGREED_SECONDS_MAX)


def until_known(addresses: list[str], key: str, value: str) -> None:
    """Until each of them says so."""
    for address in addresses:

        def knows(address: str = address) -> bool:
            try:
                return asyncio.run(_ask(address, RequestCode.GET_KV_CONFIG, key)) == value
            except (NotFound, ClusterError):
                return False

        wait_until(knows, f"{key} at {address}", AGREED_SECONDS_MAX)


async def _send(nameserver: str) -> None:
    async with connect(nameserver) as client, client.producer() as producer:
        await producer.send("orders", b"one")


def test_any_one_may_die_and_all_may_stop(three: LocalCluster) -> None:
    addresses = {name: three.profile.member(name).client for name in NAMES}
    assert three.nameserver == ";".join(addresses.values())
    assert stat.S_IMODE((three.root / SECRET_FILE).stat().st_mode) == 0o600
    put(addresses["ns"], "color", "red")
    until_known(list(addresses.values()), "color", "red")
    asyncio.run(_send(three.nameserver))
    three.kill("ns")
    asyncio.run(_send(three.nameserver))
    put(addresses["ns2"], "color", "green")
    until_known([addresses["ns1"]], "color", "green")
    three.start("ns")
    until_known([addresses["ns"]], "color", "green")
    three.down()
    assert three.up() == [*NAMES, "n0"]
    until_known(list(addresses.values()), "color", "green")
    asyncio.run(_send(three.nameserver))


def test_one_alone_keeps_what_it_owns(tmp_path: Path, new_address: Callable[[], str]) -> None:
    members = plan.plan(1, [new_address(), new_address()])
    cluster = LocalCluster.create(tmp_path / "c", members, SMALL_FILES, tied=True)
    cluster.up()
    try:
        put(cluster.nameserver, "color", "red")
        cluster.down()
        assert not (cluster.root / SECRET_FILE).exists()
        cluster.up()
        until_known([cluster.nameserver], "color", "red")
    finally:
        cluster.down()
