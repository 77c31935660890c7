"""When a node's /readyz sends clients elsewhere, and with which words."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.broker.admin.readiness import not_ready

READY = {
    "failed": "",
    "role": "follower",
    "serving": "following",
    "term": 3,
    "forgot": False,
    "leader": "n1",
    "leader_address": "127.0.0.2:10911",
    "no_op_index": -1,
    "committed_index": 899,
    "last_index": 900,
    "applied_index": 899,
    "disk": "good",
    "disk_detail": "",
    "closed_ports": {},
    "registrations": 1,
    "registration_failures": 0,
}
LEADS = {"role": "leader", "serving": "waiting", "leader": "n0", "no_op_index": 890}
BY_ITSELF = "this node leads term 3 and "


def reason(said: dict[str, Any], *, has_name_servers: bool = True) -> str:
    return not_ready({**READY, **said}, lag_max=100, has_name_servers=has_name_servers)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, ""),
        ({"failed": "bit rot"}, "this node has stopped: bit rot"),
        ({"serving": "waiting", "leader": ""}, "no leader is known"),
        ({"serving": "waiting"}, "no leader is known"),
        (
            {"serving": "waiting", "leader": "", "forgot": True},
            "this node lost its vote file or its flush mark, and takes no part until its group "
            "readmits it: dledger member replace NODE --yes",
        ),
        ({"forgot": True}, ""),
        ({"leader_address": None}, "n1 leads and its address for clients is not known here"),
        (LEADS | {"committed_index": 889}, BY_ITSELF + "has committed nothing in it yet"),
        (LEADS, BY_ITSELF + "its tables are not loaded yet"),
        (LEADS | {"serving": "leading"}, ""),
        ({"applied_index": 700}, "200 entries are still to be applied"),
        (
            LEADS | {"serving": "leading", "applied_index": 700},
            "200 entries are still to be applied",
        ),
        (
            {"closed_ports": {"127.0.0.1:10911": "Address already in use"}},
            "no client reaches 127.0.0.1:10911: Address already in use",
        ),
        ({"disk": "slow", "disk_detail": "slower than others"}, ""),
        ({"disk": "recovering", "disk_detail": "was stalled"}, ""),
        ({"registrations": 0}, "no name server knows this node yet"),
        ({"registrations": 0, "registration_failures": 3}, ""),
    ],
)
def test_what_a_node_waits_for_before_it_is_ready(said: dict[str, Any], expected: str) -> None:
    assert reason(said) == expected


@pytest.mark.parametrize("disk", ["low", "full", "stalled"])
@pytest.mark.parametrize("role", [{}, LEADS | {"serving": "leading"}])
def test_a_node_whose_disk_takes_no_writes_is_not_ready(disk: str, role: dict[str, Any]) -> None:
    said = {"disk": disk, "disk_detail": "no room"}
    assert reason(role | said) == f"the disk of this node is {disk}: no room"


def test_a_node_without_name_servers_waits_for_none() -> None:
    assert reason({"registrations": 0}, has_name_servers=False) == ""
