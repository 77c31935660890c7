"""Senders of what waits: what they write down, what a group decides and says when it is asked."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from chaos.history import INFINITY, Kind, Outcome
from chaos.live.client_process import Topic, Written
from chaos.live.deferred_process import Decisions, DelaySender, HalfSender, Recorder
from chaos.workloads import Delay, Ending, Want, Way, Wish
from cluster.client import Decision, Producer, ReceivedMessage, TransactionProducer
from cluster.errors import ClientClosed, ClusterError, SendTimeout
from cluster.protocol.json_body import MessageQueue

TOPIC = Topic("T", 2, "d", deferred=True)


class Answers:
    """A producer of either sort, and its one transaction; whatever it is asked ends as told."""

    def __init__(self, error: ClusterError | None = None, end_error: ClusterError | None = None):
        self.asked: list[object] = []
        self._error, self._end_error = error, end_error

    async def send_delayed(self, topic: str, body: bytes, **how: object) -> None:
        self.asked.append({name: value for name, value in how.items() if value is not None})
        if self._error:
            raise self._error

    async def begin(self, topic: str, body: bytes, *, queue_id: int) -> Answers:
        if self._error:
            raise self._error
        return self

    async def commit(self) -> None:
        self.asked.append("commit")
        if self._end_error:
            raise self._end_error

    async def rollback(self) -> None:
        self.asked.append("rollback")


def sent_delayed(delay: Delay, error: ClusterError | None = None) -> tuple[Written, list[object]]:
    """What one delayed send leaves, and how it was asked for."""
    written, producer = Written(), Answers(error)
    sender = DelaySender(Recorder(written, "d0", TOPIC), cast(Producer, producer))
    wish = Wish(Want.SEND_DELAYED, 1, "d0-0", b"d0-0 ", delay=delay)
    asyncio.run(sender.grant(wish))
    return written, producer.asked


def test_a_delay_is_asked_for_in_its_way_and_due_counts_from_before_the_send() -> None:
    written, asked = sent_delayed(Delay(Way.LEVEL, 5.0))
    (op,) = written.history
    assert asked == [{"delay_level": 2, "queue_id": 1}]
    assert (op.kind, op.value, op.outcome, op.log) == (Kind.DELAY, "d0-0", Outcome.OK, "d1")
    assert op.invoked + 4.9 < op.due <= op.invoked + 5.0
    assert written.awaited == {"d0-0"}
    assert sent_delayed(Delay(Way.AFTER, 0.7))[1] == [{"delay": 0.7, "queue_id": 1}]
    (how,) = sent_delayed(Delay(Way.AT, 0.7))[1]
    assert isinstance(how, dict)
    assert set(how) == {"deliver_at", "queue_id"}


@pytest.mark.parametrize(
    ("error", "outcome"), [(SendTimeout("late"), Outcome.INFO), (ClientClosed("no"), Outcome.FAIL)]
)
def test_a_delay_that_was_not_acknowledged_is_not_waited_for(
    error: ClusterError, outcome: Outcome
) -> None:
    written, _ = sent_delayed(Delay(Way.AFTER, 1.0), error)
    assert [op.outcome for op in written.history] == [outcome]
    assert written.awaited == set()


def sent_half(ending: Ending, answers: Answers) -> tuple[Written, Decision, int]:
    """What a half leaves, what the group says of it later, and operations until it was asked."""
    written = Written()
    decisions = Decisions(written, TOPIC)
    producer = cast(TransactionProducer, answers)
    sender = HalfSender(Recorder(written, "x0", TOPIC), producer, decisions)
    asyncio.run(sender.grant(Wish(Want.SEND_HALF, 1, "x0-0", b"x0-0 ", ending=ending)))
    count = len(written.history)
    return written, asyncio.run(_asked_twice(decisions)), count


async def _asked_twice(decisions: Decisions) -> Decision:
    queue = MessageQueue("T", "b", 1)
    message = ReceivedMessage(queue, 0, b"x0-0 rest", b"", 0, 0, 0, 0, 0)
    first = await decisions.check(message)
    assert await decisions.check(message) is first
    return first


@pytest.mark.parametrize(
    ("ending", "kinds", "says", "waits"),
    [
        (Ending.COMMIT, ["commit"], Decision.COMMIT, True),
        (Ending.ROLLBACK, ["rollback"], Decision.ROLLBACK, False),
        (Ending.COMMIT_WHEN_ASKED, [], Decision.COMMIT, True),
        (Ending.ROLLBACK_WHEN_ASKED, [], Decision.ROLLBACK, False),
        (Ending.NEVER, [], Decision.UNKNOWN, False),
    ],
)
def test_a_half_ends_as_wished_and_the_group_says_the_same_when_asked(
    ending: Ending, kinds: list[str], says: Decision, waits: bool
) -> None:
    answers = Answers()
    written, said, before = sent_half(ending, answers)
    assert (answers.asked, said, bool(written.awaited)) == (kinds, says, waits)
    assert written.history[0].kind is Kind.HALF
    later = written.history[before:]  # what was answered, once, its end unknown
    assert len(later) == (says is not Decision.UNKNOWN)
    assert all((op.completed, op.log, op.value) == (INFINITY, "d1", "x0-0") for op in later)


def test_a_commit_whose_end_is_unknown_must_come_all_the_same() -> None:
    written, said, _ = sent_half(Ending.COMMIT, Answers(end_error=SendTimeout("late")))
    assert [op.outcome for op in written.history[:2]] == [Outcome.OK, Outcome.INFO]
    assert (said, written.awaited) == (Decision.COMMIT, {"x0-0"})


def test_a_half_that_was_not_acknowledged_is_never_decided_by_its_sender() -> None:
    answers = Answers(SendTimeout("late"))
    written, said, _ = sent_half(Ending.COMMIT, answers)
    assert (answers.asked, said, written.awaited) == ([], Decision.UNKNOWN, set())
    assert [(op.kind, op.outcome) for op in written.history] == [(Kind.HALF, Outcome.INFO)]


def test_a_group_changes_no_decision() -> None:
    decisions = Decisions(Written(), TOPIC)
    decisions.decide("a", Decision.COMMIT)
    with pytest.raises(AssertionError):
        decisions.decide("a", Decision.ROLLBACK)
