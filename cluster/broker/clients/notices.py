"""Pulls that wait at the relay port, and how their consumers hear of a new leader.

    pull of an always empty queue ─► waits ─► its time is over: nothing new (19)
                                          └► another node leads: offset moved (21)

A stock Java client that gets 21 drops the queue and shares out the queues, for which it asks one
address, perhaps the dead leader's, for the members of its group. When that fails it does so again
after 20 s only, or when it is told that members changed (40). So it is told that once a second,
until it pulls from the queue again: then it has looked at routes (cluster/nameserver/
notify_routes.py). It is told when the name servers have taken the new leader, or after a second.

All of its pulls are answered 21; 40 it gets for each group, not for each queue. What is to be said
to many is said over several turns of the loop.

Clients to which 21 does not mean that go on waiting. Such a queue has no messages and no positions;
commits to it are dropped. Soft state of this node alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
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

TURN_COUNT = 200
"""Clients are told so much in one turn of the loop: about 10 ms, of 50 µs each."""


class Client(Protocol):
    """The connection of a consumer to the relay port."""

    @property
    def closed(self) -> bool:
        """True when the connection has ended."""
        ...

    def answer(self, frame: Frame) -> None:
        """Send the client one frame."""
        ...


_Queue = tuple[str, str, int]
"""Group, topic and queue id of one client's pull."""


@dataclass(eq=False, slots=True)
class _Waiting:
    """One pull that waits; `number` is that of its deadline, 0 for one that never waited."""

    client: Client
    frame: Frame
    queue: _Queue
    number: int = 0


@dataclass(eq=False, slots=True)
class _Told:
    """A client's group that was told; `queues` were. It is listed once, by when it is `due`.

    `news`: the number of the change of which it was told. `is_back`: it has pulled from one of the
    queues again since.
    """

    client: Client
    group: str
    due: float
    news: int
    tries: int = 0
    is_back: bool = False
    queues: set[_Queue] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class _Connection:
    """Pulls of one client that wait, and the groups that were notified."""

    waiting: dict[_Queue, _Waiting] = field(default_factory=dict)
    told: dict[str, _Told] = field(default_factory=dict)


class Notices:
    """The notices of one node. `sent`: answers 21 and notifications 40 so far."""

    def __init__(
        self,
        count_max: int,
        seconds_max: float,
        *,
        now: Callable[[], float],
        call_at: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """At most `count_max` pulls wait, each for `seconds_max` at most.

        As many are known to have been told. `now` and `call_at`: seconds of the event loop's clock.
        """
        self._count_max, self._seconds_max = count_max, seconds_max
        self._now, self._call_at = now, call_at
        self._connections: dict[Client, _Connection] = {}
        self._waiting_count = self._told_count = 0
        self._deadlines: Deadlines[_Waiting] = Deadlines(self._expire, now=now, call_at=call_at)
        self._to_tell: deque[_Waiting] = deque()
        self._told: deque[_Told] = deque()
        self._is_known: Callable[[], bool] | None = None
        self._until = self._late_until = 0.0
        self._news = 0
        self._is_looking = False
        self.sent = 0

    def __len__(self) -> int:
        """Pulls that wait."""
        return self._waiting_count

    def take(self, client: Client, frame: Frame, request: PullRequest) -> None:
        """A pull from an always empty queue. Raises FlowControlled when too many wait."""
        queue = request.consumer_group, request.topic, request.queue_id
        waiting = _Waiting(client, frame, queue)
        connection = self._connections.get(client)
        told = connection.told.get(queue[0]) if connection is not None else None
        was_told = told is not None and queue in told.queues
        if told is not None and was_told:
            told.is_back = True
        is_new = told is None or not was_told or told.news != self._news
        has_room = self._told_count < self._count_max and self._now() < self._late_until
        if is_new and has_room and _looks_at_once(frame):
            self._tell(waiting)
            self._look_later(LOOK_SECONDS)
            return
        if not request.sys_flag & PULL_FLAG_SUSPEND or request.suspend_timeout_millis <= 0:
            self._answer(waiting, ResponseCode.PULL_NOT_FOUND)
            return
        earlier = connection.waiting.get(queue) if connection is not None else None
        if earlier is not None:
            self._drop(earlier)
            self._answer(earlier, ResponseCode.PULL_NOT_FOUND)
        elif self._waiting_count >= self._count_max:
            raise FlowControlled("too many pulls wait for news of a leader; pause and pull again")
        self._connections.setdefault(client, _Connection()).waiting[queue] = waiting
        self._waiting_count += 1
        seconds = min(request.suspend_timeout_millis / 1000, self._seconds_max)
        waiting.number = self._deadlines.add(waiting, seconds)

    def client_closed(self, client: Client) -> None:
        """Forget its pulls."""
        connection = self._connections.pop(client, None)
        if connection is None:
            return
        for waiting in connection.waiting.values():
            self._deadlines.drop(waiting.number)
        self._waiting_count -= len(connection.waiting)

    def leader_changed(self, is_known: Callable[[], bool]) -> None:
        """Another node leads, or another term began. `is_known`: have name servers taken it?"""
        self._is_known, self._until = is_known, self._now() + TOLD_SECONDS_MAX
        self._look()

    def _look(self) -> None:
        """Tell those that are due, as far as one turn goes; then look again, if need be."""
        now = self._now()
        if self._is_known is not None and (self._is_known() or now >= self._until):
            self._is_known = None
            self._news += 1
            self._late_until = now + LATE_SECONDS
            pulls = (row.waiting.values() for row in self._connections.values())
            self._to_tell = deque(waiting for rows in pulls for waiting in rows)
        left = TURN_COUNT
        while left and self._to_tell:
            left -= 1
            waiting = self._to_tell.popleft()
            connection = self._connections.get(waiting.client)
            is_there = connection and connection.waiting.get(waiting.queue) is waiting
            if is_there and _looks_at_once(waiting.frame):
                self._drop(waiting)
                self._tell(waiting)
        while left and self._told and self._told[0].due <= now:
            left -= 1
            self._tell_again(self._told.popleft())
        if self._is_known is not None or self._to_tell or self._told:
            self._look_later(LOOK_SECONDS if left else 0.0)

    def _look_later(self, seconds: float) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._call_at(self._now() + seconds, self._look_again)

    def _look_again(self) -> None:
        self._is_looking = False
        self._look()

    def _tell(self, waiting: _Waiting) -> None:
        """21; it is not remembered beyond the limit."""
        if self._told_count < self._count_max:
            self._remember(waiting)
        self._answer(waiting, ResponseCode.PULL_OFFSET_MOVED)
        self.sent += 1

    def _remember(self, waiting: _Waiting) -> None:
        client, group = waiting.client, waiting.queue[0]
        table = self._connections.setdefault(client, _Connection()).told
        told = table.get(group)
        if told is None:
            told = table[group] = _Told(client, group, self._now() + AGAIN_SECONDS, self._news)
            self._told.append(told)
        elif told.news != self._news:
            self._told_count -= len(told.queues)
            told.news, told.tries, told.is_back, told.queues = self._news, 0, False, set()
        if waiting.queue not in told.queues:
            self._told_count += 1
            told.queues.add(waiting.queue)

    def _tell_again(self, told: _Told) -> None:
        """40: it may have asked the dead node for the members of its group."""
        connection = self._connections.get(told.client)
        if connection is None or connection.told.get(told.group) is not told or told.client.closed:
            self._forget(told)
            return
        is_over = told.is_back or told.tries >= TRIES
        if is_over and self._now() >= self._late_until:
            self._forget(told)
            return
        told.due = self._now() + AGAIN_SECONDS
        self._told.append(told)
        if is_over:
            return
        told.tries += 1
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

    def _forget(self, told: _Told) -> None:
        self._told_count -= len(told.queues)
        connection = self._connections.get(told.client)
        if connection is not None and connection.told.get(told.group) is told:
            del connection.told[told.group]
            self._tidy(told.client, connection)

    def _expire(self, _: int, waiting: _Waiting) -> None:
        self._drop(waiting, is_due=True)
        self._answer(waiting, ResponseCode.PULL_NOT_FOUND)

    def _drop(self, waiting: _Waiting, *, is_due: bool = False) -> None:
        """Forget a pull that waits no more."""
        if not is_due:
            self._deadlines.drop(waiting.number)
        connection = self._connections[waiting.client]
        del connection.waiting[waiting.queue]
        self._waiting_count -= 1
        self._tidy(waiting.client, connection)

    def _tidy(self, client: Client, connection: _Connection) -> None:
        if not connection.waiting and not connection.told:
            del self._connections[client]

    @staticmethod
    def _answer(waiting: _Waiting, code: int) -> None:
        if waiting.client.closed:
            return
        ext = encode(PullResponse(next_begin_offset=0, min_offset=0, max_offset=0))
        waiting.client.answer(response(waiting.frame, code, ext, b"", "NO_MESSAGES_HERE"))


def _looks_at_once(frame: Frame) -> bool:
    """Does 21 make this client share out its queues anew at once?"""
    return frame.language == "JAVA" and LOOKS_AT_ONCE <= frame.version < VERSION_OWN
