"""The bars of messages: a figure of ours beside the same figure of a peer, medians of one run.

A row is one figure set of one subject and turn: `subject`, `kind`, `mode`, `window`, `body_size`,
figures. A cell is all rows of one key; its figures are medians of the rows that others left alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

OURS, OURS_JAVA = "ours", "ours, Java client"
NATS, MASTER_SLAVE, DLEDGER = "NATS F", "RocketMQ master/slave", "RocketMQ DLedger"
KAFKA, KAFKA_FLUSH = "Kafka", "Kafka F"
CONTROLLER, ETCD, AT_ONCE = "RocketMQ controller", "etcd F", "answers at once, Java client"
SEND, CONSUME, START, IDLE = "send", "consume", "start", "idle"
#: Kinds of rows that are no figures of a subject.
LIMITS, BROKEN = "limits", "broken"
RATE, P50, CPU = "messages_per_second", "p50_ms", "server_cpu_us"


class Key(NamedTuple):
    """What was measured, of whom."""

    subject: str
    kind: str
    mode: str = ""
    window: int = 0
    body_size: int = 0


class Bar(NamedTuple):
    """`ours` ÷ `other`, of a figure; without `other` the figure itself.

    Bars of one `goal` are met together when one of them is: a goal may say "or". `limit`: `other`
    is a physical limit of the same minute, by its name. `best_of`: `other` is the one of these that
    has the largest figure.
    """

    goal: str
    what: str
    ours: Key
    figure: str
    other: Key | None = None
    at_least: float | None = None
    at_most: float | None = None
    limit: str = ""
    best_of: tuple[Key, ...] = ()


class Judged(NamedTuple):
    """A bar whose figures are there.

    Attributes:
        met: it, or another of its goal that can be trusted.
        disturbed: by other programs, in every turn of a side.
        failed: sends of a side failed: its rate and its times are those of fewer messages.
    """

    bar: Bar
    ratio: float
    met: bool
    disturbed: bool
    failed: bool = False


def _sends(subject: str, mode: str, window: int, size: int = 1024) -> Key:
    return Key(subject, SEND, mode, window, size)


_SINGLE, _BATCHING = _sends(OURS, "single", 1024), _sends(OURS, "batching", 1024)
_JAVA, _JAVA_64 = _sends(OURS_JAVA, "single", 1024), _sends(OURS_JAVA, "single", 64)
_SMALL = _sends(OURS, "batching", 1024, 128)
_NATS, _ONE = _sends(NATS, "single", 1024), _sends(OURS, "single", 1)
_BEST = tuple(
    _sends(OURS, mode, window) for mode in ("single", "batching") for window in (64, 1024)
)
BARS = (
    Bar("single", "1,024 in flight, one request each ÷ NATS F", _SINGLE, RATE, _NATS, 2.0),
    Bar("batching", "1,024 in flight, batching ÷ NATS F", _BATCHING, RATE, _NATS, 3.0),
    Bar("64 Java", "64 in flight, Java client ÷ on master/slave", _JAVA_64, RATE,
        _sends(MASTER_SLAVE, "single", 64), 2.0),
    Bar("64", "64 in flight, one request each ÷ NATS F", _sends(OURS, "single", 64), RATE,
        _sends(NATS, "single", 64), 1.5),
    Bar("one", "one in flight, p50 ÷ NATS F", _ONE, P50, _sends(NATS, "single", 1), None, 0.75),
    Bar("one", "or: one in flight, p50 ÷ floor (fdatasync, two round trips)", _ONE, P50, None,
        None, 1.4, "floor_ms"),
    Bar("128 NATS", "128 B, batching ÷ NATS F", _SMALL, RATE,
        _sends(NATS, "single", 1024, 128), 3.0),
    Bar("128 Kafka", "128 B, batching ÷ Kafka without fsync", _SMALL, RATE,
        _sends(KAFKA, "single", 1024, 128), 2.5),
    Bar("batches", "Java batches of 32, 8 in flight ÷ on master/slave",
        _sends(OURS_JAVA, "batches", 8), RATE, _sends(MASTER_SLAVE, "batches", 8), 1.8),
    Bar("Java DLedger", "1,024 in flight, Java client ÷ on DLedger", _JAVA, RATE,
        _sends(DLEDGER, "single", 1024), 12.0),
    Bar("Java master/slave", "1,024 in flight, Java client ÷ on master/slave", _JAVA, RATE,
        _sends(MASTER_SLAVE, "single", 1024), 2.5),
    Bar("Java master/slave", "or: the same ÷ on a server that answers at once", _JAVA, RATE,
        _sends(AT_ONCE, "single", 1024), 0.85),
    Bar("list", "consume, lists ÷ Kafka", Key(OURS, CONSUME, "list", 0, 1024), RATE,
        Key(KAFKA, CONSUME, "each", 0, 1024), 1.0),
    Bar("each", "consume, `async for` ÷ Kafka", Key(OURS, CONSUME, "each", 0, 1024), RATE,
        Key(KAFKA, CONSUME, "each", 0, 1024), 1.0),
    Bar("consume Java", "consume, Java client ÷ on master/slave",
        Key(OURS_JAVA, CONSUME, "each", 0, 1024), RATE,
        Key(MASTER_SLAVE, CONSUME, "each", 0, 1024), 1.5),
    Bar("tasks", "`await send` in 64 tasks ÷ our client's best", _sends(OURS, "tasks", 64), RATE,
        None, 0.85, best_of=_BEST),
    Bar("CPU single", "server CPU a message, one request each ÷ NATS F", _SINGLE, CPU, _NATS,
        None, 0.33),
    Bar("CPU batching", "server CPU a message, batching ÷ NATS F", _BATCHING, CPU, _NATS,
        None, 0.25),
    Bar("start", "cold start to the first acknowledgement ÷ NATS F", Key(OURS, START), "seconds",
        Key(NATS, START), None, 0.9),
    Bar("memory", "resident memory of a loaded node, MB", Key(OURS, IDLE), "resident_mb", None,
        None, 50.0),
    Bar("idle", "idle CPU of three nodes, cores", Key(OURS, IDLE), "idle_cores", None, None, 0.015),
)  # fmt: skip


def key_of(row: Mapping[str, Any]) -> Key:
    """The cell that a row belongs to."""
    return Key(*(row[name] for name in Key._fields))


def cells(rows: Iterable[Mapping[str, Any]]) -> dict[Key, dict[str, float]]:
    """Medians of each cell; `disturbed` is 1 where no row of it was undisturbed, else 0.

    Rows that others disturbed count only where a cell has no others. `failed` is the sum of all
    rows: a failed send is not made good by a turn without one.
    """
    by: dict[Key, list[Mapping[str, Any]]] = {}
    for row in rows:
        by.setdefault(key_of(row), []).append(row)
    found = {}
    for key, some in by.items():
        quiet = [row for row in some if not row["disturbed"]]
        counted = quiet or some
        found[key] = {
            name: statistics.median(float(row[name]) for row in counted if name in row)
            for name, value in counted[0].items()
            if isinstance(value, float)
        } | {
            "turns": float(len(counted)),
            "disturbed": float(not quiet),
            "failed": float(sum(row.get("failed", 0) for row in some)),
        }
    return found


def judged(rows: Sequence[Mapping[str, Any]], limits: Mapping[str, float]) -> list[Judged]:
    """Each bar whose figures were measured; `limits`: medians of the run's physical limits."""
    found = cells(rows)
    ratios: list[Judged] = []
    for bar in BARS:
        ours, other = found.get(bar.ours), _beside(bar, found)
        if ours is None or (other is None and (bar.other is not None or bar.best_of)):
            continue
        beside = other[bar.figure] if other else limits.get(bar.limit, 0.0) if bar.limit else 1.0
        if beside:
            sides = [ours, other] if other else [ours]
            ratio = ours[bar.figure] / beside
            disturbed = any(side["disturbed"] for side in sides)
            failed = any(side["failed"] for side in sides)
            ratios.append(Judged(bar, ratio, holds(bar, ratio), disturbed, failed))
    met = {one.bar.goal for one in ratios if one.met and not one.disturbed and not one.failed}
    return [one._replace(met=one.met or one.bar.goal in met) for one in ratios]


def _beside(bar: Bar, found: Mapping[Key, Mapping[str, float]]) -> Mapping[str, float] | None:
    some = [found[key] for key in bar.best_of or (bar.other,) if key is not None and key in found]
    return max(some, key=lambda figures: figures[bar.figure], default=None)


def holds(bar: Bar, ratio: float) -> bool:
    """Whether the ratio itself holds the bar."""
    return (bar.at_least is None or ratio >= bar.at_least) and (
        bar.at_most is None or ratio <= bar.at_most
    )
