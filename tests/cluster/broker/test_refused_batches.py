"""A batch that the log refuses is undone, and nothing beside it (R8, R9).

The appender on a fake log, without a broker. Batches are settled by hand, and dispatched (told to
the applied layer of the table of producers) later or never: between the two their numbers and
offsets stand in this leadership's tables alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.apply.leader_tables import LeaderTables
from cluster.broker.kernel.events.leadership_parts import LeadershipParts
from cluster.broker.kernel.ports import LogPort
from cluster.broker.kernel.write.appender import Appender
from cluster.broker.kernel.write.batch import Batch
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.core.apply import AppliedState
from cluster.core.internal_topics import GroupsChanged, LogTrimmed
from cluster.core.numbers import stream_of
from cluster.core.subscription_groups import new_group
from cluster.core.topics import TopicConfig
from cluster.errors import InvalidRequest
from commitlog.records.hosts import NO_HOST, pack_host
from commitlog.records.message_fast import encode_record, topic_field
from dledger.core.types import Index, Term
from dledger.errors import DledgerError, NotLeader, OutcomeUnknown, Transferring
from dledger.replica.ports import Proposal

HOST, QUEUES = pack_host(NO_HOST), 2


class FakeLog:
    """Takes proposals, or refuses them with `refusal`; `during` runs within a proposal."""

    def __init__(self) -> None:
        self.store = SimpleNamespace(last=SimpleNamespace(index=Index(9)))
        self.refusal: DledgerError | None = None
        self.during: Callable[[], None] = lambda: None
        self.taken: list[Proposal] = []

    def propose(self, proposal: Proposal) -> None:
        self.during()
        if self.refusal is not None:
            raise self.refusal
        proposal.first = Index(self.store.last.index + 1)
        self.store.last.index = proposal.last = Index(proposal.first + len(proposal.bodies) - 1)
        proposal.term, proposal.positions = Term(3), range(len(proposal.bodies))
        self.taken.append(proposal)


class Told:
    """A unit that notes how its batches ended."""

    outlives: ClassVar[bool] = False

    def __init__(self) -> None:
        self.errors: list[DledgerError | None] = []

    def settled(self, batch: Batch, error: DledgerError | None) -> None:
        self.errors.append(error)


class Bench:
    """An appender with its tables; `send` puts numbered messages into the batch of this turn."""

    def __init__(self) -> None:
        self.log, self.told = FakeLog(), Told()
        self.parts = LeadershipParts()
        self.state = AppliedState(())
        self.tables = LeaderTables(self.state, self.parts)
        self.appender = Appender(
            BrokerConfig("n0", Path()),
            cast(LogPort, self.log),
            self.tables.clock,
            self.tables.queue_offsets,
            self.tables.cursors,
            call_soon=lambda callback: None,
            now_ms=lambda: 1,
        )
        self.undispatched: list[tuple[str, str, int, Index]] = []

    def send(self, producer: str, queue: int = 0, count: int = 1) -> None:
        batch = self.appender.open()
        self.tables.cursors.write_back(batch)  # as a repeat in this turn makes it
        cursor = self.tables.cursors.cursor(producer, stream_of("T", queue))
        row = self.tables.queue_offsets.row("T", QUEUES)
        for _ in range(count):
            index = Index(batch.first_index + len(batch.bodies))
            self.undispatched.append((producer, cursor.stream, cursor.next, index))
            batch.bodies.append(record(queue, row[queue]))
            row[queue] += 1
            cursor.take(batch, index)
        batch.units.append(self.told)

    def flush(self, refusal: DledgerError | None = None) -> None:
        self.log.refusal = refusal
        self.appender.flush()
        if refusal is not None:
            last = self.log.store.last.index
            self.undispatched = [row for row in self.undispatched if row[3] <= last]

    def settle(self) -> None:
        """Everything in flight is committed and applied; queues and state do not show it yet."""
        for proposal in self.log.taken:
            proposal.done(proposal, None)
        self.log.taken.clear()

    def dispatch(self, count: int = 1000) -> None:
        for producer, stream, sequence, index in self.undispatched[:count]:
            self.state.producers.committed(producer, stream, sequence, index, 1)
        del self.undispatched[:count]

    def expected(self, producer: str, queue: int = 0) -> int:
        """The number that the leader wants next."""
        return self.state.producers.next_sequence(producer, stream_of("T", queue))

    def ends(self) -> Sequence[int]:
        return list(self.tables.queue_offsets.row("T", QUEUES))


def record(queue: int, offset: int) -> bytearray:
    return encode_record(
        topic_field("T"), b"", b"", queue, 0, 0, 1, HOST, HOST, 0, 0, offset, 0, 1
    )  # fmt: skip


def test_a_refused_batch_leaves_numbers_of_settled_batches_that_are_not_dispatched() -> None:
    bench = Bench()
    bench.send("p", count=3)
    bench.flush()
    bench.settle()
    bench.send("p", count=2)
    bench.flush(Transferring("to n1"))
    assert bench.expected("p") == 3, "3 are committed, and the table's applied layer has none yet"
    bench.send("p")
    bench.flush()
    bench.dispatch()
    assert bench.expected("p") == 4
    assert [error is None for error in bench.told.errors] == [True, False]


def test_a_refused_batch_leaves_numbers_of_batches_in_flight() -> None:
    """And of those both before and after what is settled: each kind stands in another place."""
    bench = Bench()
    for kind in ("settled", "in flight"):
        bench.send("p", count=2)
        bench.send("q", queue=1)
        bench.flush()
        if kind == "settled":
            bench.settle()
    bench.send("p", queue=1)
    bench.send("q", queue=1, count=4)
    bench.send("p")
    bench.flush(Transferring("to n1"))
    assert (bench.expected("p"), bench.expected("p", 1), bench.expected("q", 1)) == (4, 0, 2)
    assert bench.ends() == [4, 2]
    bench.settle()
    assert bench.told.errors.count(None) == 4


def test_a_refused_batch_with_many_runs_gives_back_those_that_it_pushed_out() -> None:
    """The table keeps 16 runs of a stream; a batch may add more, and is refused as a whole."""
    bench = Bench()
    bench.send("p", count=3)
    bench.flush()
    for _ in range(20):
        bench.send("p")
        bench.send("q", queue=1)  # between two of p's, so each of those is a run of its own
    bench.flush(Transferring("to n1"))
    assert bench.expected("p") == 3
    assert bench.state.producers.check("p", stream_of("T", 0), 0).skip == 1


def test_a_batch_refused_while_its_leadership_ends_takes_nothing_back() -> None:
    """The tables are dropped as a whole: an offset put back would outlive its leadership."""
    bench = Bench()
    bench.send("p", count=2)
    bench.flush()
    bench.send("p")

    def ends() -> None:
        bench.appender.drop(None)
        bench.parts.leadership_ended()

    bench.log.during = ends
    bench.flush(NotLeader("n1"))
    assert bench.expected("p") == 0
    assert bench.ends() == [0, 0], "nothing is applied, and a former leadership counts no more"


def test_every_unit_of_a_refused_batch_is_told() -> None:
    bench = Bench()
    bench.send("p")
    bench.send("q", queue=1)
    refusal = Transferring("to n1")
    bench.flush(refusal)
    assert bench.told.errors == [refusal, refusal]


def writer(bench: Bench) -> StateWriter:
    offsets = bench.tables.queue_offsets
    return StateWriter(bench.appender, offsets, host=HOST, when_dispatched=lambda index, done: None)


def test_a_topic_being_created_at_the_end_of_a_leadership_can_be_created_again() -> None:
    """Its record is committed, and dispatched by somebody else, or never."""
    bench, errors = Bench(), list[Exception | None]()
    states = writer(bench)
    states.create_topic(TopicConfig("T"), errors.append)
    states.create_group("g", retry_topic=True, done=errors.append)
    bench.flush()
    bench.settle()
    bench.appender.drop(None)
    states.leadership_ended()
    assert [type(error) for error in errors] == [OutcomeUnknown] * 2
    assert states.waiting == 0
    states.create_topic(TopicConfig("T"), errors.append)
    assert bench.appender.open().bodies, "it is written again, not waited for"


def test_a_topic_in_a_refused_batch_can_be_created_again() -> None:
    bench, errors = Bench(), list[Exception | None]()
    states = writer(bench)
    states.create_topic(TopicConfig("T"), errors.append)
    bench.flush(Transferring("to n1"))
    assert [type(error) for error in errors] == [Transferring]
    states.create_topic(TopicConfig("T"), errors.append)
    assert bench.appender.open().bodies


def test_a_change_that_no_replica_could_apply_is_refused_before_it_is_written() -> None:
    bench = Bench()
    with pytest.raises(InvalidRequest, match="cannot be stored"):
        writer(bench).write(LogTrimmed(1 << 70), lambda error: None)
    groups = GroupsChanged((new_group("g") | {"attributes": {"a": "x" * (5 << 20)}},))
    with pytest.raises(InvalidRequest, match="smaller steps"):
        writer(bench).write(groups, lambda error: None)
    assert not bench.appender.open().bodies


STEP = st.one_of(
    st.tuples(st.just("send"), st.sampled_from("pq"), st.integers(0, 1), st.integers(1, 3)),
    st.sampled_from([(kind, "", 0, 0) for kind in ("flush", "refuse", "settle")]),
    st.tuples(st.just("dispatch"), st.just(""), st.just(0), st.integers(1, 4)),
)


@given(st.lists(STEP, max_size=60))
def test_the_tables_of_a_leader_are_those_of_the_batches_it_got_into_the_log(
    steps: list[tuple[str, str, int, int]],
) -> None:
    """Whatever is settled, dispatched or refused in between: numbers and offsets have no hole."""
    bench = Bench()
    logged: list[tuple[str, int]] = []
    pending: list[tuple[str, int]] = []
    for kind, producer, queue, count in [*steps, ("refuse", "", 0, 0)]:
        if kind == "send":
            bench.send(producer, queue, count)
            pending += [(producer, queue)] * count
        elif kind in ("flush", "refuse"):
            bench.flush(Transferring("to n1") if kind == "refuse" else None)
            logged += pending if kind == "flush" else ()
            pending = []
        elif kind == "settle":
            bench.settle()
        elif not bench.log.taken and not pending:  # everything is settled
            bench.dispatch(count)
        for name in "pq" if not pending else "":
            for place in range(QUEUES):
                assert bench.expected(name, place) == logged.count((name, place))
    assert bench.ends() == [sum(at == queue for _, at in logged) for queue in range(QUEUES)]
