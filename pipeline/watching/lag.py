"""A query's progress → how far it is behind. Pure.

    endOffset     {"orders": {"broker-a/0": 17}}     next message to read, of each queue
    latestOffset  {"orders": {"broker-a/0": 40}}     end of the queue when the batch was planned
                  behind by 23 messages

Each number of a topic is over all of its queues: least, mean and most, as Kafka's connector names
them (`minOffsetsBehindLatest`, …).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from cluster.protocol.json_body import MessageQueue
from pipeline.source.offsets import MARK, QueueRange


@dataclass(frozen=True, slots=True)
class TopicLag:
    """Lag of a query in one topic.

    Attributes:
        messages: unread ones of all queues; least, mean, most: of one queue.
        seconds: since the oldest unread message was stored; 0 without any, None if it is unknown.
        row_bytes: mean bytes of an unread message in the log, about; None if it is unknown.
    """

    topic: str
    queues: int
    messages: int
    least: int
    mean: float
    most: int
    seconds: float | None = None
    row_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class QueryLag:
    """State of one query after a micro-batch.

    Attributes:
        query: its name; its id if it has none.
        batch: number of the micro-batch.
        input_rows_per_second, processed_rows_per_second: as Spark counts them.
        topics: in the order of their names.
    """

    query: str
    batch: int
    input_rows_per_second: float
    processed_rows_per_second: float
    topics: tuple[TopicLag, ...]


def unread(end: str, latest: str) -> list[QueueRange]:
    """The unread messages of each queue, also of queues without any.

    Args:
        end, latest: `endOffset` and `latestOffset` of a source in a query's progress, JSON.

    Returns [] for a source that is not one of ours.
    """
    ends, lasts = _offsets(end), _offsets(latest)
    found = []
    for queue in sorted(lasts):
        first = ends.get(queue, 0)
        found.append(QueueRange(queue, min(first, lasts[queue]), lasts[queue]))
    return found


def _offsets(text: str) -> dict[MessageQueue, int]:
    try:
        value = json.loads(text)
    except (ValueError, TypeError):
        return {}
    if not isinstance(value, dict) or MARK not in value:
        return {}
    found = {}
    for topic, queues in value.items():
        if topic != MARK:
            for name, offset in queues.items():
                broker, _, number = name.rpartition("/")
                found[MessageQueue(topic, broker, int(number))] = int(offset)
    return found


def topic_lags(
    ranges: Iterable[QueueRange],
    stored_ms: Mapping[MessageQueue, int],
    row_bytes: Mapping[str, int],
    now_ms: int,
) -> tuple[TopicLag, ...]:
    """Lag of each topic.

    Args:
        ranges: unread messages of each queue.
        stored_ms: of queues with unread messages, when the first of these was stored; those that
            are missing make the topic's seconds unknown.
        row_bytes: topic → mean bytes of a message.
    """
    topics: dict[str, list[QueueRange]] = {}
    for item in ranges:
        topics.setdefault(item.queue.topic, []).append(item)
    return tuple(
        TopicLag(
            topic,
            len(items),
            sum(item.size for item in items),
            min(item.size for item in items),
            sum(item.size for item in items) / len(items),
            max(item.size for item in items),
            _seconds(items, stored_ms, now_ms),
            row_bytes.get(topic),
        )
        for topic, items in sorted(topics.items())
    )


def _seconds(
    items: Sequence[QueueRange], stored_ms: Mapping[MessageQueue, int], now_ms: int
) -> float | None:
    behind = [item.queue for item in items if item.size]
    if not all(queue in stored_ms for queue in behind):
        return None
    return max((max(0, now_ms - stored_ms[queue]) / 1000 for queue in behind), default=0.0)


#: metric → (unit and meaning, how it is read from a topic's lag)
_OF_TOPIC: Mapping[str, tuple[str, Callable[[TopicLag], float | None]]] = {
    "dledger_spark_lag_messages": ("Unread messages.", lambda lag: lag.messages),
    "dledger_spark_lag_messages_min": ("Of the queue that has least.", lambda lag: lag.least),
    "dledger_spark_lag_messages_avg": ("Of a queue, the mean.", lambda lag: lag.mean),
    "dledger_spark_lag_messages_max": ("Of the queue that has most.", lambda lag: lag.most),
    "dledger_spark_lag_seconds": (
        "Since the oldest unread message was stored.",
        lambda lag: lag.seconds,
    ),
}
_OF_QUERY: Mapping[str, tuple[str, Callable[[QueryLag], float | None]]] = {
    "dledger_spark_batch": ("Number of the newest micro-batch.", lambda row: row.batch),
    "dledger_spark_input_rows_per_second": (
        "Rows that came in.",
        lambda row: row.input_rows_per_second,
    ),
    "dledger_spark_processed_rows_per_second": (
        "Rows that were processed.",
        lambda row: row.processed_rows_per_second,
    ),
    "dledger_spark_processed_bytes_per_second": (
        "Bytes of the log that were processed, about.",
        lambda row: _bytes_per_second(row),
    ),
}
METRIC_NAMES = (*_OF_QUERY, *_OF_TOPIC)


def _bytes_per_second(row: QueryLag) -> float | None:
    """Known for queries of one topic: Spark does not tell rows of topics apart."""
    if len(row.topics) != 1 or row.topics[0].row_bytes is None:
        return None
    return row.processed_rows_per_second * row.topics[0].row_bytes


def exposition(rows: Iterable[QueryLag]) -> str:
    """The metrics of queries as Prometheus reads them (text format 0.0.4); unknown ones are left
    out."""
    queries = list(rows)
    lines = []
    for name, (text, read) in _OF_QUERY.items():
        values = [(f'query="{_label(row.query)}"', read(row)) for row in queries]
        lines += _family(name, text, values)
    for name, (text, of_topic) in _OF_TOPIC.items():
        values = [
            (f'query="{_label(row.query)}",topic="{_label(lag.topic)}"', of_topic(lag))
            for row in queries
            for lag in row.topics
        ]
        lines += _family(name, text, values)
    return "".join(f"{line}\n" for line in lines)


def _family(name: str, text: str, values: Sequence[tuple[str, float | None]]) -> list[str]:
    known = [(labels, value) for labels, value in values if value is not None]
    if not known:
        return []
    head = [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
    return head + [f"{name}{{{labels}}} {value:.15g}" for labels, value in known]


def _label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
