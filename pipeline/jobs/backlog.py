"""Messages received and messages still unread, per topic, group and minute.

    counts per minute (counts.py) ─┬─► throughput: topic, minute, messages, bytes
    positions of groups ───────────┴─► backlog: topic, group, minute, messages that came in then and
                                       are unread; per group: unread in all, age of the oldest

A group's position is the next offset it wants, per queue; a queue without a position is unread from
its beginning. Within a minute unread messages are those at or above the position, so the age of
the oldest is known to the minute.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from commitlog.errors import StoreDamaged, StoreUsageError
from commitlog.store.config_json import parse_config
from pipeline.jobs.committed import only_committed
from pipeline.jobs.counts import COLUMNS, count_batches, merged
from pipeline.jobs.workers import Here, Workers
from pipeline.options import LogOptions, log_at
from pipeline.places import files_of
from pipeline.rawlog.plan import plan
from pipeline.rawlog.read import batches
from pipeline.rawlog.shares import Piece
from pipeline.sink.options import MARKS

#: (topic, group) → queue → next offset
Positions = Mapping[tuple[str, str], Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Throughput:
    """One topic and minute."""

    topic: str
    minute: datetime
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Unread:
    """Messages of one topic and minute that one group has not read."""

    topic: str
    group: str
    minute: datetime
    messages: int


@dataclass(frozen=True, slots=True)
class GroupBacklog:
    """The unread messages of one topic and group; `oldest` is None if there are none."""

    topic: str
    group: str
    messages: int
    oldest: datetime | None
    oldest_age_s: float


@dataclass(frozen=True, slots=True)
class Report:
    """All of it, sorted by topic, group, minute. `made`: when, for the ages."""

    made: datetime
    throughput: tuple[Throughput, ...]
    unread: tuple[Unread, ...]
    groups: tuple[GroupBacklog, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Returns one flat object per fact, with its `kind`; these are written to a topic."""
        made = self.made.isoformat()
        found = []
        for kind, facts in (
            ("throughput", self.throughput),
            ("unread", self.unread),
            ("backlog", self.groups),
        ):
            for fact in facts:
                row = {name: _text(value) for name, value in asdict(fact).items()}
                found.append({"kind": kind, "made": made, **row})
        return found


def _text(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value


@dataclass(frozen=True, slots=True)
class CountTask:
    """One piece of a log."""

    options: LogOptions
    piece: Piece


def count_log(store: Path | str, *, workers: Workers | None = None) -> pa.Table:
    """Counts per minute of the committed log at a path or URL. Raises StoreDamaged."""
    options = only_committed(log_at(store, columns=COLUMNS))
    tasks = [CountTask(options, piece) for piece in plan(options)]
    return merged((workers or Here()).map(count_piece, tasks))


def count_piece(task: CountTask) -> pa.Table:
    """In a task."""
    return merged(
        pa.Table.from_batches([batch]) for batch in count_batches(batches(task.options, task.piece))
    )


def positions_of_store(store: Path | str) -> Positions:
    """Positions as a stopped node has exported them. Raises StoreUsageError when it has not."""
    files, root = files_of(log_at(store))
    path = root / "config" / "consumerOffset.json"
    try:
        return positions_of(parse_config(files.read(path), str(path)))
    except (OSError, StoreDamaged) as error:
        raise StoreUsageError(f"{path} does not tell the groups' positions: {error}") from error


def positions_of(exported: Mapping[str, Any]) -> Positions:
    """Positions in RocketMQ's table {"offsetTable": {"topic@group": {"0": 5}}}, without marks."""
    found: dict[tuple[str, str], dict[int, int]] = {}
    for name, queues in exported.get("offsetTable", {}).items():
        topic, _, group = name.partition("@")
        if group.startswith(MARKS):
            continue
        found[topic, group] = {int(queue): int(offset) for queue, offset in queues.items()}
    return found


def report(counts: pa.Table, positions: Positions, made: datetime | None = None) -> Report:
    """The report of counts (counts.COUNTS) and positions."""
    now = made or datetime.now(UTC)
    rows = counts.to_pylist()
    minutes: dict[tuple[str, datetime], list[int]] = defaultdict(lambda: [0, 0])
    by_topic: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        total = minutes[row["topic"], row["minute"]]
        total[0] += row["messages"]
        total[1] += row["bytes"]
        by_topic[row["topic"]].append(row)
    unread, groups = [], []
    for (topic, group), queues in sorted(positions.items()):
        found = _unread(by_topic.get(topic, []), queues)
        unread += [Unread(topic, group, minute, count) for minute, count in sorted(found.items())]
        oldest = min(found, default=None)
        age = (now - oldest).total_seconds() if oldest is not None else 0.0
        groups.append(GroupBacklog(topic, group, sum(found.values()), oldest, age))
    throughput = tuple(
        Throughput(topic, minute, messages, size)
        for (topic, minute), (messages, size) in sorted(minutes.items())
    )
    return Report(now, throughput, tuple(unread), tuple(groups))


def _unread(rows: list[dict[str, Any]], queues: Mapping[int, int]) -> dict[datetime, int]:
    """Minute → unread messages, 0 left out. Offsets of one queue and minute are a run."""
    found: dict[datetime, int] = defaultdict(int)
    for row in rows:
        position = queues.get(row["queue"], 0)
        count = row["last"] - max(row["first"], position) + 1
        if count > 0:
            found[row["minute"]] += min(count, row["messages"])
    return dict(found)
