"""Registrations of clients that are connected to a follower: its leader must know them, too."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.broker.kernel.events.leadership import Leadership, Serving
from cluster.broker.kernel.net.connection import ClientConnection
from cluster.broker.kernel.net.forward_links import Again, ForwardLinks
from cluster.errors import ClusterError
from cluster.protocol.frames import FLAG_ONEWAY, Frame
from cluster.protocol.headers import UnregisterClientRequest
from cluster.protocol.heartbeat import HeartbeatData

HEARTBEATS_MAX = 16  # client ids of one connection that are announced to a new leader; usual is 1


class Announcements:
    """Passes heartbeats on, and remembers them on their connection for the next leader."""

    def __init__(self, links: ForwardLinks, leadership: Leadership, again: Again) -> None:
        """`again`: see `ForwardLinks.send`."""
        self._links, self._leadership, self._again = links, leadership, again

    def announce(
        self,
        connection: ClientConnection,
        frame: Frame,
        request: HeartbeatData | UnregisterClientRequest,
    ) -> None:
        """Let the leader know the client too, and remember it for the next leader."""
        if connection.forwarded_by is not None:
            return
        if isinstance(request, HeartbeatData):
            client_id = request.client_id
            if client_id in connection.heartbeats or len(connection.heartbeats) < HEARTBEATS_MAX:
                connection.heartbeats[client_id] = frame
        else:
            connection.heartbeats.clear()
        if self._leadership.serving is Serving.FOLLOWING:
            self._pass_on(connection, frame)

    def announce_again(self, connections: Sequence[ClientConnection]) -> None:
        """Another node leads now: send it the heartbeats of the clients that are connected here."""
        for connection in connections:
            if connection.forwarded_by is None and not connection.closed:
                for frame in list(connection.heartbeats.values()):
                    self._pass_on(connection, frame)

    def _pass_on(self, connection: ClientConnection, frame: Frame) -> None:
        try:
            oneway = frame._replace(flag=frame.flag | FLAG_ONEWAY)
            self._links.send(connection, oneway, self._leadership.leader, self._again)
        except ClusterError as error:
            sentence = "a registration of %s was not passed on: %s"
            connection.complain("registration", sentence, connection.address, error)
