"""Handlers that decide: tables and a request in, a step out, which the kernel carries out.

    decide(ports, request) ─► Decision(changes, answer) ─► StateWriter ─► committed ─► replayed
                                                             └─► answer(call): every reader sees it
    decide(ports, request) ─► WhenCurrent(decide again), WhenShown, WithGroups ─► the next step

Such a handler only reads, so it is tested without a broker. Its errors are told to the client, and
no record is logged. Features have steps of their own for records of other kinds; only the methods
`carry_out` write (`tests/architecture/test_handlers_decide.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.net.requests import Call
from cluster.broker.kernel.write.state_writer import StateWriter, ensure_group
from cluster.core.apply import AppliedState
from cluster.core.internal_topics import StateChange
from cluster.errors import QueueFull
from dledger.core.types import Index

P = TypeVar("P")
P_contra = TypeVar("P_contra", contravariant=True)
R = TypeVar("R")


class Step(Protocol[P_contra]):
    """A handler's decision, or a wait before it decides."""

    def carry_out(self, ports: P_contra, call: Call) -> None:
        """Do it, then answer. Raises the error for the client."""
        ...


Done = Callable[[Exception | None], None]


def answers(call: Call, answer: Callable[[Call], None] | None) -> Done:
    """Told how records ended: answers with the error, or by `answer`; None: success, no fields."""

    def ended(error: Exception | None) -> None:
        if error is not None or answer is None:
            call.done(error)
        else:
            call.guarded(lambda: answer(call))

    return ended


def goes_on(ports: P, call: Call, then: Callable[[], Step[P]]) -> Done:
    """Told how a wait ended: answers with the error, or decides and carries the decision out."""

    def ended(error: Exception | None) -> None:
        if error is not None:
            call.refuse(error)
        else:
            call.guarded(lambda: then().carry_out(ports, call))

    return ended


class HasWriter(Protocol):
    """Ports of a feature with such handlers."""

    @property
    def writer(self) -> StateWriter:
        """The way of changes into the log."""
        ...


class Decision(NamedTuple):
    """Changes in the order of their records, none to answer at once; all are logged, or none.

    `answer` is called when all readers of this replica see the changes; None: success, no fields.
    """

    changes: tuple[StateChange, ...] = ()
    answer: Callable[[Call], None] | None = None

    def carry_out(self, ports: HasWriter, call: Call) -> None:
        """Log the changes, then answer. Raises QueueFull, and InvalidRequest."""
        changes, answer = self
        if not changes:
            if answer is None:
                call.answer()
            else:
                answer(call)
            return
        *before, last = changes
        ports.writer.write(last, answers(call, answer), *before)


class Answer(NamedTuple):
    """No record is logged; `answer` is called at once."""

    answer: Callable[[Call], None]

    def carry_out(self, ports: object, call: Call) -> None:
        """Answer. Raises the error for the client."""
        self.answer(call)


class WhenSettled(NamedTuple):
    """Judge the request anew when no change of this topic is on its way."""

    topic: str

    def carry_out(self, ports: HasWriter, call: Call) -> None:
        """Wait, then serve the request from its beginning. Raises QueueFull."""
        if not ports.writer.waits_for(self.topic, lambda error: _judge_again(call, error)):
            _judge_again(call, None)


class WhenCurrent(NamedTuple, Generic[P]):
    """Decide when this replica proved that it leads and has applied everything (ReadIndex)."""

    then: Callable[[], Step[P]]

    def carry_out(self, ports: P, call: Call) -> None:
        """Wait, then carry out the decision."""
        then = self.then
        call.when_current(lambda: then().carry_out(ports, call))


class HasDerived(Protocol):
    """Ports of a feature that waits until entries are shown."""

    @property
    def derived(self) -> DerivedStore:
        """Queues and index, and how far they show the log."""
        ...


D = TypeVar("D", bound=HasDerived)


class WhenShown(NamedTuple, Generic[D]):
    """Decide when every reader of this replica sees the log up to the entry `last`."""

    last: Index
    then: Callable[[], Step[D]]

    def carry_out(self, ports: D, call: Call) -> None:
        """Wait, then carry out the decision."""
        ports.derived.when_shown(self.last, goes_on(ports, call, self.then))


class HasGroups(HasWriter, Protocol):
    """Ports of a feature with handlers that make groups."""

    @property
    def state(self) -> AppliedState:
        """The tables of the log."""
        ...


G = TypeVar("G", bound=HasGroups)


class WithGroups(NamedTuple, Generic[G]):
    """Make settings and retry topics of groups where they are missing, then decide."""

    groups: Iterable[str]
    then: Callable[[], Step[G]]

    def carry_out(self, ports: G, call: Call) -> None:
        """Log the missing ones, then carry out the decision. Raises QueueFull."""
        then, missing = self.then, {*self.groups}

        def made(group: str, error: Exception | None) -> None:
            if error is not None:
                if missing:
                    missing.clear()
                    call.refuse(error)
            elif group in missing:
                missing.discard(group)
                if not missing:
                    call.guarded(lambda: then().carry_out(ports, call))

        if not missing:
            then().carry_out(ports, call)
        try:
            for group in sorted(missing):
                ensure_group(ports.state, ports.writer, group, functools.partial(made, group))
        except QueueFull:
            missing.clear()  # groups that are on their way answer nothing any more
            raise


def decided(decide: Callable[[P, R], Step[P]]) -> Callable[[P, Call, R], None]:
    """The function of a handler that only decides."""

    @functools.wraps(decide)
    def function(ports: P, call: Call, request: R) -> None:
        decide(ports, request).carry_out(ports, call)

    return function


def decided_for(decide: Callable[[P, Call, R], Step[P]]) -> Callable[[P, Call, R], None]:
    """As `decided`, for a decision that depends on the request's sender (`Call.require`)."""

    @functools.wraps(decide)
    def function(ports: P, call: Call, request: R) -> None:
        decide(ports, call, request).carry_out(ports, call)

    return function


def _judge_again(call: Call, error: Exception | None) -> None:
    """Serve the request from its beginning: the log has no part of it, and no audit entry."""
    serve: Callable[[Any, Any], None] = (
        call.router.request_again if error is None else call.router.ask_again
    )
    serve(call.client, call.frame)
