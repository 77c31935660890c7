"""The address that peers dial: listens, and finds the group that each connection's hello names.

    accept ─► Inbound, TLS where it is set ─► hello ─► the group of that name ─► its `Side`
                                                └────► none: refused, and told why

One group's replica has a port of its own; the groups of a host (host.py) share one. The port is
told of a connection's end only before it is a group's: strangers are its affair, peers the group's.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import Callable, Collection

from dledger.config import RaftConfig
from dledger.core.types import NodeId
from dledger.errors import LogUsageError, PeerRefused
from dledger.membership.handshake import Hello, RefusalReason
from dledger.membership.proof import NONCE_SIZE
from dledger.runtime.complaints import Complaints
from dledger.runtime.inbound import Inbound, Side, refusal_kind
from dledger.runtime.inbound_tls import InboundTls
from dledger.runtime.listening import listen_at, stop_listening
from dledger.runtime.owned import Owned
from dledger.runtime.peer_tls import PeerTls

_log = logging.getLogger(__name__)

#: Connections that have not said who they are. A peer needs two; the rest is for strays.
GREETING_MAX = 64
#: In place of cluster and group in the hello of a connection between hosts (host_links.py); no
#: group of a host can have that name.
CARRIER = "*"
#: Calls for a group that is not open are no more than news for so long: hosts open theirs in any
#: order.
NOT_OPEN_SECONDS = 10.0
#: Names of such groups that are remembered.
NOT_OPEN_MAX = 64
_NOT_OPEN = refusal_kind(RefusalReason.GROUP_NOT_OPEN)


class PeerPort:
    """Listens between `open` and `close`.

    Attributes:
        tls: what this node shows and whom it believes; None: it speaks no TLS.
    """

    def __init__(
        self, config: RaftConfig, owned: Owned, *, shared: bool = False, greeting_max: int = 0
    ) -> None:
        """`shared`: several groups are here, and a caller of another one is refused.

        Otherwise there is one group, which itself refuses callers of another one.
        `greeting_max`: so many connections may be without an accepted hello; 0: GREETING_MAX.
        """
        self._config, self._owned, self._shared = config, owned, shared
        self._greeting_max = greeting_max or GREETING_MAX
        self._secret = None if config.secret is None else config.secret.encode()
        self.tls = PeerTls.of(config)
        #: Without TLS nothing looks at the bytes of a connection first.
        self._new_inbound: Callable[..., Inbound] = (
            Inbound if self.tls is None else functools.partial(InboundTls, self.tls)
        )
        self._server: asyncio.Server | None = None
        self._groups: dict[str, Callable[[], Side]] = {}
        self.greeting: dict[Inbound, None] = {}  # the oldest first
        self._greeting_channels: set[Inbound] = set()
        #: A host's, for connections between hosts; None: callers are groups only.
        self.carriers: Callable[[], Side] | None = None
        self._complaints = Complaints(_log, owned.time)
        self._not_open: dict[str, float] = {}  # group → when it was first called for

    async def open(self) -> None:
        """Listen. Raises OSError when the address is taken."""
        host, port = self._config.listen_address()
        try:
            self._server = await listen_at(self._accept, host, port)
        except OSError as error:
            raise OSError(
                error.errno,
                f"{self._config.node_id} cannot listen on {host}:{port} ({error.strerror}); "
                "is another process using this port?",
            ) from error

    async def close(self) -> None:
        """Accept no more, and close connections without an accepted hello."""
        if self._server is not None:
            await stop_listening(self._server)
        for inbound in (*self.greeting, *self._greeting_channels):
            inbound.close()
        self.greeting.clear()

    @property
    def number(self) -> int:
        """The port that is listened on, also when the configured one is 0."""
        assert self._server is not None
        number: int = self._server.sockets[0].getsockname()[1]
        return number

    def add(self, group: str, side: Callable[[], Side]) -> None:
        """Let callers of `group` in; `side()` is asked with each. Raises LogUsageError."""
        self.check_free(group)
        self._groups[group] = side
        self._not_open.pop(group, None)

    def check_free(self, group: str) -> None:
        """Raises LogUsageError when `group` is here already."""
        if group in self._groups:
            raise LogUsageError(
                f"the group {group} is open on {self._config.node_id} already; close it first, "
                "or use the node that runs it"
            )

    def remove(self, group: str) -> None:
        """Let no caller of `group` in any more; one that is not there is no mistake.

        Connections to it that are being greeted are closed: what they would still tell is of this
        run of the group, and must not be written over the next one's files.
        """
        self._groups.pop(group, None)
        for inbound in (*self.greeting, *self._greeting_channels):
            if inbound.group == group:
                inbound.close()

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that callers are let in to."""
        return tuple(self._groups)

    def sides(self) -> list[Side]:
        """The side of every group, as of now."""
        return [side() for side in self._groups.values()]

    def accept_channel(self, certified: Collection[NodeId]) -> Inbound:
        """The protocol of a channel between hosts; `certified`: names that their connection shows.

        It needs no descriptor, and its host has proved the secret; so strays never take its place.
        """
        inbound = self._make(Inbound)
        inbound.certified, inbound.in_channel = certified, True
        self._greeting_channels.add(inbound)
        return inbound

    def _make(self, make: Callable[..., Inbound]) -> Inbound:
        return make(
            self,
            self._config.node_id,
            self._secret,
            os.urandom(NONCE_SIZE),
            self._config.connection_timeout_ms / 1000,
            owned=self._owned,
        )

    def _accept(self) -> Inbound:
        inbound = self._make(self._new_inbound)
        if len(self.greeting) >= self._greeting_max:
            oldest = next(iter(self.greeting))
            del self.greeting[oldest]  # its end may be told only after many more have come
            oldest.close()
        self.greeting[inbound] = None
        return inbound

    # -- `Port` of a connection ------------------------------------------------------------------

    def side_of(self, hello: Hello, *, in_channel: bool = False) -> Side:
        """The group that it names; a channel carries no channels. Raises PeerRefused."""
        if hello.sender.group == CARRIER and self.carriers is not None and not in_channel:
            return self.carriers()
        side = self._groups.get(hello.sender.group)
        if side is None and not self._shared:
            side = next(iter(self._groups.values()), None)
        if side is None:
            if len(self._not_open) < NOT_OPEN_MAX:
                self._not_open.setdefault(hello.sender.group, self._owned.time())
            me = self._config.node_id
            raise PeerRefused(
                RefusalReason.GROUP_NOT_OPEN,
                f"{me} does not run the group {hello.sender.group} that "
                f"{hello.sender.node_id} calls; open it there, or check the name",
            )
        return side()

    def greeted(self, inbound: Inbound) -> None:
        """A group has accepted the connection."""
        self.greeting.pop(inbound, None)
        self._greeting_channels.discard(inbound)

    def ended(self, inbound: Inbound, reason: str) -> None:
        """A connection ended without a group; logged by kind, so strays do not fill the log."""
        self.greeting.pop(inbound, None)
        self._greeting_channels.discard(inbound)
        if reason:
            is_news = inbound.kind == _NOT_OPEN and self._is_news()
            self._complaints.say(
                f"closed a connection, {inbound.kind}{', at first' if is_news else ''}",
                "%s: closed a connection: %s",
                self._config.node_id,
                reason,
                level=logging.INFO if is_news else logging.WARNING,
            )

    def _is_news(self) -> bool:
        """Is each group that is called for and not open called for since a moment only?"""
        now = self._owned.time()
        return all(now - began < NOT_OPEN_SECONDS for began in self._not_open.values())
