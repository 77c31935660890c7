"""One client connection: bytes in, requests out; answers in, bytes out.

The sends of one socket read are handled together, other requests one by one; what is more than one
connection's share of a turn waits for the next one (fair_turns.py). A frame that is no frame, or is
over its limit, closes this connection and no other. While a client does not read its answers,
nothing more is read from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import struct
import sys
import termios
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from cluster.broker.kernel.net.hello import ForwardAcceptor
from cluster.broker.kernel.write.send_target import SendTarget
from cluster.errors import LocalProtocolError, RemoteProtocolError
from cluster.limits.fair_turns import (
    REQUEST_COST,
    SENDS_AT_ONCE,
    SENDS_AT_ONCE_MIN,
    SENDS_SECONDS_MAX,
    FairQueue,
    Neighbours,
    Turn,
)
from cluster.limits.partial_frames import PartialFrames
from cluster.protocol.frames import Frame, FrameDecoder, encode_frame
from cluster.protocol.raw_sends import RawSend, RelayDecoder
from cluster.protocol.send import SendRequest, SendTemplate
from cluster.protocol.send_own import RequestDecoder
from commitlog.records.hosts import NO_HOST, Host, pack_host
from dledger.runtime.complaints import Complaints
from dledger.runtime.owned import Owned

WRITE_BUFFER_MAX = 4 * 1024 * 1024  # unread answers; above it the connection is not read from

_LINGER = struct.Struct("ii")

Item = Frame | SendRequest | RawSend


class Owner(Protocol):
    """The owner of a connection, which serves its requests: the client port."""

    def opened(self, connection: ClientConnection) -> bool:
        """False: refuse it, too many are open."""
        ...

    def closed(self, connection: ClientConnection) -> None:
        """The connection has ended; also told of one that `opened` refused."""
        ...

    def sends(self, connection: ClientConnection, requests: Sequence[SendRequest]) -> None:
        """Sends that were read together, decoded."""
        ...

    def relayed_sends(
        self, connection: ClientConnection, sends: Sequence[SendRequest | RawSend]
    ) -> None:
        """Sends that came to the relay port."""
        ...

    def request(self, connection: ClientConnection, frame: Frame) -> None:
        """Any other frame, in the order of the socket."""
        ...

    def now(self) -> float:
        """Seconds of the event loop's clock."""
        ...

    def in_next_turn(self, step: Callable[[], None]) -> object:
        """Run it in the next turn of the event loop."""
        ...

    def in_seconds(self, seconds: float, step: Callable[[], None]) -> object:
        """Run `step` in so many seconds; the returned handle can cancel it."""
        ...

    @property
    def neighbours(self) -> Neighbours:
        """Which connections of the port were served lately (fair_turns.py)."""
        ...

    @property
    def refusals(self) -> int:
        """Sends that were refused so far, of all connections."""
        ...

    @property
    def partial_frames(self) -> PartialFrames:
        """The bound of memory for incomplete frames, of all connections."""
        ...

    @property
    def complaints(self) -> Complaints:
        """The log of clients' mistakes, which repeats none too often."""
        ...

    def serve(self, connection: ClientConnection, step: Callable[[], object]) -> None:
        """Run a step of its requests; a mistake in it costs the connection."""
        ...


def costs_connection(
    owned: Owned, connection: ClientConnection, step: Callable[[], object]
) -> None:
    """Run a step of a client's requests. A mistake in it ends that connection, and no other."""

    def guard(later: Callable[[], object]) -> None:
        costs_connection(owned, connection, later)

    try:
        owned.on_behalf(guard, step)
    except Exception:  # whatever it is
        owned.spared("a request of %s failed", connection.address)
        connection.close()


def _reset_when_cut(transport: asyncio.BaseTransport, on: bool) -> None:
    """Have the kernel reset the connection (RST) when this process dies, not end it (FIN).

    A Netty client fails what is in flight when a connection breaks, and it then goes to another
    address at once. A connection that ends tells it nothing: what is in flight there waits out its
    limit of 3 s (NettyRemotingClient: failFast is called where its handler closes a channel). To be
    taken off before an orderly close, as a reset drops what the kernel has not sent yet.
    """
    found: socket.socket | None = transport.get_extra_info("socket")
    if found is None:
        return
    with contextlib.suppress(OSError):  # it broke just now
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER.pack(on, 0))


class ClientConnection(asyncio.Protocol):
    """See the module's text.

    `address` and `born_host` are the client's own also when a follower passes its requests on
    (`forwarded_by`, for the leadership of `link_term`). `version`: of its last request, 0 before.
    `greeting`: of a peer that opens a link, once it said hello. `is_relayed`: the client came to a
    relay port, of this node or of the one that passes its requests on.
    """

    def __init__(
        self,
        owner: Owner,
        frame_size_max: int,
        *,
        whole_frames: bool = False,
        is_relay: bool = False,
    ) -> None:
        """`whole_frames`: sends come as frames, too, so that their sender can be checked.

        `is_relay`: it came to the relay port (relayed.py).
        """
        self._owner, self.is_relay, self.whole_frames = owner, is_relay, whole_frames
        self.is_relayed = is_relay
        self._decoder: RequestDecoder | FrameDecoder | RelayDecoder
        if whole_frames:
            self._decoder = FrameDecoder(frame_size_max)
        else:
            self._decoder = (RelayDecoder if is_relay else RequestDecoder)(frame_size_max)
        self._transport: asyncio.Transport | None = None
        self.address = ""
        self.born_host = pack_host(NO_HOST)
        self.closed = self._holds = False
        self.greeting: ForwardAcceptor | None = None
        self.forwarded_by: str | None = None
        self.link_term: int | None = None
        self.heard_at = 0.0
        self.version = 0
        self._sends_at_once = SENDS_AT_ONCE
        self._requests: FairQueue[Item] = FairQueue(
            self._serve,
            self.close,
            self._decode,
            owner.neighbours,
            call_soon=owner.in_next_turn,
            call_later=owner.in_seconds,
            now=owner.now,
        )
        self._calls: deque[Callable[[], None]] = deque()
        self.targets: dict[SendTemplate, SendTarget] = {}
        self.targets_epoch = -1
        self.heartbeats: dict[str, Frame] = {}

    def complain(self, kind: str, sentence: str, *args: object) -> None:
        """Log it, unless it is one of many of all connections (`dledger/runtime/complaints.py`)."""
        self._owner.complaints.say(kind, sentence, *args)

    # -- asyncio.Protocol --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the address of the client; a connection that the owner refuses is cut."""
        transport = cast(asyncio.Transport, transport)  # uvloop has classes of its own
        self._transport = transport
        self._requests.connected(transport)
        _reset_when_cut(transport, True)
        transport.set_write_buffer_limits(high=WRITE_BUFFER_MAX)
        peer = transport.get_extra_info("peername") or ("0.0.0.0", 0)
        self.set_address(Host(peer[0], peer[1]))
        self.heard_at = self._owner.now()
        if not self._owner.opened(self):
            self.closed = True
            transport.abort()

    def eof_received(self) -> None:
        """The client sends no more; it may still wait for answers."""
        if self._transport is not None:
            _reset_when_cut(self._transport, False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop waiting requests and bytes, and tell the owner."""
        self.closed = True
        self._transport = None
        self._requests.disconnected()
        self._decoder.drop_rest()
        self._owner.partial_frames.forget(self)
        self._owner.closed(self)

    def data_received(self, data: bytes) -> None:
        """Serve the requests in `data` as far as this turn allows; the rest waits."""
        if self.closed:
            return
        self.heard_at = self._owner.now()
        self._requests.read(data)

    def _decode(self, piece: bytes) -> Sequence[Item]:
        try:
            items = self._decoder.feed(piece)
        except RemoteProtocolError as error:
            self.complain("malformed", "connection of %s closed: %s", self.address, error)
            self._requests.end()
            return cast("Sequence[Item]", error.frames)
        rest = self._decoder.rest_size
        if rest or self._holds:
            self._holds = rest > 0
            self._owner.partial_frames.holds(self, rest, began=bool(items))
        return items

    @property
    def is_paused(self) -> bool:
        """The client does not read its answers."""
        return self._requests.is_paused

    def pause_writing(self) -> None:
        """The client does not read its answers: serve and read no more."""
        self._requests.pause()

    def resume_writing(self) -> None:
        """The client read its answers: serve the requests that waited, then read on."""
        self._requests.is_paused = False
        while self._calls and not self.is_paused:
            self._owner.serve(self, self._calls.popleft())
        if not self.is_paused:
            self._requests.resume()

    def when_writable(self, call: Callable[[], None]) -> None:
        """Call it now, or once a slow client has read a large answer that is buffered for it."""
        if self.is_paused:
            self._calls.append(call)
        else:
            call()

    @property
    def descriptor(self) -> int:
        """The file descriptor of the connection; -1 if it has none."""
        found = self._transport.get_extra_info("socket") if self._transport is not None else None
        return -1 if found is None else int(found.fileno())

    @property
    def unsent_size(self) -> int:
        """Bytes of answers that the client has not taken yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def is_flushed(self) -> bool:
        """The client's machine has all that was written here."""
        if self.unsent_size:
            return False
        waiting = bytearray(4)
        try:
            fcntl.ioctl(self.descriptor, termios.TIOCOUTQ, waiting)
        except (OSError, ValueError):
            return False
        return int.from_bytes(waiting, sys.byteorder) == 0

    # -- in ----------------------------------------------------------------------------------------

    def _serve(self, items: Sequence[Item], turn: Turn) -> int:
        """Runs of sends go together; the order of all else is kept. How many were served.

        When answers pile up on the way, the rest waits until the client has taken some.
        """
        sends: list[SendRequest | RawSend] = []
        for number, item in enumerate(items):
            if type(item) is SendRequest or type(item) is RawSend:
                sends.append(item)
                if len(sends) < self._sends_at_once:
                    continue
                if self._sends(sends, turn):
                    return number + 1
                sends = []
                continue
            if sends:
                if self._sends(sends, turn):
                    return number
                sends = []
            if self.closed:
                return len(items)
            if self.is_paused:
                return number
            assert isinstance(item, Frame)
            self.version = item.version
            self._owner.request(self, item)
            if turn.spend(REQUEST_COST):
                return number + 1
        if sends:
            self._sends(sends, turn)
        return len(items)

    def _sends(self, sends: list[SendRequest | RawSend], turn: Turn) -> bool:
        """Is this turn over with them?"""
        began, refused = turn.seconds, self._owner.refusals
        if self.is_relay:
            self._owner.relayed_sends(self, sends)
        else:
            whole = cast("list[SendRequest]", sends)
            self.version = whole[-1].template.version
            self._owner.sends(self, whole)
        turn.refused(self._owner.refusals - refused)
        if turn.seconds - began > SENDS_SECONDS_MAX / 2:
            self._sends_at_once = max(len(sends) // 4, SENDS_AT_ONCE_MIN)
        else:
            self._sends_at_once = min(2 * self._sends_at_once, SENDS_AT_ONCE)
        return turn.spend(len(sends), SENDS_SECONDS_MAX)

    # -- out ---------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Bytes of whole frames; dropped when the connection is gone."""
        if self._transport is not None and data:
            self._transport.write(data)

    def answer(self, frame: Frame) -> None:
        """One response, or a request of ours to the client."""
        try:
            self.write(encode_frame(frame))
        except LocalProtocolError as error:
            self.complain("answer", "an answer to %s cannot be encoded: %s", self.address, error)
            self.close()

    def close(self) -> None:
        """Write the buffered answers, then close; at once when the client does not read."""
        self.closed = True
        if self._transport is None:
            return
        if self.is_paused:
            self._transport.abort()
        else:
            _reset_when_cut(self._transport, False)
            self._transport.close()

    def abort(self) -> None:
        """Cut the connection; buffered answers are lost."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def set_address(self, host: Host) -> None:
        """Set the client's address, which is the bornHost of its messages."""
        self.address = str(host)
        self.born_host = pack_host(host)
