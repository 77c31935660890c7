"""A pop takes messages when there are some, or waits until some come or its time is over.

    TakeOrWait ─► WaitingPop: look ─► PopTaken ─► checkpoints in the log ─► replayed ─► answer
                              └► none: it waits, is woken, looks again; 210 when its time is over

Each look decides anew, by the tables and queues of its own time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cluster.broker.kernel.net.requests import Call
from cluster.broker.pop.asking import WaitingAsk
from cluster.broker.pop.decisions import PopTaken
from cluster.broker.pop.popping import Ask, Found
from cluster.broker.pop.ports import PopPorts
from cluster.broker.pop.recode import under_topic
from cluster.core.pop.handles import (
    Handle,
    message_offset_info,
    order_count_info,
    start_offset_info,
)
from cluster.core.pop.held import HELD_MAX
from cluster.core.pop.names import ORDER_QUEUE, REVIVE_QUEUES, marker_of
from cluster.core.topics import RETRY_PREFIX
from cluster.errors import ClusterError, NotLeader, QueueFull
from cluster.protocol.codes import ResponseCode
from cluster.protocol.headers import encode
from cluster.protocol.pop_headers import PopResponse
from commitlog.errors import StoreError

if TYPE_CHECKING:
    from cluster.broker.pop.service import PopService


class TakeOrWait(NamedTuple):
    """Messages for this pop, within `seconds`; `changes`: of accounts, when it was checked."""

    ask: Ask
    seconds: float
    changes: int

    def carry_out(self, ports: PopPorts, call: Call) -> None:
        """Take available messages, or wait. Raises NotLeader, and QueueFull."""
        waiting = WaitingPop(ports, call, self.ask, self.seconds)
        waiting.checked_at(self.changes)
        waiting.begin()


class WaitingPop(WaitingAsk):
    """One pop request: looks for messages, waits if there are none, answers once."""

    @property
    def _pop(self) -> PopService:
        return self._ports.pop

    def begin(self) -> None:
        """Look for messages; wait when there are none. Raises NotLeader, and as `_look`."""
        ports = self._ports
        if not ports.leadership.leads:  # it ended while what is applied was dispatched
            raise NotLeader("", ports.leader_address())
        if self._judged_again():
            return
        found = self._look()
        if self._answered:
            return
        if self._seconds <= 0:
            self._nothing(ResponseCode.POLLING_TIMEOUT)
        elif not self._pop.waits.suspend(self, self._seconds):
            self._nothing(ResponseCode.POLLING_FULL)
        else:
            self._look_again_later(found)

    def wake(self) -> None:
        """Look again, as messages may have come; not if this node no longer leads: the end of a
        leadership has the request routed again.
        """
        if not self._ports.leadership.leads or self._judged_again():
            return
        try:
            self._look_again_later(self._look())
        except Exception as error:
            self._answered = True
            if not isinstance(error, ClusterError | StoreError):
                self._ports.owned.spared("a waiting pop failed")
            self._call.refuse(error)

    def expire(self) -> None:
        """Answer 210: no message came within pollTime."""
        self._nothing(ResponseCode.POLLING_TIMEOUT)

    def _look_again_later(self, found: Found) -> None:
        """Plan another look: this one stopped before the last queue, or a blocked queue opens."""
        if self.settled:
            return
        ports = self._ports
        if found.blocked_ms:
            wait = max((found.blocked_ms - ports.now_ms()) / 1000, 0.001)
            self._call.later(wait, self._woken)
        elif found.rest and found.parts:
            self._call.later(0, self._woken)

    def _woken(self) -> None:
        if not self.settled:
            self.wake()

    def _look(self) -> Found:
        """Take the available messages, and log them. Raises the error for the client."""
        ports, pop, ask = self._ports, self._pop, self._ask
        if len(ports.state.pop.held) >= HELD_MAX:
            self._answered = True
            raise QueueFull(f"{HELD_MAX} pops are not acknowledged yet; acknowledge some first")
        pop_ms = ports.now_ms()
        found = pop.popping.look(ask, pop_ms)
        if not found.parts:
            return found
        revive_queue = ORDER_QUEUE if ask.is_ordered else pop.next_queue() % REVIVE_QUEUES
        self._answered = found.messages > 0

        def answer(call: Call) -> None:
            self._answer(call, found, pop_ms, revive_queue)

        records = pop.popping.records(ask, found, pop_ms)
        taken = PopTaken(found, records, revive_queue, answer if self._answered else None)
        taken.carry_out(ports, self._call)
        return found

    def _answer(self, call: Call, found: Found, pop_ms: int, revive_queue: int) -> None:
        ask, given = self._ask, [part for part in found.parts if part.records]
        counts = None
        if ask.is_ordered:
            counts = ";".join(self._counts(part.place) for part in given)
        ext = PopResponse(
            pop_ms,
            ask.invisible_ms,
            revive_queue,
            found.rest,
            start_offset_info([(p.place.topic, p.place.queue, p.start) for p in given]),
            message_offset_info([(p.place.topic, p.place.queue, p.offsets) for p in given]),
            counts,
        )
        body: list[bytes | memoryview] = []
        broker = self._ports.config.broker_name
        for part in given:
            place = part.place
            if not place.topic.startswith(RETRY_PREFIX) or place.topic == ask.topic:
                body += part.records
                continue
            for offset, record in zip(part.offsets, part.records, strict=True):
                handle = Handle(
                    part.start,
                    pop_ms,
                    ask.invisible_ms,
                    revive_queue,
                    marker_of(place.topic),
                    broker,
                    place.queue,
                    offset,
                )
                body.append(under_topic(record, ask.topic, handle))
        call.answer(0, encode(ext), b"".join(body), "FOUND")

    def _counts(self, place: object) -> str:
        row = self._ports.state.pop.ordered.get(place)  # type: ignore[arg-type]
        if row is None:
            return ""
        taken = row.taken
        return order_count_info(
            taken.place.topic, taken.place.queue, row.counts, len(taken.offsets)
        )

    def _nothing(self, code: int) -> None:
        self._answered = True
        ext = PopResponse(self._ports.now_ms(), self._ask.invisible_ms, 0, 0)
        self._call.answer(code, encode(ext), remark="NO_MESSAGE_IN_QUEUE")
