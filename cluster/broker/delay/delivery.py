"""Delayed messages and timers out of their deferred queues, when they are due.

Source: docs/spec/store.md 7.1, 7.2.

    leadership ready ─► timer to the next due time ─► take_due ─► records ─► copies into real queues
    a delayed message applied ─► maybe an earlier timer
    leadership ended ─► everything taken goes back: the next leader's log says what was delivered

A copy keeps body, flags, times, hosts and its property text, DELAY, REAL_TOPIC and REAL_QID
included, as RocketMQ's does. Progress is in the log alone: each copy names its deferred
record (R17).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from cluster.broker.delay.outcomes import OutcomeWriter, begin_all
from cluster.broker.kernel.read.reader import RecordReader
from cluster.core.delay.copies import Pieces, read_pieces
from cluster.core.delay.folds import DEFERRED_TOPICS, OUTCOMES_TOPIC, real_place
from cluster.core.internal_topics import OWN_TOPICS
from cluster.core.topics import FORBIDDEN_TO_CLIENTS
from cluster.errors import ClusterError
from commitlog.errors import StoreError
from dledger.errors import DledgerError

#: One turn's deliveries; more would hold the loop for longer than a heartbeat can wait.
TURN_COUNT_MAX = 200
TURN_BYTES_MAX = 1 << 20
#: Deliveries on their way; as many again wait for these.
IN_FLIGHT_MAX = 2_000
#: The clock is looked at so often while anything waits: it may be set.
LOOK_SECONDS_MAX = 0.5
BUSY_SECONDS = 0.05
#: What cannot be read is tried again after so long (RocketMQ: 10 s).
UNREADABLE_SECONDS = 10.0

_NOT_TARGETS = FORBIDDEN_TO_CLIENTS | OWN_TOPICS | {OUTCOMES_TOPIC}
_DEFERRED = frozenset(topic.decode() for topic in DEFERRED_TOPICS)
_log = logging.getLogger(__name__)


class Delivery:
    """One per broker; works while this node leads."""

    def __init__(
        self,
        writer: OutcomeWriter,
        reader: RecordReader,
        *,
        leads: Callable[[], bool],
        now: Callable[[], float],
        now_ms: Callable[[], int],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._writer, self._reader = writer, reader
        self._table = writer.state.delayed
        self._leads, self._now, self._now_ms = leads, now, now_ms
        self._call_later = call_later
        self._taken: set[int] = set()
        self._timer_at = float("inf")
        self.delivered = self.discarded = 0

    def leadership_ended(self) -> None:
        """Put back the messages that were taken and not delivered: the next leadership, here or
        elsewhere, delivers them.
        """
        self._table.put_back(self._taken)
        self._taken.clear()

    def role_changed(self) -> None:
        """A listener of `Leadership`; may be called inside the replica, so it only sets a timer."""
        if self._leads():
            self._run_at(self._now())

    def queue_grew(self, topic: str, queue_id: int, max_offset: int) -> None:
        """New messages were dispatched; the state shows them when this turn is over."""
        if topic in _DEFERRED and self._leads():
            self._call_later(0.0, self._arm)

    # -- when --------------------------------------------------------------------------------------

    def _arm(self) -> None:
        now_ms = self._now_ms()
        due_ms = self._table.next_due_ms(now_ms)
        if due_ms is not None:
            self._run_at(self._now() + min((due_ms - now_ms) / 1000, LOOK_SECONDS_MAX))

    def _run_at(self, at: float) -> None:
        if at < self._timer_at:
            self._timer_at = at
            self._call_later(max(at - self._now(), 0.0), self._run)

    def _run(self) -> None:
        self._timer_at = float("inf")
        if not self._leads():
            return
        if len(self._taken) >= IN_FLIGHT_MAX:
            self._run_at(self._now() + BUSY_SECONDS)
            return
        now_ms = self._now_ms()
        due_ms = self._table.next_due_ms(now_ms)
        if due_ms is not None and due_ms <= now_ms:
            # What counts is the stamp that the copies get: this turn may have begun before now. But
            # stamps wait where a fast clock has put them (R24): by such a one nothing is due again.
            stamp_ms = self._writer.appender.open().stamp_ms
            self._deliver(self._table.take_due(min(stamp_ms, now_ms), TURN_COUNT_MAX))
        self._arm()

    # -- what --------------------------------------------------------------------------------------

    def _deliver(self, taken: list[int]) -> None:
        self._taken.update(taken)
        outcomes = self._writer.begin(self._told)
        mine = begin_all(self._writer.settling, taken)
        if len(mine) < len(taken):  # a recall of these is on its way
            others = [*set(taken).difference(mine)]
            self._call_later(BUSY_SECONDS, lambda: self._give_back(others))
        size = 0
        for number, position in enumerate(mine):
            pieces = self._read(position)
            if pieces is None:
                continue
            size += len(pieces.body) + len(pieces.properties) + 256
            if (size > TURN_BYTES_MAX and number) or not self._writer.appender.has_capacity(size):
                self._give_up(mine[number:])
                self._run_at(self._now() + (0.0 if size > TURN_BYTES_MAX else BUSY_SECONDS))
                return
            target = self._target(pieces)
            if target is None:
                outcomes.note(position, "discarded", "its topic does not exist any more")
                self.discarded += 1
                _log.warning("the delayed message at %d has no topic any more", position)
            else:
                outcomes.deliver(position, pieces, *target, pieces.properties)
                self.delivered += 1

    def _read(self, position: int) -> Pieces | None:
        try:
            return read_pieces(self._reader.record(position))
        except (ClusterError, DledgerError, StoreError, OSError) as error:
            _log.error("the delayed message at %d cannot be read: %s", position, error)
        self._writer.settling.done([position])
        self._call_later(UNREADABLE_SECONDS, lambda: self._give_back([position]))
        return None

    def _target(self, pieces: Pieces) -> tuple[str, int] | None:
        """Real topic and queue, None when there is none to be delivered to."""
        place = real_place(pieces)
        topic = place.topic.decode("utf-8", "replace")
        config = self._writer.state.topics.get(topic)
        if config is None or topic in _NOT_TARGETS or topic in _DEFERRED:
            return None
        return topic, place.queue_id % max(
            config.queues, 1
        )  # the topic may have fewer queues than then

    # -- how it ended ------------------------------------------------------------------------------

    def _told(self, positions: list[int], error: DledgerError | None) -> None:
        if error is not None:  # not logged, or the leadership is over and all is put back then
            self._call_later(BUSY_SECONDS, lambda: self._give_back(positions))
            return
        self._taken.difference_update(positions)
        self._arm()

    def _give_up(self, positions: list[int]) -> None:
        self._writer.settling.done(positions)
        self._give_back(positions)

    def _give_back(self, positions: list[int]) -> None:
        back = [position for position in positions if position in self._taken]
        self._taken.difference_update(back)
        self._table.put_back(back)
        if back and self._leads():
            self._arm()
