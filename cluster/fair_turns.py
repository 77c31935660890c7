"""Serves one connection's requests in order, a bounded amount in each turn of the event loop.

    socket read ─► add(requests) ─► serve some ─► others' turn ─► serve some ─► …
                        └── while any wait, nothing more is read from this connection

A client may send thousands of cheap requests in one piece. Served in one go they would hold the
event loop, and with it every other client, the heartbeats to the followers and the answers to the
leader. What is over the bound waits for the next turn. The sender's socket fills up meanwhile, so a
client that sends too much slows down itself alone. A loop may read one socket many times in a turn
(libuv: 32 times 256 KiB), so the bound is the turn's, not the read's.
"""

from __future__ import annotations

import asyncio
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
#: Read of one connection in one turn, though no request has come whole yet; four usual reads.
TURN_BYTES_MAX = 1 << 20


class Turn:
    """What one connection has had served in this turn of the loop."""

    __slots__ = ("_bytes", "_cost", "_now", "began", "is_spent")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now, self.began, self._cost, self._bytes = now, now(), 0, 0
        self.is_spent = False

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return self._now() - self.began

    def read(self, size: int) -> None:
        """Count bytes that came."""
        self._bytes += size
        self.is_spent |= self._bytes >= TURN_BYTES_MAX

    def spend(self, cost: int, seconds_max: float = TURN_SECONDS_MAX) -> bool:
        """Count a request that was served; True when the rest must wait for the next turn."""
        self._cost += cost
        self.is_spent |= self._cost >= TURN_COST_MAX or self.seconds >= seconds_max
        return self.is_spent


class FairQueue(Generic[Request]):
    """The requests of one connection that were read and not served yet.

    `serve(requests, turn)` serves them from the front until `turn.spend` says that it is enough, or
    until answers pile up, and returns how many it served (at least one when `is_paused` is False).
    `served()` is called when nothing waits any more after `end` was called.
    """

    def __init__(
        self,
        serve: Callable[[Sequence[Request], Turn], int],
        served: Callable[[], None],
        *,
        call_soon: Callable[[Callable[[], None]], object] | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._serve, self._served = serve, served
        self._call_soon = call_soon or asyncio.get_running_loop().call_soon
        self._now = now or asyncio.get_running_loop().time
        self._transport: asyncio.Transport | None = None
        self._waiting: Sequence[Request] = ()
        self._turn: Turn | None = None  # what this turn of the loop has served
        self._ends = self._holds_reading = False
        #: The client does not read its answers: nothing more is served.
        self.is_paused = False

    def connected(self, transport: asyncio.Transport) -> None:
        """Reading of `transport` is paused while requests wait."""
        self._transport = transport

    def disconnected(self) -> None:
        """Nobody waits for answers any more."""
        self._transport = None
        self._waiting = ()

    def add(self, requests: Sequence[Request], size: int = 0) -> None:
        """Serve them now as far as this turn allows, after those that wait.

        `size`: bytes that were read, whether requests came whole with them or not.
        """
        if size:
            self._this_turn().read(size)
        if self._waiting:
            self._waiting = [*self._waiting, *requests]
        else:
            self._run(requests)

    def pause(self) -> None:
        """Answers pile up: serve and read nothing until `resume`."""
        self.is_paused = True
        self._hold_reading()

    def resume(self) -> None:
        """The client has taken its answers."""
        self.is_paused = False
        self._run(self._waiting)

    def end(self) -> None:
        """No more will come: call `served` when those that wait are served."""
        self._ends = True
        if not self._waiting:
            self._served()

    def _this_turn(self) -> Turn:
        turn = self._turn
        if turn is None:
            turn = self._turn = Turn(self._now)
            self._call_soon(self._next_turn)
        return turn

    def _run(self, requests: Sequence[Request]) -> None:
        done = 0
        if requests and not self.is_paused:
            turn = self._this_turn()
            if not turn.is_spent:
                done = self._serve(requests, turn)
        turn_now = self._turn
        self._waiting = requests[done:]
        if self._waiting:
            self._hold_reading()
        elif self._ends:
            self._served()
        elif turn_now is not None and turn_now.is_spent:
            self._hold_reading()
        elif self._holds_reading and not self.is_paused:
            self._holds_reading = False
            if self._transport is not None:
                self._transport.resume_reading()

    def _hold_reading(self) -> None:
        if not self._holds_reading:
            self._holds_reading = True
            if self._transport is not None:
                self._transport.pause_reading()

    def _next_turn(self) -> None:
        self._turn = None
        if not self.is_paused and (self._waiting or self._holds_reading):
            self._run(self._waiting)
