"""The part of a queue that a group has not read: from its next message to the queue's end, and
since when the oldest waits.

Messages below the queue's first one have been deleted and wait for nobody, whatever was committed.
"""

from __future__ import annotations

from cluster.broker.admin.ports import AdminPorts
from cluster.errors import NotFound


def waiting(ports: AdminPorts, topic: str, queue_id: int, at: int | None) -> tuple[int, int]:
    """The next offset that exists for a group, and the queue's end; equal when no message waits.

    Args:
        at: what the group committed; None: nothing yet, so that the oldest message is next.
    """
    low, end = ports.queues.bounds(topic, queue_id)
    return min(max(at or 0, low), end), end


def stored_ms(ports: AdminPorts, topic: str, queue_id: int, offset: int) -> int:
    """When a queue's message was stored; -1 when there is none: a queue may name one that is gone.

    Raises StoreDamaged.
    """
    queue = ports.derived.queue(topic, queue_id)
    if queue is None or not queue.min_offset <= offset < queue.max_offset:
        return -1
    try:
        return ports.reader.store_time(queue.read(offset, 1)[0].physical_offset)
    except NotFound:
        return -1


def waiting_ms(ports: AdminPorts, topic: str, queue_id: int, at: int | None) -> int:
    """How long ago the next message for a group was stored; 0 when none waits."""
    first, end = waiting(ports, topic, queue_id, at)
    if first == end:
        return 0
    stored = stored_ms(ports, topic, queue_id, first)
    return max(ports.now_ms() - stored, 0) if stored > 0 else 0
