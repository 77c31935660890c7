"""Metrics of consumer groups: the lag of each in each topic, and its dead letters.

    stored ──► waits: ready ──► in flight (pops alone) ──► acknowledged
               ├───────────── lag messages ─────────────┤
               latency

A group that pulls commits offsets, and the broker does not know what it holds meanwhile: such a
message waits until its offset is committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cluster.core.group_lag import Lags
from cluster.metrics.families import BROKER_LABELS, COUNTER, GAUGE, Family, Shape, filled

_LABELS = (*BROKER_LABELS, "consumer_group", "topic")
LAG_MESSAGES = Shape(
    "rocketmq_consumer_lag_messages",
    GAUGE,
    "Messages that wait for a group, or are in flight; the leader's alone.",
    _LABELS,
)
LAG_LATENCY = Shape(
    "rocketmq_consumer_lag_latency",
    GAUGE,
    "Milliseconds since the oldest that waits was stored.",
    _LABELS,
)
LAG_SECONDS = Shape(
    "dledger_consumer_lag_seconds", GAUGE, "The same in seconds, for rules.", _LABELS
)
READY = Shape(
    "rocketmq_consumer_ready_messages", GAUGE, "Messages that a consumer gets now.", _LABELS
)
QUEUEING_LATENCY = Shape(
    "rocketmq_consumer_queueing_latency",
    GAUGE,
    "The same: of those that a consumer gets now.",
    _LABELS,
)
IN_FLIGHT = Shape(
    "rocketmq_consumer_inflight_messages",
    GAUGE,
    "Popped and not acknowledged; 0 for a group that pulls.",
    _LABELS,
)
LEFT_OUT = Shape(
    "dledger_consumer_lags_left_out",
    GAUGE,
    "Groups' topics without such series: others have more messages.",
    BROKER_LABELS,
)
DEAD_LETTERS = Shape(
    "rocketmq_send_to_dlq_messages_total",
    COUNTER,
    "Messages that the group gave up, counted by the leader; of 500 groups at most.",
    (*BROKER_LABELS, "consumer_group"),
)
GROUP_SHAPES = (
    *(LAG_MESSAGES, LAG_LATENCY, LAG_SECONDS, READY, QUEUEING_LATENCY, IN_FLIGHT, LEFT_OUT),
    DEAD_LETTERS,
)


def group_families(
    lags: Lags, dead_letters: Mapping[str, int], labels: tuple[str, str]
) -> Iterator[Family]:
    """A series for each group and topic (admin/groups/lags.py), and one for each group.

    Args:
        dead_letters: group → messages.
        labels: values of BROKER_LABELS.
    """
    rows = [((row.group, row.topic), row) for row in lags.rows]
    lags_of = [(names, row.messages + row.in_flight) for names, row in rows]
    yield filled(LAG_MESSAGES, lags_of, labels)
    yield filled(READY, [(names, row.messages) for names, row in rows], labels)
    for shape in (LAG_LATENCY, QUEUEING_LATENCY):
        yield filled(shape, [(names, row.seconds * 1000) for names, row in rows], labels)
    yield filled(LAG_SECONDS, [(names, row.seconds) for names, row in rows], labels)
    yield filled(IN_FLIGHT, [(names, row.in_flight) for names, row in rows], labels)
    yield filled(LEFT_OUT, [((), lags.left_out)], labels)
    yield filled(DEAD_LETTERS, [((name,), count) for name, count in dead_letters.items()], labels)
