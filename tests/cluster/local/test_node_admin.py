"""When a node's /readyz sends requests elsewhere, and with which words."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.broker.node import BrokerNode
from cluster.local.node_admin import NodeAdmin
from cluster.node_settings import AdminConfig

READY = {
    "leader": "n1",
    "last_index": 900,
    "applied_index": 899,
    "registrations": 1,
    "registration_failures": 0,
}


@dataclass
class Node:
    """Stands for a broker's node: what it says of itself."""

    said: dict[str, Any]
    config: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(name_servers=("127.0.0.1:9876",))
    )

    def status(self) -> dict[str, Any]:
        return self.said


def not_ready(node: Node) -> str:
    return NodeAdmin(cast(BrokerNode, node), AdminConfig(ready_lag_max=100)).not_ready()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({}, ""),
        ({"leader": ""}, "no leader is known"),
        ({"applied_index": 700}, "200 entries are still to be applied"),
        ({"registrations": 0}, "no name server knows this node yet"),
        ({"registrations": 0, "registration_failures": 3}, ""),
    ],
)
def test_what_a_node_waits_for_before_it_is_ready(said: dict[str, Any], reason: str) -> None:
    assert not_ready(Node({**READY, **said})) == reason


def test_a_node_without_name_servers_waits_for_none() -> None:
    assert not_ready(Node({**READY, "registrations": 0}, SimpleNamespace(name_servers=()))) == ""
