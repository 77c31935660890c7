"""Metric names keep the rules, and the dashboard asks for nothing that does not exist."""

from __future__ import annotations

import re
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from cluster.core.group_lag import GroupLag, Lags
from cluster.metrics.collector import StatusCollector
from cluster.metrics.page import metrics_md, unit_of
from cluster.settings.conf_dashboard import PANELS

STATUS = {
    "node_id": "n0",
    "cluster_name": "c",
    "broker_name": "b",
    "role": "leader",
    "term": 3,
    "first_index": 0,
    "snapshot_index": -1,
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
    "half_messages": 7,
    "delayed_messages": 8,
    "consumer_groups": {"g": ["a", "b"]},
    "producer_groups": {},
    "groups_disagreeing": ["g"],
    "client_ids_shared": [],
    "connections": 4,
    "long_polls": 1,
    "clock_skew_ms": 1500,
    "messages_in": 11,
    "bytes_in": 31,
    "groups": 47,
    "commits": 37,
    "rollbacks": 41,
    "dead_letters": {"g": 43},
    "sends_closed": False,
    "sends_refused": 1,
    "sends_through_relays": 17,
    "notifications": 29,
    "forwarded": 19,
    "forwarded_bytes": 23,
    "signatures_refused": 3,
    "closed_ports": {"10.0.0.1:10911": "Address already in use"},
    "closed_relay_ports": {},
    "mistakes": 0,
    "quota_refusals": {"payments": 3},
    "certificates": [{"use": "peers", "file": "n0.pem", "seconds": 1800000000.0}],
    "records_passed_over": 0,
    "messages_out": 12,
    "bytes_out": 13,
    "acknowledged": {"majority-on-disk": 9, "majority-in-memory": 2},
    "batches": 6,
    "records": 11,
    "disk_used_ratio": 0.5,
    "margin": {"majority": 2, "may_fail": 1, "may_fail_now": 0, "uncounted": {"n1": "is silent"}},
    "disk": "stalled",
    "sync_seconds": 0.002,
    "reads_by_lease": 21,
    "reads_by_index": 3,
    "repair": {
        "damaged": [{"first": 3, "last": 4, "reason": "rotten"}],
        "refused": [],
        "found": 2,
        "restored_entries": 5,
        "scrubbed_bytes": 4096,
    },
}


LAGS = Lags((GroupLag("g", "t", 7, 1.5, 3), GroupLag("g", "%RETRY%g", 0, 0.0)), 3)


def scrape(status: dict[str, Any] = STATUS) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(StatusCollector(lambda: status, lambda: LAGS))
    lines = generate_latest(registry).decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")
    }


def test_values_come_from_the_status() -> None:
    found = scrape()
    assert found['rocketmq_half_messages{cluster="c",node_id="n0"}'] == 7
    assert found['dledger_delayed_messages{cluster="c",node_id="n0"}'] == 8
    assert found['dledger_committed_index{group="b",self_id="n0"}'] == 8
    assert found['rocketmq_storage_dispatch_behind_bytes{cluster="c",node_id="n0"}'] == 100
    assert found['dledger_follower_lag_entries{group="b",remote_id="n1",self_id="n0"}'] == 6
    assert found['dledger_role{group="b",role="leader",self_id="n0"}'] == 1
    assert found['dledger_role{group="b",role="follower",self_id="n0"}'] == 0
    assert found['dledger_disk{disk="stalled",group="b",self_id="n0"}'] == 1
    assert found['dledger_disk{disk="good",group="b",self_id="n0"}'] == 0
    in_memory = 'durability="majority-in-memory",group="b",self_id="n0"'
    assert found[f"dledger_entries_acknowledged_total{{{in_memory}}}"] == 2
    assert found['dledger_sync_seconds{group="b",self_id="n0"}'] == 0.002
    assert found['dledger_clock_ahead_seconds{group="b",self_id="n0"}'] == 1.5
    assert found['dledger_reads_by_lease_total{group="b",self_id="n0"}'] == 21
    assert found['dledger_reads_by_index_total{group="b",self_id="n0"}'] == 3
    assert found['dledger_sends_through_relays_total{group="b",self_id="n0"}'] == 17
    assert found['dledger_notifications_total{group="b",self_id="n0"}'] == 29
    assert found['dledger_forwarded_bytes_total{group="b",self_id="n0"}'] == 23
    assert found['dledger_forwarded_requests_total{group="b",self_id="n0"}'] == 19
    assert found['dledger_signatures_refused_total{group="b",self_id="n0"}'] == 3
    assert found['dledger_client_ports_closed{group="b",self_id="n0"}'] == 1
    assert found['dledger_groups_disagreeing{cluster="c",node_id="n0"}'] == 1
    assert found['dledger_client_ids_shared{cluster="c",node_id="n0"}'] == 0
    assert found['rocketmq_consumer_connections{cluster="c",node_id="n0"}'] == 2
    of_group = 'cluster="c",consumer_group="g",node_id="n0",topic="t"'
    assert found[f"rocketmq_consumer_lag_messages{{{of_group}}}"] == 10, "as RocketMQ counts"
    assert found[f"dledger_consumer_lag_seconds{{{of_group}}}"] == 1.5
    assert found[f"rocketmq_consumer_lag_latency{{{of_group}}}"] == 1500
    assert found[f"rocketmq_consumer_queueing_latency{{{of_group}}}"] == 1500
    assert found[f"rocketmq_consumer_ready_messages{{{of_group}}}"] == 7
    assert found[f"rocketmq_consumer_inflight_messages{{{of_group}}}"] == 3
    node = 'cluster="c",node_id="n0"'
    assert (
        found['rocketmq_send_to_dlq_messages_total{cluster="c",consumer_group="g",node_id="n0"}']
        == 43
    )
    assert found[f"rocketmq_throughput_in_total{{{node}}}"] == 31
    assert found[f"rocketmq_commit_messages_total{{{node}}}"] == 37
    assert found[f"rocketmq_rollback_messages_total{{{node}}}"] == 41
    assert found[f"rocketmq_consumer_group_number{{{node}}}"] == 47
    assert found[f"rocketmq_broker_permission{{{node}}}"] == 6
    closed = scrape({**STATUS, "sends_closed": True})
    assert closed[f"rocketmq_broker_permission{{{node}}}"] == 4
    assert found['dledger_consumer_lags_left_out{cluster="c",node_id="n0"}'] == 3


def test_only_a_leader_says_how_many_may_fail() -> None:
    series = 'dledger_members_may_fail{group="b",self_id="n0"}'
    assert scrape()[series] == 0
    assert series not in scrape({**STATUS, "margin": None})


def test_names_keep_the_rules() -> None:
    registry = CollectorRegistry()
    registry.register(StatusCollector(lambda: STATUS))
    for family in registry.collect():
        assert family.name.startswith(("dledger_", "rocketmq_"))
        assert family.documentation.endswith(".")
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter"), sample.name


def test_the_page_has_every_metric_and_its_unit() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", metrics_md(), re.MULTILINE))
    assert set(rows) == {name.partition("{")[0] for name in scrape()}
    assert rows["dledger_consumer_lag_seconds"] == "seconds"
    assert rows["rocketmq_consumer_lag_messages"] == unit_of("rocketmq_messages_in_total")


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    known = {name.partition("{")[0] for name in scrape()}
    for panel in PANELS:
        asked = set(re.findall(r"\b(?:dledger|rocketmq)_\w+", panel.query))
        assert asked, panel
        assert asked <= known, f"{panel.title} asks for {asked - known}"
        labels = set(re.findall(r"{{(\w+)}}", panel.legend))
        shown = " ".join(name for name in scrape() if name.partition("{")[0] in asked)
        assert all(f"{label}=" in shown for label in labels), panel
