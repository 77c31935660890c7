"""Each fault that replicas tell of is one alert, and a well cluster has none."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from cluster.health.alerts import (
    CRITICAL,
    LAG_ENTRIES_MAX,
    WARNING,
    alert,
    alerts,
    clock_of_this_machine,
    leader_of,
)
from cluster.health.ports import with_programs
from dledger.core.margin import LACKS_SETTLED

WELL = {"broker-a": {"may_fail_now": 1}}


def replica(node: str, role: str = "follower", **more: Any) -> dict[str, Any]:
    row = {"node": node, "group": "broker-a", "address": f"{node}:10911", "up": True, "role": role}
    return {**row, "term": 3, "last_index": 20_000, "disk": "good", "disk_used_ratio": 0.3, **more}


def three(**third: Any) -> list[dict[str, Any]]:
    return [replica("n0", "leader"), replica("n1"), replica("n2", **third)]


def found(replicas: list[dict[str, Any]], members: Any = None) -> list[tuple[str, str, str]]:
    told = alerts(replicas, WELL if members is None else members)
    return [(one["level"], one["id"], one["subject"]) for one in told]


def test_well_cluster_has_no_alert() -> None:
    assert found(three()) == []


def test_group_without_a_leader_is_critical() -> None:
    rows = [replica("n0"), replica("n1"), replica("n2")]
    assert found(rows, {"broker-a": {}}) == [(CRITICAL, "no-leader", "broker-a")]


def test_node_that_does_not_answer_takes_the_margin() -> None:
    down = three(up=False, role="unreachable")
    assert found(down, {"broker-a": {"may_fail_now": 0}}) == [
        (CRITICAL, "no-margin", "broker-a"),
        (CRITICAL, "node-down", "n2"),
    ]


def test_node_alone_in_its_group_has_no_margin_to_lose() -> None:
    assert found([replica("n0", "leader")], {"broker-a": {"may_fail_now": 0}}) == []


def test_node_that_lost_what_it_acknowledged_is_critical_in_a_group_with_margin() -> None:
    members = {"may_fail_now": 1, "uncounted": {"n2": LACKS_SETTLED, "n3": "does not answer"}}
    assert found(three(), {"broker-a": members}) == [(CRITICAL, "lost-entries", "n2")]


def test_failed_node_and_bad_disk_are_critical() -> None:
    assert found(three(failed="a record could not be read")) == [(CRITICAL, "node-failed", "n2")]
    assert found(three(disk="full", disk_detail="no room")) == [(CRITICAL, "disk", "n2")]


def test_disk_that_fills_and_replica_that_lags_are_warnings() -> None:
    assert found(three(disk_used_ratio=0.85)) == [(WARNING, "disk-filling", "n2")]
    at_bound = 20_000 - LAG_ENTRIES_MAX
    assert found(three(last_index=at_bound)) == []
    assert found(three(last_index=at_bound - 1)) == [(WARNING, "replica-lag", "n2")]


def test_of_two_leaders_the_one_of_the_higher_term_counts() -> None:
    rows = [replica("n0", "leader", term=2), replica("n1", "leader", term=3)]
    leader = leader_of("broker-a", rows)
    assert leader is not None
    assert leader["node"] == "n1"


def test_node_that_its_leader_hears_runs_and_no_client_reaches_it() -> None:
    down = three(up=False, role="unreachable")
    rows = [{"node": "n1", "silent_seconds": 0.1}, {"node": "n2", "silent_seconds": 0.2}]
    members = {"broker-a": {"may_fail_now": 1, "members": rows}}
    assert found(down, members) == [(CRITICAL, "client-port", "n2")]
    rows[1]["silent_seconds"] = 60.0
    assert found(down, members) == [(CRITICAL, "node-down", "n2")]
    rows[1]["silent_seconds"] = None
    assert found(down, members) == [(CRITICAL, "node-down", "n2")]


def test_program_at_a_port_of_a_node_that_is_not_reached_is_named(free_address: str) -> None:
    down = alert(CRITICAL, "node-down", "n2", "n2 does not answer", "start it")
    with socket.create_server((free_address, 10911)):
        (told,) = with_programs([down], {"n2": f"{free_address}:10911"})
        assert f"(process {os.getpid()}) listens" in told["message"]
        assert with_programs([down], {"n2": f"{free_address}:10912"}) == [down]
        assert with_programs([down], {"n2": "192.0.2.1:10911"}) == [down]
        other = {**down, "id": "disk"}
        assert with_programs([other], {"n2": f"{free_address}:10911"}) == [other]
    assert with_programs([down], {"n2": f"{free_address}:10911"}) == [down]


@pytest.mark.parametrize(
    ("addresses", "settings", "is_told"),
    [
        (("10.0.0.1:20911", "10.0.0.2:20911"), {}, True),
        (("127.0.0.1:20911", "n1.example:20911"), {}, True),
        (("[::1]:1", "[fd00::1]:1"), {}, True),
        (("10.0.0.1:20911", "10.0.0.2:20911"), {"raft.tls_mode": "enforcing"}, False),
        (("127.0.0.1:20911", "127.0.0.2:20911"), {}, False),
        (("[::1]:1", "localhost:2"), {}, False),
        (("10.0.0.1:20911", ""), {}, False),
    ],
)
def test_nodes_that_others_can_read_are_a_warning(
    addresses: tuple[str, ...], settings: dict[str, str], *, is_told: bool
) -> None:
    rows = [{"node": f"n{n}", "address": address} for n, address in enumerate(addresses)]
    members = {"broker-a": {**WELL["broker-a"], "members": rows, "shared": {"settings": settings}}}
    assert found(three(), members) == [(WARNING, "plain-peers", "broker-a")] * is_told


def clocks(*ahead: float, doubt: float = 0.01) -> list[dict[str, str]]:
    rows = [
        {
            **replica(f"n{number}", "follower" if number else "leader"),
            "clock_ahead_seconds": one,
            "clock_doubt_seconds": doubt,
        }
        for number, one in enumerate(ahead)
    ]
    told = (*clock_of_this_machine(rows), *alerts(rows, WELL))
    return [one for one in told if one["id"] == "clock"]


@pytest.mark.parametrize(
    ("ahead", "subjects"),
    [
        ((0.1, -0.2, 0.0), []),
        ((4.9, 0.0, 0.0), []),
        ((5.5, 0.0, 0.0), ["n0"]),
        ((0.0, -5.5, 0.0), ["n1"]),
        ((100.0, 100.1, 99.9), ["this machine"]),
        ((-100.0, -100.0, 0.0), ["this machine", "n2"]),
        ((3600.0,), ["this machine"]),
    ],
)
def test_clocks_that_are_off(ahead: tuple[float, ...], subjects: list[str]) -> None:
    assert [one["subject"] for one in clocks(*ahead)] == subjects


def test_a_slow_answer_blames_no_clock() -> None:
    assert clocks(9.0, 0.0, 0.0, doubt=6.0) == []
    assert [one["subject"] for one in clocks(12.0, 0.0, 0.0, doubt=6.0)] == ["n0"]
