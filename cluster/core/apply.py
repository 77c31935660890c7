"""Committed records → the broker's state; the whole state as one checkpoint.

    records, in log order ─► topics · groups · offsets · producers · queue ends · last store time

Everything here is a function of the log up to `applied`, so two replicas that applied the same
prefix hold the same state, and a replica may forget it and start again from any checkpoint.

Checkpoint (JSON, one object; cluster.broker.checkpoint frames it with a checksum):

    {"version":1, "applied":index, "term":t, "position":end, "store_ms":ms,
     "topics":{"version":…, "rows":[…]}, "groups":{…}, "offsets":{"changes":n, "rows":[[g,{…}],…]},
     "producers":[[id, ms, stream, first, last, index, last index],…],
     "ends":{"topic":[end of queue 0, …]}}
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, Final

from cluster.core.internal_topics import (
    STATE_TOPICS,
    GroupsChanged,
    OffsetsCommitted,
    StateChange,
    TopicsChanged,
    decode_change,
)
from cluster.core.numbers import PRODUCER, NumbersSeen, Run
from cluster.core.offsets import OffsetTable
from cluster.core.subscription_groups import GroupTable
from cluster.core.topics import DataVersion, TopicConfig, TopicTable
from commitlog.message import decode_message
from commitlog.message_fast import scan_record
from commitlog.message_layout import HEAD_SIZE, MAGIC_V1
from commitlog.record import BLANK as _BLANK
from commitlog.record import HEADER_SIZE, MAGIC_BLANK, unpack_header
from commitlog.sys_flag import HOSTS_V6, TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE
from dledger.core.types import NO_INDEX, NO_TERM, Index, Term
from dledger.producers import ProducerTable

CHECKPOINT_VERSION = 1
_STATE_TOPIC_FIELDS: Final = frozenset(name.encode() for name in STATE_TOPICS)
_QUEUED: Final = frozenset({TRANSACTION_NONE, TRANSACTION_COMMIT})  # store.md 3.6

# entry: magic, size | message: magic, queue id, queue offset, sysFlag, store timestamp, body size
# (both hosts IPv4)
_ENTRY = struct.Struct(">ii44xi4xi4xq8xi16xq20xi")
assert _ENTRY.size == HEADER_SIZE + HEAD_SIZE


class _Row:
    """One queue in a batch of entries: its end, and whose numbers it saw last."""

    __slots__ = ("end", "run")

    def __init__(self) -> None:
        self.end = 0
        self.run: Run | None = None


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

    def apply(self, data: bytes, first: Index) -> list[StateChange]:
        """Apply whole log entries: `data` begins with entry `first`, or with a blank before it.

        Returns the changes of topics, groups and offsets among them. The bytes were verified by
        the log. Raises StateRecordError when an internal record says nothing known.
        """
        assert first == self.applied + 1, "each index once, in order"
        changes: list[StateChange] = []
        numbers = NumbersSeen(self.producers, len(data) // _ENTRY.size + 1, self.store_ms)
        rows: dict[tuple[bytes, int], _Row] = {}
        unpack = _ENTRY.unpack_from
        at, end, index, store_ms = 0, len(data), int(first), self.store_ms
        last_at = -1
        while at < end:
            if end - at < _ENTRY.size:
                at += _BLANK.unpack_from(data, at)[1]
                continue
            magic, size, kind, queue, offset, flags, stamp_ms, body_size = unpack(data, at)
            if magic == MAGIC_BLANK:
                at += size
                continue
            last_at, store_ms = at, stamp_ms
            message = at + HEADER_SIZE
            if kind == MAGIC_V1 and not flags & HOSTS_V6:
                topic_at = message + HEAD_SIZE + body_size
                properties_at = topic_at + data[topic_at] + 3
                topic = data[topic_at + 1 : properties_at - 2]
            else:
                record = scan_record(data, message)
                topic, store_ms = record.topic, record.store_timestamp_ms
                properties_at = at + size - len(record.properties)
            at += size
            row = rows.get((topic, queue))
            if row is None:
                row = rows[topic, queue] = _Row()
            if flags & TRANSACTION_MASK in _QUEUED:
                row.end = offset + 1
            run = row.run
            if run is not None and data.startswith(run.wanted, properties_at):
                run.take(run.last + 1, index, store_ms)
            else:
                number_at = data.find(PRODUCER, properties_at, at)
                if number_at >= 0:
                    row.run = numbers.add(data, number_at, at, topic, queue, index, store_ms)
                elif topic in _STATE_TOPIC_FIELDS:
                    body = decode_message(data, message, verify_body=False).body
                    change = decode_change(topic.decode(), body)
                    self._change(change, store_ms)
                    changes.append(change)
            index += 1
        numbers.tell()
        self._close_rows(rows)
        if last_at >= 0:
            header = unpack_header(data, last_at)
            assert header.sequence == index - 1, "entries are applied without a gap"
            self.applied, self.term = Index(header.sequence), Term(header.epoch)
            self.store_ms = store_ms
        return changes

    def _close_rows(self, rows: dict[tuple[bytes, int], _Row]) -> None:
        for (topic, queue), row in rows.items():
            if row.end:
                ends = self._ends.setdefault(topic, [])
                ends.extend([0] * (queue + 1 - len(ends)))
                ends[queue] = row.end

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

    def restore(self, data: bytes, fits: Callable[[Index, Term, int], bool]) -> None:
        """Take over a checkpoint, on a fresh state.

        `fits(index, term, position)`: does the log hold that entry, ending there?

        Raises ValueError, KeyError or TypeError; the state may then be half filled.
        """
        assert self.applied == NO_INDEX, "a checkpoint is taken over before anything is applied"
        value: dict[str, Any] = json.loads(data)
        if value["version"] != CHECKPOINT_VERSION:
            raise ValueError(f"checkpoint version {value['version']} is not {CHECKPOINT_VERSION}")
        if not fits(Index(value["applied"]), Term(value["term"]), int(value["position"])):
            raise ValueError(f"entry {value['applied']} of the checkpoint is not in the log")
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
        for producer, time_ms, stream, first, last, index, last_index in value["producers"]:
            number = last - first + 1
            self.producers.committed(producer, stream, first, index, time_ms, number, last_index)
        self._ends = {topic.encode(): list(ends) for topic, ends in value["ends"].items()}
        self.applied, self.term = Index(value["applied"]), value["term"]
        self.position, self.store_ms = int(value["position"]), int(value["store_ms"])
