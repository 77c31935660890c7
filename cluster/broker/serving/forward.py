"""A follower passes requests on: one link to the leader per client that needs one (R18, one hop).

    client ──► follower ══ link: hello(client's address), then the client's own frames ══► leader
           ◄──          ◄══ answers and notifications, relayed byte for byte ══

The leader serves a link like a direct connection, with the client's address as bornHost. Opaque
numbers are the client's own. When a link breaks, a send that was passed on may have been stored and
is answered so (outcome unknown); everything else is asked again, of whoever leads then.

The stamp also tells the leader how the follower's clock differs from its own (R24).

Hello: request 31002, oneway: ext clientAddress, node, stamp (ms), proof. With a cluster secret the
proof is HMAC-SHA256 over the other three, and a stamp older than PROOF_SECONDS_MAX is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from cluster.errors import (
    InvalidRequest,
    LeaderLostWhileWaiting,
    RemoteProtocolError,
    ServiceNotAvailable,
    Unauthorized,
)
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import FLAG_ONEWAY, Frame, StreamDecoder, encode_frame, parse, refusal
from cluster.protocol.send import SEND_CODES
from commitlog.hosts import Host

PROOF_SECONDS_MAX = 30.0  # clocks of one cluster agree far better; a replay only repeats an address
CONNECT_SECONDS_MAX = 0.5  # on one machine or rack; then the requests are refused at once
WAITING_BYTES_MAX = 16 * 1024 * 1024  # frames kept while the link opens, or not taken by the leader
OPEN_REQUESTS_MAX = 100_000  # per link; as many as a broker has in flight

_log = logging.getLogger(__name__)


class LinkClient(Protocol):
    """The client whose requests are passed on."""

    address: str
    closed: bool
    is_paused: bool

    def write(self, data: bytes) -> None: ...

    def when_writable(self, call: Callable[[], None]) -> None:
        """Now, or when the client has taken the answers before this one."""
        ...

    def answer(self, frame: Frame) -> None: ...


@dataclass(frozen=True, slots=True)
class Hello:
    """What a link says first."""

    client: Host
    node: str
    stamp_ms: int


def encode_hello(client_address: str, node: str, stamp_ms: int, secret: str | None) -> Frame:
    ext = {"clientAddress": client_address, "node": node, "stamp": str(stamp_ms)}
    if secret is not None:
        ext["proof"] = _proof(secret, client_address, node, str(stamp_ms))
    return Frame(RequestCode.FORWARD_HELLO, 0, ext, flag=FLAG_ONEWAY)


def read_hello(frame: Frame, now_ms: int, secret: str | None) -> Hello:
    """Raises InvalidRequest or Unauthorized; the connection is closed then."""
    try:
        address, node, stamp = (frame.ext[name] for name in ("clientAddress", "node", "stamp"))
        host, _, port = address.rpartition(":")
        client = Host(host.strip("[]"), int(port))
        age_ms = abs(now_ms - int(stamp))
    except (KeyError, ValueError) as error:
        raise InvalidRequest(f"a forwarding hello cannot be read: {error!r}") from None
    if secret is not None:
        wanted = _proof(secret, address, node, stamp)
        if age_ms > PROOF_SECONDS_MAX * 1000 or not hmac.compare_digest(
            wanted.encode(), frame.ext.get("proof", "").encode()
        ):
            raise Unauthorized(f"node {node} did not prove that it belongs to this cluster")
    return Hello(client, node, int(stamp))


def _proof(secret: str, *parts: str) -> str:
    text = "\n".join(parts).encode()
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


class _Answers(StreamDecoder[tuple[Frame, bytes]]):
    """Frames of the leader, each with its own bytes for relaying."""

    def one(
        self, data: bytes, header_at: int, body_at: int, stop: int, kind: int
    ) -> tuple[Frame, bytes]:
        frame = parse(data[header_at:body_at], b"", kind)
        return frame, data[header_at - 8 : stop]


class ForwardLink(asyncio.Protocol):
    """One link, for one client, to one leader."""

    def __init__(
        self,
        client: LinkClient,
        hello: Frame,
        *,
        frame_size_max: int,
        open_bytes_max: int,
        lost: Callable[[Sequence[Frame], bool], None],
    ) -> None:
        """`lost(frames, moved)`: the link has ended; these requests should be asked again, at once
        when `moved` (another node leads), else when something has changed or a pause is over."""
        self._client, self._lost = client, lost
        self._decoder = _Answers(frame_size_max)
        self._transport: asyncio.Transport | None = None
        self._waiting: list[bytes] = [encode_frame(hello)]
        self._waiting_size = 0
        self._unsent: set[int] = set()  # requests that are still in `_waiting`
        self._open: dict[int, Frame] = {}
        self._open_size, self._open_bytes_max = 0, open_bytes_max
        self._paused = False
        self.closed = False

    def send(self, frame: Frame) -> None:
        """Pass one request on. Raises ServiceNotAvailable when the link cannot take more."""
        data = encode_frame(frame)
        if self.closed:
            raise ServiceNotAvailable("the link to the leader is closed; try again")
        if (
            self._waiting_size + len(data) > WAITING_BYTES_MAX
            or self._open_size + len(frame.body) > self._open_bytes_max
            or len(self._open) >= OPEN_REQUESTS_MAX
        ):
            raise ServiceNotAvailable("the leader does not keep up with what is passed on; pause")
        if not frame.is_oneway:
            self._forget(frame.opaque)  # a client may use a number twice
            self._open[frame.opaque] = frame
            self._open_size += len(frame.body)
        if self._transport is not None and not self._paused:
            self._transport.write(data)
        else:
            self._waiting.append(data)
            self._waiting_size += len(data)
            self._unsent.add(frame.opaque)

    def answer(self, frame: Frame) -> None:
        """Pass the client's answer to a question of the leader's on; dropped when it cannot be."""
        data = encode_frame(frame)
        if self._transport is not None and not self._paused:
            self._transport.write(data)
        elif self._waiting_size + len(data) <= WAITING_BYTES_MAX:
            self._waiting.append(data)
            self._waiting_size += len(data)

    def close(self) -> None:
        """The client is gone, or another node leads."""
        if self._transport is not None:
            self._transport.close()
        self._end(moved=True)

    # -- asyncio.Protocol --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop has classes of its own
        if self.closed:
            transport.abort()
            return
        self._transport = transport
        transport.set_write_buffer_limits(high=WAITING_BYTES_MAX)
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._end()

    def failed(self) -> None:
        """It could not be opened."""
        self._end()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            items = self._decoder.feed(data)
        except RemoteProtocolError as error:
            _log.warning("link for %s closed: %s", self._client.address, error)
            self.close()
            return
        for frame, _ in items:
            if frame.is_response:
                self._forget(frame.opaque)
        self._client.write(b"".join([raw for _, raw in items]))
        if self._client.is_paused and self._transport is not None:
            self._transport.pause_reading()  # the leader's answers must not pile up here
            self._client.when_writable(self._resume)

    def _forget(self, opaque: int) -> None:
        asked = self._open.pop(opaque, None)
        if asked is not None:
            self._open_size -= len(asked.body)

    def _resume(self) -> None:
        if self._transport is not None and not self.closed:
            self._transport.resume_reading()

    def _flush(self) -> None:
        waiting, self._waiting, self._waiting_size = self._waiting, [], 0
        self._unsent.clear()
        if self._transport is not None:
            self._transport.writelines(waiting)

    def _end(self, *, moved: bool = False) -> None:
        """What was not written yet happened nowhere: that is asked again, sends included."""
        if self.closed:
            return
        self.closed = True
        unknown = LeaderLostWhileWaiting(
            "the leader was lost before it answered; the message may be stored, look or send again"
        )
        requests, self._open = self._open, {}
        again = []
        for frame in requests.values() if not self._client.closed else ():
            if frame.code in SEND_CODES and frame.opaque not in self._unsent:
                self._client.answer(refusal(frame, unknown))
            else:
                again.append(frame)
        self._lost(again, moved)
