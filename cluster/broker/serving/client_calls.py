"""Requests of the broker to a client, and their answers (307, 309, 221, 326; remoting.md 2.6).

    ask(channel, frame, done) ─► the client ─► its response ─► answered ─► done(response)
                              └► nothing for seconds_max              ─► done(None)

Opaque numbers of the two directions are independent; ours begin anywhere, so that a late answer to
another node's question is not taken for one to ours. A client that is connected to a follower gets
the question over the follower's link, and its response comes back the same way.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.core.groups import Channel
from cluster.errors import QueueFull
from cluster.protocol.frames import Frame

WAITING_MAX = 10_000  # questions to clients without an answer; most of them are pushed replies
OPAQUE_MASK = 0x7FFFFFFF

Done = Callable[[Frame | None], None]


class ClientCalls:
    """`first`: any number; where ours begin."""

    def __init__(
        self, call_later: Callable[[float, Callable[[], None]], object], first: int
    ) -> None:
        self._call_later = call_later
        self._opaque = first & OPAQUE_MASK
        self._waiting: dict[int, Done] = {}
        #: Questions to clients that are not connected yet; their askers count them.
        self.looked_for = 0

    def ask(self, channel: Channel, frame: Frame, seconds_max: float, done: Done) -> None:
        """Send `frame` under a number of ours. Raises QueueFull."""
        if len(self._waiting) >= WAITING_MAX:
            raise QueueFull("too many questions to clients wait for answers; try again later")
        self._opaque = self._opaque + 1 & OPAQUE_MASK
        opaque = self._opaque
        self._waiting[opaque] = done
        channel.answer(frame._replace(opaque=opaque))

        def expire() -> None:
            self._settle(opaque, None)

        self._call_later(seconds_max, expire)

    def answered(self, frame: Frame) -> bool:
        """A response came from a client; False when it is to no question of ours."""
        return self._settle(frame.opaque, frame)

    def _settle(self, opaque: int, frame: Frame | None) -> bool:
        done = self._waiting.pop(opaque, None)
        if done is not None:
            done(frame)
        return done is not None
