"""The two features that the router calls without a table: sends and pulls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cluster.broker.kernel.net.connection import ClientConnection
from cluster.protocol.frames import Frame
from cluster.protocol.headers import PullRequest
from cluster.protocol.send import SendRequest
from dledger.core.types import Index


class Sends(Protocol):
    """Sends on the leader, those of one socket read together."""

    @property
    def refused(self) -> int:
        """How many were refused."""
        ...

    @property
    def taken(self) -> int:
        """How many messages were taken into the log, or began to wait for their topic."""
        ...

    def handle(self, client: ClientConnection, requests: Sequence[SendRequest], /) -> None:
        """Serve sends of one client, in their order."""
        ...

    def take_in_doubt(
        self, client: ClientConnection, request: SendRequest, after: Index, /
    ) -> None:
        """Serve a send that an earlier leader may have stored, at an index above `after`."""
        ...

    def refuse(self, client: ClientConnection, request: SendRequest, error: Exception, /) -> None:
        """Answer one send with an error."""
        ...


class Pulls(Protocol):
    """Pulls: messages that are found, on any replica; all else on the leader."""

    def try_found(self, client: ClientConnection, frame: Frame, request: PullRequest, /) -> bool:
        """Answer when there are messages; False: no answer was sent."""
        ...

    def serve(self, client: ClientConnection, frame: Frame, request: PullRequest, /) -> None:
        """Answer on the leader, now or later. Raises the error that the client is told."""
        ...
