"""Entries tagged with their producer, so that a retry is stored once (rules R8, R9).

The table of producers is a fold over the log. It costs a look at every entry, so nobody pays for
it who does not use it: folding begins with the first tagged append, or with the first applied batch
that ends with a tagged entry, in slices between turns of the loop; what is appended meanwhile
waits. From then on it keeps up with `apply`.

    pending of this turn ─► check each ─► one Proposal
                              ├─ duplicate: answered when its original is applied
                              └─ gap, unknown: refused
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from commitlog.files.system import Buffer
from dledger.core.types import NO_INDEX, Index
from dledger.errors import DledgerError, EntryTooLarge, OutcomeUnknown, QueueFull
from dledger.log.port import LogStore
from dledger.producers.table import ProducerTable
from dledger.replica.envelope import STAMP_AT, Tag, open_tagged, tagged_body
from dledger.replica.ports import Proposal
from dledger.runtime.clock import Clock
from dledger.runtime.owned import Owned
from dledger.runtime.turn import Batch, batch_done

#: Entries folded between two looks at the loop, about 1 ms.
_SLICE_COUNT = 256
#: Tagged appends that wait for the table; a few MB of them at most are held, the rest refused.
WAITING_MAX = 10_000


class Request(NamedTuple):
    """An entry on its way: its producer's tag, its body, and the future of its index."""

    tag: Tag
    body: Buffer
    future: asyncio.Future[Index]


class Tagging:
    """Tagged appends of one replica. `propose` takes a proposal or raises."""

    def __init__(
        self,
        producers_max: int,
        clock: Clock,
        propose: Callable[[Proposal], None],
        owned: Owned,
    ) -> None:
        self._table = ProducerTable(producers_max=producers_max)
        self._clock, self._propose, self._owned = clock, propose, owned
        self._log: LogStore | None = None
        self._applied = self._folded = NO_INDEX
        self._task: asyncio.Task[None] | None = None
        self._ready = False
        self.requests: list[Request] = []  # of this turn, or waiting for the table
        self._duplicates: list[tuple[Index, Index, asyncio.Future[Index]]] = []
        self._last_ms = 0

    def bind(self, log: LogStore) -> None:
        """The log is open; before the first append."""
        self._log = log

    def append(self, tag: Tag, body: Buffer) -> asyncio.Future[Index]:
        """The entry's index once it is applied (-1: stored earlier, its place is forgotten)."""
        if len(self.requests) >= WAITING_MAX:
            raise QueueFull(f"{WAITING_MAX} tagged appends wait already; pause and try again")
        future: asyncio.Future[Index] = self._owned.loop.create_future()
        if not self.requests:
            self._owned.call_soon(self.flush)
        self.requests.append(Request(tag, body, future))
        return future

    def flush(self) -> None:
        """Propose the collected requests, if the table is whole."""
        if not self.requests:
            return
        if not self._ready:
            self._begin()
            return
        requests, self.requests = self.requests, []
        batch = Batch([], batch_done, stamp_at=STAMP_AT)
        bodies: list[Buffer] = []
        batch.bodies = bodies
        assert self._log is not None
        for request in requests:
            index = Index(self._log.last.index + 1 + len(bodies))
            try:
                body = self._admit(request, index)
            except DledgerError as error:
                request.future.set_exception(error)
                continue
            if body is not None:
                batch.waiters.append((request.future, len(bodies), 0))
                bodies.append(body)
        if bodies:
            try:
                self._propose(batch)
            except DledgerError as error:
                self._rebuild()
                batch_done(batch, error)
                return
            assert batch.last == self._log.last.index, "indexes were foretold rightly"

    def applied(self, first: Index, last: Index) -> None:
        """Entries `first`..`last` are committed; none if `last` is before `first`."""
        if last < first:
            return
        self._applied = last
        if self._ready:
            self._fold(first, last)
        elif self._task is None:
            assert self._log is not None
            if open_tagged(self._log.entry(last).body) is not None:
                self._begin()
        if self._duplicates:
            waiting, self._duplicates = self._duplicates, []
            for duplicate in waiting:
                self._answer(*duplicate)

    def leadership_began(self) -> None:
        """Add the uncommitted entries of earlier leaders to the table: they count, too (R9)."""
        if self._ready:
            self._rebuild()

    def leadership_ended(self) -> None:
        """Forget uncommitted entries, which may be lost; their outcome stays unknown (R9)."""
        self._table.drop_uncommitted()
        waiting, self._duplicates = self._duplicates, []
        for _, _, future in waiting:
            if not future.done():
                future.set_exception(
                    OutcomeUnknown(
                        "leadership ended before the original of this entry was committed; "
                        "send it again with the same sequence"
                    )
                )

    def fail(self, error: DledgerError) -> None:
        """The replica has stopped."""
        if self._task is not None:
            self._task.cancel()
        self.leadership_ended()
        requests, self.requests = self.requests, []
        for request in requests:
            if not request.future.done():
                request.future.set_exception(error)

    def _admit(self, request: Request, index: Index) -> bytearray | None:
        """The body to append at `index`, or None for a duplicate, which is seen to."""
        producer, stream, sequence = request.tag
        skip, wait_for, first_index = self._table.check(producer, stream, sequence)
        if skip:
            self._answer(wait_for, first_index, request.future)
            return None
        self._last_ms = max(self._last_ms, self._clock.time_ms())
        body = tagged_body(request.tag, request.body, self._last_ms)
        assert self._log is not None
        if len(body) > self._log.body_size_max:
            raise EntryTooLarge(
                f"an entry has {len(body)} bytes with its envelope and a file of the log holds one "
                f"of {self._log.body_size_max}; send less"
            )
        self._table.appended(producer, stream, sequence, 1, index)
        return body

    def _answer(self, wait_for: Index, index: Index, future: asyncio.Future[Index]) -> None:
        if wait_for > self._applied:
            self._duplicates.append((wait_for, index, future))
        elif not future.done():
            future.set_result(index)

    def _rebuild(self) -> None:
        """Make the overlay from the log's entries behind the applied ones."""
        self._table.drop_uncommitted()
        assert self._log is not None
        first = Index(self._applied + 1)
        for entry in self._log.entries(first, self._log.last.index):
            tagged = open_tagged(entry.body)
            if tagged is not None:
                producer, stream, sequence = tagged.tag
                self._table.appended(producer, stream, sequence, 1, Index(entry.header.sequence))

    def _begin(self) -> None:
        if self._task is None:
            self._task = self._owned.create_task(self._catch_up())
            self._owned.when_done(self._task, self._caught_up)

    async def _catch_up(self) -> None:
        while self._folded < self._applied:
            self._fold(
                Index(self._folded + 1), Index(min(self._folded + _SLICE_COUNT, self._applied))
            )
            await asyncio.sleep(0)

    def _caught_up(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is not None:  # then the node ends
            return
        if self._folded < self._applied:  # something was applied in the last turn
            self._task = None
            self._begin()
            return
        self._ready = True
        self._rebuild()
        self.flush()

    def _fold(self, first: Index, last: Index) -> None:
        assert first == self._folded + 1
        assert self._log is not None
        for entry in self._log.entries(first, last):
            tagged = open_tagged(entry.body)
            if tagged is not None:
                producer, stream, sequence = tagged.tag
                index, time_ms = Index(entry.header.sequence), tagged.store_timestamp_ms
                self._table.committed(producer, stream, sequence, index, time_ms)
        self._folded = last
