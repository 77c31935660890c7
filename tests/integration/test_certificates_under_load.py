"""Certificates of a group are renewed while it takes sends: no send fails."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

import cluster
from cluster.client import ClientConfig, Tls
from tests.integration.nodes_by_hand import SMALL_FLAGS, by_hand, done
from tests.waiting import eventually

NODES = ("n0", "n1", "n2")


def shown(host: str) -> str:
    """The certificate that a node shows to clients now."""
    return ssl.get_server_certificate((host, 10911))


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_no_send_fails_while_every_certificate_is_renewed(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    folder = tmp_path / "tls"
    hosts = {name: new_address() for name in NODES}
    named = [part for name, host in hosts.items() for part in ("--node", f"{name}={host}")]
    done("tls", "init", str(folder), *named)
    members = [part for name, host in hosts.items() for part in ("--member", f"{name}={host}")]
    tls = ["--certificates", str(folder)]
    with by_hand(tmp_path) as nodes:
        first = ["node", "init", str(nodes.file("n0")), *members, "--admin", f"{hosts['n0']}:8080"]
        done(*first, *tls, *SMALL_FLAGS, "--set", "broker.tls_mode=enforcing")
        for name in NODES[1:]:
            like = ["--like", str(nodes.file("n0")), "--name", name]
            own = ["--admin", f"{hosts[name]}:8080", "--set", "broker.tls_mode=enforcing"]
            done("node", "init", str(nodes.file(name)), *like, *tls, *own)
        for name in NODES:
            nodes.run(name)
        for name in NODES:
            await asyncio.to_thread(nodes.serves, name)
        config = ClientConfig(tls=Tls(str(folder / "authority.pem")))
        async with (
            cluster.connect(f"{hosts['n0']}:10911", config) as client,
            client.producer() as producer,
        ):
            acknowledged = 0
            stopped = asyncio.Event()

            async def send() -> None:
                nonlocal acknowledged
                for number in itertools.count():
                    if stopped.is_set():
                        return
                    await producer.send("T", b"%d" % number)
                    acknowledged += 1

            sending = asyncio.create_task(send())
            await eventually(lambda: acknowledged > 100, "the first sends")
            before = {name: await asyncio.to_thread(shown, host) for name, host in hosts.items()}
            done("tls", "renew", str(folder), "--all")
            for name, host in hosts.items():
                assert await asyncio.to_thread(shown, host) != before[name]
            # New connections of every kind: each node stops and comes back, one after the other.
            for name in NODES:
                assert await asyncio.to_thread(nodes.stop, name) == 0
                nodes.run(name)
                await asyncio.to_thread(nodes.serves, name)
            count = acknowledged
            await eventually(lambda: acknowledged > count + 100, "sends after the renewal")
            stopped.set()
            await sending
