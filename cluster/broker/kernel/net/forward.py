"""A follower passes requests on: one link to the leader per client that needs one (R18, one hop).

    client ──► follower ══ link: hello.py, then the client's own frames ══► leader
           ◄──          ◄══ answers and notifications, relayed byte for byte ══

The leader serves a link like a direct connection, with the client's address as bornHost. Opaque
numbers are the client's own, so most sends are copied as they came (raw_sends.py). An answer comes
on the connection that its request went out on, so none reaches another process of this node, nor
another link.

    it leads no more     everything but sends is sent again, to the next leader. A send that was
                         passed on is still answered by the old one for a while, then it is in doubt
    the link breaks      such a send is in doubt

What is answered "I do not lead" was not done, so it is asked again, too. What is in doubt may be
stored: the next leader looks for it before it stores it (in_doubt.py). Our own producers do that
themselves, with their numbers, and are told that the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from cluster.broker.kernel.net.hello import ForwardDialler
from cluster.broker.kernel.net.in_doubt import in_doubt, lost_unanswered, may_be_in_doubt
from cluster.errors import (
    ClusterError,
    RemoteProtocolError,
    ServiceNotAvailable,
)
from cluster.protocol.codes import NOT_LEADER_CODES, RequestCode, ResponseCode
from cluster.protocol.frames import (
    FLAG_RESPONSE,
    KIND_JSON,
    Frame,
    StreamDecoder,
    encode_frame,
    parse,
    refusal,
)
from cluster.protocol.raw_sends import RawSend, stored_opaque
from cluster.protocol.send import SEND_CODES
from dledger.core.types import Index, Term
from dledger.runtime.owned import Owned

LEAVE_SECONDS_MAX = (
    1.5  # a little longer than who led waits to know itself (dledger/replica/pending.py)
)
DOUBT_SECONDS = 0.3  # so long who led may answer what the next leader could look for as well
GREETING_SECONDS_MAX = 2.0  # for the leader's proof, which a busy leader's turn may delay
CONNECT_SECONDS_MAX = 0.5  # on one machine or rack; then what waits for the link is asked again
CONNECT_AGAIN_SECONDS = 0.02  # between two tries while the leader's port is not open yet
CONNECT_AGAIN_SECONDS_MAX = 0.2  # the pause doubles up to it
WAITING_BYTES_MAX = 16 * 1024 * 1024  # frames kept while the link opens, or not taken by the leader
OPEN_REQUESTS_MAX = 100_000  # per link; as many as a broker has in flight

_log = logging.getLogger(__name__)


class LinkClient(Protocol):
    """The client of a link."""

    address: str
    closed: bool

    @property
    def is_paused(self) -> bool:
        """True while the client does not read its answers."""
        ...

    def write(self, data: bytes) -> None:
        """Send bytes of whole frames, as the leader wrote them."""
        ...

    def when_writable(self, call: Callable[[], None]) -> None:
        """Now, or when the client has taken the answers before this one."""
        ...

    def answer(self, frame: Frame) -> None:
        """Send a response frame."""
        ...


class _Answers(StreamDecoder[tuple[Frame, bytes]]):
    """Frames of the leader, each with its own bytes for relaying."""

    def one(
        self, data: bytes, header_at: int, body_at: int, stop: int, kind: int
    ) -> tuple[Frame, bytes]:
        opaque = stored_opaque(data, header_at, body_at) if kind == KIND_JSON else None
        if opaque is not None:
            frame = Frame(0, opaque, flag=FLAG_RESPONSE)
        else:
            frame = parse(data[header_at:body_at], b"", kind)
        return frame, data[header_at - 8 : stop]


class ForwardLink(asyncio.Protocol):
    """One link, for one client, to one leader."""

    def __init__(
        self,
        client: LinkClient,
        greeting: ForwardDialler,
        *,
        frame_size_max: int,
        open_bytes_max: int,
        term: Term,
        applied: Callable[[], Index],
        lost: Callable[[Sequence[Frame], bool], None],
        owned: Owned,
    ) -> None:
        """`lost(frames, moved)`: these requests should be asked again, and later ones go another
        way when the link is `closed` or `moved`. At once when `moved` (another node leads), else
        when something has changed or a pause is over. Requests in doubt are marked so.

        `term`: of the leadership that the link is for; `applied()`: see in_doubt.py."""
        self._client, self._lost, self._owned = client, lost, owned
        self._term, self._applied = term, applied
        self._decoder = _Answers(frame_size_max)
        self._transport: asyncio.Transport | None = None
        self._greeting = greeting
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: list[bytes] = []
        self._waiting_size = 0
        self._unsent: set[int] = set()  # requests that are still in `_waiting`
        #: Request, what was applied when it was passed on, its size.
        self._open: dict[int, tuple[Frame | RawSend, Index, int]] = {}
        self._open_size, self._open_bytes_max = 0, open_bytes_max
        self._paused = False
        self._leaving = False
        self.closed = False

    @property
    def open_sends(self) -> int:
        """Sends that are not answered yet."""
        return sum(asked.code in SEND_CODES for asked, _, _ in self._open.values())

    def send(self, frame: Frame | RawSend) -> int:
        """Pass one request on; its bytes. Raises ServiceNotAvailable if the link takes no more."""
        data = frame.data if type(frame) is RawSend else encode_frame(cast(Frame, frame))
        size = len(data)
        if self.closed:
            raise ServiceNotAvailable("the link to the leader is closed; try again")
        if (
            self._waiting_size + size > WAITING_BYTES_MAX
            or self._open_size + size > self._open_bytes_max
            or len(self._open) >= OPEN_REQUESTS_MAX
        ):
            raise ServiceNotAvailable("the leader does not keep up with what is passed on; pause")
        if not frame.is_oneway:
            self._forget(frame.opaque)  # a client may use a number twice
            self._open[frame.opaque] = frame, self._applied(), size
            self._open_size += size
        if self._transport is not None and self._greeting.is_open and not self._paused:
            self._transport.write(data)
        else:
            self._waiting.append(data)
            self._waiting_size += len(data)
            self._unsent.add(frame.opaque)
        return size

    def answer(self, frame: Frame) -> None:
        """Pass the client's answer to a question of the leader's on; dropped when it cannot be."""
        data = encode_frame(frame)
        if self._transport is not None and self._greeting.is_open and not self._paused:
            self._transport.write(data)
        elif self._waiting_size + len(data) <= WAITING_BYTES_MAX:
            self._waiting.append(data)
            self._waiting_size += len(data)

    def leave(self) -> None:
        """The leadership of the link's node ended: await only answers to sends from now on."""
        if self._leaving or self.closed:
            return
        self._leaving = True
        unsent, self._unsent = self._unsent, set()
        self._waiting.clear()
        again = [
            _whole(asked)
            for asked, _, _ in self._open.values()
            if not _is_send(asked) or asked.opaque in unsent
        ]
        for frame in again:
            self._forget(frame.opaque)
        self._lost(again, True)
        if self._open:
            self._owned.call_later(DOUBT_SECONDS, self._doubt)
            self._owned.call_later(LEAVE_SECONDS_MAX, self.close)
        else:
            self.close()

    def _doubt(self) -> None:
        """The leader that was has not answered: the next one looks."""
        marked = [
            in_doubt(_whole(asked), after, self._term)
            for asked, after, _ in self._open.values()
            if may_be_in_doubt(asked)
        ]
        for frame in marked:
            self._forget(frame.opaque)
        if marked and not self.closed:
            self._lost(marked, True)
        if not self._open:
            self.close()

    def close(self) -> None:
        """The client is gone, or another node leads and everything is answered."""
        if self._transport is not None:
            self._transport.close()
        self._end(moved=True)

    # -- asyncio.Protocol --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the greeting. A leader that does not answer it within GREETING_SECONDS_MAX ends the
        link.
        """
        transport = cast(asyncio.Transport, transport)  # uvloop has classes of its own
        if self.closed:
            transport.abort()
            return
        self._transport = transport
        transport.set_write_buffer_limits(high=WAITING_BYTES_MAX)
        transport.write(encode_frame(self._greeting.begin()))
        if self._greeting.is_open:
            self._flush()
        else:
            self._timer = self._owned.call_later(GREETING_SECONDS_MAX, self._unanswered)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the link: requests without an answer are asked again or are in doubt."""
        self._transport = None
        self._end()

    def failed(self) -> None:
        """The connection could not be opened."""
        self._end()

    def pause_writing(self) -> None:
        """The leader does not read: frames wait here."""
        self._paused = True

    def resume_writing(self) -> None:
        """Send the frames that waited, if the greeting is over."""
        self._paused = False
        if self._greeting.is_open:
            self._flush()

    def data_received(self, data: bytes) -> None:
        """Relay the leader's frames to the client. Bytes that are no frame close the link."""
        try:
            items = self._decoder.feed(data)
        except RemoteProtocolError as error:
            _log.warning("link for %s closed: %s", self._client.address, error)
            self.close()
            return
        if not self._greeting.is_open:
            items = self._greet(items)
        self._relay(items)
        if self._leaving and not self._open:
            self.close()
        elif self._client.is_paused and self._transport is not None:
            self._transport.pause_reading()  # the leader's answers must not pile up here
            self._client.when_writable(self._resume)

    def _greet(self, items: list[tuple[Frame, bytes]]) -> list[tuple[Frame, bytes]]:
        """The frames behind the leader's proof; no frame before it is believed."""
        for number, (frame, _) in enumerate(items):
            if not frame.is_response:
                continue
            try:
                proof = self._greeting.receive(frame)
            except ClusterError as error:
                self._mistrust(str(error))
                return []
            if self._transport is not None:
                self._transport.write(encode_frame(proof))
            self._flush()
            return items[number + 1 :]
        return []

    def _unanswered(self) -> None:
        if not self._greeting.is_open and not self.closed:
            self._mistrust("the leader did not answer the hello in time")

    def _mistrust(self, reason: str) -> None:
        """End the link before anything was passed on."""
        _log.warning("link for %s closed: %s", self._client.address, reason)
        if self._transport is not None:
            self._transport.abort()
        self._end()

    def _relay(self, items: Sequence[tuple[Frame, bytes]]) -> None:
        again, relayed = [], []
        for frame, raw in items:
            asked = self._forget(frame.opaque) if frame.is_response else None
            if asked is not None and frame.code and _leads_not(frame):
                again.append(_whole(asked))
            elif (
                asked is not None
                and frame.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
                and (
                    asked.code == RequestCode.SEND_IN_DOUBT  # an earlier release leads
                )
            ):
                self._client.answer(refusal(_whole(asked), lost_unanswered()))
            elif asked is not None or not self._leaving:
                relayed.append(raw)
        if relayed:
            self._client.write(b"".join(relayed))
        if again:
            self._lost(again, self._leaving)

    def _forget(self, opaque: int) -> Frame | RawSend | None:
        asked = self._open.pop(opaque, None)
        if asked is None:
            return None
        self._open_size -= asked[2]
        return asked[0]

    def _resume(self) -> None:
        if self._transport is not None and not self.closed:
            self._transport.resume_reading()

    def _flush(self) -> None:
        waiting, self._waiting, self._waiting_size = self._waiting, [], 0
        self._unsent.clear()
        if self._transport is not None:
            self._transport.writelines(waiting)

    def _end(self, *, moved: bool = False) -> None:
        """Requests that were not written yet happened nowhere: asked again, sends included."""
        if self.closed:
            return
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        requests, self._open = self._open, {}
        again = []
        for asked, after, _ in requests.values() if not self._client.closed else ():
            frame = _whole(asked)
            if not _is_send(frame) or frame.opaque in self._unsent:
                again.append(frame)
            elif may_be_in_doubt(frame):
                again.append(in_doubt(frame, after, self._term))
            else:
                self._client.answer(refusal(frame, lost_unanswered()))
        self._lost(again, moved)


def _whole(asked: Frame | RawSend) -> Frame:
    return asked.read() if type(asked) is RawSend else cast(Frame, asked)


def _is_send(frame: Frame | RawSend) -> bool:
    """May it be stored when its answer is lost?"""
    return frame.code in SEND_CODES or frame.code == RequestCode.SEND_IN_DOUBT


def _leads_not(answer: Frame) -> bool:
    """True if the node certainly did not execute the request, because it does not lead."""
    return answer.code in NOT_LEADER_CODES and "leader" in answer.ext
