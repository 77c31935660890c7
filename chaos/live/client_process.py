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
    `parked`: its messages are delayed or transactional, and parked_watch.py waits for them."""

    name: str
    queues: int
    log: str = "q"
    parked: bool = False


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
    """Its present name, and where it stands in each queue.

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
        return f"{self._base}_{self._retired}" if self._retired else self._base

    async def grant(self, wish: Wish, producer: Producer | None) -> None:
        """Carries out one operation and records its outcome in the history."""
        deeds: dict[Want, Callable[[Wish], _Deed]] = {
            Want.READ: self._read,
            Want.POLL: self._poll,
            Want.COMMIT: self._commit,
            Want.FETCH: self._fetch,
        }
        deed = self._send(wish, producer) if producer else deeds[wish.want](wish)
        began = self._written.now()
        kind, value, log = deed.kind, deed.value, self._log(deed.queue)
        try:
            await deed.run()
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
        if deed.log is None:
            return  # there was nothing to see
        if deed.kind is Kind.APPEND and deed.offset < 0:
            self._written.unplaced.append(value)
            self._ended(kind, value, began, log, Outcome.INFO)
            return
        self._written.history.append(
            Operation(
                self.name,
                deed.kind,
                deed.value,
                began,
                self._written.now(),
                Outcome.OK,
                deed.offset,
                deed.log,
                deed.values,
                self._level,
                deed.position,
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

    # -- deeds

    def _send(self, wish: Wish, producer: Producer) -> _Deed:
        # The client's own rule for keys, so that a failed send is filed under its queue, too.
        queue = crc32(wish.key.encode()) % self._topic.queues if wish.key else wish.queue
        deed = _Deed(Kind.APPEND, wish.value, queue)

        async def run() -> None:
            receipt = await producer.send(
                self._topic.name,
                wish.body,
                key=wish.key or None,
                queue_id=None if wish.key else wish.queue,
            )
            deed.log, deed.offset = self._log(receipt.queue.queue_id), receipt.queue_offset
            deed.position = receipt.position

        deed.run = run
        return deed

    def _read(self, wish: Wish) -> _Deed:
        deed = _Deed(Kind.READ, "", wish.queue)

        async def run() -> None:
            end = await self._access.end(wish.queue)
            if end:
                messages, _ = await self._access.pull(wish.queue, end - 1)
                deed.value = messages[0][1] if messages else UNSEEN
            deed.log, deed.offset = self._log(wish.queue), end

        deed.run = run
        return deed

    def _poll(self, wish: Wish) -> _Deed:
        at = self._next.get(wish.queue, 0)
        deed = _Deed(Kind.POLL, "", wish.queue)

        async def run() -> None:
            messages, following = await self._access.pull(wish.queue, at)
            if messages or following > at:
                self._next[wish.queue] = following
            if messages:
                deed.log, deed.offset, deed.values = self._log(wish.queue), at, messages
                if self._topic.parked:
                    self._written.arrived.update(value for _, value in messages)
            elif following > at:  # what stood there was deleted meanwhile
                deed.kind, deed.log, deed.offset = Kind.SEEK, self._log(wish.queue), following

        deed.run = run
        return deed

    def _commit(self, wish: Wish) -> _Deed:
        deed = _Deed(Kind.COMMIT, self.name, wish.queue)

        async def run() -> None:
            end = await self._access.end(wish.queue)
            at = max(self._committed.get(wish.queue, 0), end)
            await self._access.commit(self.name, wish.queue, at)
            self._committed[wish.queue] = at
            deed.log, deed.offset = self._log(wish.queue), at

        deed.run = run
        return deed

    def _fetch(self, wish: Wish) -> _Deed:
        deed = _Deed(Kind.FETCH, self.name, wish.queue)

        async def run() -> None:
            deed.offset = await self._access.fetch(self.name, wish.queue)
            deed.log = self._log(wish.queue)

        deed.run = run
        return deed


async def _nothing() -> None: ...


@dataclass(slots=True)
class _Deed:
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
