"""Decisions about half messages: the outcome of one, which the log gets.

decide ─► Ended(half, outcome) ─► Outcomes ─► records in the log ─► replayed ─► answer
"""

from __future__ import annotations

from typing import NamedTuple

from cluster.broker.kernel.net.requests import Call
from cluster.broker.transactions.outcomes import ReadHalf
from cluster.broker.transactions.ports import TransactionPorts
from cluster.core.transactions.halves import Outcome
from dledger.errors import NotLeader, OutcomeUnknown, Transferring


class Ended(NamedTuple):
    """The half has this outcome, unless another one is on its way, which then counts."""

    half: ReadHalf
    outcome: Outcome

    def carry_out(self, ports: TransactionPorts, call: Call) -> None:
        """Log the outcome, then answer. Raises QueueFull."""
        half, outcome = self
        ports.transactions.end(half, outcome, lambda error: _ended(ports, call, error))


def _ended(ports: TransactionPorts, call: Call, error: Exception | None) -> None:
    """Answer the request; when the leadership ended with it, route it to the next leader, once."""
    if isinstance(error, NotLeader | Transferring | OutcomeUnknown) and not call.client.closed:

        def again(late: bool) -> None:
            if late and not ports.leadership.leads:
                call.refuse(error)
            else:
                ports.route(call.client, call.frame)

        if ports.leadership.hold(again, len(call.frame.body)):
            return
    call.done(error)
