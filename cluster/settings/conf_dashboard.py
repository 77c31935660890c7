"""`conf/prometheus.yml` and `conf/grafana-dashboard.json`: for the metrics of `cluster.metrics`.

Two panels a row; each shows one query per node. Import the dashboard in Grafana and choose the
Prometheus that scrapes the nodes' admin ports.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from cluster.local.plan import plan

ROW_HEIGHT, PANEL_WIDTH = 8, 12


class Panel(NamedTuple):
    """One graph: its title, its query, the name of a line, and its unit in Grafana."""

    title: str
    query: str
    legend: str
    unit: str = "short"


PANELS = (
    Panel("Who leads", 'dledger_role{role="leader"}', "{{self_id}}"),
    Panel("Term: each step is an election", "dledger_term", "{{self_id}}"),
    Panel("Messages in", "sum(rate(rocketmq_messages_in_total[1m]))", "in", "cps"),
    Panel("Messages out", "sum(rate(rocketmq_messages_out_total[1m]))", "out", "cps"),
    Panel("Committed", "rate(dledger_committed_index[1m])", "{{self_id}}", "cps"),
    Panel("Entries a follower is behind", "dledger_follower_lag_entries", "{{remote_id}}"),
    Panel(
        "Committed, not applied", "dledger_committed_index - dledger_applied_index", "{{self_id}}"
    ),
    Panel(
        "Log not yet in the queues",
        "rocketmq_storage_dispatch_behind_bytes",
        "{{node_id}}",
        "bytes",
    ),
    Panel("Appended, not answered", "dledger_in_flight_entries", "{{self_id}}"),
    Panel("Refused sends", "rate(dledger_proposals_rejected_total[1m])", "{{self_id}}", "cps"),
    Panel(
        "Messages that wait for a group",
        "rocketmq_consumer_lag_messages",
        "{{consumer_group}} {{topic}}",
    ),
    Panel(
        "Age of the oldest of them",
        "dledger_consumer_lag_seconds",
        "{{consumer_group}} {{topic}}",
        "s",
    ),
    Panel("Size of the log", "rocketmq_storage_size", "{{node_id}}", "bytes"),
    Panel("Disk in use", "dledger_disk_used_ratio", "{{node_id}}", "percentunit"),
    Panel("Wall clock ahead of the group", "dledger_clock_ahead_seconds", "{{self_id}}", "s"),
    Panel(
        "Until the first certificate ends",
        "min by (self_id) (dledger_certificate_not_after_seconds) - time()",
        "{{self_id}}",
        "s",
    ),
    Panel("Client connections", "dledger_client_connections", "{{node_id}}"),
    Panel("Waiting pulls", "dledger_long_polls", "{{node_id}}"),
    Panel("Groups whose members disagree", "dledger_groups_disagreeing", "{{node_id}}"),
    Panel("Client ids used twice", "dledger_client_ids_shared", "{{node_id}}"),
)


def prometheus_yml() -> str:
    """Scrape the three nodes that `dledger up` starts."""
    targets = "".join(f'          - "{member.admin}"\n' for member in plan(3) if member.admin)
    return (
        "# Prometheus for the local cluster of dledger up. Made by scripts/gen-conf.\n"
        "rule_files:\n"
        "  - prometheus-alerts.yml\n"
        "scrape_configs:\n"
        "  - job_name: dledger\n"
        "    scrape_interval: 5s\n"
        "    static_configs:\n"
        "      - targets:\n"
        f"{targets}"
    )


def grafana_json() -> str:
    """The dashboard, as Grafana imports it."""
    dashboard: dict[str, Any] = {
        "title": "dledger",
        "uid": "dledger",
        "schemaVersion": 39,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "templating": {
            "list": [{"name": "prometheus", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }
    return json.dumps(dashboard, indent=1) + "\n"


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    return {
        "id": number + 1,
        "title": panel.title,
        "type": "timeseries",
        "datasource": {"type": "prometheus", "uid": "${prometheus}"},
        "gridPos": {
            "x": number % 2 * PANEL_WIDTH,
            "y": number // 2 * ROW_HEIGHT,
            "w": PANEL_WIDTH,
            "h": ROW_HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "expr": panel.query, "legendFormat": panel.legend}],
    }
