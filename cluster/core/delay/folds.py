"""Deferred messages that wait, and their outcomes: a fold over committed records (R17).

Source: docs/spec/store.md 7.

    record of a deferred topic               ─► replay_deferred(record)    it waits from now on
    record with preparedTransactionOffset p  ─► replay_settled(p, record)  the one at p is done with

*Every* outcome is a record that names the deferred record's own address: a delivered copy, a
committed transaction, a discard, a recall. Clients cannot set that field (sends store 0). Which of
two outcomes counts needs no table: the first in log order finds its record waiting, a second one
finds nothing. A record that is deferred again (a half message put back) names the one it
stands for, so it is both.

A producer's numbers (R8) count where the message was sent to, REAL_TOPIC and REAL_QID, and are read
from the deferred record; an outcome's are not counted again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from commitlog.records.message_fast import ScannedRecord
from commitlog.records.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from commitlog.records.properties import find_property
from commitlog.records.property_names import REAL_QUEUE_ID, REAL_TOPIC

#: Records of this topic say in their bodies which half messages are done with.
OP_TOPIC_FIELD: Final = OP_HALF_TOPIC.encode()
#: Encoded topics whose records wait, or end that; such records are read one by one.
DEFERRED_TOPICS: Final = frozenset(
    name.encode() for name in (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, OP_HALF_TOPIC)
)
#: Its records say why nothing came of a deferred one: discarded, recalled.
OUTCOMES_TOPIC: Final = "rmq_sys_dledger_outcomes"
_REAL_TOPIC, _REAL_QUEUE = REAL_TOPIC.encode(), REAL_QUEUE_ID.encode()


class RealPlace(NamedTuple):
    """Where a deferred message was sent to."""

    topic: bytes
    queue_id: int


class Placed(Protocol):
    """A record, as far as its place goes."""

    @property
    def topic(self) -> bytes:
        """The topic that the record is stored in."""
        ...

    @property
    def queue_id(self) -> int:
        """The queue that the record is stored in."""
        ...

    @property
    def properties(self) -> bytes:
        """The block of properties, encoded."""
        ...


def real_place(record: Placed) -> RealPlace:
    """REAL_TOPIC and REAL_QID of a deferred record; its own place when they are unusable."""
    if record.topic not in DEFERRED_TOPICS:
        return RealPlace(record.topic, record.queue_id)
    topic = find_property(record.properties, _REAL_TOPIC)
    queue = find_property(record.properties, _REAL_QUEUE)
    if not topic or not topic.isascii() or not queue or not queue.isdigit() or len(queue) > 9:
        return RealPlace(record.topic, record.queue_id)
    return RealPlace(topic, int(queue))


class DeferredFold(Protocol):
    """One kind of waiting message. `topics`: topics with records that it defers.

    A function of the log: same records, same state. `origin` is 0 or the address of the deferred
    record that this one stands for.
    """

    topics: frozenset[bytes]

    def replay_deferred(self, record: ScannedRecord, origin: int) -> None:
        """A committed record of one of `topics`: it waits from now on."""
        ...

    def replay_settled(self, origin: int, record: ScannedRecord) -> None:
        """`record` is an outcome of the record deferred at `origin`, if that one waits here."""
        ...

    def first_waiting(self) -> int | None:
        """Lowest address of a record that waits and will be read again; None: there is none."""
        ...

    def to_checkpoint(self) -> Any:
        """JSON."""
        ...

    def restore(self, value: Any) -> None:
        """Inverse. Raises ValueError, KeyError or TypeError."""
        ...


class DeferredFolds:
    """All kinds, by name; each sees every outcome, and the records of its own topics."""

    def __init__(self, folds: Mapping[str, DeferredFold]) -> None:
        self._folds = dict(folds)
        self._by_topic: dict[bytes, Sequence[DeferredFold]] = {
            topic: [fold for fold in folds.values() if topic in fold.topics]
            for topic in {topic for fold in folds.values() for topic in fold.topics}
        }

    def replay(self, record: ScannedRecord, origin: int) -> None:
        """A committed record that is deferred, or has an origin."""
        if origin:
            for fold in self._folds.values():
                fold.replay_settled(origin, record)
        for fold in self._by_topic.get(record.topic, ()):
            fold.replay_deferred(record, origin)

    def first_waiting(self) -> int | None:
        """Lowest address that is still waited for: the log is not deleted up to it (R16)."""
        found = [fold.first_waiting() for fold in self._folds.values()]
        return min((position for position in found if position is not None), default=None)

    def to_checkpoint(self) -> dict[str, Any]:
        """JSON by name, for `restore`."""
        return {name: fold.to_checkpoint() for name, fold in self._folds.items()}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Raises ValueError, KeyError or TypeError."""
        for name, fold in self._folds.items():
            fold.restore(value[name])
