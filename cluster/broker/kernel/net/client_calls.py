"""ClientCalls sends the broker's requests to clients (307, 309, 221, 326) and finds their answers.

Source: docs/spec/remoting.md 2.6.

    ask(channel, frame, done) ─► the client ─► its response ─► answered ─► done(response)
                              └► nothing for seconds_max              ─► done(None)

Both sides of a connection count their opaque numbers independently. This node begins with a random
one, so that it does not take a late answer to another node's request for an answer to its own. A
response counts only on the connection of its request: a client could guess the number of a request
to another client, and its answer would decide about that client's messages. A client that is
connected to a follower gets the request over the follower's link and answers the same way.
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
    """Requests of one node to clients that wait for their answers."""

    def __init__(
        self,
        call_later: Callable[[float, Callable[[], None]], object],
        first: int,
        bound: Callable[[Done], Done] = lambda done: done,
    ) -> None:
        """`first`: the number before this node's first request; `bound`: see `Owned.bound`."""
        self._call_later, self._bound = call_later, bound
        self._opaque = first & OPAQUE_MASK
        self._waiting: dict[int, tuple[Channel, Done]] = {}
        #: Number of requests to clients that are not connected yet; the askers change it.
        self.looked_for = 0

    def ask(self, channel: Channel, frame: Frame, seconds_max: float, done: Done) -> None:
        """Send `frame` with the next number; call `done` with the response, or None after
        `seconds_max`. Raises QueueFull.
        """
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
        """Take a response that came on `channel`; False if no request waits for it there."""
        found = self._waiting.get(frame.opaque)
        if found is None or found[0] is not channel:
            return False
        del self._waiting[frame.opaque]
        found[1](frame)
        return True
