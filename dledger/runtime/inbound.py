"""One incoming connection: who is it, then its messages, decoded in place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import cast

from dledger.core.messages import Message
from dledger.core.types import NodeId
from dledger.errors import MalformedFrame, PeerRefused
from dledger.membership.generation import read_told
from dledger.membership.handshake import (
    Acceptor,
    Hello,
    LinkKind,
    Member,
    Roll,
    Vouch,
    refusal_frame,
)
from dledger.membership.roster import ANSWER_TYPES, Roster
from dledger.runtime.group_clock import GroupClock
from dledger.runtime.owned import Owned
from dledger.runtime.silence import limit_silence
from dledger.wire.forwards import FORWARD_TYPES, Forwarded
from dledger.wire.frames import (
    FRAME_BYTES_MAX,
    SMALL_FRAME_BYTES_MAX,
    Frame,
    FrameDecoder,
    FrameType,
)
from dledger.wire.messages import BULK_TYPES, CONTROL_TYPES, decode


class Inbound(asyncio.BufferedProtocol):
    """Until the hello is accepted only small frames are taken, and only for `timeout` seconds."""

    def __init__(
        self,
        me: Member,
        members: Collection[NodeId] | Roll,
        secret: bytes | None,
        nonce: bytes,
        vouch: Vouch,
        timeout: float,
        received: Callable[[Message], None],
        greeted: Callable[[Inbound, Hello], None],
        lost: Callable[[Inbound, str], None],
        roster: Roster | None = None,
        clocks: GroupClock | None = None,
        *,
        owned: Owned,
    ) -> None:
        self._acceptor = Acceptor(me, members, secret, nonce, vouch)
        self._roster, self._clocks, self._owned = roster, clocks, owned
        self._unheard: frozenset[FrameType] = frozenset()
        if roster is not None:
            self._acceptor.visited = roster.visited
            self._acceptor.strangers = roster.strangers
            self._acceptor.witness = roster.witness
        self._decoder = FrameDecoder(SMALL_FRAME_BYTES_MAX)
        self._timeout = timeout
        self._timer: asyncio.TimerHandle | None = None
        self._received, self._greeted, self._lost = received, greeted, lost
        self._transport: asyncio.Transport | None = None
        self._reason = ""
        #: Why it ended, as a word of the code: complaints of one kind are counted together.
        self.kind = "ended"
        self._closed = False
        self.hello: Hello | None = None
        #: Told of FORWARD frames and their replies.
        self.forwarded: Forwarded | None = None
        self._types = CONTROL_TYPES
        self._sender = NodeId("")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._closed:  # one stray too many
            self._transport.abort()
            return
        limit_silence(self._transport, None)
        self._timer = self._owned.call_later(self._timeout, self._end, "no hello in time")

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
                    if frame.type not in self._unheard:
                        self._received(decode(frame, self._sender))
                elif frame.type is FrameType.GENERATION and self._roster is not None:
                    self._roster.renewed(self.hello, read_told(frame))
                elif frame.type is FrameType.CLOCK and self.hello.link_kind is LinkKind.CONTROL:
                    if self._clocks is not None and not self.is_stranger:
                        self._clocks.heard(self._sender, frame)
                elif frame.type in FORWARD_TYPES and self.hello.link_kind is LinkKind.BULK:
                    if self.forwarded is not None and not self.is_stranger:
                        self.forwarded(self._sender, frame)
                else:
                    raise MalformedFrame(f"a frame of type {frame.type} is on the wrong link")
        except PeerRefused as refused:
            self._refuse(refused)
        except MalformedFrame as error:
            self.kind = "malformed"
            self._end(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._lost(self, self._reason)

    @property
    def is_stranger(self) -> bool:
        """Its answers are not heard."""
        return bool(self._unheard)

    def close(self) -> None:
        """End the connection without a word."""
        self._end("")

    def _greet(self, frame: Frame) -> None:
        answer = self._acceptor.receive(frame)
        if answer:
            self._write(answer)
        hello = self._acceptor.hello
        if hello is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self.hello, self._sender = hello, hello.sender.node_id
        if self._roster is not None and not self._roster.knows(
            self._sender, hello.sender.incarnation
        ):
            self._unheard = ANSWER_TYPES
        if hello.link_kind is LinkKind.BULK:
            self._types = BULK_TYPES
            self._decoder.size_max = FRAME_BYTES_MAX
        self._greeted(self, hello)

    def _refuse(self, refused: PeerRefused) -> None:
        self._write(refusal_frame(refused))
        self.kind = f"refused for reason {int(refused.reason)}"
        self._end(str(refused))

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def _end(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._closed = True
        if self._transport is not None:
            self._transport.close()
