"""One connection: requests out, answers matched by their opaque number, one write per turn.

All frames that are written in one turn of the event loop leave in one system call at its end. When
the connection ends, each request that waits fails with `ConnectionLost`: its outcome is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol, cast

from cluster.errors import ClusterError, ConnectionLost, NotConnected, RemoteProtocolError
from cluster.protocol.codes import VERSION_OWN, ResponseCode, exception_for
from cluster.protocol.frames import EMPTY, KIND_JSON, Frame, encode_frame
from cluster.protocol.send_own import ResponseDecoder, SendEncoder, SendResult

OPAQUE_MAX = 0x7FFFFFFF
WRITE_BUFFER_SIZE_MAX = 4 * 1024 * 1024
"""Unsent bytes that a transport keeps before it reports a full buffer. Producers have limits of
their own, so the report is not used."""

ServerRequest = Callable[[Frame, "Connection"], None]


class Waiter(Protocol):
    """The receiver of the answer to one request."""

    def answered(self, answer: Frame | SendResult) -> None:
        """The answer came."""
        ...

    def failed(self, error: ClusterError) -> None:
        """The connection ended before the answer came."""
        ...


class Call:
    """A request with a future for its answer."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[Frame]) -> None:
        self.future = future

    def answered(self, answer: Frame | SendResult) -> None:
        """Give the answer to the task that waits, unless it gave up."""
        if not self.future.done() and isinstance(answer, Frame):
            self.future.set_result(answer)

    def failed(self, error: ClusterError) -> None:
        """Raise `error` in the task that waits: the connection ended first."""
        if not self.future.done():
            self.future.set_exception(error)


class Connection(asyncio.Protocol):
    """A connection to one address, made by `Pool`.

    Attributes:
        waiting: opaque number → receiver of its answer.
    """

    def __init__(
        self,
        address: str,
        on_request: ServerRequest,
        on_lost: Callable[[Connection], None],
    ) -> None:
        self.address = address
        self.waiting: dict[int, Waiter] = {}
        self._on_request, self._on_lost = on_request, on_lost
        self._decoder = ResponseDecoder()
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._out: list[bytes] = []
        self._opaque = 0
        self.is_open = False

    def next_opaque(self) -> int:
        """A request number that no waiting request has."""
        self._opaque = opaque = self._opaque + 1 if self._opaque < OPAQUE_MAX else 1
        return opaque

    def write(self, frame: bytes) -> None:
        """Send `frame` at the end of this turn."""
        out = self._out
        if not out:
            self._loop.call_soon(self._flush)
        out.append(frame)

    def post_send(
        self, encoder: SendEncoder, properties: bytes, body: bytes, born_ms: int, waiter: Waiter
    ) -> int:
        """Send a message; `waiter` gets the answer. Returns the request's opaque number."""
        self._opaque = opaque = self._opaque + 1 if self._opaque < OPAQUE_MAX else 1
        self.waiting[opaque] = waiter
        out = self._out
        if not out:
            self._loop.call_soon(self._flush)
        out.append(encoder.frame(opaque, properties, body, born_ms))
        return opaque

    def post(self, opaque: int, frame: bytes, waiter: Waiter) -> None:
        """Send the encoded request `frame`; `waiter` gets the answer."""
        self.waiting[opaque] = waiter
        out = self._out
        if not out:
            self._loop.call_soon(self._flush)
        out.append(frame)

    async def call(
        self,
        code: int,
        ext: Mapping[str, str] = EMPTY,
        body: bytes = b"",
        *,
        time_limit: float,
        oneway: bool = False,
    ) -> Frame:
        """Send a request and wait for its answer, which may be a refusal.

        Raises:
            ConnectionLost: the connection ended, or no answer came in `time_limit` seconds.
            NotConnected: the connection had ended before; nothing was sent.
        """
        if not self.is_open:
            raise NotConnected(f"the connection to {self.address} is closed")
        opaque = self.next_opaque()
        flag = 2 if oneway else 0
        frame = Frame(code, opaque, ext, body, flag, None, "PYTHON", VERSION_OWN, KIND_JSON)
        data = encode_frame(frame)
        if oneway:
            self.write(data)
            return Frame(0, opaque)
        future: asyncio.Future[Frame] = self._loop.create_future()
        self.post(opaque, data, Call(future))
        try:
            async with asyncio.timeout(time_limit):
                return await future
        except TimeoutError:
            raise ConnectionLost(
                f"{self.address} did not answer request {code} in {time_limit:g} s"
            ) from None
        finally:
            self.waiting.pop(opaque, None)

    async def ask(
        self, code: int, ext: Mapping[str, str] = EMPTY, body: bytes = b"", *, time_limit: float
    ) -> Frame:
        """As `call`, but raise a refusal as the exception of its code."""
        answer = await self.call(code, ext, body, time_limit=time_limit)
        if answer.code != 0:
            raise exception_for(answer.code, answer.remark, answer.ext)
        return answer

    def told_time(self, refusal: Frame) -> None:
        """A broker refused a seal's time stamp; only a `SignedConnection` has seals."""

    def close(self) -> None:
        """Write queued frames, then end the connection; requests that wait fail."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once; queued frames are dropped."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio: the connection is open."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop has classes of its own
        self._transport.set_write_buffer_limits(WRITE_BUFFER_SIZE_MAX)
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio: the connection ended; requests that wait fail."""
        self.is_open = False
        waiting, self.waiting = self.waiting, {}
        reason = f": {exc}" if exc else ""
        for waiter in waiting.values():  # an error of its own each: raising it gives it a story
            waiter.failed(ConnectionLost(f"the connection to {self.address} ended{reason}"))
        self._on_lost(self)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio: give answers to their receivers, requests to the client."""
        try:
            items = self._decoder.feed(data)
        except RemoteProtocolError as error:
            items = [item for item in error.frames if isinstance(item, Frame | SendResult)]
            self.abort()
        take = self.waiting.pop
        for item in items:
            if type(item) is Frame:
                if not item.flag & 1:
                    self._on_request(item, self)
                    continue
                if item.code == ResponseCode.SEAL_STALE:
                    self.told_time(item)
            waiter = take(item.opaque, None)
            if waiter is not None:
                waiter.answered(item)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
