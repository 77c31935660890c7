"""Delivers messages again that were not acknowledged in time: a leader's timer.

due ─► the message, from its queue ─► a copy in the group's retry topic, which names the
                                      checkpoint: the fold takes it off, once (R17)
    ─► no longer in the log        ─► acknowledged in the group's name
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.broker.pop.recode import stored_again
from cluster.broker.pop.writer import Again, ReviveWriter
from cluster.core.apply import AppliedState
from cluster.core.pop.held import Held
from cluster.core.pop.in_flight import InFlight
from cluster.core.pop.names import retry_topic
from cluster.core.pop.records import Acked
from cluster.core.topics import RETRY_PREFIX, TopicConfig
from cluster.errors import NotFound, QueueFull
from commitlog.errors import StoreDamaged, StoreError

CHECKPOINTS_AT_ONCE = 32  # at most 32 messages each: some 1,000 records in one turn
TICK_SECONDS_MIN, TICK_SECONDS_MAX = 0.02, 1.0
RETRY_MS = 1_000  # after a batch that was not logged

_log = logging.getLogger(__name__)


class Reviving:
    """One per broker; runs while it leads and holds something."""

    def __init__(
        self,
        state: AppliedState,
        derived: DerivedStore,
        reader: RecordReader,
        writer: ReviveWriter,
        states: StateWriter,
        settling: InFlight[tuple[int, int]],
        *,
        v2: bool,
        leads: Callable[[], bool],
        now_ms: Callable[[], int],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._state, self._derived, self._reader = state, derived, reader
        self._writer, self._states, self._v2 = writer, states, v2
        self._settling = settling
        self._leads, self._now_ms, self._call_later = leads, now_ms, call_later
        self._armed = False
        self.revived = 0

    def begin(self) -> None:
        """A leadership begins."""
        self._state.pop.held.begin()
        self.arm()

    def arm(self) -> None:
        """Something is held: look again when it is due."""
        due_ms = self._state.pop.held.next_due_ms()
        if self._armed or due_ms is None or not self._leads():
            return
        self._armed = True
        wait = (due_ms - self._now_ms()) / 1000
        self._call_later(min(max(wait, TICK_SECONDS_MIN), TICK_SECONDS_MAX), self._tick)

    def _tick(self) -> None:
        self._armed = False
        if not self._leads():
            return
        held = self._state.pop.held
        addresses = held.take_due(self._now_ms(), CHECKPOINTS_AT_ONCE)
        try:
            self._again(addresses)
        except (StoreError, QueueFull) as error:
            _log.warning("messages cannot be given again now: %s", error)
            held.put_back(addresses, self._now_ms() + RETRY_MS)
        self.arm()

    def _again(self, addresses: list[int]) -> None:
        messages: list[Again] = []
        gone: list[Acked] = []
        waiting: list[int] = []
        for address in addresses:
            held = self._state.pop.held.get(address)
            if held is None:
                continue
            topic = self._topic(held)
            if self._state.topics.get(topic) is None:
                self._create(topic, address)
                continue
            waiting.append(address)
            self._collect(held, address, topic, messages, gone)

        def settled(error: Exception | None) -> None:
            self._settling.done(keys, epoch)
            self.revived += len(messages) if error is None else 0
            # What was on its way, or was not logged, is due again; all else is done with.
            self._state.pop.held.put_back(waiting, self._now_ms() + RETRY_MS)
            self.arm()

        keys = [(message.origin, message.offset) for message in messages]
        epoch = self._settling.begin(keys)
        try:
            if gone:
                self._writer.write(gone, 0, _ignore)
            if not messages:
                settled(None)
            else:
                self._writer.write_again(messages, settled)
        except QueueFull as full:
            settled(full)

    def _topic(self, held: Held) -> str:
        place = held.place
        if place.topic.startswith(RETRY_PREFIX):
            return place.topic
        return retry_topic(place.topic, place.group, v2=self._v2)

    def _create(self, topic: str, address: int) -> None:
        def created(error: Exception | None) -> None:
            wait_ms = RETRY_MS if error is not None else 0
            self._state.pop.held.put_back([address], self._now_ms() + wait_ms if wait_ms else 0)
            self.arm()

        self._states.create_topic(TopicConfig(topic, 1, 1), created)

    def _collect(
        self, held: Held, address: int, topic: str, messages: list[Again], gone: list[Acked]
    ) -> None:
        queue = self._derived.queue(held.place.topic, held.place.queue)
        lost: list[int] = []
        for offset in sorted(held.left):
            if (address, offset) in self._settling:
                continue  # its acknowledgement is on its way: it counts
            if queue is None or not queue.min_offset <= offset < queue.max_offset:
                lost.append(offset)
                continue
            try:
                record = self._reader.record(queue.read(offset, 1)[0].physical_offset)
            except (NotFound, StoreDamaged) as error:
                _log.warning("%s %d cannot be given again: %s", held.place, offset, error)
                lost.append(offset)
                continue
            messages.append(stored_again(record, topic, held, address))
        if lost:
            gone.append(Acked(held.place, address, held.start, held.pop_ms, tuple(lost)))


def _ignore(error: Exception | None) -> None:
    """When it was not logged, it is found again: its checkpoint is put back."""
