"""Takes messages for a group, from its retry topics and from every queue, up to a number.

    cursor (leader) ─► scan ─► Part per queue ─► one checkpoint each, in one batch ─► answered

A message is given out only when the checkpoint that brings it back is in the log and applied. The
cursor moves at once, so two pops never take the same message; a batch that was certainly not logged
moves it back. Ordered pops begin at the applied offset, and only while their queue is not blocked.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.read.queue_reader import QueueReader
from cluster.broker.kernel.read.wanted import EVERYTHING, Wanted
from cluster.core.apply import AppliedState
from cluster.core.pop.cursors import Cursor, PopCursors
from cluster.core.pop.held import UNACKED_MAX
from cluster.core.pop.in_flight import InFlight
from cluster.core.pop.names import retry_topic
from cluster.core.pop.records import NOT_KNOWN, STAYS, OrderTaken, Place, PopRecord, Taken
from cluster.protocol.headers import PullRequest
from cluster.protocol.pop_headers import ANY_QUEUE, INIT_MAX
from commitlog.records.message_layout import QUEUE_OFFSET_AT

#: Of every so many pops one looks into the retry topics first (RocketMQ: 20 of 100).
RETRY_FIRST_EVERY = 5
#: Scans of one queue without a message that matches; then others have a turn.
SCANS_MAX = 8
#: So many messages passed over are logged even when none of them matched.
SKIPPED_LOGGED = 512

#: A topic is young while all of it is so near the log's end (RocketMQ: in memory).
YOUNG_BYTES_MAX = 1 << 30

_QUEUE_OFFSET = struct.Struct(">q")


class Ask(NamedTuple):
    """One pop, checked. `wanted` is the filter of the topic itself."""

    group: str
    topic: str
    queue_id: int
    count_max: int
    invisible_ms: int
    init_mode: int
    wanted: Wanted
    is_ordered: bool = False
    attempt: str = ""


class Part(NamedTuple):
    """The messages of one queue, and how its offset moves. `records` may be empty."""

    place: Place
    start: int
    offsets: tuple[int, ...]
    records: list[bytes | memoryview]
    logged_from: int
    next_offset: int
    cursor: Cursor


class Found(NamedTuple):
    """`rest`: messages behind those looked at; `blocked_ms`: when an ordered queue opens."""

    parts: list[Part]
    rest: int
    blocked_ms: int

    @property
    def messages(self) -> int:
        """How many messages all parts have together."""
        return sum(len(part.records) for part in self.parts)


class Popping:
    """Takes messages for pops on one broker; used while it leads."""

    def __init__(
        self,
        config: BrokerConfig,
        state: AppliedState,
        derived: DerivedStore,
        queues: QueueReader,
        *,
        log_end: Callable[[], int],
    ) -> None:
        self._config, self._state, self._derived, self._reader = config, state, derived, queues
        self._log_end = log_end
        self.cursors = PopCursors()
        #: Queues of which an ordered pop or acknowledgement is on its way into the log.
        self.busy: InFlight[Place] = InFlight()
        self._turn = 0

    def retry_topics(self, topic: str, group: str) -> list[str]:
        """The retry topics that exist, of both forms of the name; the one in use comes first."""
        v2 = self._config.pop_retry_v2
        names = [retry_topic(topic, group, v2=v2), retry_topic(topic, group, v2=not v2)]
        return [name for name in names if self._state.topics.get(name) is not None]

    def look(self, ask: Ask, now_ms: int) -> Found:
        """Take the available messages. The caller logs them, or gives them back with `rewind`."""
        self._turn += 1
        parts: list[Part] = []
        try:
            return self._look(ask, now_ms, parts)
        except Exception:
            self.rewind(Found(parts, 0, 0))
            raise

    def _look(self, ask: Ask, now_ms: int, parts: list[Part]) -> Found:
        rest, blocked_ms, count_left = 0, 0, ask.count_max
        for place, wanted in self._places(ask):
            row = self._state.topics.get(place.topic)
            if row is None:
                continue
            if ask.is_ordered:
                until_ms = self._blocked_until_ms(ask, place, now_ms)
                if until_ms:
                    blocked_ms = min(blocked_ms or until_ms, until_ms)
                    continue
            part, left = self._from_queue(ask, place, wanted, count_left)
            rest += left
            if part is not None:
                parts.append(part)
                count_left -= len(part.records)
        return Found(parts, rest, blocked_ms)

    def _places(self, ask: Ask) -> Iterator[tuple[Place, Wanted]]:
        """Queues in the order in which they are asked."""
        retries = [] if ask.is_ordered else self._queues(ask, self._retries(ask), EVERYTHING)
        if ask.queue_id == ANY_QUEUE:
            own = self._queues(ask, [ask.topic], ask.wanted)
        else:
            own = [(Place(ask.group, ask.topic, ask.queue_id), ask.wanted)]
        first = self._turn % RETRY_FIRST_EVERY == 0
        yield from (*retries, *own) if first else (*own, *retries)

    def _retries(self, ask: Ask) -> list[str]:
        return self.retry_topics(ask.topic, ask.group)

    def _queues(self, ask: Ask, topics: list[str], wanted: Wanted) -> list[tuple[Place, Wanted]]:
        found = []
        for topic in topics:
            row = self._state.topics.get(topic)
            number = 0 if row is None else row.read_queues
            found += [
                (Place(ask.group, topic, (self._turn + i) % number), wanted) for i in range(number)
            ]
        return found

    def _blocked_until_ms(self, ask: Ask, place: Place, now_ms: int) -> int:
        if place in self.busy:
            return now_ms + 1
        return self._state.pop.ordered.blocked_until_ms(place, ask.attempt, now_ms)

    def cursor(self, place: Place, init_mode: int) -> Cursor:
        """Where the next pop of this queue begins."""
        applied = self._state.offsets.get(place.group, place.topic, place.queue)
        known = self.cursors.known(place)
        initial = 0 if known or applied is not None else self._initial(place, init_mode)
        return self.cursors.at(place, applied, initial)

    def _initial(self, place: Place, init_mode: int) -> int:
        """As RocketMQ: a young topic from its beginning, else its last message (INIT_MAX)."""
        queue = self._derived.queue(place.topic, place.queue)
        if queue is None:
            return 0
        if init_mode != INIT_MAX:
            return queue.min_offset
        if queue.min_offset == 0 and queue.max_offset:
            first = queue.read(0, 1)[0].physical_offset
            if self._log_end() - first <= YOUNG_BYTES_MAX:
                return 0
        return max(queue.max_offset - 1, 0)

    def _from_queue(
        self, ask: Ask, place: Place, wanted: Wanted, count_left: int
    ) -> tuple[Part | None, int]:
        """The messages of one queue, and how many lie behind them."""
        low, high = self._reader.bounds(place.topic, place.queue)
        cursor = self.cursor(place, ask.init_mode)
        begin = cursor.logged if ask.is_ordered and cursor.logged != NOT_KNOWN else cursor.next
        start = at = max(begin, low)
        left = max(high - start, 0)
        is_first = cursor.logged == NOT_KNOWN and ask.init_mode == INIT_MAX
        if not count_left or self._state.pop.held.unacked(place) >= UNACKED_MAX:
            return None, left
        records: list[bytes | memoryview] = []
        for _ in range(SCANS_MAX):
            request = PullRequest(place.group, place.topic, place.queue, at, count_left, 0, 0, 0, 0)
            found = self._reader.scan(request, at, wanted)
            if found is None:
                break
            records, begin, at = found.records, at, found.next_offset
            if records:
                break
        skipped = at - max(cursor.logged, low)
        if not records and not (is_first or skipped >= SKIPPED_LOGGED):
            cursor.next = max(cursor.next, at)
            return None, max(high - at, 0)
        offsets = tuple(_QUEUE_OFFSET.unpack_from(r, QUEUE_OFFSET_AT)[0] for r in records)
        to = offsets[0] if ask.is_ordered and offsets else at
        first = begin if records else start
        part = Part(place, first, offsets, records, cursor.logged, to, cursor)
        cursor.taken(at, to)
        return part, max(high - at, 0)

    def peek(self, ask: Ask) -> tuple[list[bytes | memoryview], int]:
        """The messages that a pop would give, and how many lie behind them; none is taken."""
        self._turn += 1
        records: list[bytes | memoryview] = []
        rest = 0
        for place, wanted in self._places(ask):
            low, high = self._reader.bounds(place.topic, place.queue)
            at, count_left = max(self._begin(ask, place), low), ask.count_max - len(records)
            if count_left and at < high:
                request = PullRequest(
                    place.group, place.topic, place.queue, at, count_left, 0, 0, 0, 0
                )
                found = self._reader.scan(request, at, wanted)
                if found is not None:
                    records += found.records
                    at = found.next_offset
            rest += max(high - at, 0)
        return records, rest

    def has_message(self, ask: Ask, now_ms: int) -> bool:
        """True if there is a message behind those taken; it need not match the filter."""
        return any(
            max(self._begin(ask, place), bounds[0]) < bounds[1]
            and not (ask.is_ordered and self._blocked_until_ms(ask, place, now_ms))
            for place, _ in self._places(ask)
            for bounds in (self._reader.bounds(place.topic, place.queue),)
        )

    def _begin(self, ask: Ask, place: Place) -> int:
        """Where a pop would begin; no cursor is made for it."""
        cursor = self.cursors.known(place)
        applied = self._state.offsets.get(place.group, place.topic, place.queue)
        if cursor is not None and not ask.is_ordered:
            return self.cursor(place, ask.init_mode).next
        return self._initial(place, ask.init_mode) if applied is None else applied

    def records(self, ask: Ask, found: Found, pop_ms: int) -> list[PopRecord]:
        """The records to log for a pop: one per part."""
        broker = self._config.broker_name
        made: list[PopRecord] = []
        for place, start, offsets, _, logged_from, next_offset, _ in found.parts:
            to = STAYS if next_offset == logged_from else next_offset
            if ask.is_ordered and offsets:
                made.append(
                    OrderTaken(
                        place, pop_ms, ask.invisible_ms, offsets, ask.attempt, logged_from, to
                    )
                )
            else:
                made.append(
                    Taken(place, start, pop_ms, ask.invisible_ms, offsets, logged_from, to, broker)
                )
        return made

    def rewind(self, found: Found) -> None:
        """Certainly not logged: all of it is there for the next pop."""
        for part in found.parts:
            part.cursor.rewind(part.start, part.logged_from)
            part.cursor.settled()

    def settled(self, found: Found) -> None:
        """The pop is applied, or its outcome is not known: end the pending move of its cursors."""
        for part in found.parts:
            part.cursor.settled()
