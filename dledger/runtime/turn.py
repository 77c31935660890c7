"""Collects the appends of one turn of the event loop into one proposal.

    append, append, append_many … │ end of the turn: one Proposal ─► applied ─► every future

The first append of a turn asks the loop to call `flush` when the turn is over, so nothing waits for
a timer; a turn that grows beyond `TURN_BYTES_MAX` is proposed in pieces, each when it is full.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from commitlog.files.system import Buffer
from dledger.core.types import Index
from dledger.errors import DledgerError
from dledger.producers.durability import Durability
from dledger.replica.ports import Proposal
from dledger.runtime.owned import Owned

#: Followers write and sync the first piece while the second is being made; a whole window of 1 MiB
#: in one piece would have leader, disks and followers wait for each other in turns.
TURN_BYTES_MAX = 1 << 18

Waiter = tuple["asyncio.Future[Any]", int, int]
"""(future, place in the batch, count): count 0 wants an Index, above it a range of them."""


@dataclass(slots=True)
class Batch(Proposal):
    """A proposal that resolves futures when it is done; those of `early` when it is written."""

    waiters: list[Waiter] = field(default_factory=list)
    early: list[Waiter] = field(default_factory=list)


def batch_done(batch: Proposal, error: DledgerError | None) -> None:
    """`Proposal.done` of a batch."""
    assert isinstance(batch, Batch)
    if error is not None:
        for future, _, _ in batch.waiters:
            if not future.done():
                future.set_exception(error)
        return
    _resolve(batch, batch.waiters)


def batch_written(batch: Proposal) -> None:
    """`Proposal.written` of a batch."""
    assert isinstance(batch, Batch)
    _resolve(batch, batch.early)


def _resolve(batch: Batch, waiters: Sequence[Waiter]) -> None:
    first = batch.first
    for future, place, count in waiters:
        if not future.done():  # told before, or its caller has given up
            start = first + place
            future.set_result(range(start, start + count) if count else start)


class Turn:
    """Collects bodies; `propose` takes them or raises NotDone."""

    def __init__(self, propose: Callable[[Proposal], None], owned: Owned) -> None:
        self._propose, self._owned = propose, owned
        self._bodies: list[Buffer] = []
        self._waiters: list[Waiter] = []
        self._early: list[Waiter] = []
        self._size = 0
        self._loop: asyncio.AbstractEventLoop

    def append(
        self, body: Buffer, durability: Durability = Durability.MAJORITY_ON_DISK
    ) -> asyncio.Future[Index]:
        """One entry; its index when it is as durable as that, and on disk: applied."""
        bodies = self._bodies
        loop = self._begin() if not bodies else self._loop
        future: asyncio.Future[Index] = loop.create_future()
        waiter = (future, len(bodies), 0)
        self._waiters.append(waiter)
        if durability is not Durability.MAJORITY_ON_DISK:
            self._early.append(waiter)
        bodies.append(body)
        self._size += len(body)
        if self._size >= TURN_BYTES_MAX:
            self.flush()
        return future

    def append_many(self, many: Sequence[Buffer]) -> asyncio.Future[range]:
        """Entries next to each other, all or none; their indexes."""
        bodies = self._bodies
        loop = self._begin() if not bodies else self._loop
        future: asyncio.Future[range] = loop.create_future()
        self._waiters.append((future, len(bodies), len(many)))
        bodies.extend(many)
        self._size += sum(map(len, many))
        if self._size >= TURN_BYTES_MAX:
            self.flush()
        return future

    def append_at_once(self, many: Sequence[Buffer]) -> asyncio.Future[range]:
        """As `append_many`, behind all that was collected, before the turn is over."""
        self.flush()
        future: asyncio.Future[range] = self._owned.loop.create_future()
        self._send(Batch(many, batch_done, waiters=[(future, 0, len(many))]))
        return future

    def _begin(self) -> asyncio.AbstractEventLoop:
        self._loop = self._owned.loop
        self._owned.call_soon(self.flush)
        return self._loop

    def flush(self) -> None:
        """Propose the collected appends."""
        if not self._bodies:
            return
        batch = Batch(self._bodies, batch_done, waiters=self._waiters, early=self._early)
        if self._early:
            batch.written, self._early = batch_written, []
        self._bodies, self._waiters, self._size = [], [], 0
        self._send(batch)

    def _send(self, batch: Batch) -> None:
        try:
            self._propose(batch)
        except DledgerError as error:
            batch_done(batch, error)
