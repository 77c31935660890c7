"""The leader's side of a hello: the connection becomes a link for a client (hello.py)."""

from __future__ import annotations

import secrets

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.net.connection import ClientConnection
from cluster.broker.kernel.net.hello import ForwardAcceptor
from cluster.errors import ClusterError
from cluster.protocol.frames import Frame
from dledger.membership.proof import NONCE_SIZE


def greet(config: BrokerConfig, connection: ClientConnection, frame: Frame) -> None:
    """A follower opens a link for one of its clients; a wrong hello closes the connection."""
    greeting = connection.greeting
    if greeting is None:
        greeting = connection.greeting = ForwardAcceptor(
            config.node_id,
            config.peers,
            config.cluster_secret,
            secrets.token_bytes(NONCE_SIZE),
        )
    try:
        answer = greeting.receive(frame)
    except ClusterError as error:
        connection.complain("hello", "connection of %s closed: %s", connection.address, error)
        connection.close()
        return
    if answer is not None:
        connection.answer(answer)
    if greeting.hello is not None:
        connection.forwarded_by = greeting.hello.node
        connection.link_term = greeting.hello.term
        connection.is_relayed = greeting.hello.is_relayed
        connection.set_address(greeting.hello.client)
