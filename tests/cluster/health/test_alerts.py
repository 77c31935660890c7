"""Each fault that replicas tell of is one alert, and a well cluster has none."""

from __future__ import annotations

from typing import Any

from cluster.health.alerts import CRITICAL, LAG_ENTRIES_MAX, WARNING, alerts, leader_of

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
