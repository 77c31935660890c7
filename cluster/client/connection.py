"""One connection: requests out, answers matched by their opaque number, one write per turn.

Whatever is written in one turn of the event loop leaves in one system call at its end. When the
connection ends, everything that waits fails with `ConnectionLost`: the outcome is unknown.
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
"""Unsent bytes that a transport keeps without a word; producers' limits bound what they send."""

ServerRequest = Callable[[Frame, "Connection"], None]


class Waiter(Protocol):
    """Something that waits for the answer to a request."""

    def answered(self, answer: Frame | SendResult) -> None: ...

    def failed(self, error: ClusterError) -> None: ...


class Call:
    """A request whose answer is awaited through a future."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[Frame]) -> None:
        self.future = future

    def answered(self, answer: Frame | SendResult) -> None:
        """The answer came."""
        if not self.future.done() and isinstance(answer, Frame):
            self.future.set_result(answer)

    def failed(self, error: ClusterError) -> None:
        """The connection ended first."""
        if not self.future.done():
            self.future.set_exception(error)


class Connection(asyncio.Protocol):
    """A connection to one address. Made by `Pool`."""

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
        """A number that no waiting request has."""
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
        """Send a message; its answer goes to `waiter`. The request's opaque number."""
        self._opaque = opaque = self._opaque + 1 if self._opaque < OPAQUE_MAX else 1
        self.waiting[opaque] = waiter
        out = self._out
        if not out:
            self._loop.call_soon(self._flush)
        out.append(encoder.frame(opaque, properties, body, born_ms))
        return opaque

    def post(self, opaque: int, frame: bytes, waiter: Waiter) -> None:
        """Send a request; its answer goes to `waiter`."""
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
        """Send a request and wait for its answer, whatever its code says.

        Raises:
            ConnectionLost: the connection ended, or no answer came in `time_limit` seconds.
            NotConnected: it had ended before.
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
        """As `call`, and a failing answer is raised as its exception."""
        answer = await self.call(code, ext, body, time_limit=time_limit)
        if answer.code != 0:
            raise exception_for(answer.code, answer.remark, answer.ext)
        return answer

    def told_time(self, refusal: Frame) -> None:
        """A seal's stamp was refused (signed.py)."""

    def close(self) -> None:
        """End the connection; what waits fails."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End it without sending what is queued."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop has classes of its own
        self._transport.set_write_buffer_limits(WRITE_BUFFER_SIZE_MAX)
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        waiting, self.waiting = self.waiting, {}
        reason = f": {exc}" if exc else ""
        error = ConnectionLost(f"the connection to {self.address} ended{reason}")
        for waiter in waiting.values():
            waiter.failed(error)
        self._on_lost(self)

    def data_received(self, data: bytes) -> None:
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
