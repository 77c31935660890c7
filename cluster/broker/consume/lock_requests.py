"""Queues locked for orderly consumption: 41 and 42 (R23); core.locks decides.

Source: docs/spec/remoting.md 2.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cluster.broker.consume.ports import ConsumePorts
from cluster.broker.kernel.net.client_ids import check_client_id
from cluster.broker.kernel.net.request_bodies import json_object, json_rows, legal_group
from cluster.broker.kernel.net.requests import Call, Handler, Who
from cluster.core.access.needs import Needs, in_group, join, to_consume
from cluster.core.locks import Queue, TooManyLocks
from cluster.errors import InvalidRequest, QueueFull
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from cluster.protocol.json_body import MessageQueue, dump

CLIENT_ID_LENGTH_MAX = 255


class LockRequest(NamedTuple):
    """41 and 42."""

    group: str
    client: str
    queues: tuple[MessageQueue, ...]


def lock(ports: ConsumePorts, call: Call, request: LockRequest) -> None:
    """41: queues that this client holds from now on for a lease. Others are not in the answer."""
    group, client, queues = request.group, request.client, _own_queues(ports, call, request)
    check_client_id(ports.registry, call, client, [group])
    locks, table = ports.locks, ports.state.locks

    def answer() -> None:
        broker = ports.config.broker_name
        held = [
            MessageQueue(*_named(queue, broker)).to_json()
            for queue in queues
            if table.owner(group, queue) == client
        ]
        call.answer(0, body=dump({"lockOKMQSet": held}))

    def look() -> None:
        try:
            locked = locks.leases.lock(group, client, queues, ports.now())
        except TooManyLocks as full:
            raise QueueFull(str(full)) from None
        if locked.change:
            locks.change(group, locked.change, _then(call, answer))
        else:
            answer()

    call.when_current(look)


def unlock(ports: ConsumePorts, call: Call, request: LockRequest) -> None:
    """42: free those of these queues that this client has locked."""
    group, client, queues = request.group, request.client, _own_queues(ports, call, request)
    check_client_id(ports.registry, call, client, [group])
    locks = ports.locks

    def look() -> None:
        freed = locks.leases.unlock(group, client, queues)
        if freed:
            locks.change(group, freed, call.done)
        else:
            call.answer()

    call.when_current(look)


def _then(call: Call, step: Callable[[], None]) -> Callable[[Exception | None], None]:
    def settled(error: Exception | None) -> None:
        if error is not None:
            call.refuse(error)
        else:
            call.guarded(step)

    return settled


def _named(queue: Queue, broker: str) -> tuple[str, str, int]:
    return queue[0], broker, queue[1]


def _own_queues(ports: ConsumePorts, call: Call, request: LockRequest) -> list[Queue]:
    """The queues that exist here; those of other broker names are left out."""
    topics, broker = ports.state.topics, ports.config.broker_name
    return [
        (row.topic, row.queue_id)
        for row in request.queues
        if row.broker_name == broker
        and (config := topics.get(row.topic)) is not None
        and 0 <= row.queue_id < config.queues
    ]


def _read(frame: Frame) -> LockRequest:
    value = json_object(frame, "a lock request")
    group, client = value.get("consumerGroup"), value.get("clientId")
    if not isinstance(group, str) or not isinstance(client, str):
        raise InvalidRequest("a lock request needs consumerGroup and clientId; send them")
    if not 0 < len(client) <= CLIENT_ID_LENGTH_MAX:
        raise InvalidRequest(
            f"clientId is empty or too long; give 1 to {CLIENT_ID_LENGTH_MAX} characters"
        )
    try:
        rows = [MessageQueue.from_json(row) for row in json_rows(value, "mqSet", "lock request")]
    except (KeyError, TypeError, ValueError):
        raise InvalidRequest(
            "a queue of mqSet lacks topic, brokerName or queueId; send all three"
        ) from None
    return LockRequest(legal_group(group), client, tuple(rows))


def _needs(request: LockRequest) -> Needs:
    topics = {queue.topic for queue in request.queues}
    return join([in_group(request.group), *(to_consume(topic) for topic in sorted(topics))])


ROUTES: dict[int, Handler[ConsumePorts, Any]] = {
    RequestCode.LOCK_BATCH_MQ: Handler(Who.LEADER, _read, _needs, lock),
    RequestCode.UNLOCK_BATCH_MQ: Handler(Who.LEADER, _read, _needs, unlock),
}
