"""Committed records → the broker's state; the whole state as one checkpoint.

    records, in log order ─► topics · groups · offsets · producers · queue ends · last store time

Everything here is a function of the log up to `applied`, so two replicas that applied the same
prefix hold the same state, and a replica may forget it and start again from any checkpoint.

Checkpoint (JSON, one object; cluster.broker.checkpoint frames it with a checksum):

    {"version":1, "applied":index, "term":t, "position":end, "store_ms":ms,
     "topics":{"version":…, "rows":[…]}, "groups":{…}, "offsets":{"changes":n, "rows":[[g,{…}],…]},
     "producers":[[id, ms, stream, first, last, index],…], "ends":{"topic":[end of queue 0, …]}}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from cluster.core.internal_topics import (
    STATE_TOPICS,
    GroupsChanged,
    OffsetsCommitted,
    StateChange,
    TopicsChanged,
    decode_change,
)
from cluster.core.offsets import OffsetTable
from cluster.core.subscription_groups import GroupTable
from cluster.core.topics import DataVersion, TopicConfig, TopicTable
from commitlog.message_fast import ScannedRecord
from commitlog.sys_flag import goes_to_queue
from dledger.core.types import NO_INDEX, NO_TERM, Index
from dledger.producers import ProducerTable

CHECKPOINT_VERSION = 1
_STATE_TOPIC_FIELDS = frozenset(name.encode() for name in STATE_TOPICS)


def stream_of(topic: str, queue: int) -> str:
    """What a producer's numbers count in (R8): one queue of one topic."""
    return f"{topic}/{queue}"


class AppliedState:
    """State at `applied`. `apply` goes forward only; readers may read between calls."""

    def __init__(
        self, built_in: tuple[TopicConfig, ...], producers: ProducerTable | None = None
    ) -> None:
        self.topics = TopicTable(built_in)
        self.groups = GroupTable()
        self.offsets = OffsetTable()
        self.producers = producers or ProducerTable()
        self.applied: Index = NO_INDEX
        self.term = NO_TERM
        self.position = 0  # end of the record at `applied`
        self.store_ms = 0
        self._ends: dict[bytes, list[int]] = {}

    def queue_ends(self, topic: str, queues: int) -> list[int]:
        """Next queue offset of each queue: a new list, at least `queues` long."""
        ends = list(self._ends.get(topic.encode(), ()))
        ends.extend([0] * (queues - len(ends)))
        return ends

    def all_ends(self) -> list[tuple[str, int, int]]:
        """(topic, queue, next offset) of every queue that ever had a message."""
        return [
            (topic.decode(), queue, end)
            for topic, ends in self._ends.items()
            for queue, end in enumerate(ends)
            if end
        ]

    def apply(
        self,
        records: Sequence[ScannedRecord],
        first: Index,
        body_of: Callable[[int], bytes],
    ) -> list[StateChange]:
        """Apply the records of entries `first`, `first + 1`, …; returns the changes among them.

        `body_of(i)` gives the body of `records[i]`; only asked for records of internal topics.
        Raises StateRecordError when such a body says nothing known.
        """
        assert first == self.applied + 1, "each index once, in order"
        changes: list[StateChange] = []
        ends_of, committed = self._ends, self.producers.committed
        index = first
        for record in records:
            topic, queue = record.topic, record.queue_id
            if goes_to_queue(record.sys_flag):
                ends = ends_of.get(topic)
                if ends is None:
                    ends = ends_of[topic] = []
                try:
                    ends[queue] = record.queue_offset + 1
                except IndexError:
                    ends.extend([0] * (queue + 1 - len(ends)))
                    ends[queue] = record.queue_offset + 1
            if record.producer_id is not None:
                sequence = record.producer_sequence
                # A message that took another way into the log may carry anything here.
                if sequence is not None and sequence.isdigit():
                    committed(
                        record.producer_id.decode("utf-8", "replace"),
                        stream_of(topic.decode(), queue),
                        int(sequence),
                        index,
                        record.store_timestamp_ms,
                    )
            elif topic in _STATE_TOPIC_FIELDS:
                change = decode_change(topic.decode(), body_of(index - first))
                self._change(change, record.store_timestamp_ms)
                changes.append(change)
            index += 1  # type: ignore[assignment]
        if records:
            self.applied = Index(index - 1)
            self.store_ms = max(self.store_ms, records[-1].store_timestamp_ms)
        return changes

    def _change(self, change: StateChange, store_ms: int) -> None:
        if isinstance(change, OffsetsCommitted):
            self.offsets.apply(change)
        elif isinstance(change, TopicsChanged):
            for row in change.put:
                self.topics.put(row, store_ms)
            for name in change.delete:
                self.topics.delete(name, store_ms)
        else:
            assert isinstance(change, GroupsChanged)
            for bean in change.put:
                self.groups.put(bean, store_ms)
            for name in change.delete:
                self.groups.delete(name, store_ms)

    def to_checkpoint(self) -> bytes:
        """All of it, so that `restore` gives an equal state."""
        return json.dumps(
            {
                "version": CHECKPOINT_VERSION,
                "applied": self.applied,
                "term": self.term,
                "position": self.position,
                "store_ms": self.store_ms,
                "topics": {
                    "version": self.topics.version.to_json(),
                    "rows": [row.to_json() for row in self.topics.logged()],
                },
                "groups": {
                    "version": self.groups.version.to_json(),
                    "rows": self.groups.logged(),
                },
                "offsets": {
                    "changes": self.offsets.changes,
                    "rows": [[group, dict(topics)] for group, topics in self.offsets.groups()],
                },
                "producers": [
                    [producer, time_ms, stream, *run]
                    for producer, time_ms, stream, run in self.producers.export()
                ],
                "ends": {topic.decode(): ends for topic, ends in self._ends.items()},
            },
            separators=(",", ":"),
        ).encode()

    def restore(self, data: bytes) -> None:
        """Take over a checkpoint, on a fresh state. Raises ValueError, KeyError or TypeError."""
        assert self.applied == NO_INDEX, "a checkpoint is taken over before anything is applied"
        value: dict[str, Any] = json.loads(data)
        if value["version"] != CHECKPOINT_VERSION:
            raise ValueError(f"checkpoint version {value['version']} is not {CHECKPOINT_VERSION}")
        self.topics.restore(
            [TopicConfig.from_json(row) for row in value["topics"]["rows"]],
            DataVersion.from_json(value["topics"]["version"]),
        )
        self.groups.restore(
            value["groups"]["rows"], DataVersion.from_json(value["groups"]["version"])
        )
        rows = [
            OffsetsCommitted(
                group,
                {
                    topic: {int(queue): int(offset) for queue, offset in queues.items()}
                    for topic, queues in topics.items()
                },
            )
            for group, topics in value["offsets"]["rows"]
        ]
        self.offsets.restore(rows, int(value["offsets"]["changes"]))
        for producer, time_ms, stream, first, last, index in value["producers"]:
            self.producers.committed(producer, stream, first, index, time_ms, last - first + 1)
        self._ends = {topic.encode(): list(ends) for topic, ends in value["ends"].items()}
        self.applied, self.term = Index(value["applied"]), value["term"]
        self.position, self.store_ms = int(value["position"]), int(value["store_ms"])
