"""One incoming connection: its handshake, then its messages, decoded in place.

Its hello names a group; from then on it is a connection of that group's `Side`, and what it breaks
is that group's. Until then it belongs to the port that it came to (peer_port.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Protocol, cast

from commitlog.files.system import Buffer
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
    hello_of,
    refusal_frame,
)
from dledger.membership.roster import ANSWER_TYPES, Roster
from dledger.runtime.channels import CHANNEL_FRAME_BYTES_MAX, Fed
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

_NO_TYPES: frozenset[FrameType] = frozenset()


@dataclass(frozen=True, slots=True)
class Side:
    """One group as a connection to it sees it.

    `me`: who we are, as of now; `received`: as of a transport's `Listener`; `greeted`: it is open;
    `lost`: it is gone, and why; `forwarded`: takes FORWARD frames and their replies; `owned`: ends
    the group, and no other one, by a mistake; `channels`: it is no group, but takes
    CHANNEL frames of another host (host_links.py).
    """

    me: Member
    members: Collection[NodeId] | Roll
    vouch: Vouch
    received: Callable[[Message], None]
    greeted: Callable[[Inbound, Hello], None]
    lost: Callable[[Inbound, str], None]
    owned: Owned
    roster: Roster | None = None
    clocks: GroupClock | None = None
    forwarded: Forwarded | None = None
    channels: Callable[[Inbound, Frame], None] | None = None


def refusal_kind(reason: int) -> str:
    """The kind of the end of a connection that was refused, as `Inbound.kind` has it."""
    return f"refused for reason {int(reason)}"


class Port(Protocol):
    """The owner of a connection until its hello is accepted."""

    def side_of(self, hello: Hello, *, in_channel: bool = False) -> Side:
        """The group that it names; a channel carries no channels. Raises PeerRefused."""
        ...

    def greeted(self, inbound: Inbound) -> None:
        """The connection belongs to a group now."""
        ...

    def ended(self, inbound: Inbound, reason: str) -> None:
        """The connection ended before a group had accepted it."""
        ...


class Inbound(Fed):
    """Until the hello is accepted only small frames are taken, and only for `timeout` seconds."""

    def __init__(
        self,
        port: Port,
        name: str,
        secret: bytes | None,
        nonce: bytes,
        timeout: float,
        *,
        owned: Owned,
    ) -> None:
        """`name`: of the node that is called; `owned`: of the port."""
        self._port, self._name, self._secret, self._nonce = port, name, secret, nonce
        self._owned = owned
        self._side: Side | None = None
        self._acceptor: Acceptor | None = None
        #: Names in the certificate that the caller showed; none: it showed none.
        self.certified: Collection[NodeId] = ()
        #: Is it one of the channels of a connection between hosts?
        self.in_channel = False
        self._unheard = _NO_TYPES
        self._decoder = FrameDecoder(SMALL_FRAME_BYTES_MAX)
        self._timeout = timeout
        self._timer: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport | None = None
        self._reason = ""
        #: Why it ended, as a word of the code: complaints of one kind are counted together.
        self.kind = "ended"
        self._closed = False
        self.hello: Hello | None = None
        self._types = CONTROL_TYPES
        self._sender = NodeId("")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """End the connection unless a hello is accepted within the time-out."""
        self.transport = cast(asyncio.Transport, transport)
        if self._closed:  # one stray too many
            self.transport.abort()
            return
        limit_silence(self.transport, None)
        self._timer = self._owned.call_later(self._timeout, self._end, "no hello in time")

    def get_buffer(self, sizehint: int) -> memoryview:
        """The decoder's own buffer."""
        return self._decoder.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Take the frames that came: a hello first, then messages. Others end the connection."""
        try:
            for frame in self._decoder.frames(nbytes):
                if self._closed:
                    return
                if self.hello is None or self._side is None:
                    self._greet(frame)
                elif frame.type in self._types:
                    if frame.type not in self._unheard:
                        self._side.received(decode(frame, self._sender))
                else:
                    self._hear(self._side, self.hello, frame)
        except PeerRefused as refused:
            self._refuse(refused)
        except MalformedFrame as error:
            self.kind = "malformed"
            self._end(str(error))

    def _hear(self, side: Side, hello: Hello, frame: Frame) -> None:
        """A frame that is no message of the rules."""
        if side.channels is not None:
            side.channels(self, frame)
        elif frame.type is FrameType.GENERATION and side.roster is not None:
            side.roster.renewed(hello, read_told(frame))
        elif frame.type is FrameType.CLOCK and hello.link_kind is LinkKind.CONTROL:
            if side.clocks is not None and not self.is_stranger:
                side.clocks.heard(self._sender, frame.head)
        elif frame.type in FORWARD_TYPES and hello.link_kind is LinkKind.BULK:
            if side.forwarded is not None and not self.is_stranger:
                side.forwarded(self._sender, frame)
        else:
            raise MalformedFrame(f"a frame of type {frame.type} is on the wrong link")

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the port, or after the hello the side of its group."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self.hello is None or self._side is None:
            self._port.ended(self, self._reason)
        else:
            self._side.lost(self, self._reason)

    @property
    def is_stranger(self) -> bool:
        """True for a caller that is not a member: its answers are not heard."""
        return bool(self._unheard)

    @property
    def group(self) -> str | None:
        """The group that its hello named; None: it has said none yet."""
        return None if self._side is None else self._side.me.group

    def rest(self) -> None:
        """As a channel: keep no buffer until the peer speaks."""
        self._decoder.release()

    def close(self) -> None:
        """End the connection without a word."""
        self._end("")

    def write_all(self, parts: Iterable[Buffer]) -> None:
        """Write to the other host; for a carrier."""
        if not self._closed:
            self._write(b"".join(parts))

    def _greet(self, frame: Frame) -> None:
        if self._side is None:
            self._side = self._port.side_of(hello_of(frame), in_channel=self.in_channel)
            self._acceptor = self._acceptor_of(self._side)
        side, acceptor = self._side, self._acceptor
        assert acceptor is not None, "it is let in once"
        answer = acceptor.receive(frame)
        if answer:
            self._write(answer)
        hello = acceptor.hello
        if hello is None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.hello, self._sender, self._acceptor = hello, hello.sender.node_id, None
        if side.roster is not None and not side.roster.knows(
            self._sender, hello.sender.incarnation
        ):
            self._unheard = ANSWER_TYPES
        if side.channels is not None:
            self._types, self._decoder.size_max = _NO_TYPES, CHANNEL_FRAME_BYTES_MAX
        elif hello.link_kind is LinkKind.BULK:
            self._types = BULK_TYPES
            self._decoder.size_max = FRAME_BYTES_MAX
        self._port.greeted(self)
        side.greeted(self, hello)

    def _acceptor_of(self, side: Side) -> Acceptor:
        acceptor = Acceptor(side.me, side.members, self._secret, self._nonce, side.vouch)
        acceptor.certified = self.certified
        if side.roster is not None:
            acceptor.visited = side.roster.visited
            acceptor.strangers = side.roster.strangers
            acceptor.witness = side.roster.witness
        return acceptor

    def _refuse(self, refused: PeerRefused) -> None:
        self._write(refusal_frame(refused))
        self.kind = refusal_kind(refused.reason)
        self._end(str(refused))

    def _write(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def _end(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._closed = True
        if self.transport is not None:
            self.transport.close()
