"""One incoming connection: who is it, then its messages, decoded in place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from dledger.core.messages import Message
from dledger.core.types import NodeId
from dledger.errors import MalformedFrame, PeerRefused
from dledger.handshake import Acceptor, Hello, Lane, Member, Vouch, refusal_frame
from dledger.runtime.silence import limit_silence
from dledger.wire import (
    BULK_TYPES,
    CONTROL_TYPES,
    FRAME_BYTES_MAX,
    SMALL_FRAME_BYTES_MAX,
    Frame,
    FrameDecoder,
    decode,
)


class Inbound(asyncio.BufferedProtocol):
    """Until the hello is accepted only small frames are taken, and only for `timeout` seconds."""

    def __init__(
        self,
        me: Member,
        members: frozenset[NodeId],
        secret: bytes | None,
        nonce: bytes,
        vouch: Vouch,
        timeout: float,
        received: Callable[[Message], None],
        greeted: Callable[[Inbound, Hello], None],
        lost: Callable[[Inbound, str], None],
    ) -> None:
        self._acceptor = Acceptor(me, members, secret, nonce, vouch)
        self._decoder = FrameDecoder(SMALL_FRAME_BYTES_MAX)
        self._timeout = timeout
        self._timer: asyncio.TimerHandle | None = None
        self._received, self._greeted, self._lost = received, greeted, lost
        self._transport: asyncio.Transport | None = None
        self._reason = ""
        self._closed = False
        self.hello: Hello | None = None
        self._types = CONTROL_TYPES
        self._sender = NodeId("")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._closed:  # one stray too many
            self._transport.abort()
            return
        limit_silence(self._transport, None)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._timeout, self._end, "no hello in time")

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._decoder.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._decoder.frames(nbytes):
                if self._closed:
                    return
                if self.hello is None:
                    self._greet(frame)
                elif frame.type in self._types:
                    self._received(decode(frame, self._sender))
                else:
                    raise MalformedFrame(f"a frame of type {frame.type} is on the wrong lane")
        except PeerRefused as refused:
            assert self._transport is not None
            self._transport.write(refusal_frame(refused))
            self._end(str(refused))
        except MalformedFrame as error:
            self._end(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._lost(self, self._reason)

    def close(self) -> None:
        """End the connection without a word."""
        self._end("")

    def _greet(self, frame: Frame) -> None:
        answer = self._acceptor.receive(frame)
        assert self._transport is not None
        if answer:
            self._transport.write(answer)
        hello = self._acceptor.hello
        if hello is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self.hello, self._sender = hello, hello.sender.node_id
        if hello.lane is Lane.BULK:
            self._types = BULK_TYPES
            self._decoder.size_max = FRAME_BYTES_MAX
        self._greeted(self, hello)

    def _end(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._closed = True
        if self._transport is not None:
            self._transport.close()
