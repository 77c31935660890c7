"""One request of a producer that waits for its answer: one message, or a batch for one queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cluster.client.message import Receipt
from cluster.errors import ClusterError, Outcome, OutcomeUnknown, SequenceGap
from cluster.protocol.codes import exception_for
from cluster.protocol.frames import Frame
from cluster.protocol.send_own import SendResult

Callback = Callable[[Receipt | None, ClusterError | None], object]
"""Called with the receipt of a message, or with the error if there is none."""

Waiter = asyncio.Future[Receipt] | Callback


class Entry(NamedTuple):
    """One message. `tail`: its properties behind the numbers, beginning with UNIQ_KEY."""

    waiter: Waiter
    body: bytes
    tail: bytes
    deadline: float


def fail(waiter: Waiter, error: ClusterError) -> None:
    """Give `error` to the waiter of a message that gets no receipt."""
    if not isinstance(waiter, asyncio.Future):
        tell(waiter, None, error)
    elif not waiter.done():
        waiter.set_exception(error)


def tell(callback: Callback, receipt: Receipt | None, error: ClusterError | None) -> None:
    """Call `callback`. The event loop gets its exception, so other messages get their answer."""
    try:
        callback(receipt, error)
    except Exception as raised:
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"the callback {callback!r} of a send raised", "exception": raised}
        )


class InFlightBatch:
    """Messages under consecutive numbers of one producer id, in one request.

    Attributes:
        properties, body: the request's; `QueueSender` writes them with the numbers.
        born_ms: when the messages were sent first, in ms since 1970.
        attempts: how often the request was sent.
        error: the failure of the last attempt; None while its answer is awaited.
        was_unsure: an attempt ended without a sign whether the broker stored it.
        numbers_end: the number behind that of the last message.
        was_first: no request before this one was open when the last attempt was sent.
        was_reported: its deadline passed, and its waiters got a `SendTimeout`.
        sent_at: loop time of the last attempt, in seconds.
    """

    __slots__ = (
        "_on_refused",
        "_on_stored",
        "attempts",
        "body",
        "born_ms",
        "entries",
        "error",
        "numbers_end",
        "opaque",
        "properties",
        "sent_at",
        "was_first",
        "was_reported",
        "was_unsure",
    )

    properties: bytes
    body: bytes
    numbers_end: int
    opaque: int
    sent_at: float

    def __init__(
        self,
        entries: Sequence[Entry],
        born_ms: int,
        on_stored: Callable[[InFlightBatch, SendResult], None],
        on_refused: Callable[[InFlightBatch, ClusterError], None],
    ) -> None:
        self.entries, self.born_ms = entries, born_ms
        self._on_stored, self._on_refused = on_stored, on_refused
        self.attempts = 0
        self.was_first = self.was_reported = self.was_unsure = False
        self.error: ClusterError | None = None

    @property
    def size(self) -> int:
        """Bytes of the messages' bodies."""
        return sum([len(entry[1]) for entry in self.entries])

    def answered(self, answer: Frame | SendResult) -> None:
        """The broker answered."""
        if type(answer) is SendResult:
            self._on_stored(self, answer)
        else:
            assert isinstance(answer, Frame)
            self.answered_slowly(answer)

    def answered_slowly(self, answer: Frame) -> None:
        """Take an answer that is not in our short form: a refusal, or an IPv6 broker's success."""
        if answer.code != 0:
            error = exception_for(answer.code, answer.remark, answer.ext)
            self._on_refused(self, error)
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
        self._on_stored(self, result)

    def failed(self, error: ClusterError) -> None:
        """The connection ended before the answer came."""
        self._on_refused(self, error)

    @property
    def blocking_gap(self) -> SequenceGap | None:
        """The refusal that shows that the stream is blocked; None while it may not be.

        For the first unresolved batch only. A refusal for a missing number shows it if no request
        before this one was open when it was sent: an open request is answered later and may have
        been overtaken.
        """
        if not isinstance(self.error, SequenceGap):
            return None
        return self.error if self.was_first else None

    def error_of_all_attempts(self, error: ClusterError) -> ClusterError:
        """The last attempt's `error`, or `OutcomeUnknown` if an earlier attempt may be stored."""
        if not self.was_unsure or error.outcome is Outcome.UNKNOWN:
            return error
        unknown = OutcomeUnknown(
            f"an earlier attempt may have stored it; look before you send it again: {error}"
        )
        unknown.__cause__ = error
        return unknown
