"""Every metric name, in one table, filled from a node's status when it is scraped.

Nothing is counted twice: the hot path keeps plain integers for itself, and a scrape reads them. So
metrics cost nothing while nobody looks. Names: `rocketmq_*` as RocketMQ 5 has them, `dledger_*`
with base units as suffixes and `_total` on counters; never a value inside a name.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from cluster.core.group_lag import Lags
from cluster.metrics.families import (
    BROKER_LABELS,
    COUNTER,
    GAUGE,
    RAFT_LABELS,
    Family,
    Shape,
    filled,
)
from cluster.metrics.groups import GROUP_SHAPES, group_families
from dledger.core.types import DiskHealth

Status = Mapping[str, Any]
DISKS = tuple(health.name.lower() for health in DiskHealth)
ROLES = ("leader", "follower", "candidate", "pre-candidate", "failed")


class Metric(NamedTuple):
    """One series per node: `read` takes it from the status."""

    name: str
    kind: type[GaugeMetricFamily] | type[CounterMetricFamily]
    help: str
    read: Callable[[Status], float]


def _key(key: str) -> Callable[[Status], float]:
    return lambda status: float(status[key])


def _behind(ahead: str, behind: str) -> Callable[[Status], float]:
    return lambda status: float(status[ahead]) - float(status[behind])


def _repair(key: str) -> Callable[[Status], float]:
    """A number of the state of repair, or how many ranges there are."""

    def read(status: Status) -> float:
        found = status["repair"][key]
        return float(found if isinstance(found, int) else len(found))

    return read


RAFT = (
    Metric("dledger_term", GAUGE, "Leadership period.", _key("term")),
    Metric("dledger_first_index", GAUGE, "Oldest entry kept.", _key("first_index")),
    Metric(
        "dledger_snapshot_index",
        GAUGE,
        "The log may be deleted up to here: the state is on disk.",
        _key("snapshot_index"),
    ),
    Metric("dledger_last_index", GAUGE, "Newest entry in the log.", _key("last_index")),
    Metric("dledger_flushed_index", GAUGE, "Newest entry on disk.", _key("flushed_index")),
    Metric("dledger_committed_index", GAUGE, "On a majority's disks.", _key("committed_index")),
    Metric("dledger_applied_index", GAUGE, "Newest entry applied.", _key("applied_index")),
    Metric("dledger_dispatched_index", GAUGE, "In queues and index.", _key("dispatched_index")),
    Metric("dledger_sync_seconds", GAUGE, "What a sync of the log takes.", _key("sync_seconds")),
    Metric(
        "dledger_clock_ahead_seconds",
        GAUGE,
        "Its wall clock minus the middle one of its group.",
        lambda status: float(status["clock_skew_ms"]) / 1000,
    ),
    Metric("dledger_reads_by_lease_total", COUNTER, "Without a round.", _key("reads_by_lease")),
    Metric("dledger_reads_by_index_total", COUNTER, "Asked a majority.", _key("reads_by_index")),
    Metric("dledger_damaged_ranges", GAUGE, "Of the log, not repaired yet.", _repair("damaged")),
    Metric("dledger_refused_ranges", GAUGE, "No majority has them whole.", _repair("refused")),
    Metric("dledger_damage_found_total", COUNTER, "Damaged ranges met.", _repair("found")),
    Metric(
        "dledger_restored_entries_total",
        COUNTER,
        "Repaired from peers.",
        _repair("restored_entries"),
    ),
    Metric("dledger_scrubbed_bytes_total", COUNTER, "Read for it.", _repair("scrubbed_bytes")),
    Metric("dledger_batches_total", COUNTER, "Proposals appended.", _key("batches")),
    Metric("dledger_batch_entries_total", COUNTER, "Entries in them.", _key("records")),
    Metric("dledger_proposals_rejected_total", COUNTER, "Sends refused.", _key("sends_refused")),
    Metric(
        "dledger_sends_through_relays_total",
        COUNTER,
        "Sends that came to the relay port: a stock client's share for this node, or its retries.",
        _key("sends_through_relays"),
    ),
    Metric(
        "dledger_notifications_total",
        COUNTER,
        "To stock consumers that waited at the relay port for news of a leader.",
        _key("notifications"),
    ),
    Metric("dledger_forwarded_requests_total", COUNTER, "To the leader.", _key("forwarded")),
    Metric("dledger_forwarded_bytes_total", COUNTER, "Of them.", _key("forwarded_bytes")),
    Metric(
        "dledger_signatures_refused_total",
        COUNTER,
        "Requests refused for their account, signature or seal.",
        _key("signatures_refused"),
    ),
    Metric(
        "dledger_client_ports_closed",
        GAUGE,
        "Client and relay ports that another program has; they are tried again.",
        lambda status: float(len(status["closed_ports"]) + len(status["closed_relay_ports"])),
    ),
    Metric(
        "dledger_mistakes_total",
        COUNTER,
        "Connections closed by a mistake of the node; its log has each.",
        _key("mistakes"),
    ),
    Metric(
        "dledger_records_passed_over",
        GAUGE,
        "Committed records that say nothing this version understands.",
        _key("records_passed_over"),
    ),
    Metric(
        "dledger_in_flight_entries",
        GAUGE,
        "Appended and not yet answered.",
        lambda status: float(status["in_flight"]["records"]),
    ),
    Metric(
        "dledger_in_flight_bytes",
        GAUGE,
        "The same in bytes.",
        lambda status: float(status["in_flight"]["bytes"]),
    ),
)
BROKER = (
    Metric("rocketmq_messages_in_total", COUNTER, "Messages stored.", _key("messages_in")),
    Metric("rocketmq_messages_out_total", COUNTER, "Messages given out.", _key("messages_out")),
    Metric(
        "rocketmq_throughput_in_total",
        COUNTER,
        "Bytes of the stored messages' records.",
        _key("bytes_in"),
    ),
    Metric(
        "rocketmq_throughput_out_total", COUNTER, "Bytes of those given out.", _key("bytes_out")
    ),
    Metric("rocketmq_commit_messages_total", COUNTER, "Halves committed.", _key("commits")),
    Metric("rocketmq_rollback_messages_total", COUNTER, "Halves rolled back.", _key("rollbacks")),
    Metric(
        "rocketmq_broker_permission",
        GAUGE,
        "6: messages are taken and given out; 4: given out only, as the disk is full.",
        lambda status: 4.0 if status["sends_closed"] else 6.0,
    ),
    Metric(
        "rocketmq_consumer_group_number",
        GAUGE,
        "Consumer groups, with members or without.",
        _key("groups"),
    ),
    Metric("rocketmq_storage_size", GAUGE, "Bytes of log.", _key("end_position")),
    Metric(
        "rocketmq_storage_dispatch_behind_bytes",
        GAUGE,
        "Log not yet in queues and index.",
        _behind("end_position", "dispatched_position"),
    ),
    Metric(
        "rocketmq_producer_connections",
        GAUGE,
        "Members of producer groups.",
        lambda status: float(sum(map(len, status["producer_groups"].values()))),
    ),
    Metric(
        "rocketmq_consumer_connections",
        GAUGE,
        "Members of consumer groups.",
        lambda status: float(sum(map(len, status["consumer_groups"].values()))),
    ),
    Metric(
        "dledger_groups_disagreeing",
        GAUGE,
        "Consumer groups whose members subscribe to different things.",
        lambda status: float(len(status["groups_disagreeing"])),
    ),
    Metric(
        "dledger_client_ids_shared",
        GAUGE,
        "Client ids that several clients use at once.",
        lambda status: float(len(status["client_ids_shared"])),
    ),
    Metric(
        "rocketmq_half_messages", GAUGE, "Transactions without an outcome.", _key("half_messages")
    ),
    Metric("dledger_delayed_messages", GAUGE, "Messages not yet due.", _key("delayed_messages")),
    Metric("rocketmq_topic_number", GAUGE, "Topics.", _key("topics")),
    Metric("dledger_client_connections", GAUGE, "Open connections.", _key("connections")),
    Metric("dledger_long_polls", GAUGE, "Pulls that wait for messages.", _key("long_polls")),
    Metric("dledger_disk_used_ratio", GAUGE, "Share of the disk in use.", _key("disk_used_ratio")),
)


ROLE = Shape("dledger_role", GAUGE, "1 for the role it has.", (*RAFT_LABELS, "role"))
DISK = Shape("dledger_disk", GAUGE, "1 for how its disk does.", (*RAFT_LABELS, "disk"))
MAY_FAIL = Shape(
    "dledger_members_may_fail", GAUGE, "So many more now; the leader's alone.", RAFT_LABELS
)
FOLLOWER_LAG = Shape(
    "dledger_follower_lag_entries", GAUGE, "Not yet on its disk.", (*RAFT_LABELS, "remote_id")
)
FOLLOWER_WINDOW = Shape(
    "dledger_follower_in_flight_bytes",
    GAUGE,
    "Sent, not acknowledged.",
    (*RAFT_LABELS, "remote_id"),
)
ACKNOWLEDGED = Shape(
    "dledger_entries_acknowledged_total",
    COUNTER,
    "Entries by the durability at which they were acknowledged.",
    (*RAFT_LABELS, "durability"),
)
QUOTA_REFUSALS = Shape(
    "dledger_quota_refusals_total",
    COUNTER,
    "Requests refused for their account's quota; without a name: those of many accounts.",
    (*BROKER_LABELS, "account"),
)
CERTIFICATES = Shape(
    "dledger_certificate_not_after_seconds",
    GAUGE,
    "When the first certificate of a file in use ends, since 1970.",
    (*RAFT_LABELS, "use", "file"),
)
BUILD = Shape("dledger_build_info", GAUGE, "Always 1.", ("version", "python"))
SHAPES = (
    *(ROLE, DISK, MAY_FAIL, FOLLOWER_LAG, FOLLOWER_WINDOW, ACKNOWLEDGED),
    *(*GROUP_SHAPES, QUOTA_REFUSALS, CERTIFICATES, BUILD),
)


class StatusCollector(Collector):
    """Turns a status into metrics at each scrape."""

    def __init__(self, status: Callable[[], Status], lags: Callable[[], Lags] = Lags) -> None:
        self._status, self._lags = status, lags

    def collect(self) -> Iterator[Family]:
        """All metrics of one scrape, from one status."""
        status = self._status()
        raft = (str(status["broker_name"]), str(status["node_id"]))
        broker = (str(status["cluster_name"]), str(status["node_id"]))
        for metrics, names, values in ((RAFT, RAFT_LABELS, raft), (BROKER, BROKER_LABELS, broker)):
            for metric in metrics:
                family = metric.kind(metric.name, metric.help, labels=names)
                family.add_metric(values, metric.read(status))
                yield family
        yield _states(ROLE, ROLES, status["role"], raft)
        yield _states(DISK, DISKS, status["disk"], raft)
        margin = status["margin"]
        yield filled(MAY_FAIL, [] if margin is None else [((), margin["may_fail_now"])], raft)
        yield from self._peers(status, raft)
        # One series per durability (producers/durability.py): what was promised, and how firmly.
        promised = [((level,), count) for level, count in status["acknowledged"].items()]
        yield filled(ACKNOWLEDGED, promised, raft)
        refused = [((account,), count) for account, count in status["quota_refusals"].items()]
        yield filled(QUOTA_REFUSALS, refused, broker)
        ends = [((one["use"], one["file"]), one["seconds"]) for one in status["certificates"]]
        yield filled(CERTIFICATES, ends, raft)
        yield from group_families(self._lags(), status["dead_letters"], broker)
        yield filled(BUILD, [((), 1.0)], (_own_version(), platform.python_version()))

    def _peers(self, status: Status, labels: tuple[str, str]) -> Iterator[Family]:
        peers = [((str(peer["node_id"]),), peer) for peer in status["peers"]]
        last = int(status["last_index"])
        lags = [(name, last - int(peer["flushed_index"])) for name, peer in peers]
        yield filled(FOLLOWER_LAG, lags, labels)
        sent = [(name, int(peer["in_flight_bytes"])) for name, peer in peers]
        yield filled(FOLLOWER_WINDOW, sent, labels)


def _states(
    shape: Shape, states: tuple[str, ...], found: object, labels: tuple[str, str]
) -> Family:
    """One series per state, 1 for the one that is found."""
    return filled(shape, [((state,), state == found) for state in states], labels)


def _own_version() -> str:
    try:
        return version("dledger")
    except PackageNotFoundError:
        return "source"
