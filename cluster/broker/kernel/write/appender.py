"""The one way into the log: everything that arrives in one turn of the event loop is one proposal.

    open() ─► Batch: bodies added by send, by state changes …  ─► end of the turn: propose
                                                              ─► committed and applied: units told

Order of queue offsets, store stamps and indexes is the order of `Batch.bodies`, because nothing
else proposes; before the replica appends a change of the group, it has the open batch flushed
(`Driver.settle_turn`). A batch is opened only while this node leads and is ready, so `first_index`
is certain: the entry after the log's last one.

Limits: `in_flight_bytes_max` and `in_flight_count_max` over all batches not yet settled; `room`
says so before anything is encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.ports import LogPort
from cluster.broker.kernel.write.batch import Batch, Unit
from cluster.broker.kernel.write.dedup import Cursors
from cluster.core.queue_offsets import LeaderQueueOffsets
from cluster.core.store_time import StoreClock
from commitlog.records.message_fast import scan_record
from commitlog.records.sys_flag import goes_to_queue
from dledger.core.types import Index
from dledger.errors import DledgerError, NotLeader, OutcomeUnknown
from dledger.producers.durability import Durability
from dledger.replica.ports import Proposal

Done = Callable[[Exception | None], None]

# docs/spec/store.md 1.1, field 7: where the log stamps the record's own address
PHYSICAL_OFFSET_AT = 28


class Appender:
    """Collects, proposes, and tells the units; one per broker."""

    def __init__(
        self,
        config: BrokerConfig,
        log: LogPort,
        clock: StoreClock,
        offsets: LeaderQueueOffsets,
        cursors: Cursors,
        *,
        call_soon: Callable[[Callable[[], None]], object],
        now_ms: Callable[[], int],
        bound: Callable[[Done], Done] = lambda done: done,
    ) -> None:
        """`bound`: see `Owned.bound`; for parts that keep the callbacks of requests."""
        self._log, self._clock, self._offsets, self._cursors = log, clock, offsets, cursors
        self._call_soon, self._now_ms, self.bound = call_soon, now_ms, bound
        self._bytes_max, self._count_max = config.in_flight_bytes_max, config.in_flight_count_max
        self.body_size_max = config.body_size_max
        self._open: Batch | None = None
        self._in_flight: dict[Index, Batch] = {}
        self.in_flight_bytes = self.in_flight_count = 0
        self.batches = self.records = 0
        self._leaderships = 0  # that have ended
        self.acknowledged = dict.fromkeys(Durability, 0)

    def has_capacity(self, size: int) -> bool:
        """May `size` more bytes wait? False: answer busy, at once."""
        pending = self._open
        if pending is None:
            return (
                self.in_flight_bytes + size <= self._bytes_max
                and self.in_flight_count < self._count_max
            )
        return (
            self.in_flight_bytes + pending.size + size <= self._bytes_max
            and self.in_flight_count + len(pending.bodies) < self._count_max
        )

    def space_left(self) -> tuple[int, int]:
        """Bytes and records that may be added to this turn's batch."""
        pending = self._open
        size, count = (0, 0) if pending is None else (pending.size, len(pending.bodies))
        return (
            self._bytes_max - self.in_flight_bytes - size,
            self._count_max - self.in_flight_count - count,
        )

    def open(self) -> Batch:
        """This turn's batch; the caller adds bodies, their size, and itself as a unit."""
        batch = self._open
        if batch is None:
            first = Index(self._log.store.last.index + 1)
            batch = self._open = Batch(first, self._clock.stamp(self._now_ms()))
            self._call_soon(self.flush)
        return batch

    def not_before(self, stamp_ms: int) -> None:
        """No store time from here on is below this one (R24), not even of this turn's batch."""
        self._clock.seen(stamp_ms)
        if self._open is not None:
            self._open.stamp_ms = max(self._open.stamp_ms, stamp_ms)

    def flush(self) -> None:
        """Propose the open batch; runs by itself at the end of the turn."""
        batch, self._open = self._open, None
        if batch is None:
            return
        if not batch.bodies:
            self._settle(batch, None)
            return
        self._cursors.write_back(batch)
        proposal = Proposal(batch.bodies, self._done, PHYSICAL_OFFSET_AT)
        proposal.frees_space = batch.frees_space
        if batch.early:
            proposal.written = self._written
        self._in_flight[batch.first_index] = batch
        self.in_flight_bytes += batch.size
        self.in_flight_count += len(batch.bodies)
        leadership = self._leaderships
        try:
            self._log.propose(proposal)
        except DledgerError as refused:
            self._forget(batch)
            if leadership == self._leaderships:  # else the tables were dropped as a whole
                self._take_back(batch)
            self._settle(batch, refused)
            return
        assert proposal.first == batch.first_index, "only the appender appends while leading"
        self.batches += 1
        self.records += len(batch.bodies)

    def drop(self, leader: str | None) -> None:
        """Leadership ended: entries that were not proposed yet certainly did not happen.

        Sends that were proposed wait for what becomes of them (dledger/replica/pending.py).
        """
        self._leaderships += 1
        batch, self._open = self._open, None
        if batch is not None:
            self._settle(batch, NotLeader(leader))
        for proposed in self._in_flight.values():
            told = [unit for unit in proposed.units if not unit.outlives]
            if told:
                proposed.units = [unit for unit in proposed.units if unit.outlives]
                self._tell(told, proposed, OutcomeUnknown("leadership ended before it was known"))

    def _done(self, proposal: Proposal, error: DledgerError | None) -> None:
        batch = self._in_flight[proposal.first]
        self._forget(batch)
        batch.positions, batch.term = list(proposal.positions), proposal.term
        if error is None:
            told = 0 if batch.early else batch.early_count
            self.acknowledged[Durability.MAJORITY_ON_DISK] += len(batch.bodies) - told
        self._settle(batch, error)

    def _written(self, proposal: Proposal) -> None:
        """A majority has written it: answer the units that wait for no more than that (R22)."""
        batch = self._in_flight[proposal.first]
        batch.positions, batch.term = list(proposal.positions), proposal.term
        self.acknowledged[Durability.MAJORITY_IN_MEMORY] += batch.early_count
        early, batch.early = batch.early, []
        self._tell(early, batch, None)

    def _forget(self, batch: Batch) -> None:
        del self._in_flight[batch.first_index]
        self.in_flight_bytes -= batch.size
        self.in_flight_count -= len(batch.bodies)

    def _settle(self, batch: Batch, error: DledgerError | None) -> None:
        if batch.early:  # the disks were as quick
            self._tell(batch.early, batch, error)
        self._tell(batch.units, batch, error)

    def _tell(self, units: Sequence[Unit], batch: Batch, error: DledgerError | None) -> None:
        for unit in units:
            unit.settled(batch, error)

    def _take_back(self, batch: Batch) -> None:
        """A certain refusal of the newest batch: undo its offsets and numbers, no others (R9).

        Earlier batches may be in flight, or settled and not dispatched; the leadership goes on.
        """
        for body in reversed(batch.bodies):
            record = scan_record(body)
            if goes_to_queue(record.sys_flag):
                place = record.topic.decode(), record.queue_id
                first = record.queue_offset
                self._offsets.give_back(*place, first, first + 1)
        self._cursors.take_back(batch)
