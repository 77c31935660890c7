"""The reader of every queue: from the beginning, over errors, and to the end before it stops."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from chaos.history import Kind, Operation
from chaos.live import tail_reader
from chaos.live.client_process import Topic, Written
from chaos.live.queue_access import Messages
from chaos.live.tail_reader import TailReader
from cluster.errors import ConnectionLost

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("loop_clock")]

BATCH = 32


class FakeAccess:
    """Queues of so many messages, of which the first `deleted` are gone; fails now and then.

    Its batches are shorter than what is asked for, as those of a broker are.
    """

    def __init__(self, *counts: int, deleted: int = 0) -> None:
        self.counts, self.deleted = list(counts), deleted
        self.asked = 0

    async def pull(self, queue: int, offset: int) -> tuple[Messages, int]:
        self.asked += 1
        if self.asked % 5 == 0:
            raise ConnectionLost("nobody leads")
        if offset < self.deleted:
            return (), self.deleted
        end = min(offset + BATCH, self.counts[queue])
        return tuple((n, f"v{queue}-{n}") for n in range(offset, end)), end


async def read(monkeypatch: pytest.MonkeyPatch, access: FakeAccess) -> list[Operation]:
    monkeypatch.setattr(TailReader, "_access", lambda *_: access)

    @contextlib.asynccontextmanager
    async def connect(_: str) -> AsyncIterator[Any]:
        yield FakeClient()

    monkeypatch.setattr(tail_reader.cluster, "connect", connect)
    written = Written(began=time.monotonic())
    reader = TailReader("nowhere", Topic("T", len(access.counts)), written)
    await reader.start()
    await asyncio.sleep(1.01)  # between two looks of the reader
    access.counts = [count + 7 for count in access.counts]
    await reader.stop()
    return written.history


class FakeClient:
    """As far as the name of the broker."""

    def admin(self) -> FakeClient:
        return self

    async def status(self) -> FakeClient:
        return self

    @property
    def brokers(self) -> dict[str, None]:
        return {"broker-a": None}


async def test_everything_is_read_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    history = await read(monkeypatch, FakeAccess(500, 3))
    for queue, count in (("q0", 507), ("q1", 10)):
        polls = [op for op in history if op.log == queue]
        assert {op.kind for op in polls} == {Kind.POLL}
        assert [place for op in polls for place, _ in op.values] == list(range(count))
        (end,) = (op for op in polls if not op.values)
        assert (end.offset, end.log) == (count, queue)
    assert {op.process for op in history} == {"tail"}


async def test_a_reader_that_did_not_come_to_the_end_claims_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    access = FakeAccess(3)

    async def endless(queue: int, offset: int) -> tuple[Messages, int]:
        return tuple((n, f"v{n}") for n in range(offset, offset + 64)), offset + 64

    monkeypatch.setattr(access, "pull", endless)
    history = await read(monkeypatch, access)
    assert history
    assert all(op.values for op in history)


async def test_a_short_batch_is_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told as an end it made 107 messages `never-read` that stood behind a batch of 32."""
    monkeypatch.setattr(tail_reader, "BATCHES_IN_A_ROW_MAX", 1)
    history = await read(monkeypatch, FakeAccess(5 * BATCH, 0))
    last = max(op.invoked for op in history if op.log == "q0" and op.values)
    (end,) = (op for op in history if op.log == "q0" and not op.values)
    assert end.offset == 5 * BATCH + 7
    assert end.invoked >= last


async def test_it_goes_on_behind_what_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    history = await read(monkeypatch, FakeAccess(100, deleted=90))
    assert [(op.kind, op.offset) for op in history[:2]] == [(Kind.SEEK, 90), (Kind.POLL, 90)]
    assert [place for op in history for place, _ in op.values] == list(range(90, 107))
