"""Outcomes of deferred records into the log: a delivered copy, or a note why there is none (R17).

    begin() ─► Outcomes of this turn: deliver(p, …) · note(p, …) ─► one proposal
                                                        ─► applied and dispatched: settled for good
                                                        ─► certainly refused: they are told

Every outcome names the deferred record's address. At most one for each is on its way (`Settling`),
and none is proposed for a record that does not wait any more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import ClassVar

from cluster.broker.kernel.write.appender import Appender
from cluster.broker.kernel.write.batch import Batch
from cluster.core.apply import AppliedState
from cluster.core.delay.copies import Pieces
from cluster.core.delay.folds import OUTCOMES_TOPIC
from cluster.core.delay.settling import Settling
from cluster.core.queue_offsets import LeaderQueueOffsets
from commitlog.records.message_fast import encode_record, topic_field
from dledger.core.types import Index
from dledger.errors import DledgerError, NotDone

Done = Callable[[DledgerError | None], None]
WhenDispatched = Callable[[Index, Done], None]
#: Told of outcomes that were certainly not logged, or of an end nobody knows (then the leadership
#: is over); None: they are in the log, and state and queues show them.
Told = Callable[[list[int], DledgerError | None], None]


class OutcomeWriter:
    """Used on a leader that is ready."""

    def __init__(
        self,
        state: AppliedState,
        appender: Appender,
        offsets: LeaderQueueOffsets,
        settling: Settling,
        *,
        host: bytes,
        when_dispatched: WhenDispatched,
    ) -> None:
        self.state, self.appender, self.offsets, self.settling = state, appender, offsets, settling
        self.host, self.when_dispatched = host, when_dispatched

    def begin(self, told: Told) -> Outcomes:
        """Outcomes of this turn; `told` hears how they ended, in one or more parts."""
        return Outcomes(self, told)


class Outcomes:
    """A unit of this turn's batch. `positions`: the deferred records it has outcomes of."""

    outlives: ClassVar[bool] = False

    def __init__(self, writer: OutcomeWriter, told: Told) -> None:
        self._writer, self._told = writer, told
        self._batch: Batch | None = None
        self._last = 0
        self.positions: list[int] = []

    def deliver(
        self, position: int, pieces: Pieces, topic: str, queue: int, properties: bytes
    ) -> None:
        """The message itself, in its real queue. The caller has checked that there is space."""
        batch = self._open()
        body = pieces.encode(
            topic,
            queue,
            properties,
            queue_offset=self._writer.offsets.following(topic, queue),
            store_ms=batch.stamp_ms,
            origin=position,
        )
        self._writer.offsets.take(topic, queue)
        self._add(position, batch, body)

    def note(self, position: int, outcome: str, why: str) -> None:
        """No message comes of it; the log says so."""
        batch, host = self._open(), self._writer.host
        text = json.dumps({"outcome": outcome, "why": why}, separators=(",", ":"))
        body = encode_record(
            topic_field(OUTCOMES_TOPIC),
            b"",
            text.encode(),
            0,
            0,
            0,
            batch.stamp_ms,
            host,
            host,
            0,
            position,
            self._writer.offsets.following(OUTCOMES_TOPIC, 0),
            0,
            batch.stamp_ms,
        )
        self._writer.offsets.take(OUTCOMES_TOPIC, 0)
        self._add(position, batch, body)

    def _open(self) -> Batch:
        batch = self._batch
        if batch is None:
            batch = self._batch = self._writer.appender.open()
            batch.units.append(self)
        return batch

    def _add(self, position: int, batch: Batch, body: bytearray) -> None:
        self._last = len(batch.bodies)
        batch.bodies.append(body)
        batch.size += len(body)
        self.positions.append(position)

    def settled(self, batch: Batch, error: DledgerError | None) -> None:
        """Tell the caller: of an error at once, of success when the outcomes are dispatched here.
        Only a certain refusal lets another outcome be proposed.
        """
        if error is None:
            self._writer.when_dispatched(Index(batch.first_index + self._last), self._dispatched)
            return
        if isinstance(error, NotDone):
            self._writer.settling.done(self.positions)
        self._told(self.positions, error)

    def _dispatched(self, error: DledgerError | None) -> None:
        if error is None:  # else the node stops; nothing must be proposed again
            self._writer.settling.done(self.positions)
            self._told(self.positions, None)


def begin_all(settling: Settling, positions: Iterable[int]) -> list[int]:
    """Positions without an outcome on its way; from now on they count as having one."""
    return [position for position in positions if settling.begin(position)]
