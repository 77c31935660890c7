"""One process of the load: carries out one wish at a time and records its outcome.

    wish ─► one operation ─► ok / fail / info ─► history ─► next wish

After an operation whose outcome nobody knows its name retires (`p0` → `p0_1`), since the operation
may still happen at any time; a group retires with its process, because a commit that arrives late
would rightly move its position back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32

from chaos.checkers.blind import UNSEEN
from chaos.history import INFINITY, Kind, Level, Operation, Outcome
from chaos.live.queue_access import QueueAccess
from chaos.workloads import Want, Wish
from cluster.client import Producer
from cluster.errors import ClusterError
from cluster.errors import Outcome as Certainty


class Topic(NamedTuple):
    """A topic of the workload. `log` and a queue's number are the queue's name in a history.
    `deferred`: its messages are delayed or transactional, and deferred_watch.py waits for them."""

    name: str
    queues: int
    log: str = "q"
    deferred: bool = False


@dataclass(slots=True)
class Written:
    """The common record of all processes of a load.

    Attributes:
        history: finished operations; times in seconds since `began`.
        complaints: what a client met that no outcome describes, as sentences.
        unplaced: values that were acknowledged without a place (chaos/checkers/lost.py).
        began: of the monotonic clock, in seconds.
        awaited: values that wait in a broker and must come to readers.
        arrived: values that a reader of such messages was shown.
    """

    history: list[Operation] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    awaited: set[str] = field(default_factory=set)
    arrived: set[str] = field(default_factory=set)

    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.began


class ClientProcess:
    """A client process: its present name, and its position in each queue.

    Args:
        name: without the number of its retirements.
        generation: of the client that it lives on; a later one begins with a name of its own.
        access: to the queues of its topic.
    """

    def __init__(
        self,
        written: Written,
        name: str,
        generation: int,
        level: Level,
        topic: Topic,
        access: QueueAccess,
    ) -> None:
        self._written, self._base, self._level = written, name, level
        self._retired = generation * 1000
        self._topic, self._access = topic, access
        self._next: dict[int, int] = {}
        self._committed: dict[int, int] = {}

    @property
    def name(self) -> str:
        """Name in the history; a new one after each send or commit of unknown outcome."""
        return f"{self._base}_{self._retired}" if self._retired else self._base

    async def grant(self, wish: Wish, producer: Producer | None) -> None:
        """Carries out one operation and records its outcome in the history."""
        actions: dict[Want, Callable[[Wish], _Action]] = {
            Want.READ: self._read,
            Want.POLL: self._poll,
            Want.COMMIT: self._commit,
            Want.FETCH: self._fetch,
        }
        action = self._send(wish, producer) if producer else actions[wish.want](wish)
        began = self._written.now()
        kind, value, log = action.kind, action.value, self._log(action.queue)
        try:
            await action.run()
        except ClusterError as error:
            unknown = error.outcome is Certainty.UNKNOWN
            self._ended(kind, value, began, log, Outcome.INFO if unknown else Outcome.FAIL)
            return
        except asyncio.CancelledError:
            self._ended(kind, value, began, log, Outcome.INFO)
            raise
        except ValueError as error:  # what was answered is no answer
            self._written.complaints.append(f"{self.name}, {kind.value} of {log}: {error}")
            return
        if action.log is None:
            return  # there was nothing to see
        if action.kind is Kind.APPEND and action.offset < 0:
            self._written.unplaced.append(value)
            self._ended(kind, value, began, log, Outcome.INFO)
            return
        self._written.history.append(
            Operation(
                self.name,
                action.kind,
                action.value,
                began,
                self._written.now(),
                Outcome.OK,
                action.offset,
                action.log,
                action.values,
                self._level,
                action.position,
            )
        )

    def _ended(self, kind: Kind, value: str, began: float, log: str, outcome: Outcome) -> None:
        ended = INFINITY if outcome is Outcome.INFO else self._written.now()
        self._written.history.append(
            Operation(self.name, kind, value, began, ended, outcome, log=log, level=self._level)
        )
        if outcome is Outcome.INFO and kind in (Kind.APPEND, Kind.COMMIT):
            self._retired += 1
            self._committed.clear()

    def _log(self, queue: int) -> str:
        return f"{self._topic.log}{queue}"

    # -- actions

    def _send(self, wish: Wish, producer: Producer) -> _Action:
        # The client's own rule for keys, so that a failed send is filed under its queue, too.
        queue = crc32(wish.key.encode()) % self._topic.queues if wish.key else wish.queue
        action = _Action(Kind.APPEND, wish.value, queue)

        async def run() -> None:
            receipt = await producer.send(
                self._topic.name,
                wish.body,
                key=wish.key or None,
                queue_id=None if wish.key else wish.queue,
            )
            action.log, action.offset = self._log(receipt.queue.queue_id), receipt.queue_offset
            action.position = receipt.position

        action.run = run
        return action

    def _read(self, wish: Wish) -> _Action:
        action = _Action(Kind.READ, "", wish.queue)

        async def run() -> None:
            end = await self._access.end(wish.queue)
            if end:
                messages, _ = await self._access.pull(wish.queue, end - 1)
                action.value = messages[0][1] if messages else UNSEEN
            action.log, action.offset = self._log(wish.queue), end

        action.run = run
        return action

    def _poll(self, wish: Wish) -> _Action:
        at = self._next.get(wish.queue, 0)
        action = _Action(Kind.POLL, "", wish.queue)

        async def run() -> None:
            messages, following = await self._access.pull(wish.queue, at)
            if messages or following > at:
                self._next[wish.queue] = following
            if messages:
                action.log, action.offset, action.values = self._log(wish.queue), at, messages
                if self._topic.deferred:
                    self._written.arrived.update(value for _, value in messages)
            elif following > at:  # what stood there was deleted meanwhile
                action.kind, action.log, action.offset = Kind.SEEK, self._log(wish.queue), following

        action.run = run
        return action

    def _commit(self, wish: Wish) -> _Action:
        action = _Action(Kind.COMMIT, self.name, wish.queue)

        async def run() -> None:
            end = await self._access.end(wish.queue)
            at = max(self._committed.get(wish.queue, 0), end)
            await self._access.commit(self.name, wish.queue, at)
            self._committed[wish.queue] = at
            action.log, action.offset = self._log(wish.queue), at

        action.run = run
        return action

    def _fetch(self, wish: Wish) -> _Action:
        action = _Action(Kind.FETCH, self.name, wish.queue)

        async def run() -> None:
            action.offset = await self._access.fetch(self.name, wish.queue)
            action.log = self._log(wish.queue)

        action.run = run
        return action


async def _nothing() -> None: ...


@dataclass(slots=True)
class _Action:
    """An operation under way; `log` stays None if it has no result that belongs into the
    history.
    """

    kind: Kind
    value: str
    queue: int
    log: str | None = None
    offset: int = -1
    values: tuple[tuple[int, str], ...] = ()
    position: int = -1
    run: Callable[[], Awaitable[None]] = _nothing
