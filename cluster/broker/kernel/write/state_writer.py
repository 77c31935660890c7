"""Changes of the broker's state as records of internal topics, and callbacks that wait for them.

    write(change, done) ─► this turn's batch ─► committed, applied, dispatched ─► done(None)

Auto-creation lives here too: sends to a topic that does not exist wait until it does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from cluster.broker.kernel.write.appender import Appender
from cluster.broker.kernel.write.own_records import Done, OwnRecords, WhenDispatched
from cluster.core.apply import AppliedState
from cluster.core.internal_topics import (
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
from dledger.errors import NotLeader, OutcomeUnknown

WAITING_MAX = 10_000  # requests that wait for a topic to be created


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


class TopicsInLog:
    """Topics with changes that are logged and not applied yet, and requests that wait for these.

    A request that is judged by the table alone does not see such changes: a creation would be
    dropped where another one stands in front of it, and answered as done.
    """

    def __init__(self) -> None:
        self._changes: dict[object, frozenset[str]] = {}
        self._waiting: dict[str, list[Done]] = {}

    def is_changing(self, topic: str) -> bool:
        """Is a change of the topic logged and not applied?"""
        return any(topic in names for names in self._changes.values())

    def when_settled(self, topic: str, then: Done) -> None:
        """Call `then` when no change of the topic is on its way; with its error if one failed."""
        self._waiting.setdefault(topic, []).append(then)

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return sum(map(len, self._waiting.values()))

    def logged(self, change: object, topics: frozenset[str]) -> None:
        """A change of these topics is on its way."""
        self._changes[change] = topics

    def ended(self, change: object, error: Exception | None) -> None:
        """A change is applied, or failed; one of an earlier leadership changes no wait."""
        for topic in self._changes.pop(change, ()):
            if topic in self._waiting and not self.is_changing(topic):
                for then in self._waiting.pop(topic):
                    then(error)

    def leadership_ended(self) -> None:
        """Tell all requests that wait to ask the next leader: their changes are in no log."""
        self._changes.clear()
        waiting, self._waiting = self._waiting, {}
        for all_then in waiting.values():
            for then in all_then:
                then(NotLeader(None))


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
        self._topics = TopicsInLog()
        self.waiting = 0
        self.in_front = InFront()

    def write(self, change: StateChange, done: Done, *before: StateChange) -> None:
        """Log one change; `done(None)` when every reader here sees it.

        `before`: changes that stand in front of it; what is refused writes none of them.

        Raises QueueFull, and InvalidRequest for one that a replica could not apply.
        """
        records = [self._record(one) for one in (*before, change)]
        topics = frozenset[str]().union(*map(_topics_of, (*before, change)))
        if not topics:
            self.write_records([*self.in_front.take(), *records], done)
            return
        token = object()

        def ended(error: Exception | None) -> None:
            done(error)
            self._topics.ended(token, error)

        self.write_records([*self.in_front.take(), *records], ended)
        self._topics.logged(token, topics)

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
        if not self._topics.is_changing(topic):
            return False
        if self._topics.waiting >= WAITING_MAX:
            raise QueueFull("too many requests wait for changes of topics; pause, then retry")
        self._topics.when_settled(topic, self._appender.bound(then))
        return True

    def is_creating(self, topic: str) -> bool:
        """Is the topic's creation on its way?"""
        return topic in self._creating

    def create_topic(self, config: TopicConfig, done: Done) -> None:
        """Create a topic once, however many ask; every `done` is told. Raises QueueFull."""

        def write(finished: Done) -> None:
            self.write(TopicsChanged(create=(config,)), finished)

        self._create(self._creating, config.name, write, done)

    def create_group(self, name: str, *, retry_topic: bool, done: Done) -> None:
        """Create a consumer group's settings and, unless it is there, its retry topic."""

        def write(finished: Done) -> None:
            if retry_topic:
                retry = TopicConfig(RETRY_PREFIX + name, 1, 1)
                self.write(TopicsChanged(create=(retry,)), _ignore)
            self.write(GroupsChanged(put=(new_group(name),)), finished)

        self._create(self._groups_creating, name, write, done)

    def creating_groups(
        self, names: Sequence[str], write: Callable[[Done], None], done: Done
    ) -> None:
        """`write(ended)` logs the settings of groups that are missing, or raises.

        `create_group` of one of them waits for it meanwhile: its defaults, logged behind these
        settings, would replace them.
        """
        table = self._groups_creating
        made = {name: _Creation(self, table, name) for name in names if name not in table}

        def ended(error: Exception | None) -> None:
            for creation in made.values():
                creation.ended(error)
            done(error)

        write(ended)
        table.update(made)

    def leadership_ended(self) -> None:
        """Forget the creations under way; their callbacks are told that the outcome is unknown."""
        unknown = OutcomeUnknown("leadership ended before it was created; look, or ask again")
        for table in (self._creating, self._groups_creating):
            for creation in list(table.values()):
                creation.ended(unknown)
        self._topics.leadership_ended()

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
    """Create a group's settings and retry topic where they are missing (leader only).

    `done(None)` is called when the log has them and every reader here sees them.
    """
    needs_topic = state.topics.get(RETRY_PREFIX + group) is None
    writer.create_group(group, retry_topic=needs_topic, done=done)


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


def _topics_of(change: StateChange) -> frozenset[str]:
    """Topics that a change makes, changes or removes."""
    if not isinstance(change, TopicsChanged):
        return frozenset()
    return frozenset((*(row.name for row in (*change.put, *change.create)), *change.delete))


def _ignore(error: Exception | None) -> None:
    """The group's own record follows in the same batch and tells how both ended."""
