"""Changes of topics as the log tells them: a creation leaves an existing topic as it is, and fewer
queues never hide a message.

    create   makes the row only where there is none, however many ask for it at once
    put      makes or changes the row; queues beyond the new number to read stay readable while
             they hold messages
    gone     ends of queues whose messages the log no longer has, as the leader saw them; a queue
             that got a message since then holds it

A producer that has not heard of the change may send to a queue that is not read any more: such a
message makes it readable again. All of it is a function of the log, equal on all replicas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cluster.core.internal_topics import TopicsChanged
from cluster.core.topics import QUEUES_MAX, TopicConfig, TopicTable

Ends = Mapping[bytes, Sequence[int]]  # encoded topic → next offset of each queue


def replay_topics(table: TopicTable, change: TopicsChanged, ends: Ends, store_ms: int) -> None:
    """`ends` are those of all entries before this one."""
    for row in change.create:
        if table.get(row.name) is None:
            table.replay_put(row, store_ms)
    for row in change.put:
        gone = change.gone.get(row.name, {})
        kept = keep_readable(row, table.get(row.name), ends.get(row.name.encode(), ()), gone)
        table.replay_put(kept, store_ms)
    for name in change.delete:
        table.replay_deletion(name, store_ms)


def keep_readable(
    row: TopicConfig, old: TopicConfig | None, ends: Sequence[int], gone: Mapping[int, int]
) -> TopicConfig:
    """`row`, with as many queues to read as the ones of `old` that hold messages need."""
    readable = 0 if old is None else min(old.read_queues, len(ends))
    for queue in range(readable - 1, row.read_queues - 1, -1):
        if ends[queue] > gone.get(queue, 0):
            return replace(row, read_queues=queue + 1)
    return row


def read_again(table: TopicTable, topic: bytes, queue: int) -> TopicConfig | None:
    """A message came to `queue`: the row that makes it readable, None when it is already."""
    row = table.get(topic.decode("utf-8", "replace"))
    if row is None or not row.queues <= queue < QUEUES_MAX or table.is_built_in(row.name):
        return None
    wider = replace(row, read_queues=queue + 1)
    table.replay_put(wider, table.version.timestamp)
    return wider
