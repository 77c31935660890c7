"""Metric names keep the rules, and the dashboard asks for nothing that does not exist."""

from __future__ import annotations

import re

from prometheus_client import CollectorRegistry, generate_latest

from cluster.conf_dashboard import PANELS
from cluster.telemetry import StatusCollector

STATUS = {
    "node_id": "n0",
    "cluster_name": "c",
    "broker_name": "b",
    "role": "leader",
    "term": 3,
    "first_index": 0,
    "last_index": 10,
    "flushed_index": 9,
    "committed_index": 8,
    "applied_index": 8,
    "dispatched_index": 7,
    "end_position": 1000,
    "dispatched_position": 900,
    "peers": [
        {"node_id": "n1", "flushed_index": 4, "in_flight_bytes": 50},
        {"node_id": "n2", "flushed_index": 10, "in_flight_bytes": 0},
    ],
    "in_flight": {"records": 2, "bytes": 200},
    "topics": 5,
    "consumer_groups": {"g": ["a", "b"]},
    "producer_groups": {},
    "connections": 4,
    "long_polls": 1,
    "messages_in": 11,
    "sends_refused": 1,
    "messages_out": 12,
    "bytes_out": 13,
    "batches": 6,
    "records": 11,
    "disk_used_ratio": 0.5,
}


def scrape() -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(StatusCollector(lambda: STATUS))
    lines = generate_latest(registry).decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")
    }


def test_values_come_from_the_status() -> None:
    found = scrape()
    assert found['dledger_committed_index{group="b",self_id="n0"}'] == 8
    assert found['rocketmq_storage_dispatch_behind_bytes{cluster="c",node_id="n0"}'] == 100
    assert found['dledger_follower_lag_entries{group="b",remote_id="n1",self_id="n0"}'] == 6
    assert found['dledger_role{group="b",role="leader",self_id="n0"}'] == 1
    assert found['dledger_role{group="b",role="follower",self_id="n0"}'] == 0
    assert found['rocketmq_consumer_connections{cluster="c",node_id="n0"}'] == 2


def test_names_keep_the_rules() -> None:
    registry = CollectorRegistry()
    registry.register(StatusCollector(lambda: STATUS))
    for family in registry.collect():
        assert family.name.startswith(("dledger_", "rocketmq_"))
        assert family.documentation.endswith(".")
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter"), sample.name


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    known = {name.partition("{")[0] for name in scrape()}
    for panel in PANELS:
        asked = set(re.findall(r"\b(?:dledger|rocketmq)_\w+", panel.query))
        assert asked, panel
        assert asked <= known, f"{panel.title} asks for {asked - known}"
        labels = set(re.findall(r"{{(\w+)}}", panel.legend))
        shown = " ".join(name for name in scrape() if name.partition("{")[0] in asked)
        assert all(f"{label}=" in shown for label in labels), panel
