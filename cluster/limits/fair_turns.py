"""Serves one connection's requests in order, a bounded amount in each turn of the event loop.

    socket read ─► read(bytes) ─► decode a piece ─► serve some ─► others' turn ─► …
                        └── while any wait, nothing more is read from this connection

A client may send thousands of cheap requests in one piece. Served in one go they would hold the
event loop, and with it every other client, the heartbeats to the followers and the answers to the
leader. What is over the bound waits for the next turn. The sender's socket fills up meanwhile, so a
client that sends too much slows down itself alone. A loop may read one socket many times in a turn
(libuv: 32 times 256 KiB), so the bound is the turn's, not the read's. To decode counts as well.

One request cannot be cut in pieces, and a list of a thousand rows takes ten times its turn. That
debt is paid with rest (`Debt`): nothing is read or served of that connection for three times as
long, so it has a quarter of the loop at most. The same holds for time that came to nothing: of
requests that were refused, and of bytes that made no frame whole. A connection that has the loop
for itself owes nothing, because nobody is waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Request = TypeVar("Request")

#: Of one connection in one turn; whichever is reached first ends it. With 1 ms, ten connections
#: that ask all they can still leave nine tenths of a heartbeat's interval (100 ms) to the others.
TURN_COST_MAX = 1024
TURN_SECONDS_MAX = 0.001
#: A send is the unit of cost: many of them share one append.
REQUEST_COST = 32
#: So many sends are served without a look at the time, fewer of a client whose sends take long:
#: to refuse one costs twenty times what taking it does. For sends there is more time than for
#: other requests, because they pay best when many share one append.
SENDS_AT_ONCE, SENDS_AT_ONCE_MIN, SENDS_SECONDS_MAX = 256, 32, 0.004
#: Read of one connection in one turn, though no request has come whole yet; two usual reads.
TURN_BYTES_MAX = 1 << 19
#: Decoded without a look at the time: all that one read may bring, less of a client whose requests
#: take long to decode. A hundred bytes of JSON take as long as a send of our own with a body.
PIECE_SIZE, PIECE_SIZE_MIN, PIECE_SECONDS_MAX = 1 << 18, 1 << 13, 0.0015
#: To read a byte takes time of the loop beside what is counted: as of copying it a few times.
BYTES_PER_SECOND = 1 << 30
#: Rest for a second that was owed; a connection that always owes has a quarter of the loop.
REST_FACTOR = 3
#: Shorter debts are forgotten while they are paid; longer rests would look like a dead broker.
REST_SECONDS_MIN, REST_SECONDS_MAX = 0.002, 0.25
#: Other connections that were served within so long count as ones that want the loop.
OTHERS_SECONDS = 1.0


class Neighbours:
    """Which connections of one server were served lately."""

    def __init__(self) -> None:
        self._newest: object = None
        self._newest_at = self._other_at = float("-inf")

    def served(self, connection: object, at: float) -> None:
        """`connection` was served at `at`, in seconds."""
        if connection is not self._newest:
            self._newest, self._other_at = connection, self._newest_at
        self._newest_at = at

    def others_at(self, connection: object) -> float:
        """When another one than `connection` was served last."""
        return self._other_at if connection is self._newest else self._newest_at


class Debt:
    """The time that a connection took beyond its share, and until when it rests for that. Pure.

    Time that passes pays it: `_paid_at` is when all is paid.
    """

    def __init__(self) -> None:
        self._paid_at = float("-inf")

    def add(self, seconds: float, now: float) -> float:
        """Count `seconds` that were owed at `now`; how long to rest from now on, 0: not at all."""
        paid_at = max(self._paid_at, now) + REST_FACTOR * seconds
        self._paid_at = min(paid_at, now + REST_SECONDS_MAX)
        rest = self._paid_at - now
        return rest if rest >= REST_SECONDS_MIN else 0.0


class Turn:
    """The requests that one connection has had served in this turn of the loop."""

    __slots__ = (
        "_cost",
        "_now",
        "_refused",
        "_seconds_max",
        "_size",
        "_vain_size",
        "began",
        "is_spent",
        "served",
        "used",
    )

    def __init__(self, now: Callable[[], float]) -> None:
        self._now, self.began = now, now()
        self._cost = self._size = self._vain_size = 0
        self._seconds_max = TURN_SECONDS_MAX
        self.is_spent = False
        self.served = self._refused = 0
        #: Seconds of a processor.
        self.used = 0.0

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return self._now() - self.began

    def read(self, size: int) -> None:
        """Count bytes that came."""
        self._size += size
        self.is_spent |= self._size >= TURN_BYTES_MAX

    def spend(self, cost: int, seconds_max: float = TURN_SECONDS_MAX) -> bool:
        """Count a request that was served; True when the rest must wait for the next turn."""
        self._cost += cost
        self._seconds_max = max(self._seconds_max, seconds_max)
        self.is_spent |= self._cost >= TURN_COST_MAX or self.seconds >= seconds_max
        return self.is_spent

    def refused(self, count: int) -> None:
        """So many of the requests were refused."""
        self._refused += count

    def in_vain(self, size: int) -> None:
        """Count bytes that made no frame whole."""
        self._vain_size += size

    @property
    def owed(self) -> float:
        """Seconds beyond a turn's share, or spent on refused requests and incomplete frames."""
        vain = 0.0
        if self.served:
            vain = self.used * min(self._refused / self.served, 1.0)
        elif self._vain_size:
            vain = max(self.used, self._vain_size / BYTES_PER_SECOND)
        return max(vain, self.used - self._seconds_max)


class FairQueue(Generic[Request]):
    """The requests of one connection that were read and not served yet.

    `serve(requests, turn)` serves them from the front until `turn.spend` says that it is enough, or
    until answers pile up, and returns how many it served (at least one when `is_paused` is False).
    `served()` is called when nothing waits any more after `end` was called. `decode(piece)` gives
    the requests that a piece of the stream completes.
    """

    def __init__(
        self,
        serve: Callable[[Sequence[Request], Turn], int],
        served: Callable[[], None],
        decode: Callable[[bytes], Sequence[Request]],
        neighbours: Neighbours,
        *,
        call_soon: Callable[[Callable[[], None]], object] | None = None,
        call_later: Callable[[float, Callable[[], None]], object] | None = None,
        now: Callable[[], float] | None = None,
        used: Callable[[], float] = time.thread_time,
    ) -> None:
        """`used`: seconds of a processor that this thread has had."""
        self._serve, self._served, self._decode = serve, served, decode
        self._neighbours = neighbours
        self._call_soon = call_soon or asyncio.get_running_loop().call_soon
        self._call_later = call_later or asyncio.get_running_loop().call_later
        self._now = now or asyncio.get_running_loop().time
        self._used = used
        self._transport: asyncio.Transport | None = None
        self._unread: deque[bytes] = deque()
        self._piece_size = PIECE_SIZE // 8  # until it is known how long this client's take
        self._waiting: Sequence[Request] = ()
        self._turn: Turn | None = None  # what this turn of the loop has served
        self._debt = Debt()
        self._ends = self._holds_reading = self._rests = False
        #: The client does not read its answers: nothing more is served.
        self.is_paused = False

    def connected(self, transport: asyncio.Transport) -> None:
        """Reading of `transport` is paused while requests wait."""
        self._transport = transport

    def disconnected(self) -> None:
        """The connection is gone: drop all waiting requests, as their answers have no reader."""
        self._transport = None
        self._waiting = ()
        self._unread.clear()

    def read(self, data: bytes) -> None:
        """Bytes came: decode and serve them as far as this turn allows, after those that wait."""
        if self._ends:
            return
        self._this_turn().read(len(data))
        self._unread.append(data)
        self._run()

    def pause(self) -> None:
        """Answers pile up: stop serving and reading until `resume`."""
        self.is_paused = True
        self._hold_reading()

    def resume(self) -> None:
        """The client has taken its answers."""
        self.is_paused = False
        self._run()

    def end(self) -> None:
        """Said by `decode`: no more will come; call `served` when all that came is served."""
        self._ends = True
        self._unread.clear()

    def _this_turn(self) -> Turn:
        turn = self._turn
        if turn is None:
            turn = self._turn = Turn(self._now)
            self._call_soon(self._next_turn)
        return turn

    def _run(self) -> None:
        if (self._waiting or self._unread) and not (self.is_paused or self._rests):
            turn, before = self._this_turn(), self._used()
            self._advance(turn)
            turn.used += self._used() - before
        if self._waiting or self._unread:
            self._hold_reading()
        elif self._ends:
            self._served()
        elif self._rests or (self._turn is not None and self._turn.is_spent):
            self._hold_reading()
        elif self._holds_reading and not self.is_paused:
            self._holds_reading = False
            if self._transport is not None:
                self._transport.resume_reading()

    def _advance(self, turn: Turn) -> None:
        """Serve the waiting requests; when all are served, decode more."""
        while not (turn.is_spent or self.is_paused):
            if self._waiting:
                done = self._serve(self._waiting, turn)
                turn.served += done
                self._waiting = self._waiting[done:]
            elif self._unread:
                self._waiting = self._decode_piece(turn)
            else:
                return

    def _decode_piece(self, turn: Turn) -> Sequence[Request]:
        piece, before = self._unread.popleft(), self._used()
        if len(piece) > self._piece_size:
            self._unread.appendleft(piece[self._piece_size :])
            piece = piece[: self._piece_size]
        found = self._decode(piece)
        if not found:
            turn.in_vain(len(piece))
        if self._used() - before > PIECE_SECONDS_MAX:
            self._piece_size = max(len(piece) // 2, PIECE_SIZE_MIN)
        elif len(piece) == self._piece_size:
            self._piece_size = min(2 * self._piece_size, PIECE_SIZE)
        return found

    def _hold_reading(self) -> None:
        if not self._holds_reading:
            self._holds_reading = True
            if self._transport is not None:
                self._transport.pause_reading()

    def _next_turn(self) -> None:
        turn, self._turn = self._turn, None
        assert turn is not None
        now = self._now()
        if turn.served:
            self._neighbours.served(self, now)
        if turn.owed and self._neighbours.others_at(self) > now - OTHERS_SECONDS:
            rest = self._debt.add(turn.owed, now)
            if rest:
                self._rests = True
                self._hold_reading()
                self._call_later(rest, self._rested)
                return
        self._go_on()

    def _rested(self) -> None:
        self._rests = False
        self._go_on()

    def _go_on(self) -> None:
        if not self.is_paused and (self._waiting or self._unread or self._holds_reading):
            self._run()
