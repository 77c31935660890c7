"""Raw entries of queues and raw bytes of the log (31001, 31003; cluster/protocol/raw_ranges.py).

What the answers hold is committed and dispatched here; nothing is parsed, so that a reader gets
some hundred MB/s for next to no time of this process. Verifying is the reader's.
"""

from __future__ import annotations

from typing import Any

from cluster.broker.consume.ports import ConsumePorts
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.core.access.needs import ADMIN
from cluster.errors import InvalidRequest, NotFound
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import encode
from cluster.protocol.raw_ranges import (
    LOG_RANGE_BYTES_MAX,
    QUEUE_RANGE_COUNT_MAX,
    LogRangeRequest,
    LogRangeResponse,
    QueueRangeRequest,
    QueueRangeResponse,
)
from dledger.errors import DledgerError


def fetch_log(ports: ConsumePorts, call: Call, request: LogRangeRequest) -> None:
    """31001."""
    if request.size < 1:
        raise InvalidRequest(f"{request.size} bytes were asked for; ask for 1 at least")
    store, end = ports.log.store, ports.derived.state.position
    first = end if store.last.index < store.first_index else store.position_of(store.first_index)
    if not 0 <= request.position < 1 << 62:
        raise InvalidRequest(f"{request.position} is no position of a log")
    if request.position < first:
        raise NotFound(f"position {request.position} is gone: the log begins at {first}")
    size = min(request.size, LOG_RANGE_BYTES_MAX, end - request.position)
    body = bytes(store.read_bytes(request.position, size)) if size > 0 else b""
    call.answer(0, encode(LogRangeResponse(first, end)), body)


def fetch_queue(ports: ConsumePorts, call: Call, request: QueueRangeRequest) -> None:
    """31003."""
    if request.count < 1 or request.offset < 0:
        raise InvalidRequest(
            f"{request.count} entries from {request.offset} on were asked for; ask for 1 at least, "
            "from 0 on"
        )
    derived, queues = ports.derived, ports.queues

    def look() -> None:
        low, high = queues.bounds(request.topic, request.queue_id)
        queue = derived.queue(request.topic, request.queue_id)
        body = b""
        if queue is not None:
            body = queue.read_raw(request.offset, min(request.count, QUEUE_RANGE_COUNT_MAX))
        call.answer(0, encode(QueueRangeResponse(low, high)), body)

    def dispatched(error: DledgerError | None) -> None:
        if error is not None:
            call.refuse(error)
        else:
            call.guarded(look)

    if request.offset + request.count > queues.bounds(request.topic, request.queue_id)[1]:
        derived.when_shown(derived.applied, dispatched)  # what is applied here counts
    else:
        look()


ROUTES: dict[int, Handler[ConsumePorts, Any]] = {
    RequestCode.FETCH_LOG_RANGE: Handler(Who.ANYWHERE, fields(LogRangeRequest), ADMIN, fetch_log),
    RequestCode.FETCH_QUEUE_RANGE: Handler(
        Who.ANYWHERE, fields(QueueRangeRequest), ADMIN, fetch_queue
    ),
}
