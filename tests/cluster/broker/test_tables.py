"""Tables of leaders, of followers and of a node that starts again: at one index they are equal.

Two brokers of one group in turns: one leads and is asked for everything that brokers are asked for,
the other one gets what is committed, byte for byte. What a lost leadership did not commit is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cluster.protocol.codes import RequestCode as Code
from dledger.core.types import Index, Term
from tests.cluster.core.contents import difference
from tests.cluster.core.histories import History

from .busy import Busy
from .by_hand import HandBroker
from .test_leadership_parts import Found, state
from .test_pop import handles, named
from .test_transactions import COMMIT, ROLLBACK, Half

ROUNDS, REQUESTS = 6, 40
#: How entries were gathered when they were applied shows here, and nowhere else.
BATCHED = {"Stream.runs": "runs of numbers; which one comes next is compared by itself"}
#: Tables of a checkpoint that show it.
GATHERED = {"producers"}
#: What a leader keeps of what is applied, by class and field.
KEPT = {
    "Appender._leaderships": "counts",
    "Appender.acknowledged": "counts",
    "CheckBacks._ticking": "its timer runs",
    "Cursors._found": "compared with the table of producers",
    "Delivery._timer_at": "its timer runs",
    "LeaderQueueOffsets._rows": "compared with the ends of queues",
    "OffsetCommits._groups": "when each group was logged last; wishes are looked for",
    "PopCursors._rows": "what is on its way is looked for",
    "ProducerTable._applied": "a function of the log",
    "ProducerTable._streams": "a function of the log",
    "Shares._owners": "a function of the log",
    "Rate._at": "the node's own clock",
    "Rate._tokens": "how often this node let a send create a topic",
}


class Asker(Busy):
    """Asks one leader for things, drawn by a seed."""

    def __init__(self, broker: HandBroker, random: Random, before: Asker | None = None) -> None:
        """`before`: who asked the leader before."""
        super().__init__(broker)
        self.random, self.numbers = random, dict[tuple[str, str], int]()
        self.halves: list[Any] = [] if before is None else before.halves
        self.taken: list[Any] = [] if before is None else before.taken
        drawn = History(random.randrange(1 << 30), 0)
        drawn.change = self.change  # type: ignore[method-assign]
        self.asks: list[Callable[[], object]] = [
            *[self.message, self.number, self.number] * 3,
            self.repeat, self.delay, self.timer, self.new_half, self.new_half, self.end_half,
            self.pop, self.pop, self.ack, self.order, self.order, self.offset, self.offset,
            self.new_topic, drawn._topics, drawn._groups, drawn._locks, drawn._modes,
        ]  # fmt: skip

    def ask_one(self) -> None:
        self.random.choice(self.asks)()

    def change(self, what: object) -> None:
        self.broker.parts.writer.write(what, lambda _: None)  # type: ignore[arg-type]

    def topic(self) -> str:
        return self.random.choice(("T", "P", "O"))

    def message(self) -> None:
        self.client.send(self.topic(), queue=self.random.randrange(4))

    def number(self) -> None:
        key = producer, topic = self.random.choice("pqr"), self.topic()
        known = self.broker.parts.state.producers.next_sequence(producer, f"{topic}/0")
        number = self.numbers.get(key, known)
        self.client.numbered(producer, number, topic=topic)
        self.numbers[key] = number + 1

    def repeat(self) -> None:
        if self.numbers:
            producer, topic = self.random.choice(list(self.numbers))
            number = self.numbers[producer, topic] - self.random.randint(1, 3)
            self.client.numbered(producer, max(number, 0), topic=topic)

    def delay(self) -> None:
        self.client.send(self.topic(), properties=f"DELAY\x01{self.random.choice((1, 2, 18))}\x02")

    def timer(self) -> None:
        self.client.send(self.topic(), properties="TIMER_DELAY_SEC\x013\x02")

    def new_half(self) -> None:
        self.halves.append(self.half_sent(b"%d" % self.random.randrange(1 << 30)))

    def end_half(self) -> None:
        known = [asked.answer for asked in self.halves if asked.code == 0]
        if known:
            half = Half(self.random.choice(known))
            kind = self.random.choice((COMMIT, ROLLBACK))
            self.ask(Code.END_TRANSACTION, half.outcome(kind))

    def pop(self) -> None:
        topic, invisible = self.topic(), self.random.choice((1_000, 60_000))
        self.taken.append((topic, self.popped(topic=topic, invisibleTime=invisible, maxMsgNums=4)))

    def order(self) -> None:
        self.taken.append(("O", self.popped(topic="O", order="true", maxMsgNums=2)))

    def ack(self) -> None:
        known = [(topic, a.answer) for topic, a in self.taken if a.code == 0]
        if known:
            topic, answer = self.random.choice(known)
            for handle in handles(answer)[: self.random.randrange(5)]:
                self.ask(Code.ACK_MESSAGE, named(handle, topic))

    def offset(self) -> None:
        self.commit_offset(self.random.randrange(50), self.topic())

    def new_topic(self) -> None:
        self.client.send(f"New{self.random.randrange(20)}")


def feed(follower: HandBroker, leader: HandBroker) -> None:
    """The follower gets what is committed, and applies it in its own time."""
    log, first = follower.log, Index(follower.log.store.last.index + 1)
    if first <= leader.log.applied:
        log.store.append_range(
            leader.log.store.read_range(first, leader.log.applied, 1 << 30), first
        )
    log.term = max(log.term, leader.log.term)
    follower.loop.now = max(follower.loop.now, leader.loop.now)
    follower.commit()


def take_over(heir: HandBroker, before: HandBroker) -> None:
    """A leadership ends and the other node begins one; what is not committed is lost."""
    before.step_down(heir.parts.config.node_id)
    before.log.cut_after(before.log.applied)
    feed(heir, before)
    heir.lead()
    before.log.term = heir.log.term


def quiet(broker: HandBroker) -> None:
    """All that was begun has come to its end, what follows from it included."""
    derived = broker.parts.derived
    broker.commit()
    for _ in range(9):  # no time passes, so that nothing more is due
        broker.turn()
        broker.apply()
        derived.catch_up()
    assert broker.log.applied == broker.log.store.last.index
    assert len(broker.parts.tables.settling) == 0


def check_leader_tables(broker: HandBroker) -> None:
    """With nothing on its way a leader's tables say what is applied."""
    services, tables = broker.parts, broker.parts.tables
    for topic, row in tables.queue_offsets._rows.items():
        assert row == services.state.queue_ends(topic, len(row)), topic
    for key, cursor in tables.cursors._found.items():
        assert cursor.next == services.state.producers.next_sequence(*key)
    for place, cursor in services.pop.popping.cursors._rows.items():
        assert cursor.pending == 0, place
    for group in services.offsets._commits._groups.values():
        assert not group.wishes | group.in_flight
        assert not group.waiters + group.in_flight_waiters


@pytest.mark.parametrize("seed", range(4))
def test_a_leader_with_nothing_on_its_way_holds_nothing_more_than_at_its_start(
    tmp_path: Path, seed: int
) -> None:
    """Every field of every part that ends with a leadership, but for those that are named."""
    broker, random = HandBroker(tmp_path), Random(seed)
    found = Found(broker)
    parts = [part for part in found.parts if id(part) in found.covered]
    before = state(parts)
    broker.lead()
    asker = Asker(broker, random)
    asker.prepare()
    for _ in range(120):
        asker.ask_one()
        random.choice((lambda: None, broker.turn, broker.commit))()
    quiet(broker)
    check_leader_tables(broker)
    now = state(parts)
    more = {name for name, value in now.items() if before[name] != value}
    assert {".".join(name.split()[::2]) for name in more} <= KEPT.keys()
    broker.close()


def tables_of(broker: HandBroker) -> dict[str, bytes]:
    """The tables of its checkpoint, byte for byte."""
    tables = broker.parts.state.capture().tables()
    assert tables.keys() >= GATHERED
    return {name: table for name, table in tables.items() if name not in GATHERED}


def check_equal(one: HandBroker, other: HandBroker) -> None:
    assert tables_of(one) == tables_of(other)
    mine, theirs = one.parts.state, other.parts.state
    assert mine.applied == theirs.applied
    assert difference(mine, theirs, but=BATCHED) == []
    for producer, found in mine.producers._applied.items():
        for stream in found.streams:
            following = theirs.producers.next_sequence(producer, stream)
            assert mine.producers.next_sequence(producer, stream) == following


@pytest.mark.parametrize("seed", range(4))
def test_tables_of_leaders_followers_and_nodes_that_start_again_are_equal(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    settings: dict[str, Any] = {"transaction_check_interval_ms": 3_000}
    nodes = [HandBroker(tmp_path / name, name=name, **settings) for name in ("n0", "n1")]
    leader, follower = nodes
    leader.lead()
    asker = Asker(leader, random)
    asker.prepare()
    for _ in range(ROUNDS):
        for _ in range(REQUESTS):
            asker.ask_one()
            random.choice((lambda: None, leader.turn, leader.commit))()
            if random.random() < 0.1:
                feed(follower, leader)
        quiet(leader)
        check_leader_tables(leader)
        feed(follower, leader)
        check_equal(leader, follower)
        follower = starts_again(follower, random, settings)
        check_equal(leader, follower)
        for _ in range(random.randrange(10)):  # of these some are lost
            asker.ask_one()
        leader.turn()
        take_over(follower, leader)
        leader, follower = follower, leader
        asker = Asker(leader, random, asker)
    for node in (leader, follower):
        node.close()


def starts_again(node: HandBroker, random: Random, settings: dict[str, Any]) -> HandBroker:
    """The process dies, after a checkpoint or long after one, and begins with what is on disk."""
    derived = node.parts.derived
    if random.random() < 0.7 and derived.checkpoint_due:
        task = derived.begin_checkpoint()
        task.run()
        derived.finish_checkpoint(task)
    derived.close()
    config = node.parts.config
    again = HandBroker(config.root, node.log.store, config.node_id, **settings)
    again.log.term, again.loop.now = Term(node.log.term), node.loop.now
    again.commit()
    return again
