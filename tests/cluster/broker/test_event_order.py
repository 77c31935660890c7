"""The written order of a broker's events (`cluster/broker/kernel/README.md`, Order of events)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.broker import node
from cluster.broker.node import BrokerNode

from .by_hand import HandBroker
from .conftest import MakeBrokers


def recorded(events: list[str], name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, which is noted in `events` before it runs."""

    def noted(*args: Any, **named: Any) -> Any:
        events.append(name)
        return call(*args, **named)

    return noted


def test_leadership_begin_renews_lock_leases_before_first_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that waited for a leader must not meet leases of the leadership before."""
    broker = HandBroker(tmp_path)
    broker.lead()
    client = broker.client()
    client.send("T")
    broker.commit()
    broker.step_down(None)
    events: list[str] = []
    parts = broker.parts
    for part, name, method in (
        (parts.locks, "leases renewed", "begin"),
        (parts.sends, "first request", "handle"),
        (parts.links, "links told", "lead_by"),
        (parts.registrar, "name servers told", "announce"),
    ):
        monkeypatch.setattr(part, method, recorded(events, name, getattr(part, method)))
    sent = client.send("T")  # waits: nobody leads
    broker.lead()
    broker.commit()
    assert events == [
        "links told",  # that nobody leads
        "links told",  # that this node is elected
        "leases renewed",
        "links told",
        "name servers told",
        "first request",
    ]
    assert sent.code == 0
    broker.close()


async def test_start_binds_port_before_log_is_wired(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids of messages hold the broker's address, so a port that the system picks is known first."""
    events: list[str] = []
    monkeypatch.setattr(node, "bind", recorded(events, "port bound", node.bind))
    monkeypatch.setattr(node, "wire", recorded(events, "wired", node.wire))
    monkeypatch.setattr(
        BrokerNode, "_advertised", recorded(events, "address known", BrokerNode._advertised)
    )
    async with make_brokers() as brokers:
        await brokers.leader()
    assert events == ["port bound", "address known", "wired"]
