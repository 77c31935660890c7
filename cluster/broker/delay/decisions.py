"""Decisions about messages that wait or come back: their records, then the answer.

recall     ─► Recalled ─► OutcomeWriter ─► "recalled" in the log ─► replayed ─► answer
send_back  ─► [WithNewGroup ─►] [WithNewTopic ─►] SentAgain ─► one batch, in this order ─► answer
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

from cluster.broker.delay.ports import DelayPorts
from cluster.broker.kernel.net.decisions import Step
from cluster.broker.kernel.net.requests import Call
from cluster.broker.kernel.write.batch import Batch
from cluster.broker.kernel.write.placement import Placement
from cluster.core.delay.copies import Pieces
from cluster.core.topics import TopicConfig
from cluster.protocol.headers import encode
from cluster.protocol.recall_headers import RecallResponse
from dledger.errors import DledgerError

Then = Callable[[], Step[DelayPorts]]


class Recalled(NamedTuple):
    """The timer message at `position` is taken back; no other outcome of it is on its way."""

    position: int
    key: str

    def carry_out(self, ports: DelayPorts, call: Call) -> None:
        """Log the outcome, then answer."""

        def told(positions: list[int], error: DledgerError | None) -> None:
            if error is None:
                call.answer(0, encode(RecallResponse(self.key)))
            else:
                call.refuse(error)

        outcomes = ports.outcomes
        outcomes.settling.begin(self.position)
        outcomes.begin(told).note(self.position, "recalled", "a client asked for it")


class WithNewGroup(NamedTuple):
    """Make the group's default settings, and its retry topic, in front of the decision `then`."""

    group: str
    retry_topic: bool
    then: Then

    def carry_out(self, ports: DelayPorts, call: Call) -> None:
        """Log them, and carry out the decision in the same turn. Raises QueueFull."""
        ports.writer.create_group(self.group, retry_topic=self.retry_topic, done=nobody_waits)
        self.then().carry_out(ports, call)


class WithNewTopic(NamedTuple):
    """Make this topic in front of the decision `then`."""

    topic: TopicConfig
    then: Then

    def carry_out(self, ports: DelayPorts, call: Call) -> None:
        """Log it, and carry out the decision in the same turn. Raises QueueFull."""
        ports.writer.create_topic(self.topic, nobody_waits)
        self.then().carry_out(ports, call)


class SentAgain(NamedTuple):
    """A copy of a message that came back, at its place; there is space for it."""

    pieces: Pieces
    place: Placement

    def carry_out(self, ports: DelayPorts, call: Call) -> None:
        """Put the copy into this turn's batch; answer when it is in the log."""
        pieces, place = self
        batch = ports.outcomes.appender.open()
        body = pieces.encode(
            place.topic[1:].decode(),
            place.queue,
            place.properties,
            queue_offset=place.row[place.queue],
            store_ms=batch.stamp_ms,
        )
        place.row[place.queue] += 1
        batch.bodies.append(body)
        batch.size += len(body)
        batch.units.append(SentBack(call))


class SentBack:
    """One message that came back, in this turn's batch."""

    __slots__ = ("call",)
    outlives: ClassVar[bool] = True

    def __init__(self, call: Call) -> None:
        self.call = call

    def settled(self, batch: Batch, error: DledgerError | None) -> None:
        """Answer the request: stored, or the error."""
        self.call.done(error)


def nobody_waits(error: Exception | None) -> None:
    """The message stands behind the record that makes its topic or group, in the same batch."""
