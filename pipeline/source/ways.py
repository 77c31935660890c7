"""The way in which a query reads, settled once on its driver and kept in its checkpoint.

    pull     by pull requests, queue after queue
    raw      by raw ranges of the log, in its order
    mixed    by raw ranges, but by pulls where these would fetch mostly bytes of others

Rows of a range come in another order in another way, and what stands behind the source may count
on one order (limits, `mapInArrow`, sinks that number rows). So tasks never change the way: what
`auto` means is decided when a query starts for the first time, and a later start that cannot go
the same way is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cluster.errors import RequestNotSupported, Unauthorized
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import encode
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.raw_ranges import QueueRangeRequest
from pipeline.source.offsets import MARK, CheckpointError
from pipeline.source.options import SourceOptions
from pipeline.source.remote import Remote

WAYS = ("pull", "raw", "mixed")
_NEW = "take a new checkpoint"


def choose(place: Remote, options: SourceOptions, queues: Iterable[MessageQueue]) -> str:
    """The way that `options` mean here and now; "" when there is no queue yet to ask about."""
    if options.fetch in WAYS:
        return options.fetch
    if options.expression_type != "TAG":
        return "pull"
    asked = {queue.broker_name: queue for queue in queues}
    if not asked:
        return ""
    refused = [queue for queue in asked.values() if refusal(place, queue) is not None]
    return "pull" if refused else "mixed"


def refusal(place: Remote, queue: MessageQueue) -> Exception | None:
    """Why the broker gives this account no raw ranges; None when it does."""
    topic, broker, queue_id = queue
    ext = encode(QueueRangeRequest(topic, queue_id, 0, 1, broker))
    try:
        place.run(place.ask(broker, topic, RequestCode.FETCH_QUEUE_RANGE, ext))
    except (Unauthorized, RequestNotSupported) as error:
        return error
    return None


def kept(value: Mapping[str, Any]) -> str:
    """The way in an offset of a checkpoint, "" when an earlier release wrote it."""
    mark = value.get(MARK)
    return str(mark.get("fetch") or "") if isinstance(mark, Mapping) else ""


def check(place: Remote, options: SourceOptions, way: str, queues: Iterable[MessageQueue]) -> None:
    """Can a query that was begun in this way go on in it? Raises CheckpointError."""
    if options.fetch not in ("auto", way):
        raise CheckpointError(
            f"fetch is {options.fetch!r} and the checkpoint was begun with {way!r}: rows would "
            f"come in another order; leave fetch out, or {_NEW}"
        )
    if way == "pull":
        return
    for queue in {queue.broker_name: queue for queue in queues}.values():
        problem = refusal(place, queue)
        if problem is not None:
            raise CheckpointError(
                f"the checkpoint was begun with raw ranges of the log, and {queue.broker_name} "
                f"refuses them now ({problem}); give the account the admin's right again, or {_NEW}"
            )
