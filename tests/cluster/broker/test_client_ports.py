"""What stops a node stops it at its start, also one that opens its ports later.

A port that another program takes afterwards stops no node that takes part.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.broker.admin.readiness import not_ready
from cluster.broker.client_ports import ClientPorts
from cluster.broker.node import BrokerNode
from cluster.protocol.codes import RequestCode
from dledger.core.types import Index, Term
from dledger.log.log_start import LogStart

from .conftest import MakeBrokers
from .harness import CLIENT_PORT, Brokers, until

pytestmark = pytest.mark.both_loops  # nodes run on uvloop, which raises nothing for a taken port


async def test_certificates_that_cannot_be_used_stop_the_start_of_a_node_that_comes_back(
    make_brokers: MakeBrokers, tmp_path: Path
) -> None:
    """Not its part in the group, seconds later: its vote would be lost for a client port."""
    async with make_brokers(3) as brokers:
        follower = await brokers.follower()
        number = brokers.nodes.index(follower)
        await brokers.stop_node(number)
        broken = tmp_path / "broken.pem"
        broken.write_text("no certificate")
        brokers.settings = {
            **brokers.settings,
            "tls_mode": "permissive",
            "tls_certificate": str(broken),
            "tls_key": str(broken),
        }
        with pytest.raises(ssl.SSLError):
            await brokers.start_node(number)


@contextmanager
def another_program(host: str, port: int = CLIENT_PORT) -> Iterator[socket.socket]:
    """Has bound the client port, or another port, of that host, and does not listen yet."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((host, port))
        yield other


def listens_before_it_opens(other: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    start = ClientPorts.start

    async def later(ports: ClientPorts, **how: Any) -> None:
        other.listen()
        await start(ports, **how)

    monkeypatch.setattr(ClientPorts, "start", later)


async def told_closed(node: BrokerNode) -> None:
    address = f"{node.config.listen_host}:{CLIENT_PORT}"
    await until(lambda: node.status()["closed_ports"], "the port is told to be closed")
    ((found, reason),) = node.status()["closed_ports"].items()
    assert found == address
    assert "Address already in use" in reason
    said = not_ready(node.status(), lag_max=1000, has_name_servers=False)
    assert said == f"no client reaches {address}: {reason}"
    assert node.status()["failed"] == ""


async def serves_again(brokers: Brokers, node: BrokerNode) -> None:
    await until(lambda: not node.status()["closed_ports"], "the port is open")
    client = await brokers.client(node)
    assert (await client.ask(RequestCode.GET_BROKER_CONFIG)).code == 0


async def test_a_port_that_is_taken_while_a_node_comes_back_ends_no_node(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It keeps its vote, leads nothing for long, and opens when the port is free."""
    async with make_brokers(3) as brokers:
        number = brokers.nodes.index(await brokers.follower())
        await brokers.stop_node(number)
        with another_program(brokers.hosts[number]) as other, caplog.at_level(logging.WARNING):
            listens_before_it_opens(other, monkeypatch)
            node = await brokers.start_node(number)
            await told_closed(node)
            assert any("ss -ltnp" in record.getMessage() for record in caplog.records)

            def leads() -> bool:
                """Asked for again: one that has just come back may be refused the lead."""
                leader = brokers.find_leader()
                if leader not in (None, node):
                    leader.parts.log.transfer(node.config.node_id, lambda _: None)
                return bool(node.parts.log.status().role.value == "leader")

            await until(leads, "it leads")
            await until(
                lambda: brokers.find_leader() not in (None, node), "another node leads again"
            )
        await serves_again(brokers, node)


async def test_a_port_that_is_taken_while_a_node_opens_again_ends_no_node(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its leader has sent it a state; its ports are free for a moment."""
    async with make_brokers(3) as brokers:
        node = await brokers.follower()
        other, close_all = socket.socket(), node._close_all

        async def taken(**how: Any) -> None:
            await close_all(**how)
            monkeypatch.undo()
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind((node.config.listen_host, CLIENT_PORT))
            other.listen()

        monkeypatch.setattr(node, "_close_all", taken)
        with other:
            node._state_sent(LogStart(Term(0), Index(-1), 0, 0, 0), b"")
            reopening = node._reopening
            assert reopening is not None
            await reopening
            await told_closed(node)
        await serves_again(brokers, node)


async def test_a_node_that_starts_says_in_one_sentence_that_its_port_is_taken(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is bound, and after; what was opened is closed again."""
    async with make_brokers(1) as brokers:
        await brokers.stop_node(0)
        sentence = (
            rf"cannot listen on {brokers.hosts[0]}:{CLIENT_PORT} \(Address already in use\); "
        )
        with another_program(brokers.hosts[0]) as other:
            other.listen()
            with pytest.raises(OSError, match=sentence):
                await brokers.start_node(0)
        with another_program(brokers.hosts[0]) as other, monkeypatch.context() as patch:
            listens_before_it_opens(other, patch)
            with pytest.raises(OSError, match=sentence):
                await brokers.start_node(0)
        await brokers.start_node(0)


async def test_a_node_whose_port_is_taken_stops_at_once(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_brokers(3) as brokers:
        number = brokers.nodes.index(await brokers.follower())
        await brokers.stop_node(number)
        with another_program(brokers.hosts[number]) as other, monkeypatch.context() as patch:
            listens_before_it_opens(other, patch)
            node = await brokers.start_node(number)
            await told_closed(node)
            await brokers.stop_node(number)
        await brokers.start_node(number)
        assert brokers.mistakes == []
