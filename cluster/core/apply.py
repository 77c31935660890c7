"""Committed records → the broker's state; the whole state as one checkpoint.

    records, in log order ─► topics · groups · offsets · locks · producers · queue ends · store time
                             · what is deferred and not settled (cluster.core.delay)

Everything here is a function of the log up to `applied`, so two replicas that applied the same
prefix hold the same state, and a replica may forget it and start again from any checkpoint.

Checkpoint: bytes by the name of a table (`CapturedState.tables`), as one JSON object;
cluster.broker.kernel.apply.checkpoint frames it with a checksum:

    {"topics":{"rows":[…], "version":…}, "version":4, "applied":index, "term":t, "position":end,
     "store_ms":ms, "groups":{…}, "offsets":{"changes":n, "rows":[[g,{…}],…]},
     "locks":[[group,[[topic, queue, client],…]],…], "modes":[…],
     "producers":[…], "owners":[…], "departed":[…] (producer_rows.py),
     "ends":{"topic":[end of queue 0, …]}, "parked":{kind:…}, "log_start":address, "unreadable":n,
     "level":n, "accounts":[row, …], "settings":{name:text}}

No committed record makes `apply` raise, at each start of each replica (R27): bodies, places, bytes
without a meaning here are passed over, counted, and told to `complained`. Writers check before they
append. A mark of a higher feature level stops the node, and is the exception (R28).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from cluster.core import producer_rows
from cluster.core.applied_batch import ENTRY, Batch, Row, body_of
from cluster.core.captured_state import CHECKPOINT_VERSION, CapturedState
from cluster.core.delay.delayed import DelayedTable
from cluster.core.delay.folds import DEFERRED_TOPICS, OP_TOPIC_FIELD, DeferredFolds, real_place
from cluster.core.internal_topics import (
    STATE_TOPICS,
    DelaysPassed,
    GroupsChanged,
    HalvesChecked,
    LocksChanged,
    LogTrimmed,
    OffsetsCommitted,
    ProducerOwned,
    RequestModeChanged,
    StateChange,
    StateRecordError,
    TopicsChanged,
    decode_change,
)
from cluster.core.leveled_tables import LeveledTables
from cluster.core.locks import LockTable
from cluster.core.offsets import OffsetTable, offset_rows
from cluster.core.pop.fold import PopFold
from cluster.core.pop.names import REVIVE_FIELD, REVIVE_PREFIX
from cluster.core.request_modes import RequestModeTable
from cluster.core.subscription_groups import GroupTable
from cluster.core.topic_changes import read_again, replay_topics
from cluster.core.topics import DataVersion, TopicConfig, TopicTable
from cluster.core.transactions.halves import CHECK_GROUP, HalfTable
from cluster.core.transactions.rules import DEFAULT_CHECK_RULE, CheckRule
from commitlog.delay_levels import DEFAULT_DELAY_LEVELS, DelayLevels
from commitlog.dispatch.columns import Stretch
from commitlog.errors import StoreDamaged
from commitlog.files.system import Buffer
from commitlog.records.message_fast import ScannedRecord, scan_record
from commitlog.records.message_layout import HEAD_SIZE, HEADS, MAGIC_V1, RECORD_SIZE_MIN
from commitlog.records.names import HALF_TOPIC
from commitlog.records.places import QUEUE_OFFSET_MAX, is_possible_queue
from commitlog.records.producer_numbers import PRODUCER
from commitlog.records.record import BLANK as _BLANK
from commitlog.records.record import HEADER_SIZE, MAGIC_BLANK, unpack_header
from commitlog.records.sys_flag import (
    HOSTS_V6,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NONE,
)
from dledger.core.types import NO_INDEX, NO_TERM, Index, Term
from dledger.errors import LaterVersion
from dledger.producers.table import ProducerTable

STATE_TOPIC_FIELDS: Final = frozenset(name.encode() for name in STATE_TOPICS)
#: `special_topics` of every state.
SPECIAL_TOPIC_FIELDS: Final = STATE_TOPIC_FIELDS | DEFERRED_TOPICS
_QUEUED: Final = frozenset({TRANSACTION_NONE, TRANSACTION_COMMIT})  # docs/spec/store.md 3.6


class AppliedState:
    """State at `applied`. `apply` goes forward only; readers may read between calls."""

    def __init__(
        self,
        built_in: tuple[TopicConfig, ...],
        producers: ProducerTable | None = None,
        delay_levels: DelayLevels = DEFAULT_DELAY_LEVELS,
        half_checks: CheckRule = DEFAULT_CHECK_RULE,
    ) -> None:
        self.topics = TopicTable(built_in)
        self.groups = GroupTable()
        self.offsets = OffsetTable()
        self.locks = LockTable()
        self.modes = RequestModeTable()
        self._leveled = leveled = LeveledTables()
        self.level, self.accounts = leveled.level, leveled.accounts
        self.settings = leveled.settings
        self.producers = ProducerTable() if producers is None else producers  # empty is falsy
        self.applied, self.term = NO_INDEX, NO_TERM
        self.position, self.store_ms = 0, 0  # `position`: end of the record at `applied`
        self.log_start = 0  # log files below this address are no longer needed (R16)
        self.unreadable = 0  # records that were passed over; told of each: index, and why
        self.complained: list[Callable[[int, str], None]] = []
        self._ends: dict[bytes, list[int]] = {}
        self.delayed = DelayedTable(delay_levels)
        self.halves = HalfTable(half_checks)
        self.pop = PopFold(self.offsets)
        #: Encoded topics whose messages must be read one by one.
        self.special_topics = SPECIAL_TOPIC_FIELDS | {
            row.name.encode() for row in built_in if row.name.startswith(REVIVE_PREFIX)
        }
        self.deferred = DeferredFolds(
            {"pop": self.pop, "delayed": self.delayed, "halves": self.halves}
        )

    def queue_ends(self, topic: str, queues: int) -> list[int]:
        """Next queue offset of each queue: a new list, at least `queues` long."""
        ends = list(self._ends.get(topic.encode(), ()))
        ends.extend([0] * (queues - len(ends)))
        return ends

    def queue_end(self, topic: str, queue: int) -> int:
        """Next queue offset of one queue."""
        ends = self._ends.get(topic.encode(), ())
        return ends[queue] if queue < len(ends) else 0

    def all_ends(self) -> list[tuple[str, int, int]]:
        """(topic, queue, next offset) of every queue that ever had a message."""
        return [
            (topic.decode(), queue, end)
            for topic, ends in self._ends.items()
            for queue, end in enumerate(ends)
            if end
        ]

    def apply(
        self, data: Buffer, first: Index, stretches: Sequence[Stretch] = ()
    ) -> list[StateChange]:
        """Apply whole log entries: `data` begins with entry `first`, or with a blank before it.

        `stretches`: what `read_stretches` made of it, with SPECIAL_TOPIC_FIELDS among the special
        topics. Returns the changes of topics, groups and offsets among them. The bytes were
        verified by the log.
        """
        assert first == self.applied + 1, "each index once, in order"
        stretches = stretches or (Stretch(0, len(data), None),)
        batch = Batch(self.producers, stretches, first, self.store_ms)
        for begin, end, columns in stretches:
            if columns is not None and not batch.numbers.one_by_one:
                batch.take_columns(columns)
            else:
                self._read(bytes(data[begin:end]), begin, batch)
        batch.numbers.tell()
        self._close_rows(batch)
        if batch.last_at >= 0:
            header = unpack_header(data[batch.last_at : batch.last_at + HEADER_SIZE])
            assert header.sequence == batch.index - 1, "entries are applied without a gap"
            self.applied, self.term = Index(header.sequence), Term(header.epoch)
            self.store_ms = batch.store_ms
        return batch.changes

    def _read(self, data: bytes, begin: int, batch: Batch) -> None:
        """Entry by entry; `data` stands at `begin` of the batch."""
        numbers, rows, unpack = batch.numbers, batch.rows, ENTRY.unpack_from
        at, end, index, store_ms = 0, len(data), batch.index, batch.store_ms
        while at < end:
            if end - at < ENTRY.size:  # a blank, or the last entry, too short for a message
                magic, size = _BLANK.unpack_from(data, at)
                if magic != MAGIC_BLANK:
                    batch.last_at = begin + at
                    index = self._pass_over(index, "the record is cut off")
                at += size
                continue
            (magic, size, total, kind, queue, offset, flags, stamp_ms, origin, body_size
             ) = unpack(data, at)  # fmt: skip
            if magic == MAGIC_BLANK:
                at += size
                continue
            batch.last_at = begin + at
            message = at + HEADER_SIZE
            at += size
            topic_at = message + HEAD_SIZE + body_size
            if (
                kind == MAGIC_V1
                and not flags & HOSTS_V6
                and total == at - message
                and 0 <= body_size <= total - RECORD_SIZE_MIN
            ):
                properties_at = topic_at + data[topic_at] + 3
                topic = data[topic_at + 1 : properties_at - 2]
                if properties_at + int.from_bytes(data[properties_at - 2 : properties_at]) != at:
                    topic = b""  # no queue's
            else:
                record = self._scanned(data[message:at], index)
                if record is None:
                    index += 1
                    continue
                topic, stamp_ms = record.topic, record.store_timestamp_ms
                properties_at = at - len(record.properties)
                origin = HEADS[flags >> 4 & 3].unpack_from(data, message)[13]
            row = rows.get((topic, queue))
            if row is None:
                if not is_possible_queue(topic, queue):
                    index = self._pass_over(index, f"no queue {queue} of topic {topic[:64]!r}")
                    continue
                row = rows[topic, queue] = Row(topic)
            if not 0 <= offset <= QUEUE_OFFSET_MAX:
                index = self._pass_over(index, f"no queue has an offset {offset}")
                continue
            store_ms = stamp_ms
            if flags & TRANSACTION_MASK in _QUEUED:
                row.end = offset + 1
            run = row.run
            if origin or row.is_deferred:
                self._read_deferred(data, message, (properties_at, at), origin, index, batch)
            elif run is not None and data.startswith(run.wanted, properties_at):
                run.take(run.last + 1, index, store_ms)
            else:
                number_at = data.find(PRODUCER, properties_at, at)
                if number_at >= 0:
                    row.run = numbers.add(data, number_at, at, topic, queue, index, store_ms)
                elif topic in STATE_TOPIC_FIELDS:
                    try:
                        change = decode_change(topic.decode(), body_of(data, message))
                    except StateRecordError as error:
                        index = self._pass_over(index, str(error))
                        continue
                    self._replay(change, store_ms, batch)
                    batch.changes.append(change)
            index += 1
        batch.index, batch.store_ms = index, store_ms

    def _read_deferred(
        self,
        data: bytes,
        message: int,
        properties: tuple[int, int],
        origin: int,
        index: int,
        batch: Batch,
    ) -> None:
        """A record that is deferred, or an outcome of one (folds.py); `properties`: its span."""
        record = scan_record(data, message)
        self.deferred.replay(record, origin)
        if record.topic.startswith(REVIVE_FIELD):
            self.pop.replay(record, body_of(data, message))
        if record.topic == OP_TOPIC_FIELD:
            self.halves.replay_ops(body_of(data, message))
        number_at = data.find(PRODUCER, *properties)
        if origin or number_at < 0:
            return
        topic, queue = place = real_place(record)
        batch.numbers.add(
            data, number_at, properties[1], topic, queue, index, record.store_timestamp_ms
        )
        row = batch.rows.get(place)
        if row is not None:
            row.run = None  # its numbers went on here

    def _scanned(self, data: bytes, index: int) -> ScannedRecord | None:
        """The record that is all of `data`; None: it is none, and is passed over."""
        try:
            record = scan_record(data)
        except StoreDamaged as error:
            self._pass_over(index, error.reason)
            return None
        if record.size != len(data):
            self._pass_over(index, f"the record says size {record.size}")
            return None
        return record

    def _pass_over(self, index: int, why: str) -> int:
        """Count and report the entry at `index`, which has no known meaning; the next index."""
        self.unreadable += 1
        for listener in self.complained:
            listener(index, why)
        return index + 1

    def _close_rows(self, batch: Batch) -> None:
        for (topic, queue), row in batch.rows.items():
            if row.end:
                ends = self._ends.setdefault(topic, [])
                ends.extend([0] * (queue + 1 - len(ends)))
                ends[queue] = row.end
                wider = read_again(self.topics, topic, queue)
                if wider is not None:
                    batch.changes.append(TopicsChanged(put=(wider,)))
        batch.rows.clear()

    def _replay(self, change: StateChange, store_ms: int, batch: Batch) -> None:
        if isinstance(change, OffsetsCommitted):
            self.offsets.replay(change)
            if change.group == CHECK_GROUP:
                self.halves.replay_settled_before(change.offsets.get(HALF_TOPIC, {}).get(0, 0))
        elif isinstance(change, LocksChanged):
            self.locks.replay(change.group, change.owners)
        elif isinstance(change, TopicsChanged):
            self._close_rows(batch)  # it looks at the ends of all that came before
            replay_topics(self.topics, change, self._ends, store_ms)
        elif isinstance(change, LogTrimmed):
            self.log_start = max(self.log_start, change.position)
        elif isinstance(change, RequestModeChanged):
            self.modes.replay(change.row)
        elif isinstance(change, HalvesChecked):
            self.halves.replay_checked(change.checks, store_ms)
        elif isinstance(change, ProducerOwned):
            batch.tell_numbers()
            self.producers.owned(change.producer, change.owner, store_ms)
        elif isinstance(change, DelaysPassed):
            self.delayed.replay_passed(change.offsets, change.timers_ms)
        elif not self._leveled.replay(change):
            assert isinstance(change, GroupsChanged)
            self.groups.replay(change.put, change.delete, change.forbid, store_ms)
            for name in change.delete:
                for table in (self.locks, self.modes, self.pop):
                    table.replay_deletion(name)
                if change.clean_offset:
                    self.offsets.replay_deletion(name)

    def to_checkpoint(self) -> bytes:
        """`capture`, encoded for `restore`."""
        return self.capture().encode()

    def capture(self) -> CapturedState:
        """All of it as it is now, so that `restore` gives an equal state."""
        return CapturedState(
            self.topics,
            {
                "version": CHECKPOINT_VERSION,
                "applied": self.applied,
                "term": self.term,
                "position": self.position,
                "store_ms": self.store_ms,
                "groups": self.groups.to_json(),
                "locks": self.locks.rows(),
                "modes": [row.to_json() for row in self.modes.rows()],
                "offsets": {
                    "changes": self.offsets.changes,
                    "rows": [[group, dict(topics)] for group, topics in self.offsets.groups()],
                },
                **producer_rows.rows_of(self.producers),
                "ends": {topic.decode(): ends for topic, ends in self._ends.items()},
                "parked": self.deferred.to_checkpoint(),
                "log_start": self.log_start,
                "unreadable": self.unreadable,
                **self._leveled.to_checkpoint(),
            },
        )

    def restore(
        self, data: bytes, fits: Callable[[Index, Term, int], bool], *, ownerless: bool = False
    ) -> None:
        """Take over a checkpoint, on a fresh state. `ownerless`: see producer_rows.py.
        `fits(index, term, position)`: does the log hold that entry, ending there?

        Raises ValueError, KeyError or TypeError; the state may then be half filled. LaterVersion,
        UpgradeNeeded.
        """
        assert self.applied == NO_INDEX, "a checkpoint is taken over before anything is applied"
        value: dict[str, Any] = json.loads(data)
        if value["version"] > CHECKPOINT_VERSION:
            found = f"of version {value['version']}, and this release knows {CHECKPOINT_VERSION}"
            raise LaterVersion(f"the broker's state is {found}")
        if value["version"] != CHECKPOINT_VERSION:
            raise ValueError(f"checkpoint version {value['version']} is not {CHECKPOINT_VERSION}")
        self.level.replay(int(value.get("level", 0)))  # not in those of earlier versions
        if not fits(Index(value["applied"]), Term(value["term"]), int(value["position"])):
            raise ValueError(f"entry {value['applied']} of the checkpoint is not in the log")
        self.topics.restore(
            [TopicConfig.from_json(row) for row in value["topics"]["rows"]],
            DataVersion.from_json(value["topics"]["version"]),
        )
        self.groups.restore(
            value["groups"]["rows"],
            DataVersion.from_json(value["groups"]["version"]),
            value["groups"]["forbidden"],
        )
        self.locks.restore(value["locks"])
        self.modes.restore(value["modes"])
        rows = offset_rows(value["offsets"]["rows"])
        self.offsets.restore(rows, int(value["offsets"]["changes"]))
        producer_rows.restore(self.producers, value, ownerless=ownerless)
        self._ends = {topic.encode(): list(ends) for topic, ends in value["ends"].items()}
        self.deferred.restore(value["parked"])
        self._leveled.restore(value)
        self.log_start = int(value.get("log_start", 0))  # not in those of earlier versions
        self.unreadable = int(value.get("unreadable", 0))
        self.applied, self.term = Index(value["applied"]), value["term"]
        self.position, self.store_ms = int(value["position"]), int(value["store_ms"])
