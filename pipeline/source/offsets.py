"""Positions of a read as JSON in Spark's checkpoint, and the arithmetic on them. Pure.

    {"$dledger": {"version": 1, "options": {…}}, "orders": {"broker-a/0": 17, "broker-a/1": 12}}

Each number is the next queue offset to read. `$dledger` cannot be a topic's name. It says how the
query reads: Spark does not notice changed options on a restart, and with others the same range
would give other rows, other columns, or rows in other tasks. `"fetch"` in it is the way of reading
(ways.py); earlier releases wrote none. Limits of one micro-batch may change freely.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cluster.protocol.json_body import MessageQueue
from commitlog.advice import Advised
from pipeline.options import OptionError
from pipeline.source.options import SourceOptions

VERSION = 1
MARK = "$dledger"

#: What rows a range gives, and in which task, depends on these.
FIXED_OPTIONS = (
    *("subscribe", "subscribePattern", "assign", "columns", "schemaStyle", "includeHeaders"),
    *("subExpression", "expressionType", "minPartitions", "maxPartitions", "bytesPerPartition"),
    "recordsPerPartition",
)

Offsets = Mapping[MessageQueue, int]


class CheckpointError(Advised, ValueError):
    """An offset of a checkpoint is not ours, is newer, or was made with other options."""

    advice = "use a new checkpoint"


class QueueRange(NamedTuple):
    """Messages `start`..`end` - 1 of one queue."""

    queue: MessageQueue
    start: int
    end: int

    @property
    def size(self) -> int:
        """Messages, also those that a filter leaves out."""
        return self.end - self.start


def fixed_options(options: SourceOptions) -> dict[str, str]:
    """Returns the options that must not change while a checkpoint exists."""
    return {name: options.given[name] for name in FIXED_OPTIONS if name in options.given}


def to_json(offsets: Offsets, fixed: Mapping[str, str], way: str = "") -> dict[str, Any]:
    """As Spark keeps it; the same positions give the same text. `way`: of reading, see ways.py."""
    value: dict[str, Any] = {MARK: {"version": VERSION, "options": dict(fixed)}}
    if way:
        value[MARK]["fetch"] = way
    for queue in sorted(offsets):
        name = f"{queue.broker_name}/{queue.queue_id}"
        value.setdefault(queue.topic, {})[name] = offsets[queue]
    return value


def from_json(value: Mapping[str, Any], fixed: Mapping[str, str]) -> dict[MessageQueue, int]:
    """Raises CheckpointError when it is none of ours, or was made with other options."""
    mark = value.get(MARK)
    if not isinstance(mark, Mapping):
        raise CheckpointError(
            "the checkpoint's offset was not written by this source; use a checkpoint of its own "
            "for each query"
        )
    if mark.get("version") != VERSION:
        raise CheckpointError(
            f"the checkpoint's offset has version {mark.get('version')} and this source reads "
            f"version {VERSION}; use the release that wrote it, or a new checkpoint"
        )
    _check_options(dict(mark.get("options") or {}), fixed)
    offsets: dict[MessageQueue, int] = {}
    for topic, queues in value.items():
        if topic == MARK:
            continue
        for name, number in queues.items():
            broker, _, queue_id = name.rpartition("/")
            offsets[MessageQueue(topic, broker, int(queue_id))] = int(number)
    return offsets


def _check_options(before: Mapping[str, Any], now: Mapping[str, str]) -> None:
    for name in FIXED_OPTIONS:
        if before.get(name) != now.get(name):
            raise CheckpointError(
                f"{name} {_said(before.get(name))} when the checkpoint was made and "
                f"{_said(now.get(name))} now; rows would differ, so use the former value or a new "
                "checkpoint"
            )


def _said(text: Any) -> str:
    return "was not given" if text is None else f"was {text!r}"


def split_limit(lags: Mapping[MessageQueue, int], budget: int) -> dict[MessageQueue, int]:
    """How many messages of each queue one micro-batch takes: in proportion to its lag.

    At least one of each queue that has any, so the sum may be above a budget smaller than the
    number of queues; no queue gives more than it has (docs/spec/pipeline.md 4.1).
    """
    total = sum(lags.values())
    if total <= budget:
        return {queue: lag for queue, lag in lags.items() if lag > 0}
    return {
        queue: min(lag, max(1, lag * budget // total)) for queue, lag in lags.items() if lag > 0
    }


def by_name(
    queues: Mapping[MessageQueue, Any], topic: str, name: str, option: str
) -> MessageQueue | None:
    """The queue that a user calls "0" or "broker-a/0"; None when the topic has no such queue.

    Raises OptionError when "0" could be one of several.
    """
    broker, _, queue_id = name.rpartition("/")
    found = [
        queue
        for queue in queues
        if queue.topic == topic
        and queue.queue_id == int(queue_id)
        and broker in ("", queue.broker_name)
    ]
    if len(found) > 1:
        raise OptionError(
            f"{option}: queue {name} of {topic} is on {', '.join(q.broker_name for q in found)}; "
            f"say which, as in {found[0].broker_name}/{queue_id}"
        )
    return found[0] if found else None
