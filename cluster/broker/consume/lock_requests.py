"""Queues locked for orderly consumption: 41 and 42 (R23); core.locks decides.

Source: docs/spec/remoting.md 2.3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cluster.broker.consume.lock_decisions import LockDecision
from cluster.broker.consume.ports import ConsumePorts
from cluster.broker.kernel.net.client_ids import check_client_id
from cluster.broker.kernel.net.decisions import WhenCurrent, decided_for
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


def lock(ports: ConsumePorts, call: Call, request: LockRequest) -> WhenCurrent[ConsumePorts]:
    """41: queues that this client holds from now on for a lease. Others are not in the answer."""
    group, client, queues = request.group, request.client, _own_queues(ports, call, request)
    check_client_id(ports.registry, call, client, [group])
    leases, table = ports.locks.leases, ports.state.locks

    def answer(call: Call) -> None:
        broker = ports.config.broker_name
        held = [
            MessageQueue(*_named(queue, broker)).to_json()
            for queue in queues
            if table.owner(group, queue) == client
        ]
        call.answer(0, body=dump({"lockOKMQSet": held}))

    def look() -> LockDecision:
        try:
            return LockDecision(group, leases.judge(group, client, queues, ports.now()), answer)
        except TooManyLocks as full:
            raise QueueFull(str(full)) from None

    return WhenCurrent(look)


def unlock(ports: ConsumePorts, call: Call, request: LockRequest) -> WhenCurrent[ConsumePorts]:
    """42: free those of these queues that this client has locked."""
    group, client, queues = request.group, request.client, _own_queues(ports, call, request)
    check_client_id(ports.registry, call, client, [group])
    leases = ports.locks.leases
    return WhenCurrent(lambda: LockDecision(group, leases.unlock(group, client, queues)))


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
    RequestCode.LOCK_BATCH_MQ: Handler(Who.LEADER, _read, _needs, decided_for(lock)),
    RequestCode.UNLOCK_BATCH_MQ: Handler(Who.LEADER, _read, _needs, decided_for(unlock)),
}
