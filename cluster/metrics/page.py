"""The page of all metrics, `docs/metrics.md`: name, unit, kind, labels, meaning.

A name's last word is its unit, as monitors have it; names that are RocketMQ's own keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily

from cluster.metrics.collector import BROKER, RAFT, SHAPES, Metric
from cluster.metrics.families import BROKER_LABELS, RAFT_LABELS, Shape

#: Last word of a name (without _total) → unit.
_BY_LAST_WORD = {
    "bytes": "bytes",
    "entries": "entries",
    "index": "index of an entry",
    "messages": "messages",
    "ratio": "0 to 1",
    "latency": "milliseconds",
    "permission": "6 or 4",
    "seconds": "seconds",
}
_BY_NAME = {
    "dledger_build_info": "1",
    "dledger_disk": "0 or 1",
    "dledger_role": "0 or 1",
    "dledger_term": "number of a term",
    "rocketmq_commit_messages_total": "messages",
    "rocketmq_messages_in_total": "messages",
    "rocketmq_messages_out_total": "messages",
    "rocketmq_rollback_messages_total": "messages",
    "rocketmq_send_to_dlq_messages_total": "messages",
    "rocketmq_storage_size": "bytes",
    "rocketmq_throughput_in_total": "bytes",
    "rocketmq_throughput_out_total": "bytes",
}
HEAD = """\
# Metrics of a node

`GET /metrics` of the admin HTTP (`admin.listen`), text as Prometheus reads it. Names that begin
with `rocketmq_` are RocketMQ 5's own. What only the leader knows only the leader tells.
Of RocketMQ's names these are not here: `rocketmq_message_size` (`throughput_in` ÷ `messages_in` is
its mean), `rocketmq_processor_watermark` (a node has no pools of threads),
`rocketmq_finish_message_latency`. Labels are those of the table: a series for each node, or for
each group and topic; `node_id` is the node. RocketMQ's `node_type`, `message_type` are left out.
Made by `scripts/gen-conf` from `cluster/metrics/`.

| name | unit | kind | labels | meaning |
|---|---|---|---|---|
"""


def unit_of(name: str) -> str:
    """The unit in words; "count" if the name itself says it."""
    word = name.removesuffix("_total").rpartition("_")[2]
    return _BY_NAME.get(name) or _BY_LAST_WORD.get(word, "count")


def metrics_md() -> str:
    """The page."""
    return HEAD + "".join(sorted(_rows()))


def _rows() -> Iterator[str]:
    yield from (_row(metric, RAFT_LABELS) for metric in RAFT)
    yield from (_row(metric, BROKER_LABELS) for metric in BROKER)
    yield from (_row(shape, shape.labels) for shape in SHAPES)


def _row(metric: Metric | Shape, labels: Sequence[str]) -> str:
    kind = "counter" if metric.kind is CounterMetricFamily else "gauge"
    names = ", ".join(labels)
    return f"| `{metric.name}` | {unit_of(metric.name)} | {kind} | {names} | {metric.help} |\n"
