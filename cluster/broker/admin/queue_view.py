"""Entries of a consume queue as they stand on disk: 321 (docs/spec/remoting.md 2.7)."""

from __future__ import annotations

from typing import Any

from cluster.broker.admin.ports import AdminPorts
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.broker.kernel.read.topic_checks import check_queue
from cluster.core.access.needs import Needs, to_consume
from cluster.errors import InvalidRequest, NotFound
from cluster.protocol.admin_headers import QueryQueueRequest
from cluster.protocol.codes import RequestCode
from cluster.protocol.json_body import dump
from commitlog.queues.queue_entry import QueueEntry
from commitlog.records.java import signed

ENTRIES_COUNT_MAX = 1_000  # of one answer; each is about 100 bytes of JSON


def query_queue(ports: AdminPorts, call: Call, request: QueryQueueRequest) -> None:
    """321: `count` entries from offset `index` on, with the named group's subscription."""
    check_queue(ports.state.topics, request.topic, request.queue_id)
    if request.index < 0 or request.count < 0:
        raise InvalidRequest("index or count is below 0; give numbers from 0 on")

    def look() -> None:
        low, high = ports.queues.bounds(request.topic, request.queue_id)
        body: dict[str, Any] = {"maxQueueIndex": high, "minQueueIndex": low}
        group = ports.registry.consumer_group(request.consumer_group or "")
        wanted = group.subscriptions.get(request.topic) if group is not None else None
        if wanted is not None:
            body["subscriptionData"] = wanted.to_json()
        queue = ports.derived.queue(request.topic, request.queue_id)
        if queue is None or not low <= request.index < high:
            raise NotFound(
                f"Index {request.index} of queue {request.queue_id} of {request.topic} "
                f"does not exist: it has {low} to {high}"
            )
        codes = wanted.codes if wanted is not None else frozenset()
        body["queueData"] = [
            _row(ports, request, entry, codes)
            for entry in queue.read(request.index, min(request.count, ENTRIES_COUNT_MAX))
        ]
        call.answer(0, body=dump(body))

    call.when_current(look)


def _row(
    ports: AdminPorts, request: QueryQueueRequest, entry: QueueEntry, codes: frozenset[int]
) -> dict[str, Any]:
    """`bitMap`: the extension's bits, most significant first, as RocketMQ writes them."""
    unit = ports.derived.ext_unit(request.topic, request.queue_id, entry.tags_code)
    code = entry.tags_code if unit is None else unit.tags_code
    extension = None
    if unit is not None:
        extension = {"bitMap": unit.bitmap.hex(), "msgStoreTime": unit.store_timestamp_ms}
    return {
        "bitMap": unit.bitmap.hex() if unit is not None and unit.bitmap else None,
        "eval": not codes or signed(code) in codes,
        "extendDataJson": dump(extension).decode() if extension is not None else None,
        "msg": None,
        "physicOffset": entry.physical_offset,
        "physicSize": entry.size,
        "tagsCode": code,
    }


def _needs(request: QueryQueueRequest) -> Needs:
    return to_consume(request.topic, request.consumer_group or None)


ROUTES: dict[int, Handler[AdminPorts, Any]] = {
    RequestCode.QUERY_CONSUME_QUEUE: Handler(
        Who.LEADER, fields(QueryQueueRequest), _needs, query_queue
    )
}
