"""Offsets of consumers as a handler decides about them: committed, moved, or first all in the log.

OffsetCommit   one queue's offset; one record a group and second holds those that came (R25)
OffsetsMoved   several queues', at once, and behind the request's audit entry; then go on
WhenCommitted  the group's commits so far are in the log and applied; then decide
CommitSoon     commits of groups are not kept for their second; then answer
AllCommitted   those of all groups are in the log, as far as it takes them; then go on
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

from cluster.broker.kernel.net.decisions import Step, goes_on
from cluster.broker.kernel.net.requests import Call
from cluster.broker.kernel.write.offset_keeper import OffsetKeeper
from dledger.errors import OutcomeUnknown


class HasOffsets(Protocol):
    """Ports of a feature with such handlers."""

    @property
    def offsets(self) -> OffsetKeeper:
        """The way of offsets into the log."""
        ...


P = TypeVar("P", bound=HasOffsets)


class OffsetCommit(NamedTuple):
    """A consumer's offset. The answer, if one is wanted, waits for the group's next record."""

    group: str
    topic: str
    queue_id: int
    offset: int

    def carry_out(self, ports: HasOffsets, call: Call) -> None:
        """Keep it for the next record. Raises QueueFull, and Unauthorized."""
        ports.offsets.commit(*self, None if call.frame.is_oneway else call.done)


class WhenCommitted(NamedTuple, Generic[P]):
    """Decide when every reader sees the group's commits so far.

    `is_read`: the request changes nothing, so the next leader serves it when this one is lost.
    """

    group: str
    then: Callable[[], Step[P]]
    is_read: bool = False

    def carry_out(self, ports: P, call: Call) -> None:
        """Log the outstanding ones, then carry out the decision. Raises QueueFull."""
        _, then, is_read = self
        ended = goes_on(ports, call, then)

        def flushed(error: Exception | None) -> None:
            if is_read and isinstance(error, OutcomeUnknown):
                # Of the commits, whose own clients are told; this is a read, which changed nothing.
                call.router.ask_again(call.client, call.frame)
            else:
                ended(error)

        if not ports.offsets.flushed(self.group, flushed):
            then().carry_out(ports, call)


class OffsetsMoved(NamedTuple, Generic[P]):
    """New offsets of a group in the queues of one topic, by an administrator; then decide."""

    group: str
    topic: str
    offsets: Mapping[int, int]
    then: Callable[[], Step[P]]

    def carry_out(self, ports: P, call: Call) -> None:
        """Log them behind the audit entry, then carry out the decision. Raises QueueFull."""
        keeper, step = ports.offsets, WhenCommitted(self.group, self.then)

        def commit() -> None:
            for queue_id, offset in self.offsets.items():
                keeper.commit(self.group, self.topic, queue_id, offset)
            step.carry_out(ports, call)

        call.begun(commit)


class CommitSoon(NamedTuple):
    """Members left: their groups' commits go into the log without waiting for the second."""

    groups: Iterable[str]
    answer: Callable[[Call], None]

    def carry_out(self, ports: HasOffsets, call: Call) -> None:
        """Answer; the log has the commits a little later."""
        self.answer(call)
        for group in self.groups:
            ports.offsets.flush(group)


class AllCommitted(NamedTuple):
    """Commits of all groups go first: a log that is handed over takes no records any more."""

    then: Callable[[Call], None]

    def carry_out(self, ports: HasOffsets, call: Call) -> None:
        """Log them behind the audit entry, also on a full disk, then call `then`."""
        flush, then = ports.offsets.flush_all, self.then
        call.begun_anyway(lambda: flush(lambda _: then(call)))
