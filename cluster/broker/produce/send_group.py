"""Answers single sends once their batch is committed or has failed.

SendGroup     the usual sends of one read from a socket; one write answers all of them
DeferredSend  a deferred message, answered by itself: with the place of its record, and for a timer
              with the recall handle, by which the producer can recall it
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from cluster.broker.kernel.net.refusals import to_service_error
from cluster.broker.kernel.write.batch import Batch
from cluster.broker.produce.send_context import SendClient, SendContext
from cluster.protocol.send import SendRequest
from cluster.protocol.send_response import refuse_send
from commitlog.records.record import HEADER_SIZE
from dledger.errors import DledgerError


class SendGroup:
    """Single sends of one socket read: (request, queue id, queue offset, place in the batch).

    `is_own`: all of them came from our own producers, whose answers have fixed places.
    """

    __slots__ = ("answers", "client", "context", "is_own")
    outlives: ClassVar[bool] = True

    def __init__(self, client: SendClient, context: SendContext) -> None:
        self.client, self.context = client, context
        self.is_own = context.own_responder is not None
        self.answers: list[tuple[SendRequest, int, int, int]] = []

    def settled(self, batch: Batch, error: DledgerError | None) -> None:
        """Answer all sends at once; after an error the node may ask the next leader instead."""
        if error is not None:
            requests = [answer[0] for answer in self.answers]
            if not self.is_own and self.context.asked_again(self.client, requests, error):
                return
            refusal = to_service_error(error, self.context.leader_address())
            frames = [refuse_send(request, refusal) for request in requests]
        elif self.is_own:
            assert self.context.own_responder is not None
            encode, positions = self.context.own_responder.encode, batch.positions
            first, term = batch.first_index, batch.term
            frames = [
                encode(request[0], queue, offset, first + at, term, positions[at] + HEADER_SIZE)
                for request, queue, offset, at in self.answers
            ]
        else:
            stored, positions = self.context.responder.stored, batch.positions
            first, term = batch.first_index, batch.term
            frames = [
                stored(
                    request,
                    queue_id=queue,
                    queue_offset=offset,
                    position=positions[at] + HEADER_SIZE,
                    index=first + at,
                    term=term,
                )
                for request, queue, offset, at in self.answers
            ]
        self.client.write(b"".join(frames))


def early_group(client: SendClient, context: SendContext, batch: Batch) -> SendGroup:
    """The last group of `batch.early` if it is this client's, else a new one.

    Its sends are acknowledged as soon as a majority has written the batch.
    """
    batch.early_count += 1
    last = batch.early[-1] if batch.early else None
    if isinstance(last, SendGroup) and last.client is client:
        return last
    group = SendGroup(client, context)
    batch.early.append(group)
    return group


class DeferredPlace(NamedTuple):
    """`queue`: as the client asked; `offset`, `at`: the record's queue offset and its place in the
    batch.
    """

    queue: int
    offset: int
    at: int
    recall_handle: str


class DeferredSend:
    """One deferred message."""

    __slots__ = ("client", "context", "place", "request")
    outlives: ClassVar[bool] = True

    def __init__(
        self, client: SendClient, context: SendContext, request: SendRequest, place: DeferredPlace
    ) -> None:
        self.client, self.context, self.request, self.place = client, context, request, place

    def settled(self, batch: Batch, error: DledgerError | None) -> None:
        """Answer the send. After an error the node may ask the next leader instead."""
        if error is not None:
            if self.context.asked_again(self.client, [self.request], error):
                return
            refusal = to_service_error(error, self.context.leader_address())
            self.client.write(refuse_send(self.request, refusal))
            return
        queue, offset, at, recall_handle = self.place
        self.client.write(
            self.context.responder.stored(
                self.request,
                queue_id=queue,
                queue_offset=offset,
                position=batch.positions[at] + HEADER_SIZE,
                index=batch.first_index + at,
                term=batch.term,
                recall_handle=recall_handle,
            )
        )
