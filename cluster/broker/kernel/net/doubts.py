"""The way of sends in doubt (in_doubt.py): held until a later term has a leader, then settled.

link broke ─► Doubts.ask ─┬► this node leads a later term    looks itself
                          ├► another one does                over its link, to Doubts.passed_on
                          └► not yet                         held, RELAY_WAIT_SECONDS at most
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from cluster.broker.kernel.events.leadership import Leadership, Serving
from cluster.broker.kernel.net.callers import Callers
from cluster.broker.kernel.net.connection import ClientConnection, costs_connection
from cluster.broker.kernel.net.hot_paths import Sends
from cluster.broker.kernel.net.in_doubt import lost_unanswered, read_doubt
from cluster.broker.kernel.net.needs import needs_of_send
from cluster.broker.kernel.net.requests import Call, Routing
from cluster.core.access.rules import UNASKED
from cluster.errors import (
    ClusterError,
    NotLeader,
    SealStale,
    ServiceNotAvailable,
    Unauthorized,
)
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from cluster.protocol.send import SendReader
from cluster.security.access_file import Access, require

RELAY_WAIT_SECONDS = 2.5  # of the 3 s that stock clients give a send with all its attempts


class Doubts:
    """One per router. Its sends are bound when the features are (`Router.add_hot_paths`)."""

    def __init__(
        self,
        router: Routing,
        leadership: Leadership,
        access: Access,
        callers: Callers,
        *,
        forward: Callable[[ClientConnection, Frame], None],
        refuse_sends: Callable[[ClientConnection], ClusterError | None],
    ) -> None:
        """`forward` passes a frame on to the leader; `refuse_sends` says why this one may not."""
        self._router, self._leadership = router, leadership
        self._access, self._callers = access, callers
        self._forward, self._refuse_sends = forward, refuse_sends
        self.sends: Sends

    def passed_on(self, connection: ClientConnection, frame: Frame) -> None:
        """A follower asks. Raises ClusterError, which the follower is told."""
        if connection.forwarded_by is None:
            raise Unauthorized("only a node of this cluster asks so; send the message itself")
        if not self._leadership.leads or self._leadership.is_releasing:
            raise NotLeader("")
        self._settle(connection, frame)

    def taken_from(self, connection: ClientConnection, frames: Sequence[Frame]) -> list[Frame]:
        """Ask about those that are in doubt, in the next turn; the others are given back."""
        doubtful = [frame for frame in frames if frame.code == RequestCode.SEND_IN_DOUBT]
        if doubtful:
            ask, owned = functools.partial(self.ask, connection, doubtful), self._router.owned
            owned.call_later(0, costs_connection, owned, connection, ask)
        return [frame for frame in frames if frame.code != RequestCode.SEND_IN_DOUBT]

    def ask(
        self, connection: ClientConnection, frames: Sequence[Frame], late: bool = False
    ) -> None:
        """Ask the leader of a later term than the last one that was asked, once there is one."""
        leadership = self._leadership
        if self._callers.is_too_late(connection):
            return
        for frame in frames if not connection.closed else ():
            call = Call(self._router, connection, frame)
            is_later = leadership.term > read_doubt(frame).term
            if is_later and leadership.leads:
                call.guarded(functools.partial(self._settle, connection, frame))
            elif is_later and leadership.serving is Serving.FOLLOWING:
                call.guarded(functools.partial(self._forward, connection, frame))
            elif late or not leadership.hold_for(
                RELAY_WAIT_SECONDS,
                functools.partial(self.ask, connection, [frame]),
                len(frame.body),
            ):
                call.refuse(lost_unanswered())

    def _settle(self, connection: ClientConnection, frame: Frame) -> None:
        """On the leader. Raises ClusterError, which the sender is told."""
        asked, after, term = read_doubt(frame)
        refused = self._refuse_sends(connection)
        if refused is not None:
            raise refused
        if term >= self._leadership.term:  # it looks only into what earlier leaders left
            raise lost_unanswered()
        request, access = SendReader().read(asked), self._access
        caller = UNASKED
        if access.is_on:
            try:
                caller = self._callers.of_doubt(connection, asked)
                require(caller, needs_of_send(request))
                access.judge_age(asked, self._leadership.leading_since)
            except (Unauthorized, SealStale, ServiceNotAvailable):
                raise lost_unanswered() from None  # it may have been stored when it was allowed
            request = request._replace(sender=caller.key, signed=asked)
        settle = functools.partial(self.sends.take_in_doubt, connection, request, after)
        self._callers.counted(caller, asked, settle)
