"""Random logs of every kind of record that a broker folds into its tables, drawn by a seed.

What is drawn is what a broker would write: queue offsets without a gap, store times that never go
back, outcomes that name what waits; and some that come too late, or twice, and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from cluster.core.delay.folds import OUTCOMES_TOPIC
from cluster.core.internal_topics import (
    TOPICS_TOPIC,
    AccountsChanged,
    DelaysPassed,
    GroupsChanged,
    HalvesChecked,
    LevelRaised,
    LocksChanged,
    LogTrimmed,
    OffsetsCommitted,
    ProducerOwned,
    RequestModeChanged,
    StateChange,
    TopicsChanged,
    encode_change,
)
from cluster.core.live_settings import SettingsChanged
from cluster.core.pop.names import revive_topic
from cluster.core.pop.records import (
    Acked,
    OrderAcked,
    OrderHidden,
    OrderTaken,
    Place,
    PopRecord,
    Taken,
    encode_record,
)
from cluster.core.request_modes import MODES, RequestMode
from cluster.core.subscription_groups import BUILT_IN_GROUPS, new_group
from cluster.core.topics import DEFAULT_TOPIC, TopicConfig
from cluster.core.transactions.halves import CHECK_GROUP
from commitlog.records.hosts import Host, pack_host
from commitlog.records.message_fast import encode_record as encode_message
from commitlog.records.message_fast import topic_field
from commitlog.records.message_layout import PHYSICAL_OFFSET_AT
from commitlog.records.names import (
    CHECK_MAX_TIME_TOPIC,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
)
from commitlog.records.property_names import POP_CHECKPOINT_OFFSET
from commitlog.records.record import HEADER_SIZE
from dledger.core.types import Term
from dledger.testing.memory import MemoryLog

V4, V6 = pack_host(Host("10.0.0.1", 1)), pack_host(Host("::1", 2))
TOPICS, GROUPS, PRODUCERS = ("A", "B", "C"), ("g", "h", "CID"), ("p", "q", "r", "s")
FILE_SIZE = 1 << 16


class History:
    """`log` grows by one entry at a time. `kinds`: of what is in it, by class or name."""

    def __init__(self, seed: int, count: int) -> None:
        self.random, self.log = Random(seed), MemoryLog(file_size=FILE_SIZE)
        self.kinds: set[object] = set()
        self._ms, self._term = 1_000_000, Term(1)
        self._ends: dict[tuple[str, int], int] = {}
        self._numbers: dict[tuple[str, str, int], int] = {}
        self._delayed: list[int] = []
        self._halves: list[tuple[int, int]] = []
        self._given_up: list[int] = []
        self._taken: list[tuple[int, Taken]] = []
        self._ordered: list[OrderTaken] = []
        made: list[Callable[[], None]] = [
            self._message, self._message, self._numbered, self._numbered, self._topics,
            self._groups, self._offsets, self._locks, self._modes, self._checks, self._passed,
            self._trimmed, self._owned, self._park, self._park, self._settle, self._half,
            self._half, self._end_half, self._pop, self._pop, self._ack, self._again, self._order,
            self._order, self._order_ack, self._unreadable, self._level,
        ]  # fmt: skip
        while self.log.last.index + 1 < count:
            self.random.choice(made)()

    # -- entries -----------------------------------------------------------------------------------

    def add(
        self,
        topic: str,
        queue: int = 0,
        body: bytes = b"b",
        properties: bytes = b"",
        *,
        origin: int = 0,
        flag: int = 0,
    ) -> tuple[int, int]:
        """One entry; its message's address and queue offset."""
        random = self.random
        self._ms += random.choice((0, 0, 1, 40, 3_000))
        self._term = Term(self._term + (random.random() < 0.02))
        offset = self._ends.get((topic, queue), 0)
        if flag & 0xC in (0, 8):
            self._ends[topic, queue] = offset + 1
        host = V6 if random.random() < 0.1 else V4
        record = encode_message(
            topic_field(topic), properties, body, queue, 0, flag | (0x10 if host is V6 else 0), 5,
            host, V4, 0, origin, offset, 0, self._ms,
        )  # fmt: skip
        (position,) = self.log.append([record], self._term, stamp_at=PHYSICAL_OFFSET_AT)
        return position + HEADER_SIZE, offset

    def change(self, what: StateChange) -> None:
        self.kinds.add(type(what))
        record = encode_change(what)
        self.add(record.topic, body=record.body)

    def number(self, topic: str, queue: int) -> bytes:
        """The next number of some producer in a queue; some are repeated, some left out."""
        producer = self.random.choice(PRODUCERS)
        key = producer, topic, queue
        following = self._numbers.get(key, 0)
        self._numbers[key] = following + 1
        shift = self.random.choice((0,) * 12 + (-1, 3))
        return b"__PID\x01%b\x02__SEQ\x01%d\x02" % (producer.encode(), max(following + shift, 0))

    def _level(self) -> None:
        self.change(LevelRaised(0))
        drawn, self.random = self.random, Random(self.log.last.index)  # the rest stays as it was
        self.change(LevelRaised(2))
        key, other = self.random.sample([f"account-{number}" for number in range(4)], 2)
        self.change(AccountsChanged((account_row(key, self.random),), (other,)))
        self.change(SettingsChanged({"reserved_hours": key[-1]}, ("audit_days",)))
        self.random = drawn

    def _message(self) -> None:
        for _ in range(self.random.choice((1, 1, 1, 30))):
            self.add(self.random.choice(TOPICS), self.random.randrange(4), properties=b"k\x01v\x02")

    def _numbered(self) -> None:
        topic, queue = self.random.choice(TOPICS), self.random.randrange(4)
        for _ in range(self.random.choice((1, 2, 30))):
            self.add(topic, queue, properties=self.number(topic, queue))

    # -- changes of state --------------------------------------------------------------------------

    def _topics(self) -> None:
        random = self.random
        names = (*TOPICS, "D", "E", DEFAULT_TOPIC)
        if random.random() < 0.3:
            self.change(TopicsChanged(delete=(random.choice(names),)))
            return
        row = TopicConfig(
            random.choice(names),
            random.randrange(9),
            random.randrange(9),
            perm=random.choice((0, 2, 4, 6, 7)),
            filter_type=random.choice(("SINGLE_TAG", "MULTI_TAG")),
            sys_flag=random.randrange(3),
            order=random.random() < 0.5,
            attributes={"+cleanup.policy": "COMPACTION"} if random.random() < 0.3 else {},
        )
        self.change(TopicsChanged(put=(row,)))

    def _groups(self) -> None:
        random = self.random
        name = random.choice((*GROUPS, BUILT_IN_GROUPS[0]))
        kind = random.randrange(7)
        if kind == 0:
            self.change(GroupsChanged(delete=(name,), clean_offset=random.random() < 0.5))
        elif kind < 4:
            bans = {random.choice(TOPICS): random.choice((0, 1, 1, 3))}
            self.change(GroupsChanged(forbid={name: bans}))
        else:
            bean = {**new_group(name), "retryMaxTimes": random.randrange(20), "ours": {"a": [1]}}
            self.change(GroupsChanged(put=(bean,)))

    def _offsets(self) -> None:
        random = self.random
        if random.random() < 0.05:
            end = self._ends.get((HALF_TOPIC, 0), 0)
            self.change(OffsetsCommitted(CHECK_GROUP, {HALF_TOPIC: {0: max(end - 4, 0)}}))
            return
        queues = {random.randrange(4): random.randrange(100) for _ in range(2)}
        self.change(OffsetsCommitted(random.choice(GROUPS), {random.choice(TOPICS): queues}))

    def _locks(self) -> None:
        random = self.random
        owners = {
            (random.choice(TOPICS), random.randrange(4)): random.choice(("", "c1", "c2"))
            for _ in range(3)
        }
        self.change(LocksChanged(random.choice(GROUPS), owners))

    def _modes(self) -> None:
        random = self.random
        topic, group = random.choice(TOPICS), random.choice(GROUPS)
        row = RequestMode(topic, group, random.choice(MODES), random.randrange(-1, 3))
        self.change(RequestModeChanged(row))

    def _checks(self) -> None:
        known = self._halves[-5:] or [(7, 0)]
        self.change(HalvesChecked({at: self.random.randrange(4) for at, _ in known}))

    def _passed(self) -> None:
        if self.random.random() < 0.1:
            end = self._ends.get((SCHEDULE_TOPIC, 2), 0)
            self.change(DelaysPassed({3: max(end - 3, 0)}, self._ms - 1_000))

    def _trimmed(self) -> None:
        if self.random.random() < 0.3:
            end = self.log.end_position
            self.change(LogTrimmed(self.random.randrange(end + 1) // FILE_SIZE * FILE_SIZE))

    def _owned(self) -> None:
        producer = self.random.choice((*PRODUCERS, "t"))
        self.change(ProducerOwned(producer, self.random.choice(("", "account-a", "account-b"))))

    def _unreadable(self) -> None:
        """A record that says nothing known: every replica passes it over, and counts it."""
        if self.random.random() < 0.2:
            self.add(TOPICS_TOPIC, body=b"no JSON")
            self.kinds.add("unreadable")

    # -- what is parked ----------------------------------------------------------------------------

    def _real(self) -> bytes:
        topic, queue = self.random.choice(TOPICS), self.random.randrange(4)
        number = self.number(topic, queue) if self.random.random() < 0.4 else b""
        return number + b"REAL_TOPIC\x01%b\x02REAL_QID\x01%d\x02" % (topic.encode(), queue)

    def _park(self) -> None:
        if self.random.random() < 0.5:
            level = self.random.choice((1, 3, 18))
            more = b"DELAY\x01%d\x02" % level
            address, _ = self.add(SCHEDULE_TOPIC, level - 1, properties=self._real() + more)
        else:
            due = b"TIMER_DELIVER_MS\x01%d\x02" % (self._ms + self.random.randrange(10_000))
            address, _ = self.add(TIMER_TOPIC, properties=self._real() + due)
        self.kinds.add("parked")
        self._delayed.append(address)

    def _settle(self) -> None:
        if not self._delayed:
            return
        address = self.random.choice(self._delayed[-20:])
        topic = self.random.choice((*TOPICS, OUTCOMES_TOPIC))
        self.add(topic, properties=self._real(), origin=address)
        self.kinds.add("delivered")

    def _half(self) -> None:
        quiet = b"CHECK_IMMUNITY_TIME_IN_SECONDS\x019\x02" if self.random.random() < 0.3 else b""
        origin = 0
        if self._given_up and self.random.random() < 0.2:
            origin = self._given_up.pop()
            self.kinds.add("resumed")
        self._halves.append(self.add(HALF_TOPIC, properties=self._real() + quiet, origin=origin))

    def _end_half(self) -> None:
        if not self._halves:
            return
        address, offset = self.random.choice(self._halves[-10:])
        kind = self.random.choice(("committed", "rolled back", "given up", "op"))
        self.kinds.add(kind)
        if kind == "committed":
            self.add(self.random.choice(TOPICS), properties=b"k\x01v\x02", origin=address, flag=8)
        elif kind == "rolled back":
            self.add(
                OP_HALF_TOPIC, body=b"%d," % offset, properties=b"TAGS\x01d\x02", origin=address
            )
        elif kind == "given up":
            given_up, _ = self.add(CHECK_MAX_TIME_TOPIC, properties=self._real(), origin=address)
            self._given_up.append(given_up)
        else:
            self.add(
                OP_HALF_TOPIC, body=b"%d,%d," % (offset, offset + 1), properties=b"TAGS\x01d\x02"
            )

    # -- pops --------------------------------------------------------------------------------------

    def pop_record(self, record: PopRecord) -> int:
        self.kinds.add(type(record))
        tags, body = encode_record(record)
        properties = b"TAGS\x01%b\x02" % tags
        return self.add(revive_topic("C"), self.random.randrange(2), body, properties)[0]

    def _place(self) -> Place:
        random = self.random
        return Place(random.choice(GROUPS), random.choice(TOPICS), random.randrange(2))

    def _pop(self) -> None:
        random = self.random
        start = random.randrange(50)
        offsets = tuple(range(start, start + random.randrange(5)))
        moves = random.choice(((-1, start + 5), (start, start + 9), (-1, -1)))
        taken = Taken(
            self._place(), start, self._ms, 1_000 * random.randrange(9), offsets, *moves, "B"
        )
        if self._taken and random.random() < 0.1:  # the same moment, the same place: one handle
            last = self._taken[-1][1]
            taken = Taken(last.place, last.start, last.pop_ms, 500, offsets, *moves, "B")
        self._taken.append((self.pop_record(taken), taken))

    def _ack(self) -> None:
        if self._taken:
            address, taken = self.random.choice(self._taken[-10:])
            some = tuple(o for o in taken.offsets if self.random.random() < 0.6)
            self.pop_record(Acked(taken.place, address, taken.start, taken.pop_ms, some, "B"))

    def _again(self) -> None:
        """What nobody acknowledged is stored again."""
        if not self._taken:
            return
        address, taken = self.random.choice(self._taken[-10:])
        for offset in taken.offsets[:2]:
            more = b"%b\x01%d\x02" % (POP_CHECKPOINT_OFFSET.encode(), offset)
            self.add(f"%RETRY%{taken.place.group}", properties=more, origin=address)
        self.kinds.add("again")

    def _order(self) -> None:
        random = self.random
        start = random.randrange(6)
        offsets = tuple(range(start, start + 1 + random.randrange(4)))
        attempt = random.choice(("", "a", "b"))
        hidden_ms = 1_000 * random.randrange(9)
        taken = OrderTaken(self._place(), self._ms, hidden_ms, offsets, attempt, -1, start)
        self._ordered.append(taken)
        self.pop_record(taken)

    def _order_ack(self) -> None:
        if self._ordered:
            taken = self.random.choice(self._ordered[-4:])
            offset = self.random.choice(taken.offsets)
            made: Any = OrderAcked(taken.place, taken.pop_ms, offset)
            if self.random.random() < 0.4:
                made = OrderHidden(taken.place, taken.pop_ms, offset, self._ms + 9_000)
            self.pop_record(made)


def account_row(key: str, random: Random) -> dict[str, Any]:
    """An account with something of everything."""
    policy = {"resource": "Topic:a*", "actions": ["Pub"], "decision": "Allow"}
    row: dict[str, Any] = {"accessKey": key, "secretKey": "drawn-for-this"}
    more = {
        "admin": True, "sealed": "required", "status": "disable", "defaultTopicPerm": "PUB",
        "defaultGroupPerm": "SUB", "topicPerms": ["a=PUB"], "groupPerms": ["g=SUB"],
        "takeOverProducers": ["p/*"], "policies": [policy],
    }  # fmt: skip
    return row | {name: value for name, value in more.items() if random.random() < 0.5}
