"""Handles a send that is in the log already, as a whole or in part (R8).

all of it is stored, as it was      answered like its originals, once they are applied
its first messages are              the rest is stored, and the answer names all of them
other messages have its numbers     refused (same_content.py), once those are applied: only then
                                    is it certain that they have

A stock producer has no numbers. Its send is such a repeat only when a follower passed it on to a
leader that was lost: then it is looked for by other means (stored_before.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from cluster.broker.kernel.read.reader import Place
from cluster.broker.kernel.write.batch import Batch
from cluster.broker.kernel.write.repeats import Numbers
from cluster.broker.produce.same_content import find_other
from cluster.broker.produce.send_context import SendClient, SendContext
from cluster.core.delay.folds import real_place
from cluster.errors import ClusterError, NumberUsed, QueueFull
from cluster.protocol.send import SendRequest
from commitlog.errors import StoreError
from commitlog.records.message_fast import scan_record
from dledger.core.types import Index
from dledger.errors import DledgerError


def is_repeat(
    context: SendContext,
    client: SendClient,
    request: SendRequest,
    queue: int,
    numbers: Numbers,
    batch: Batch,
    count: int,
) -> bool:
    """True if none of these `count` messages has to be stored; the answer is on its way then.

    Raises QueueFull, StoreError.
    """
    if not numbers.skip:
        return False
    used = find_other(context.originals, request, queue, numbers, batch)
    if used is None and numbers.skip < count:
        return False
    _answer(context, client, request, queue, numbers, used)
    return True


def _answer(
    context: SendContext,
    client: SendClient,
    request: SendRequest,
    queue: int,
    numbers: Numbers,
    used: NumberUsed | None,
) -> None:
    if context.repeats.full:
        raise QueueFull("too many repeated sends wait for their originals; pause, then retry")

    def answer(error: DledgerError | None) -> None:
        if request.is_oneway:
            return
        told = error or used
        if told is not None:
            context.refuse(client, request, told)
            return
        try:
            places = originals(context, request, queue, numbers)
        except (ClusterError, StoreError) as damaged:
            context.refuse(client, request, damaged)
            return
        client.write(_stored(context, request, queue, places))

    if numbers.wait_for <= context.applied():
        answer(None)
    else:
        context.repeats.wait(numbers.wait_for, answer)


def _stored(
    context: SendContext, request: SendRequest, queue: int, places: Sequence[Place]
) -> bytes:
    return context.responder.stored(
        request,
        queue_id=queue,
        queue_offset=places[0].queue_offset,
        position=places[0].position,
        index=places[0].index,
        term=places[0].term,
        more_positions=[place.position for place in places[1:]],
    )


def originals(
    context: SendContext, request: SendRequest, queue: int, numbers: Numbers
) -> list[Place]:
    """Where the messages that were stored before are."""
    topic = request.template.topic
    return [
        context.locate(
            context.originals.find(numbers.producer, topic, queue, numbers.sequence + number)
        )
        for number in range(numbers.skip)
    ]


def answer_stored(
    context: SendContext, client: SendClient, request: SendRequest, after: Index
) -> bool:
    """Answer a send that an earlier leader may have stored, above `after`. False: it did not.

    Raises LeaderLostWhileWaiting when that cannot be told, StoreError for damage.
    """
    found = context.stored_before.find(request, client.born_host, after)
    if not found:
        return False
    places = [context.locate(index) for index in found]
    queue = real_place(scan_record(context.stored_before.record(found[0]))).queue_id
    client.write(_stored(context, request, queue, places))
    return True
