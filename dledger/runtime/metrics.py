"""Numbers of embedded logs for a monitoring system, and their text for Prometheus.

    metrics_of(node.log) ─► Metric, Metric, … ─► prometheus(…) ─► the answer to GET /metrics

They are read when asked for, and count nothing by themselves. Labels: cluster, group, node; what is
sent, link (peer/kind), too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dledger.core.types import DiskHealth, Role
from dledger.runtime.link import LinkStatus
from dledger.runtime.replicated_log import ReplicatedLog

GAUGE, COUNTER = "gauge", "counter"
#: Their media type, for the header Content-Type.
PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


class Metric(NamedTuple):
    """One number. `kind`: GAUGE, or COUNTER for one that only grows while its process lives."""

    name: str
    kind: str
    help: str
    value: float
    labels: Labels


def metrics_of(log: ReplicatedLog) -> list[Metric]:
    """As they are now, also of a replica that has stopped. Raises NodeFailed before its start."""
    status, config = log.status(), log.config
    node, links = status.node, status.links.values()
    labels = (("cluster", config.cluster_id), ("group", config.group), ("node", config.node_id))

    def gauge(name: str, text: str, value: float) -> Metric:
        return Metric(f"dledger_embedded_{name}", GAUGE, text, float(value), labels)

    def counter(name: str, text: str, value: float) -> Metric:
        return Metric(f"dledger_embedded_{name}_total", COUNTER, text, float(value), labels)

    return [
        gauge("up", "1 while the replica runs, 0 once it has stopped", not node.failure),
        gauge("leads", "1 on the leader", node.role is Role.LEADER),
        gauge("knows_leader", "1 while a leader is known", node.leader is not None),
        gauge("term", "term of the replica", node.term),
        gauge("voters", "voters of the group", len(node.configuration.voters)),
        gauge("first_index", "first entry of the log", status.first_index),
        gauge("last_index", "last entry of the log", node.last.index),
        gauge("flushed_index", "last entry on this disk", node.flushed),
        gauge("commit_index", "last entry that is known to be committed", node.commit),
        gauge("applied_index", "last entry that is applied here", status.applied),
        gauge(
            "apply_waiting",
            "committed entries that are to be applied here",
            max(0, node.commit - status.applied),
        ),
        counter("apply_seconds", "seconds in the state machine's apply", status.apply_seconds),
        gauge("waits", "calls that wait for an index", status.waiting_count),
        gauge("disk_good", "1 while the disk is trusted", status.disk.health is DiskHealth.GOOD),
        gauge("links_open", "open connections to peers, two each", sum(one.open for one in links)),
        counter("reads_by_lease", "reads served by a lease, as leader", status.reads_by_lease),
        counter("reads_by_index", "reads that asked a majority, as leader", status.reads_by_index),
        *(of_link for name, link in status.links.items() for of_link in _sent(name, link, labels)),
    ]


def _sent(name: str, link: LinkStatus, labels: Labels) -> Iterator[Metric]:
    """Counts of one link, with its name: a sum would fall when a member and its links go."""
    for counted, text, value in (
        ("sent_bytes", "bytes sent to peers", link.sent_bytes),
        ("sent_frames", "frames sent to peers", link.sent_frames),
        ("dropped_frames", "frames that were not sent to peers", link.dropped_frames),
    ):
        yield Metric(
            f"dledger_embedded_{counted}_total", COUNTER, text, value, (*labels, ("link", name))
        )


def prometheus(metrics: Iterable[Metric]) -> str:
    """In Prometheus' text format, the numbers of several logs under one heading each."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for name, kind, text, value, labels in metrics:
        pairs = ",".join(f'{key}="{_escaped(found)}"' for key, found in labels)
        rows.setdefault((name, kind, text), []).append(f"{name}{{{pairs}}} {value:.17g}")
    return "".join(
        f"# HELP {name} {text}\n# TYPE {name} {kind}\n" + "".join(f"{row}\n" for row in found)
        for (name, kind, text), found in rows.items()
    )


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
