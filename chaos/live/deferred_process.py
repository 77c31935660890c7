"""Processes that send messages which wait in a broker first: delayed messages, and halves of
transactions.

    delay   send_delayed ─► ok: readers must be shown it, not before `due`
    half    begin ─► commit │ rollback │ silence: the table of decisions answers for the group

What a group decided stands in `Decisions` before a broker is told, as records that all producers of
a group can read would have it. So every producer gives the same answer: after the death of one,
after a commit without an answer, and one that commits only when it is asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Protocol

from chaos.history import INFINITY, Kind, Operation, Outcome
from chaos.live.client_process import Topic, Written
from chaos.workloads import Ending, Way, Wish, value_of
from cluster.client import Decision, Producer, ReceivedMessage, TransactionProducer
from cluster.errors import ClusterError
from cluster.errors import Outcome as Certainty

TRANSACTION_GROUP = "chaos-transactions"
_WHEN_ASKED = {
    Ending.COMMIT_WHEN_ASKED: Decision.COMMIT,
    Ending.ROLLBACK_WHEN_ASKED: Decision.ROLLBACK,
}
_AT_ONCE = {Ending.COMMIT: Decision.COMMIT, Ending.ROLLBACK: Decision.ROLLBACK}
_KINDS = {Decision.COMMIT: Kind.HALF_COMMIT, Decision.ROLLBACK: Kind.HALF_ROLLBACK}


class DeferredProcess(Protocol):
    """One process of the load, for one client's life."""

    async def grant(self, wish: Wish) -> None:
        """Carries out one wish and records its outcome."""


class Recorder:
    """Records the outcomes of one process's operations on one topic."""

    def __init__(self, written: Written, name: str, topic: Topic) -> None:
        self.written, self.name, self.topic = written, name, topic

    async def run(self, kind: Kind, wish: Wish, work: Awaitable[object], due: float = -1.0) -> bool:
        """Whether it certainly happened."""
        began = self.written.now()
        try:
            await work
        except ClusterError as error:
            unknown = error.outcome is Certainty.UNKNOWN
            self._ended(kind, wish, began, Outcome.INFO if unknown else Outcome.FAIL, due)
            return False
        except asyncio.CancelledError:
            self._ended(kind, wish, began, Outcome.INFO, due)
            raise
        self._ended(kind, wish, began, Outcome.OK, due)
        return True

    def _ended(self, kind: Kind, wish: Wish, began: float, outcome: Outcome, due: float) -> None:
        ended = INFINITY if outcome is Outcome.INFO else self.written.now()
        log = f"{self.topic.log}{wish.queue}"
        self.written.history.append(
            Operation(self.name, kind, wish.value, began, ended, outcome, log=log, due=due)
        )


class DelaySender:
    """Sends messages for later: by level, after some time, at a time of this machine's clock."""

    def __init__(self, recorder: Recorder, producer: Producer) -> None:
        self._recorder, self._producer = recorder, producer

    async def grant(self, wish: Wish) -> None:
        """As `DeferredProcess`."""
        recorder, delay = self._recorder, wish.delay
        assert delay is not None, "a delayed message has a time"
        due = recorder.written.now() + delay.seconds
        work = self._producer.send_delayed(
            recorder.topic.name,
            wish.body,
            delay=delay.seconds if delay.way is Way.AFTER else None,
            deliver_at=time.time() + delay.seconds if delay.way is Way.AT else None,
            delay_level=delay.level if delay.way is Way.LEVEL else None,
            queue_id=wish.queue,
        )
        if await recorder.run(Kind.DELAY, wish, work, due):
            recorder.written.awaited.add(wish.value)


class Decisions:
    """The decisions of the group of transactional producers, one per half message, and the history
    to record them in.

    Args:
        topic: of the halves.
    """

    def __init__(self, written: Written, topic: Topic) -> None:
        self._written, self._topic = written, topic
        self._of: dict[str, Decision] = {}
        self._answered: set[str] = set()

    def decide(self, value: str, decision: Decision) -> None:
        """Sets the decision that every producer of the group answers from now on."""
        assert self._of.get(value, decision) is decision, "a group changes no decision"
        self._of[value] = decision

    def commits(self, value: str) -> bool:
        """Whether readers must be shown it."""
        return self._of.get(value) is Decision.COMMIT

    async def check(self, message: ReceivedMessage) -> Decision:
        """Answers a broker's check-back. The first answer is recorded in the history with an open
        end, because the broker may act on it at any later time."""
        value = value_of(message.body)
        decision = self._of.get(value, Decision.UNKNOWN)
        if decision is not Decision.UNKNOWN and value not in self._answered:
            self._answered.add(value)
            log = f"{self._topic.log}{message.queue.queue_id}"
            self._written.history.append(
                Operation(
                    f"{value}-check",
                    _KINDS[decision],
                    value,
                    self._written.now(),
                    INFINITY,
                    Outcome.INFO,
                    log=log,
                )
            )
        return decision


class HalfSender:
    """Sends half messages and ends them as each wish says; many are left for the broker's
    check-back."""

    def __init__(
        self, recorder: Recorder, producer: TransactionProducer, decisions: Decisions
    ) -> None:
        self._recorder, self._producer, self._decisions = recorder, producer, decisions

    async def grant(self, wish: Wish) -> None:
        """As `DeferredProcess`."""
        recorder, ending = self._recorder, wish.ending
        assert ending is not None, "a half has an ending"
        due = -1.0
        if ending in _WHEN_ASKED:
            self._decisions.decide(wish.value, _WHEN_ASKED[ending])
            if self._decisions.commits(wish.value):
                due = recorder.written.now()  # a broker that never asks leaves no other trace
        begun = asyncio.ensure_future(
            self._producer.begin(recorder.topic.name, wish.body, queue_id=wish.queue)
        )
        if not await recorder.run(Kind.HALF, wish, begun, due):
            return
        if ending in _AT_ONCE:
            self._decisions.decide(wish.value, _AT_ONCE[ending])
        if self._decisions.commits(wish.value):
            recorder.written.awaited.add(wish.value)
        if ending is Ending.COMMIT:
            await recorder.run(Kind.HALF_COMMIT, wish, begun.result().commit())
        elif ending is Ending.ROLLBACK:
            await recorder.run(Kind.HALF_ROLLBACK, wish, begun.result().rollback())
