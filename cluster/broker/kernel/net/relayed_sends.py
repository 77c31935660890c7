"""Sends at the relay port: copied to the leader unread; read here only when this node leads.

They are read as well while no leader is known or this node stops, and when the leader has to be
asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cluster.broker.kernel.events.leadership import Leadership, Serving
from cluster.broker.kernel.net.connection import ClientConnection
from cluster.broker.kernel.net.forward_links import Again, ForwardLinks
from cluster.errors import ClusterError, InvalidRequest
from cluster.protocol.frames import refusal
from cluster.protocol.raw_sends import RawSend
from cluster.protocol.send import SendReader, SendRequest


class RelayedSends:
    """One per router."""

    def __init__(
        self,
        links: ForwardLinks,
        leadership: Leadership,
        *,
        sends: Callable[[ClientConnection, Sequence[SendRequest]], None],
        again: Again,
        stops: Callable[[], bool],
    ) -> None:
        """`sends` takes sends that were read; `stops`: does this node send its clients away?"""
        self._links, self._leadership = links, leadership
        self._sends, self._again, self._stops = sends, again, stops

    def take(self, connection: ClientConnection, sends: Sequence[SendRequest | RawSend]) -> None:
        """The sends of one socket read, in their order."""
        leadership = self._leadership
        follows = leadership.serving is Serving.FOLLOWING and not leadership.is_releasing
        if not follows or connection.forwarded_by is not None or self._stops():
            self._sends(connection, self._read(connection, sends))
            return
        for send in sends:
            if type(send) is not RawSend:
                self._sends(connection, self._read(connection, [send]))
                continue
            connection.version = send.version
            try:
                self._links.send(connection, send, leadership.leader, self._again)
            except ClusterError as error:
                if not send.is_oneway:
                    connection.answer(refusal(send.read(), error))

    def _read(
        self, connection: ClientConnection, sends: Sequence[SendRequest | RawSend]
    ) -> list[SendRequest]:
        found = []
        for send in sends:
            if type(send) is not RawSend:
                assert isinstance(send, SendRequest)
                found.append(send)
                continue
            try:
                found.append(SendReader().read(send.read()))
            except InvalidRequest as error:
                if not send.is_oneway:
                    connection.answer(refusal(send.read(), error))
        if found:
            connection.version = found[-1].template.version
        return found
