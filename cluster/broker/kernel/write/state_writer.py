"""Changes of the broker's state as records of internal topics, and callbacks that wait for them.

    write(change, done) ─► this turn's batch ─► committed, applied, dispatched ─► done(None)

Auto-creation lives here too: sends to a topic that does not exist wait until it does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from cluster.broker.kernel.write.appender import Appender
from cluster.broker.kernel.write.own_records import Done, OwnRecords, WhenDispatched
from cluster.broker.kernel.write.rows_in_log import RowsInLog
from cluster.core.apply import AppliedState
from cluster.core.internal_topics import (
    AccountsChanged,
    GroupsChanged,
    StateChange,
    StateRecord,
    StateRecordError,
    TopicsChanged,
    checked_record,
)
from cluster.core.queue_offsets import LeaderQueueOffsets
from cluster.core.subscription_groups import new_group
from cluster.core.topics import RETRY_PREFIX, TopicConfig
from cluster.errors import InvalidRequest, QueueFull
from commitlog.records.message_fast import encode_record, topic_field
from dledger.errors import OutcomeUnknown

WAITING_MAX = 10_000  # requests that wait for a topic to be created
ACCOUNTS = "accounts"
"""The one name in `accounts_in_log`: each change is checked against all accounts."""


Source = Callable[[], StateRecord | None]


class InFront:
    """The audit entry of the request being served, which stands in front of its change.

        serving(source) ─► [ write(change) ─► take() ─► entry, change: one batch, in this order ]

    So no change of an audited request is in the log without its entry before it. Set while a step
    of the request runs, which is within one turn.
    """

    def __init__(self) -> None:
        self._source: Source | None = None

    @contextlib.contextmanager
    def serving(self, source: Source) -> Iterator[None]:
        """`source` gives the entry once, and None after that."""
        before, self._source = self._source, source
        try:
            yield
        finally:
            self._source = before

    def take(self) -> list[StateRecord]:
        """The entry of the request being served, unless it is in the log."""
        record = None if self._source is None else self._source()
        return [] if record is None else [record]


class StateWriter:
    """Used on a leader that is ready."""

    def __init__(
        self,
        appender: Appender,
        offsets: LeaderQueueOffsets,
        *,
        host: bytes,
        when_dispatched: WhenDispatched,
    ) -> None:
        self._appender, self._offsets, self._host = appender, offsets, host
        self._when_dispatched = when_dispatched
        self._creating: dict[str, _Creation] = {}
        self._groups_creating: dict[str, _Creation] = {}
        self.topics_in_log, self.groups_in_log = RowsInLog(), RowsInLog()
        self.accounts_in_log = RowsInLog()
        self.waiting = 0
        self.in_front = InFront()

    def write(self, change: StateChange, done: Done, *before: StateChange) -> None:
        """Log one change; `done(None)` when every reader here sees it.

        `before`: changes that stand in front of it; what is refused writes none of them.

        Raises QueueFull, and InvalidRequest for one that a replica could not apply.
        """
        records = [self._record(one) for one in (*before, change)]
        token, tables = object(), self._tables_of((*before, change))
        if not tables:
            self.write_records([*self.in_front.take(), *records], done)
            return

        def ended(error: Exception | None) -> None:
            done(error)
            for rows, _ in tables:
                rows.ended(token, error)

        self.write_records([*self.in_front.take(), *records], ended)
        for rows, names in tables:
            rows.logged(token, names)

    def _tables_of(self, changes: Sequence[StateChange]) -> list[tuple[RowsInLog, frozenset[str]]]:
        """Rows that these make, change or remove."""
        topics, groups, accounts = set[str](), set[str](), set[str]()
        for change in changes:
            if isinstance(change, TopicsChanged):
                topics.update(row.name for row in (*change.put, *change.create))
                topics.update(change.delete)
            elif isinstance(change, GroupsChanged):
                groups.update(str(bean["groupName"]) for bean in change.put)
                groups.update(change.delete)
            elif isinstance(change, AccountsChanged):
                accounts.add(ACCOUNTS)
        found = (
            (self.topics_in_log, topics),
            (self.groups_in_log, groups),
            (self.accounts_in_log, accounts),
        )
        return [(rows, frozenset(names)) for rows, names in found if names]

    def write_records(self, records: Sequence[StateRecord], done: Done) -> None:
        """Log records that are right for sure; `done` is told as by `write`. Raises QueueFull."""
        if not self._appender.has_capacity(sum(len(record.body) for record in records)):
            raise QueueFull("the broker has more in flight than its limit; pause, then retry")
        batch = self._appender.open()
        for record in records:
            body = encode_record(
                topic_field(record.topic),
                b"",
                record.body,
                0,
                0,
                0,
                batch.stamp_ms,
                self._host,
                self._host,
                queue_offset=self._offsets.following(record.topic, 0),
                store_timestamp_ms=batch.stamp_ms,
            )
            batch.bodies.append(body)
            self._offsets.take(record.topic, 0)
            batch.size += len(body)
        at = len(batch.bodies) - 1
        batch.units.append(OwnRecords(at, self._appender.bound(done), self._when_dispatched))

    def _record(self, change: StateChange) -> StateRecord:
        """Raises InvalidRequest."""
        try:
            record = checked_record(change)
        except StateRecordError as error:
            raise InvalidRequest(f"this cannot be stored: {error.detail}; correct it") from None
        if len(record.body) > self._appender.body_size_max:
            raise InvalidRequest(
                f"this change takes {len(record.body)} bytes and {self._appender.body_size_max} "
                "are the limit of a message; make it in smaller steps"
            )
        return record

    def write_at_once(self, records: Sequence[StateRecord], done: Done) -> None:
        """As `write_records`; they are proposed before it returns."""
        self.write_records(records, done)
        self._appender.flush()

    def write_to_free_space(self, change: StateChange, done: Done) -> None:
        """As `write`, at once and alone, and not refused by a full disk: it leads to space (L5)."""
        self._appender.flush()
        self.write_records([self._record(change)], done)
        self._appender.open().frees_space = True
        self._appender.flush()

    def waits_for(self, topic: str, then: Done) -> bool:
        """Is a change of the topic logged and not applied? `then` is called when none is any more.

        `then(None)` is for judging a request again by the table; an error: ask the next leader.
        Raises QueueFull.
        """
        if not self.topics_in_log.is_changing(topic):
            return False
        self._wait_for(self.topics_in_log, topic, then)
        return True

    def _wait_for(self, rows: RowsInLog, name: str, then: Done) -> None:
        if rows.waiting >= WAITING_MAX:
            raise QueueFull("too many requests wait for changes of it; pause, then retry")
        rows.when_settled(name, self._appender.bound(then))

    def is_creating(self, topic: str) -> bool:
        """Is the topic's creation on its way?"""
        return topic in self._creating

    def create_topic(self, config: TopicConfig, done: Done) -> None:
        """Create a topic once, however many ask; every `done` is told. Raises QueueFull."""

        def write(finished: Done) -> None:
            self.write(TopicsChanged(create=(config,)), finished)

        self._create(self._creating, config.name, write, done)

    def create_group(
        self, name: str, *, settings: bool = True, retry_topic: bool, done: Done
    ) -> None:
        """Create a consumer group's settings, its retry topic, or both.

        Settings that are on their way are waited for: defaults behind them would replace them.
        Raises QueueFull.
        """
        if settings and name not in self._groups_creating and self.groups_in_log.is_changing(name):
            self._wait_for(self.groups_in_log, name, done)
            return
        if not settings and not retry_topic:
            done(None)
            return
        changes: list[StateChange] = []
        if retry_topic:
            changes.append(TopicsChanged(create=(TopicConfig(RETRY_PREFIX + name, 1, 1),)))
        if settings:
            changes.append(GroupsChanged(put=(new_group(name),)))

        def write(finished: Done) -> None:
            self.write(changes[-1], finished, *changes[:-1])

        self._create(self._groups_creating, name, write, done)

    def leadership_ended(self) -> None:
        """Forget the creations under way; their callbacks are told that the outcome is unknown."""
        unknown = OutcomeUnknown("leadership ended before it was created; look, or ask again")
        for table in (self._creating, self._groups_creating):
            for creation in list(table.values()):
                creation.ended(unknown)
        self.topics_in_log.leadership_ended()
        self.groups_in_log.leadership_ended()
        self.accounts_in_log.leadership_ended()

    def _create(
        self, table: dict[str, _Creation], name: str, write: Callable[[Done], None], done: Done
    ) -> None:
        """`write(finished)` logs it, unless that is on its way."""
        if self.waiting >= WAITING_MAX:
            raise QueueFull("too many requests wait for topics to be created; pause, then retry")
        creation = table.get(name)
        if creation is None:
            creation = _Creation(self, table, name)
            write(creation.ended)  # or raises, and then nothing is being created
            table[name] = creation
        creation.waiting.append(self._appender.bound(done))
        self.waiting += 1


def ensure_group(
    state: AppliedState,
    writer: StateWriter,
    group: str,
    done: Callable[[Exception | None], None],
) -> None:
    """Create a group's settings, its retry topic, or both, where they are missing (leader only).

    `done(None)` is called when the log has them and every reader here sees them.
    """
    writer.create_group(
        group,
        settings=state.groups.get(group) is None,
        retry_topic=state.topics.get(RETRY_PREFIX + group) is None,
        done=done,
    )


class _Creation:
    """One topic or group that is being created, and the callbacks that wait for it."""

    __slots__ = ("_name", "_table", "_writer", "waiting")

    def __init__(self, writer: StateWriter, table: dict[str, _Creation], name: str) -> None:
        self._writer, self._table, self._name = writer, table, name
        self.waiting: list[Done] = []

    def ended(self, error: Exception | None) -> None:
        """End the wait once: the record is dispatched, or failed, or the leadership ended."""
        if self._table.get(self._name) is self:
            del self._table[self._name]
        waiting, self.waiting = self.waiting, []
        self._writer.waiting -= len(waiting)
        for done in waiting:
            done(error)
