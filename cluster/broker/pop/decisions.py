"""Decisions about pops and acknowledgements: records of the revive log, and a response.

    PopDecision, PopTaken (answer, records) ─► ReviveWriter ─► committed ─► replayed
                                                └─► answer(call), waiting pops look

Until its records are applied no other request decides about the same messages (`InFlight`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cluster.broker.kernel.net.requests import Call
from cluster.broker.pop.popping import Found
from cluster.broker.pop.ports import PopPorts
from cluster.core.pop.held import UNACKED_MAX
from cluster.core.pop.names import ORDER_QUEUE
from cluster.core.pop.records import Acked, OrderAcked, OrderHidden, PopRecord, Taken
from cluster.errors import Outcome, QueueFull


class PopDecision(NamedTuple):
    """`answer` is called when the tables show all records; at once where there are none.

    `queue`: of the revive log; None: the next one in turn.
    """

    answer: Callable[[Call], None]
    records: tuple[PopRecord, ...] = ()
    queue: int | None = None

    def carry_out(self, ports: PopPorts, call: Call) -> None:
        """Log the records, then answer."""
        answer, records, queue = self
        if not records:
            answer(call)
            return
        pop, held = ports.pop, ports.state.pop.held
        keys = [
            (r.address, offset) for r in records if isinstance(r, Acked) for offset in r.offsets
        ]
        places = {r.place for r in records if isinstance(r, OrderAcked | OrderHidden)}
        takes = any(isinstance(r, Taken) for r in records)
        # Who waits gets no word of its own when a queue opens, or a client holds less than it may.
        open_again = {place.topic for place in places}
        if not takes:
            open_again |= {r.place.topic for r in records if held.unacked(r.place) >= UNACKED_MAX}

        def settled(error: Exception | None) -> None:
            pop.settling.done(keys, settling)
            pop.popping.busy.done(places, busy)
            if error is not None:
                call.refuse(error)
                return
            if takes:
                pop.reviving.arm()
            answer(call)
            for topic in open_again:
                pop.waits.wake(topic)

        settling, busy = pop.settling.begin(keys), pop.popping.busy.begin(places)
        try:
            pop.writer.write(records, pop.next_queue() if queue is None else queue, settled)
        except QueueFull as full:
            settled(full)


class PopTaken(NamedTuple):
    """The messages of one pop, and the checkpoints that would bring them back.

    `answer` is called when the tables show the checkpoints; None: there is no message, the pop only
    goes on behind those that it passed over.
    """

    found: Found
    records: list[PopRecord]
    queue: int
    answer: Callable[[Call], None] | None

    def carry_out(self, ports: PopPorts, call: Call) -> None:
        """Log the checkpoints, then answer; a pop that is certainly not logged is taken back."""
        found, records, queue, answer = self
        pop, popping = ports.pop, ports.pop.popping
        busy = {part.place for part in found.parts} if queue == ORDER_QUEUE else set()

        def settled(error: Exception | None) -> None:
            popping.busy.done(busy, epoch)
            if error is not None:
                (popping.rewind if _is_certain(error) else popping.settled)(found)
                if answer is not None:
                    call.refuse(error)
                return
            popping.settled(found)
            pop.reviving.arm()
            if answer is not None:
                call.guarded(lambda: answer(call))

        epoch = popping.busy.begin(busy)
        try:
            pop.writer.write(records, queue, settled)
        except QueueFull as full:
            settled(full)


def _is_certain(error: Exception) -> bool:
    """True if the write certainly did not happen, by the `outcome` of an error of log or broker."""
    outcome = getattr(error, "outcome", None)
    return getattr(outcome, "value", "") == Outcome.NOT_DONE.value
