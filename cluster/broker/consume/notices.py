"""Pulls that wait at the relay port, and how their consumers hear of a new leader.

    pull of an always empty queue ─► waits ─► its time is over: nothing new (19)
                                          └► another node leads: offset moved (21)

A stock Java client that gets 21 drops the queue and shares out the queues, for which it asks one
address, perhaps the dead leader's, for the members of its group. When that fails it does so again
after 20 s only, or when it is told that members changed (40). So it is told that once a second,
until it pulls from the queue again: then it has looked at routes (cluster/nameserver/
notify_routes.py). It is told when the name servers have taken the new leader, or after a second.

Clients to which 21 does not mean that go on waiting. Such a queue has no messages and no positions;
commits to it are dropped. Soft state of this node alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from cluster.broker.kernel.events.deadlines import Deadlines
from cluster.errors import FlowControlled
from cluster.protocol.codes import VERSION, VERSION_OWN, RequestCode, ResponseCode
from cluster.protocol.frames import FLAG_ONEWAY, Frame, response
from cluster.protocol.headers import (
    PULL_FLAG_SUSPEND,
    ConsumerListRequest,
    PullRequest,
    PullResponse,
    encode,
)

LOOKS_AT_ONCE = 453
"""Java 5.2.0. Earlier clients wait for 10 s after code 21 and do not share out the queues."""

TOLD_SECONDS_MAX = 1.0
"""So long after another node leads, consumers are told although a name server has not answered."""

LOOK_SECONDS = 0.1
AGAIN_SECONDS = 1.05
"""Between two notifications; a client shares out its queues once a second at most."""

TRIES = 8

LATE_SECONDS = 5.0
"""A pull that comes so soon after the others were told is told as well, once."""


class Client(Protocol):
    """The connection of a consumer to the relay port."""

    @property
    def closed(self) -> bool:
        """True when the connection has ended."""
        ...

    def answer(self, frame: Frame) -> None:
        """Send the client one frame."""
        ...


@dataclass(eq=False, slots=True)
class _Waiting:
    """One pull that waits; `answered` also when its time is over."""

    client: Client
    frame: Frame
    request: PullRequest
    answered: bool = False


@dataclass(eq=False, slots=True)
class _Told:
    """A consumer that has not pulled from its queue again since it was told."""

    client: Client
    group: str
    due: float
    tries: int = 0


_Queue = tuple[Client, str, str, int]


class Notices:
    """Of one node. `sent`: answers 21 and notifications 40 so far."""

    def __init__(
        self,
        count_max: int,
        seconds_max: float,
        *,
        now: Callable[[], float],
        call_at: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """At most `count_max` pulls wait, each for `seconds_max` at most.

        `now` and `call_at`: seconds of the event loop's clock.
        """
        self._count_max, self._seconds_max = count_max, seconds_max
        self._now, self._call_at = now, call_at
        self._waiting: dict[_Queue, _Waiting] = {}
        self._deadlines: Deadlines[_Waiting] = Deadlines(self._expire, now=now, call_at=call_at)
        self._told: dict[_Queue, _Told] = {}
        self._is_known: Callable[[], bool] | None = None
        self._until = self._late_until = 0.0
        self._told_lately: set[_Queue] = set()
        self._is_looking = False
        self.sent = 0

    def __len__(self) -> int:
        """Pulls that wait."""
        return len(self._waiting)

    def take(self, client: Client, frame: Frame, request: PullRequest) -> None:
        """A pull from an always empty queue. Raises FlowControlled when too many wait."""
        queue = _queue(client, request)
        waiting = _Waiting(client, frame, request)
        self._told.pop(queue, None)
        is_late = self._now() < self._late_until and queue not in self._told_lately
        if is_late and self._tell_one(queue, waiting):
            return
        if not request.sys_flag & PULL_FLAG_SUSPEND or request.suspend_timeout_millis <= 0:
            self._answer(waiting, ResponseCode.PULL_NOT_FOUND)
            return
        if len(self._waiting) >= self._count_max:
            raise FlowControlled("too many pulls wait for news of a leader; pause and pull again")
        earlier = self._waiting.get(queue)
        self._waiting[queue] = waiting
        if earlier is not None:
            self._answer(earlier, ResponseCode.PULL_NOT_FOUND)
        seconds = min(request.suspend_timeout_millis / 1000, self._seconds_max)
        self._deadlines.add(waiting, seconds)

    def client_closed(self, client: Client) -> None:
        """Forget its pulls."""
        for queue in [queue for queue in self._waiting if queue[0] is client]:
            del self._waiting[queue]
        for queue in [queue for queue in self._told if queue[0] is client]:
            del self._told[queue]
        self._told_lately = {queue for queue in self._told_lately if queue[0] is not client}

    def leader_changed(self, is_known: Callable[[], bool]) -> None:
        """Another node leads, or another term began. `is_known`: have name servers taken it?"""
        self._is_known, self._until = is_known, self._now() + TOLD_SECONDS_MAX
        self._look()

    def _look(self) -> None:
        if self._is_known is not None and (self._is_known() or self._now() >= self._until):
            self._is_known = None
            self._tell()
        for queue, told in list(self._told.items()):
            if told.due <= self._now():
                self._tell_again(queue, told)
        if not self._is_looking and (self._is_known is not None or self._told):
            self._is_looking = True
            self._call_at(self._now() + LOOK_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._is_looking = False
        self._look()

    def _tell(self) -> None:
        """21 to the pulls that wait, and for a while to those that come."""
        self._late_until = self._now() + LATE_SECONDS
        self._told_lately.clear()
        for queue, waiting in list(self._waiting.items()):
            if self._tell_one(queue, waiting):
                del self._waiting[queue]

    def _tell_one(self, queue: _Queue, waiting: _Waiting) -> bool:
        frame = waiting.frame
        if frame.language != "JAVA" or not LOOKS_AT_ONCE <= frame.version < VERSION_OWN:
            return False
        self._told_lately.add(queue)
        self._told[queue] = _Told(queue[0], queue[1], self._now() + AGAIN_SECONDS)
        self._answer(waiting, ResponseCode.PULL_OFFSET_MOVED)
        self.sent += 1
        self._look()
        return True

    def _tell_again(self, queue: _Queue, told: _Told) -> None:
        """40: it may have asked the dead node for the members of its group."""
        if told.client.closed or told.tries >= TRIES:
            del self._told[queue]
            return
        told.tries, told.due = told.tries + 1, self._now() + AGAIN_SECONDS
        told.client.answer(
            Frame(
                RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
                0,
                encode(ConsumerListRequest(told.group)),
                flag=FLAG_ONEWAY,
                language="JAVA",
                version=VERSION,
            )
        )
        self.sent += 1

    def _expire(self, _: int, waiting: _Waiting) -> None:
        queue = _queue(waiting.client, waiting.request)
        if self._waiting.get(queue) is waiting:
            del self._waiting[queue]
            self._answer(waiting, ResponseCode.PULL_NOT_FOUND)

    @staticmethod
    def _answer(waiting: _Waiting, code: int) -> None:
        if waiting.answered or waiting.client.closed:
            return
        waiting.answered = True
        ext = encode(PullResponse(next_begin_offset=0, min_offset=0, max_offset=0))
        waiting.client.answer(response(waiting.frame, code, ext, b"", "NO_MESSAGES_HERE"))


def _queue(client: Client, request: PullRequest) -> _Queue:
    return client, request.consumer_group, request.topic, request.queue_id
