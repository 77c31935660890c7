"""Pulls that wait at the relay port, and what is told when another node leads (notices.py)."""

from __future__ import annotations

import contextlib
import heapq
import itertools
from collections.abc import Callable

import pytest

from cluster.broker.clients.notices import LATE_SECONDS, TRIES, TURN_COUNT, Notices
from cluster.broker.kernel.events.deadlines import DROPPED_MIN
from cluster.errors import FlowControlled
from cluster.protocol.codes import RequestCode, ResponseCode
from cluster.protocol.frames import Frame
from cluster.protocol.headers import PULL_FLAG_SUSPEND, PullRequest, PullResponse, decode

NOTHING, MOVED = ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED
NOTIFY = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


class Timers:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at, self._number = 0.0, itertools.count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []

    def now(self) -> float:
        return self.at

    def call_at(self, when: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._number), call))

    def step(self) -> None:
        self.at, _, call = heapq.heappop(self._due)
        call()

    def run(self, seconds: float) -> None:
        until = self.at + seconds
        while self._due and self._due[0][0] <= until:
            self.step()
        self.at = until


class Consumer:
    """A stock client with one queue; `said` are codes of what came."""

    closed = False

    def __init__(self, notices: Notices, version: int = 479, language: str = "JAVA") -> None:
        self.notices, self.version, self.language = notices, version, language
        self.frames: list[Frame] = []

    def answer(self, frame: Frame) -> None:
        self.frames.append(frame)

    @property
    def said(self) -> list[int]:
        return [frame.code for frame in self.frames]

    def pull(
        self,
        seconds: float = 15.0,
        flags: int = PULL_FLAG_SUSPEND,
        group: str = "g",
        queue: int = 0,
    ) -> None:
        frame = Frame(11, 1, {}, language=self.language, version=self.version)
        request = PullRequest(
            group, f"%RETRY%{group}", queue, 0, 32, flags, 0, int(seconds * 1000), 0
        )
        self.notices.take(self, frame, request)


@pytest.fixture
def timers() -> Timers:
    return Timers()


@pytest.fixture
def notices(timers: Timers) -> Notices:
    return Notices(2, 25.0, now=timers.now, call_at=timers.call_at)


def test_a_pull_waits_for_its_time_and_gets_nothing(notices: Notices, timers: Timers) -> None:
    consumer = Consumer(notices)
    consumer.pull(15.0)
    timers.run(14.0)
    assert consumer.said == []
    timers.run(2.0)
    assert consumer.said == [NOTHING]
    assert len(notices) == 0
    answer = decode(PullResponse, consumer.frames[0].ext)
    assert (answer.next_begin_offset, answer.min_offset, answer.max_offset) == (0, 0, 0)
    consumer.pull(flags=0)
    assert consumer.said == [NOTHING, NOTHING], "a pull that may not wait is answered at once"


def test_it_is_told_when_name_servers_know_the_new_leader(notices: Notices, timers: Timers) -> None:
    consumer, known = Consumer(notices), [False]
    consumer.pull()
    notices.leader_changed(lambda: known[0])
    timers.run(0.5)
    assert consumer.said == []
    known[0] = True
    timers.run(0.2)
    assert consumer.said == [MOVED]
    consumer.pull()
    timers.run(10.0)
    assert consumer.said == [MOVED], "who pulls again has looked at routes"


def test_a_name_server_that_is_silent_delays_it_by_a_second(
    notices: Notices, timers: Timers
) -> None:
    consumer = Consumer(notices)
    consumer.pull()
    notices.leader_changed(lambda: False)
    timers.run(1.2)
    assert consumer.said == [MOVED]


def test_who_does_not_pull_again_is_told_that_members_changed(
    notices: Notices, timers: Timers
) -> None:
    consumer = Consumer(notices)
    consumer.pull()
    notices.leader_changed(lambda: True)
    timers.run(3.3)
    assert consumer.said == [MOVED, NOTIFY, NOTIFY, NOTIFY][: len(consumer.said)]
    assert consumer.said.count(NOTIFY) >= 2
    assert consumer.frames[1].ext["consumerGroup"] == "g"
    timers.run(60.0)
    assert consumer.said.count(NOTIFY) == TRIES, "and not for ever"
    assert notices.sent == TRIES + 1


def test_who_comes_late_is_told_once(notices: Notices, timers: Timers) -> None:
    consumer = Consumer(notices)
    notices.leader_changed(lambda: True)
    timers.run(LATE_SECONDS / 2)
    consumer.pull()
    assert consumer.said == [MOVED]
    consumer.pull()
    timers.run(LATE_SECONDS)
    assert consumer.said == [MOVED]
    other = Consumer(notices)
    other.pull()
    assert other.said == [], "the news is old"


@pytest.mark.parametrize(("version", "language"), [(409, "JAVA"), (317, "GO"), (31001, "JAVA")])
def test_other_clients_wait_on(
    notices: Notices, timers: Timers, version: int, language: str
) -> None:
    consumer = Consumer(notices, version, language)
    consumer.pull()
    notices.leader_changed(lambda: True)
    timers.run(5.0)
    assert consumer.said == []
    timers.run(15.0)
    assert consumer.said == [NOTHING]
    assert notices.sent == 0


def test_a_client_that_left_is_forgotten(notices: Notices, timers: Timers) -> None:
    consumer, other = Consumer(notices), Consumer(notices)
    consumer.pull()
    other.pull()
    notices.leader_changed(lambda: True)
    consumer.pull()
    for gone in (consumer, other):
        gone.closed = True
        notices.client_closed(gone)
    timers.run(30.0)
    assert len(notices) == 0
    assert [one.said for one in (consumer, other)] == [[MOVED], [MOVED]]


def test_a_pull_replaces_the_one_before_it(notices: Notices, timers: Timers) -> None:
    consumer = Consumer(notices)
    consumer.pull(10.0)
    timers.run(5.0)
    consumer.pull(10.0)
    assert consumer.said == [NOTHING]
    timers.run(20.0)
    assert consumer.said == [NOTHING, NOTHING]


def test_so_many_wait_and_no_more(notices: Notices) -> None:
    for _ in range(2):
        Consumer(notices).pull()
    with pytest.raises(FlowControlled):
        Consumer(notices).pull()


def kept(notices: Notices) -> list[int]:
    """Rows of each table."""
    tables = (notices._connections, notices._told, notices._to_tell, notices._deadlines._heap)
    return [len(table) for table in tables] + [notices._told_count, len(notices)]


def test_of_many_queues_each_is_answered_and_its_group_told_once_a_second(timers: Timers) -> None:
    notices = Notices(100, 25.0, now=timers.now, call_at=timers.call_at)
    consumer = Consumer(notices)
    for queue in range(8):
        consumer.pull(queue=queue)
    notices.leader_changed(lambda: True)
    timers.run(60.0)
    assert consumer.said == [MOVED] * 8 + [NOTIFY] * TRIES


def test_many_are_told_over_many_turns(timers: Timers) -> None:
    """Of 8,000 queues each answer looked at all that were told before it: 37 s of one turn."""
    notices = Notices(8_000, 25.0, now=timers.now, call_at=timers.call_at)
    consumers = [Consumer(notices) for _ in range(1_000)]
    for consumer in consumers:
        for queue in range(8):
            consumer.pull(queue=queue)
    notices.leader_changed(lambda: True)
    assert notices.sent <= TURN_COUNT
    turns = 0
    while notices.sent < 8_000:
        before = notices.sent
        timers.step()
        turns += 1
        assert notices.sent - before <= TURN_COUNT
    assert turns <= 8_000 / TURN_COUNT
    timers.run(1.0)
    while notices.sent < 9_000:
        before = notices.sent
        timers.step()
        assert notices.sent - before <= TURN_COUNT
    timers.run(60.0)
    assert [one.said for one in consumers] == [[MOVED] * 8 + [NOTIFY] * TRIES] * 1_000
    assert kept(notices) == [0] * 6


def test_pulls_that_were_replaced_or_told_are_not_kept(notices: Notices, timers: Timers) -> None:
    consumer = Consumer(notices)
    for _ in range(1_000):
        consumer.pull()
    assert len(notices._deadlines._heap) <= DROPPED_MIN + 2
    for _ in range(1_000):
        notices.leader_changed(lambda: True)
        consumer.pull()
    assert len(notices._deadlines._heap) <= DROPPED_MIN + 2
    timers.run(60.0)
    assert kept(notices) == [0] * 6


def test_who_is_known_to_have_been_told_is_bounded(notices: Notices, timers: Timers) -> None:
    """Else a client that pulls for one made-up group after the other fills the memory."""
    consumer = Consumer(notices)
    notices.leader_changed(lambda: True)
    for number in range(100):
        with contextlib.suppress(FlowControlled):
            consumer.pull(group=f"g{number}")
    assert max(kept(notices)) <= 2
    assert consumer.said == [MOVED] * 2
    timers.run(60.0)
    assert kept(notices) == [0] * 6


def test_a_connection_that_ended_leaves_no_rows(notices: Notices, timers: Timers) -> None:
    told, waits = Consumer(notices), Consumer(notices, 409)
    told.pull()
    waits.pull()
    notices.leader_changed(lambda: True)
    for consumer in (told, waits):
        notices.client_closed(consumer)
    assert notices._connections == {}
    timers.run(26.0)
    assert kept(notices) == [0] * 6
    assert [told.said, waits.said] == [[MOVED], []]
