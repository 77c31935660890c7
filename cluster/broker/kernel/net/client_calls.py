"""Requests of the broker to a client, and their answers (307, 309, 221, 326).

Source: docs/spec/remoting.md 2.6.

    ask(channel, frame, done) ─► the client ─► its response ─► answered ─► done(response)
                              └► nothing for seconds_max              ─► done(None)

Opaque numbers of the two directions are independent; ours begin anywhere, so that a late answer to
another node's question is not taken for one to ours. A response counts only on the connection that
was asked: numbers can be guessed, and others' answers settle what becomes of others' messages. A
client that is connected to a follower gets the question over the follower's link, and its response
comes back the same way.
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
        self,
        call_later: Callable[[float, Callable[[], None]], object],
        first: int,
        bound: Callable[[Done], Done] = lambda done: done,
    ) -> None:
        """`bound`: see `Owned.bound`."""
        self._call_later, self._bound = call_later, bound
        self._opaque = first & OPAQUE_MASK
        self._waiting: dict[int, tuple[Channel, Done]] = {}
        #: Questions to clients that are not connected yet; their askers count them.
        self.looked_for = 0

    def ask(self, channel: Channel, frame: Frame, seconds_max: float, done: Done) -> None:
        """Send `frame` under a number of ours. Raises QueueFull."""
        if len(self._waiting) >= WAITING_MAX:
            raise QueueFull("too many questions to clients wait for answers; try again later")
        self._opaque = self._opaque + 1 & OPAQUE_MASK
        opaque = self._opaque
        self._waiting[opaque] = (channel, self._bound(done))
        channel.answer(frame._replace(opaque=opaque))

        def expire() -> None:
            found = self._waiting.pop(opaque, None)
            if found is not None:
                found[1](None)

        self._call_later(seconds_max, expire)

    def answered(self, channel: Channel, frame: Frame) -> bool:
        """A response came on a connection; False when it is to no question of ours there."""
        found = self._waiting.get(frame.opaque)
        if found is None or found[0] is not channel:
            return False
        del self._waiting[frame.opaque]
        found[1](frame)
        return True
