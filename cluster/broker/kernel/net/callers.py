"""The caller of a request: which account signed it, by the accounts that this node has now.

a client's            looked at here, when it comes
over a peer's link    looked at here, too: the peer may lag, or have accounts of its own file
what waited           looked at again, when it is served or passed on
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.broker.kernel.net.connection import ClientConnection
from cluster.broker.kernel.net.requests import BoundHandler
from cluster.core.access.needs import ADMIN
from cluster.core.access.rules import Caller
from cluster.errors import Unauthorized
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from cluster.protocol.replica_headers import without_leader
from cluster.protocol.send import SEND_CODES, message_count
from cluster.security.access_file import Access


class Callers:
    """One per router."""

    def __init__(
        self,
        access: Access,
        taken: Callable[[], int],
        handler_of: Callable[[int], BoundHandler[Any] | None],
    ) -> None:
        """Two things are asked for.

        Args:
            taken: how many messages were taken into the log, or began to wait for their topic.
            handler_of: the handler of a request code.
        """
        self._access, self._taken, self._handler_of = access, taken, handler_of

    def caller(self, connection: ClientConnection, frame: Frame, *, passed_on: bool) -> Caller:
        """The caller. `passed_on`: the leader will look, too. Raises as `Access.caller`."""
        peer = connection.forwarded_by
        if peer is None:
            found = self._access.caller(connection.address, frame, passed_on=passed_on)
            # An administrator gets in beyond the quota of connections, to change it.
            handler = self._handler_of(frame.code)
            if handler is None or handler.needs is not ADMIN or not found.is_admin:
                self._access.take_connection(found, connection)
            return found
        access, address = self._access, connection.address
        return _as_asked(frame, lambda asked: access.caller_at_leader(address, asked, peer))

    def again(self, connection: ClientConnection, frame: Frame) -> Caller:
        """The caller of a request that waited. Raises Unauthorized.

        Its rights are to be looked at again, too.
        """
        access, address = self._access, connection.address
        return _as_asked(frame, lambda asked: access.caller_again(address, asked))

    def of_doubt(self, connection: ClientConnection, asked: Frame) -> Caller:
        """The caller of a send in doubt that is settled here. Raises as the two above."""
        if connection.forwarded_by is None:
            return self.again(connection, asked)
        return self.caller(connection, asked, passed_on=False)

    def judged(self, caller: Caller, frame: Frame, since: float, serve: Callable[[], None]) -> None:
        """Look at its age and its account's quota, and serve it: this node leads since `since`.

        A send pays when it was taken, or holds memory until its topic is there: what it paid then
        is given back before it comes again. It pays nothing when it is refused, or waits for a
        leader.
        Raises SealStale, QueueFull.
        """
        self._access.judge_age(frame, since)
        if frame.code not in SEND_CODES or not self._access.check_send(caller):
            serve()
            return
        self.counted(caller, frame, serve)

    def counted(self, caller: Caller, frame: Frame, serve: Callable[[], None]) -> None:
        """Serve a send, which pays when it was taken.

        One in doubt is not refused for its quota, since an earlier leader may have stored it: what
        it takes too much is made up for by the time that follows.
        """
        before = self._taken()
        serve()
        if self._taken() != before:
            self._access.count_send(caller, message_count(frame), len(frame.body))

    def is_too_late(self, connection: ClientConnection) -> bool:
        """Accounts came into the log behind its beginning, and its sends carry no signature.

        It is closed: the next one is read with its signatures, so a client with an account goes on.
        """
        if connection.whole_frames or not self._access.is_on:
            return False
        connection.close()
        return True


def _as_asked(frame: Frame, look: Callable[[Frame], Caller]) -> Caller:
    """A node may have added a field to a request on its way, which is in no signature."""
    try:
        return look(frame)
    except Unauthorized:
        if frame.code != RequestCode.TRANSFER_LEADER or "leader" not in frame.ext:
            raise
        return look(without_leader(frame))
