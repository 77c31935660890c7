"""Handlers of acknowledgements decide: records of the revive log, and a response.

    decide(ports, request) ─► PopDecision(answer, records) ─► ReviveWriter ─► committed ─► replayed
                                                               └─► answer(call), waiting pops look

Until its records are applied no other request decides about the same messages (`InFlight`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from cluster.broker.kernel.net.requests import Call
from cluster.broker.pop.ports import PopPorts
from cluster.core.pop.held import UNACKED_MAX
from cluster.core.pop.records import Acked, OrderAcked, OrderHidden, PopRecord, Taken
from cluster.errors import QueueFull


class PopDecision(NamedTuple):
    """`answer` is called when the tables show all records; at once where there are none.

    `queue`: of the revive log; None: the next one in turn.
    """

    answer: Callable[[Call], None]
    records: tuple[PopRecord, ...] = ()
    queue: int | None = None


R = TypeVar("R")


def decided(decide: Callable[[PopPorts, R], PopDecision]) -> Callable[[PopPorts, Call, R], None]:
    """The function of a handler that only decides."""

    @functools.wraps(decide)
    def function(ports: PopPorts, call: Call, request: R) -> None:
        carry_out(ports, call, decide(ports, request))

    return function


def carry_out(ports: PopPorts, call: Call, decision: PopDecision) -> None:
    """Log the records of a decision, then answer."""
    answer, records, queue = decision
    if not records:
        answer(call)
        return
    pop, held = ports.pop, ports.state.pop.held
    keys = [(r.address, offset) for r in records if isinstance(r, Acked) for offset in r.offsets]
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
