"""Settings, secrets and certificates of a running group change, and no send of a client fails."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import cluster
from cluster.client.config import Account
from cluster.errors import Unauthorized
from cluster.settings.node import build_node, read_node
from tests.integration.loaded_group import (
    NEW,
    NODES,
    OWN_LATER,
    SECRET,
    STOCK_LATER,
    WRITER,
    Group,
    Today,
    loaded,
)
from tests.integration.nodes_by_hand import done
from tests.waiting import eventually

ROUNDS = 5
SETTINGS = {
    "pull_count_max": ("7", "64"),
    "pull_bytes_max": ("65536", "262144"),
    "reserved_hours": ("48", "72"),
    "auto_create_topics": ("false", "true"),
    "connections_max": ("5000", "6000"),
}


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_no_send_fails_while_settings_secrets_and_certificates_change(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    async with loaded(tmp_path, new_address, tls=True) as group:
        await change_settings(group)
        await rotate(group, tmp_path)
        await renew(group, tmp_path / "tls")


async def change_settings(group: Group) -> None:
    for number in range(ROUNDS):
        for name, values in SETTINGS.items():
            code, said = await group.said("config", "set", name, values[number % 2])
            assert code == 0, said
        await group.more(f"behind round {number} of settings")
    for name in SETTINGS:
        code, said = await group.said("config", "unset", name)
        assert code == 0, said
    await group.more("by the files' settings again")


async def rotate(group: Group, folder: Path) -> None:
    """In the order of docs/upgrade.md: both secrets, programs one by one, the new one alone."""
    new = folder / "new"
    new.write_text(NEW)
    await altered(group, "--keep-old", "--secret-file", str(new))
    await group.begin(NEW, OWN_LATER, STOCK_LATER)
    await altered(group, "--end-old")
    await group.more("by the new secret alone")
    old = replace(group.config, account=Account(WRITER, SECRET))
    async with cluster.connect(group.nameserver, old) as client:
        with pytest.raises(Unauthorized):
            async with client.producer() as producer:
                await producer.send(OWN_LATER, b"by the old one")


async def altered(group: Group, *options: str) -> None:
    async def answered() -> bool:
        return (await group.said("account", "alter", WRITER, *options))[0] == 0

    await eventually(answered, "every member says its level", pause=0.5)


async def renew(group: Group, tls: Path) -> None:
    """Every certificate; then each node stops and comes back, so that all connections are new."""
    hosts = [group.nodes.file(name) for name in NODES]
    shown = [await asyncio.to_thread(certificate, file) for file in hosts]
    done("tls", "renew", str(tls), "--all")
    for file, before in zip(hosts, shown, strict=True):
        assert await asyncio.to_thread(certificate, file) != before
    await group.more("behind the renewal")
    for name in NODES:
        await group.restart(name, Today())


def certificate(file: Path) -> str:
    """What the node of that file shows to clients now."""
    broker = build_node(read_node(file, {})).broker
    return ssl.get_server_certificate((broker.listen_host, broker.listen_port))
