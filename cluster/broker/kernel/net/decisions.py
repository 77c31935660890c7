"""Handlers that decide: tables and a request in, records and a response out.

    decide(ports, request) ─► Decision(changes, answer) ─► StateWriter ─► committed ─► replayed
                                                             └─► answer(call): every reader sees it

Such a handler only reads, so it is tested without a broker. Its errors are told to the client, and
no record is logged.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

from cluster.broker.kernel.net.requests import Call
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.core.internal_topics import StateChange


class Decision(NamedTuple):
    """Changes in the order of their records, none to answer at once; all are logged, or none.

    `answer` is called when all readers of this replica see the changes; None: success, no fields.
    """

    changes: tuple[StateChange, ...] = ()
    answer: Callable[[Call], None] | None = None


class WhenSettled(NamedTuple):
    """Judge the request anew when no change of this topic is on its way."""

    topic: str


class HasWriter(Protocol):
    """Ports of a feature with such handlers."""

    @property
    def writer(self) -> StateWriter:
        """The way of changes into the log."""
        ...


P = TypeVar("P", bound=HasWriter)
R = TypeVar("R")


def carry_out(writer: StateWriter, call: Call, decision: Decision | WhenSettled) -> None:
    """Log the changes of a decision, then answer. Raises QueueFull, and InvalidRequest."""
    if isinstance(decision, WhenSettled):
        if not writer.waits_for(decision.topic, lambda error: _judge_again(call, error)):
            _judge_again(call, None)
        return
    changes, answer = decision
    if not changes:
        if answer is None:
            call.answer()
        else:
            answer(call)
        return

    def applied(error: Exception | None) -> None:
        if error is not None or answer is None:
            call.done(error)
        else:
            call.guarded(lambda: answer(call))

    *before, last = changes
    writer.write(last, applied, *before)


def decided(decide: Callable[[P, R], Decision | WhenSettled]) -> Callable[[P, Call, R], None]:
    """The function of a handler that only decides."""

    @functools.wraps(decide)
    def function(ports: P, call: Call, request: R) -> None:
        carry_out(ports.writer, call, decide(ports, request))

    return function


def _judge_again(call: Call, error: Exception | None) -> None:
    """Serve the request from its beginning: the log has no part of it, and no audit entry."""
    serve: Callable[[Any, Any], None] = (
        call.router.request_again if error is None else call.router.ask_again
    )
    serve(call.client, call.frame)
