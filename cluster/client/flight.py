"""One request of a producer on its way: one message, or a batch for one queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cluster.client.message import Receipt
from cluster.errors import ClusterError
from cluster.protocol.codes import exception_for
from cluster.protocol.frames import Frame
from cluster.protocol.send_own import SendResult

if TYPE_CHECKING:
    from cluster.client.lane import Lane


Callback = Callable[[Receipt | None, ClusterError | None], object]
"""Told how a message ended: its receipt, or why there is none."""

Waiter = asyncio.Future[Receipt] | Callback


class Entry(NamedTuple):
    """One message: `tail` holds its properties behind the numbers, beginning with UNIQ_KEY."""

    waiter: Waiter
    body: bytes
    tail: bytes
    deadline: float


def fail(waiter: Waiter, error: ClusterError) -> None:
    """Tell that there will be no receipt."""
    if not isinstance(waiter, asyncio.Future):
        tell(waiter, None, error)
    elif not waiter.done():
        waiter.set_exception(error)


def tell(callback: Callback, receipt: Receipt | None, error: ClusterError | None) -> None:
    """What a callback raises is its owner's affair; other messages must hear of theirs."""
    try:
        callback(receipt, error)
    except Exception as raised:
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"the callback {callback!r} of a send raised", "exception": raised}
        )


class Flight:
    """Messages under consecutive numbers of one producer id, in one request.

    Attributes:
        attempts: how often it was sent.
        error: why the last attempt failed; None while it is on its way.
        was_unsure: some attempt ended without anybody knowing whether it was stored.
        numbers_end: the number behind its last message's.
        was_first: nothing before it was open when it was sent last.
        was_reported: its time was over, and everybody who waited was told so.
        sent_at: loop time of the last attempt.
    """

    __slots__ = (
        "attempts",
        "body",
        "born_ms",
        "entries",
        "error",
        "lane",
        "numbers_end",
        "opaque",
        "properties",
        "sent_at",
        "was_first",
        "was_reported",
        "was_unsure",
    )

    numbers_end: int
    opaque: int
    sent_at: float

    def __init__(
        self, lane: Lane, entries: Sequence[Entry], properties: bytes, body: bytes, born_ms: int
    ) -> None:
        self.lane, self.entries = lane, entries
        self.properties, self.body, self.born_ms = properties, body, born_ms
        self.attempts = 0
        self.was_first = self.was_reported = self.was_unsure = False
        self.error: ClusterError | None = None

    def answered(self, answer: Frame | SendResult) -> None:
        """The broker answered."""
        if type(answer) is SendResult:
            self.lane.stored(self, answer)
        else:
            assert isinstance(answer, Frame)
            self.answered_slowly(answer)

    def answered_slowly(self, answer: Frame) -> None:
        """An answer in another form than our own: a failure, or an IPv6 broker's success."""
        if answer.code != 0:
            error = exception_for(answer.code, answer.remark, answer.ext)
            self.lane.refused(self, error)
            return
        ext = answer.ext
        result = SendResult(
            answer.opaque,
            int(ext["queueId"]),
            int(ext["queueOffset"]),
            int(ext.get("index", -1)),
            int(ext.get("term", -1)),
            int(ext["msgId"].partition(",")[0][-16:], 16),
        )
        self.lane.stored(self, result)

    def failed(self, error: ClusterError) -> None:
        """The connection ended first."""
        self.lane.refused(self, error)
