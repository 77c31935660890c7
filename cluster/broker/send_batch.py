"""One client batch (320) in flight, and its answer (remoting.md 2.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cluster.broker.refusals import to_service_error
from cluster.protocol.send import SendRequest
from cluster.protocol.send_response import refuse_send
from commitlog.record import HEADER_SIZE
from dledger.core.types import Index, Term
from dledger.errors import DledgerError

if TYPE_CHECKING:
    from cluster.broker.appender import Batch
    from cluster.broker.send import SendClient, SendPath


class Place(NamedTuple):
    """Where a stored message is."""

    queue_offset: int
    position: int
    term: Term


class BatchSend:
    """One batch in flight: `number` records from place `at` of the turn's batch on."""

    __slots__ = ("at", "client", "number", "offset", "originals", "path", "queue", "request")

    def __init__(
        self,
        client: SendClient,
        path: SendPath,
        request: SendRequest,
        queue: int,
        offset: int,
        at: int,
        number: int,
    ) -> None:
        self.client, self.path, self.request = client, path, request
        self.queue, self.offset, self.at, self.number = queue, offset, at, number
        self.originals: tuple[Index, ...] = ()

    def settled(self, batch: Batch, error: DledgerError | None) -> None:
        if error is not None:
            refusal = to_service_error(error, self.path.leader_address())
            self.client.write(refuse_send(self.request, refusal))
            return
        places = [self.path.locate(index) for index in self.originals]
        positions = [place.position for place in places]
        positions += [
            position + HEADER_SIZE for position in batch.positions[self.at : self.at + self.number]
        ]
        frame = self.path.responder.stored(
            self.request,
            queue_id=self.queue,
            queue_offset=places[0].queue_offset if places else self.offset,
            position=positions[0],
            index=self.originals[0] if places else batch.first_index + self.at,
            term=batch.term,
            more_positions=positions[1:],
        )
        self.client.write(frame)
