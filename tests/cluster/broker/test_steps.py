"""Steps that handlers return: what they wait for, and offsets of consumers."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.broker.consume.consumer_requests import update_offset
from cluster.broker.consume.lock_keeper import Locks
from cluster.broker.kernel.net.decisions import Answer, WhenCurrent, WhenShown, WithGroups
from cluster.broker.kernel.net.offset_decisions import (
    AllCommitted,
    CommitSoon,
    OffsetCommit,
    OffsetsMoved,
    WhenCommitted,
)
from cluster.broker.kernel.write.offset_keeper import OffsetKeeper
from cluster.broker.kernel.write.rows_in_log import RowsInLog
from cluster.core.apply import AppliedState
from cluster.core.internal_topics import OffsetsCommitted
from cluster.core.locks import LockLeases
from cluster.core.topics import TopicConfig, built_in_topics
from cluster.errors import InvalidRequest, QueueFull
from cluster.protocol.headers import UpdateConsumerOffsetRequest
from dledger.core.types import Index
from dledger.errors import OutcomeUnknown

Done = Callable[[Exception | None], None]


class Call:
    """Says what it was told; the leadership is proved at once."""

    def __init__(self) -> None:
        self.said: list[object] = []
        self.client, self.frame = None, SimpleNamespace(is_oneway=False)
        self.router = SimpleNamespace(ask_again=lambda *_: self.said.append("next leader"))

    def answer(self, *_: object) -> None:
        self.said.append("ok")

    def refuse(self, error: Exception) -> None:
        self.said.append(error)

    def done(self, error: Exception | None) -> None:
        self.answer() if error is None else self.refuse(error)

    def guarded(self, step: Callable[[], object]) -> None:
        step()

    def when_current(self, then: Callable[[], object]) -> None:
        self.said.append("current")
        then()

    def begun(self, step: Callable[[], object]) -> None:
        self.said.append("entry")
        step()

    begun_anyway = begun


class Writer:
    """Keeps what it is given to write; `ended` tells how it ended."""

    def __init__(self) -> None:
        self.written: list[object] = []
        self.waiting: list[Done] = []
        self.full = False
        self.accounts_in_log = RowsInLog()

    def write(self, change: object, done: Done, *before: object) -> None:
        if self.full:
            raise QueueFull("full")
        self.written += [*before, change]
        self.waiting.append(done)

    def create_group(self, name: str, *, settings: bool, retry_topic: bool, done: Done) -> None:
        self.written.append(name)
        self.waiting.append(done)

    def ended(self, error: Exception | None = None) -> None:
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(error)


class Ports:
    def __init__(self) -> None:
        self.state = AppliedState(built_in_topics("C", "B"))
        self.state.topics.replay_put(TopicConfig("T", 4, 4), 1)
        self.writer = Writer()
        self.soon: list[Callable[[], None]] = []
        writer = cast(Any, self.writer)
        self.offsets = OffsetKeeper(
            self.state.offsets,
            writer,
            now=lambda: 10.0,
            call_at=lambda *_: None,
            call_soon=self.soon.append,
            record_size_max=1 << 22,
        )
        self.locks = Locks(LockLeases(self.state.locks), writer, now=lambda: 10.0)
        self.log = SimpleNamespace(driver=SimpleNamespace(roster=SimpleNamespace(levels=dict)))
        self.config = SimpleNamespace(cluster_secret=None)

    def turn(self) -> None:
        while self.soon:
            self.soon.pop(0)()


ANSWER = Answer(lambda call: call.answer())


def carried_out(step: Any, ports: Any) -> Call:
    call = Call()
    step.carry_out(ports, call)
    return call


def test_what_is_current_or_shown_is_decided_then() -> None:
    waiting: list[Done] = []
    ports: Any = Ports()
    ports.derived = SimpleNamespace(when_shown=lambda last, done: waiting.append(done))
    assert carried_out(WhenCurrent(lambda: ANSWER), ports).said == ["current", "ok"]
    call, lost = (carried_out(WhenShown(Index(7), lambda: ANSWER), ports) for _ in range(2))
    assert call.said == []
    waiting[0](None)
    error = QueueFull("x")
    waiting[1](error)
    assert (call.said, lost.said) == (["ok"], [error])


def test_groups_are_made_before_it_goes_on() -> None:
    ports = Ports()
    call = carried_out(WithGroups(("b", "a"), lambda: ANSWER), ports)
    assert (ports.writer.written, call.said) == (["a", "b"], [])
    ports.writer.waiting.pop(0)(None)
    assert call.said == []
    ports.writer.ended()
    assert call.said == ["ok"]
    assert carried_out(WithGroups((), lambda: ANSWER), ports).said == ["ok"]


def test_groups_that_are_not_made_are_told_once() -> None:
    ports, error = Ports(), QueueFull("x")
    call = carried_out(WithGroups(("a", "b", "c"), lambda: ANSWER), ports)
    ports.writer.ended(error)
    assert call.said == [error]


def test_a_request_that_was_refused_is_not_answered_when_a_group_fails_later() -> None:
    ports = Ports()
    make, call = ports.writer.create_group, Call()

    def make_one(name: str, **how: Any) -> None:
        if name == "b":
            raise QueueFull("full")
        make(name, **how)

    ports.writer.create_group = make_one  # type: ignore[method-assign]
    step: Any = WithGroups(("a", "b"), lambda: ANSWER)
    with pytest.raises(QueueFull):
        step.carry_out(ports, call)
    ports.writer.ended(OutcomeUnknown("x"))
    assert call.said == []


def test_an_offset_is_decided_and_goes_with_the_next_record() -> None:
    ports = Ports()
    decide: Any = update_offset
    step = decide(ports, UpdateConsumerOffsetRequest("CG", "T", 1, 17))
    assert (step, ports.soon) == (OffsetCommit("CG", "T", 1, 17), [])
    call = carried_out(step, ports)
    assert (ports.writer.written, call.said) == ([], [])
    ports.turn()
    assert ports.writer.written == [OffsetsCommitted("CG", {"T": {1: 17}})]
    ports.writer.ended()
    assert call.said == ["ok"]
    with pytest.raises(InvalidRequest):
        decide(ports, UpdateConsumerOffsetRequest("CG", "T", 1, -2))


def test_a_late_offset_is_no_commit() -> None:
    ports = Ports()
    ports.state.offsets.replay(OffsetsCommitted("CG", {"T": {1: 17}}))
    decide: Any = update_offset
    step = decide(ports, UpdateConsumerOffsetRequest("CG", "T", 1, 16, advance_only=True))
    assert carried_out(step, ports).said == []
    assert ports.soon == []


def test_commits_are_logged_before_a_group_is_looked_at() -> None:
    ports = Ports()
    assert carried_out(WhenCommitted("CG", lambda: ANSWER), ports).said == ["ok"]
    ports.offsets.commit("CG", "T", 0, 5)
    calls = [
        carried_out(WhenCommitted("CG", lambda: ANSWER), ports),
        carried_out(WhenCommitted("CG", lambda: ANSWER, is_read=True), ports),
    ]
    ports.turn()
    assert [call.said for call in calls] == [[], []]
    ports.writer.ended()
    assert [call.said for call in calls] == [["ok"], ["ok"]]


def test_only_a_read_asks_the_next_leader() -> None:
    ports, unknown = Ports(), OutcomeUnknown("x")
    ports.offsets.commit("CG", "T", 0, 5)
    change = carried_out(WhenCommitted("CG", lambda: ANSWER), ports)
    read = carried_out(WhenCommitted("CG", lambda: ANSWER, is_read=True), ports)
    ports.turn()
    ports.writer.ended(unknown)
    assert (change.said, read.said) == ([unknown], ["next leader"])


def test_moved_offsets_stand_behind_the_entry_and_before_the_answer() -> None:
    ports = Ports()
    call = carried_out(OffsetsMoved("CG", "T", {0: 3, 1: 4}, lambda: ANSWER), ports)
    assert call.said == ["entry"]
    ports.turn()
    assert ports.writer.written == [OffsetsCommitted("CG", {"T": {0: 3, 1: 4}})]
    ports.writer.ended()
    assert call.said == ["entry", "ok"]


def test_commits_do_not_wait_for_their_second_when_members_leave_or_the_lead_moves() -> None:
    ports = Ports()
    ports.offsets.commit("CG", "T", 0, 1)
    ports.turn()
    ports.writer.ended()
    ports.turn()
    ports.offsets.commit("CG", "T", 0, 2)  # of the same second
    ports.turn()
    assert len(ports.writer.written) == 1
    assert carried_out(CommitSoon(("CG",), Call.answer), ports).said == ["ok"]  # type: ignore[arg-type]
    ports.turn()
    assert len(ports.writer.written) == 2
    ports.offsets.commit("CG", "T", 0, 3)
    call = carried_out(AllCommitted(lambda call: call.answer()), ports)
    assert call.said == ["entry"]
    ports.writer.ended()
    ports.turn()
    assert (len(ports.writer.written), call.said) == (3, ["entry"])
    ports.writer.ended()
    assert call.said == ["entry", "ok"]
