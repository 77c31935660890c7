"""Has an earlier attempt of this batch stored anything here? Asked once per queue and task.

probe   a number that cannot be next: refused with the number that would be, or with "nothing
        is known of this producer"; nothing is stored
key     the first row's unique key, in the broker's key index

probe says                       key is there   then
a number of an earlier batch     –              begin
a number of this batch           yes            go on: the broker drops what it has
a number of this batch           no             not committed yet: ask again; in the end it
                                                was planned otherwise: refused
a number of a later batch        –              this attempt is an old one: refused
nothing is known                 no             begin
nothing is known                 yes            forgotten: a repeat would be stored twice: refused

A producer id belongs to the account that began with it: the probe of another one is refused, unless
it takes the id over before (`take_over`).
"""

from __future__ import annotations

import asyncio
import time

from cluster.client import Client
from cluster.client.routing.leader_requests import RetryingRequest
from cluster.errors import (
    ClusterError,
    InvalidRequest,
    NotFound,
    NumberUsed,
    ProducerForgotten,
    SequenceGap,
)
from cluster.protocol.batch import encode_numbered
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import QueryMessageRequest, encode
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.producer_headers import TakeOverProducerRequest
from commitlog.records.producer_numbers import BATCH_ROWS_MAX
from pipeline.sink.numbering import Numbering
from pipeline.sink.stream import Request, Stream

ASK_COUNT_MAX = 30
ASK_SECONDS = 0.1  # rows on their way are committed, or gone with their leader, within seconds
_END_OF_TIME = (1 << 63) - 1
_NO_INDEX = "key index is off"


async def check_attempt(
    client: Client, queue: MessageQueue, numbering: Numbering, seconds_max: float
) -> None:
    """May this attempt send to the queue? Raises InvalidRequest, ProducerForgotten and others."""
    name = queue_name(queue)
    begin = numbering.sequence(0)
    found: bool | None = False
    for _ in range(ASK_COUNT_MAX):
        following = await next_number(client, queue, numbering, seconds_max)
        if following is not None and not begin < following <= begin + BATCH_ROWS_MAX:
            break
        found = await has_key(client, queue, numbering.key(name, 0), seconds_max)
        if following is None or found is not False:
            break
        await asyncio.sleep(ASK_SECONDS)
    if following is not None and following <= begin:
        return
    if found is None:
        return  # without an index nobody can tell; numbers that are known still count once
    if following is not None and following > begin + BATCH_ROWS_MAX:
        raise InvalidRequest(
            f"batch {numbering.batch} of query {numbering.query} is older than what {name} has "
            "from it; another run of the query goes on: stop one of them"
        )
    if following is None and found:
        raise ProducerForgotten(
            f"batch {numbering.batch} of query {numbering.query} is in {name} in part, and the "
            "broker has forgotten how much of it; take out its rows by hand, or let it be doubled "
            'with option("delivery", "at-least-once") and without txnAppId'
        )
    if following is not None and not found:
        raise InvalidRequest(
            f"batch {numbering.batch} of query {numbering.query} is in {name} in part, and was "
            "planned otherwise then (other number of queues, or other options); restore them"
        )


def queue_name(queue: MessageQueue) -> str:
    """topic/broker name/queue id, by which a task numbers its rows."""
    return f"{queue.topic}/{queue.broker_name}/{queue.queue_id}"


async def next_number(
    client: Client, queue: MessageQueue, numbering: Numbering, seconds_max: float
) -> int | None:
    """Returns the number that the broker expects next; None if it does not know the producer."""
    prefix = b"__PID\x01%b\x02__SEQ\x01%%d\x02" % numbering.producer.encode()
    item = encode_numbered([(None, b"", b"", None)], prefix, numbering.sequence(BATCH_ROWS_MAX - 2))
    request = Request(item, 1, int(time.time() * 1000))
    stream = Probe(client, queue, seconds_max)
    stream.add(request)
    assert stream.work is not None
    try:
        await stream.work
    except ProducerForgotten:
        return None
    except NumberUsed:
        return numbering.sequence(2 * BATCH_ROWS_MAX)
    except SequenceGap as gap:
        if gap.missing is None:
            raise
        return gap.missing
    return numbering.sequence(2 * BATCH_ROWS_MAX)  # a repeat for the broker: it is far behind


class Probe(Stream):
    """A stream that sends one request for the sake of its refusal: SequenceGap is raised and not
    retried."""

    async def _pause(self, error: ClusterError, failing_seconds: float) -> None:
        if isinstance(error, SequenceGap):
            raise error
        await super()._pause(error, failing_seconds)


async def take_over(client: Client, queue: MessageQueue, producer: str, seconds_max: float) -> None:
    """Make a producer id this account's at the queue's broker; it may be already, or unknown.

    Raises Unauthorized for an account that may not, and others.
    """
    request = TakeOverProducerRequest(producer, queue.broker_name)
    asking = RetryingRequest(client.instance, queue, time_limit=seconds_max)
    await asking.ask(RequestCode.TAKE_OVER_PRODUCER, encode(request))


async def has_key(client: Client, queue: MessageQueue, key: str, seconds_max: float) -> bool | None:
    """Is a message with this key in the topic? None when the broker has no key index."""
    ext = encode(QueryMessageRequest(queue.topic, key, 1, 0, _END_OF_TIME))
    deadline = time.monotonic() + seconds_max
    look = False
    while True:  # ends with an answer, or with the deadline
        try:
            connection = await client.leaders.connection(queue.broker_name, queue.topic, look=look)
            await connection.ask(
                RequestCode.QUERY_MESSAGE, ext, time_limit=client.config.request_timeout
            )
            return True
        except NotFound as error:
            return None if _NO_INDEX in str(error) else False
        except ClusterError as error:  # between two leaders, most likely
            if not error.retriable or time.monotonic() > deadline:
                raise
            look = True
            await asyncio.sleep(client.config.retry_pause)
