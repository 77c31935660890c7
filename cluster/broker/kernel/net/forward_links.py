"""Links on which a follower passes its clients' requests on; one per client, to one leader."""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections import defaultdict
from collections.abc import Callable, Sequence

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.net.connection import ClientConnection
from cluster.broker.kernel.net.forward import (
    CONNECT_AGAIN_SECONDS,
    CONNECT_AGAIN_SECONDS_MAX,
    CONNECT_SECONDS_MAX,
    ForwardLink,
)
from cluster.broker.kernel.net.hello import ForwardDialler
from cluster.errors import NotLeader
from cluster.protocol.frames import Frame
from cluster.protocol.raw_sends import RawSend
from cluster.security.tls import DialTls
from commitlog.address import split_address
from dledger.config import TlsMode
from dledger.core.types import Index, Term
from dledger.membership.proof import NONCE_SIZE
from dledger.runtime.owned import Owned

_log = logging.getLogger(__name__)


#: What to do with requests whose link has ended: see `ForwardLink`.
Again = Callable[[ClientConnection, Sequence[Frame], bool], None]


class ForwardLinks:
    """Opens links when first needed and leaves them all when another leadership begins."""

    def __init__(
        self,
        config: BrokerConfig,
        owned: Owned,
        leadership: Leadership,
        *,
        applied: Callable[[], Index],
    ) -> None:
        """`applied()`: index of this node's newest applied entry."""
        self._config, self._owned = config, owned
        self._leadership, self._applied = leadership, applied
        self._start_token = secrets.token_hex(8)
        self._tls: DialTls | None = None
        if config.tls_mode == TlsMode.ENFORCING.value:
            self._tls = DialTls(config.tls_certificate, config.tls_key, config.tls_client_authority)
        self._links: dict[ClientConnection, ForwardLink] = {}
        self._leaving: set[ForwardLink] = set()  # of earlier leaders, which owe answers
        self._tasks: set[asyncio.Task[None]] = set()
        self._dials_again: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._leader: str | None = None
        self._led_in = Term(-1)
        self._closing = False
        self.forwarded = self.forwarded_bytes = 0

    def __len__(self) -> int:
        return len(self._links)

    @property
    def open_sends(self) -> int:
        """Sends that were passed on and have no answer yet."""
        return sum(link.open_sends for link in (*self._links.values(), *self._leaving))

    def lead_by(self, leader: str | None) -> None:
        """Take the leader's node id; None while no leader is known or this node leads."""
        if leader != self._leader or self._leadership.term != self._led_in:
            self._leader, self._led_in = leader, self._leadership.term
            for link in list(self._links.values()):
                link.leave()

    def send(
        self, client: ClientConnection, frame: Frame | RawSend, leader: str | None, again: Again
    ) -> None:
        """Pass one request on to `leader`. Raises NotLeader or ServiceNotAvailable.

        `again` takes the requests of a client that its broken link did not answer.
        """
        self.lead_by(leader)  # this turn's news may not have come here yet
        if self._leader is None or self._leader not in self._config.peers:
            raise NotLeader("")
        link = self._links.get(client)
        if link is None:
            link = self._open(client, self._leader, again)
        self.forwarded_bytes += link.send(frame)
        self.forwarded += 1

    def pass_answer(self, client: ClientConnection, frame: Frame) -> None:
        """A client answered a question of the leader's, which came over its link."""
        link = self._links.get(client)
        if link is not None:
            link.answer(frame)

    def client_closed(self, client: ClientConnection) -> None:
        """Close the link of a client that has gone."""
        link = self._links.get(client)
        if link is not None:
            link.close()

    async def close(self) -> None:
        """Close all links, cancel the tasks that open some, and wait for them."""
        self._closing = True
        for link in [*self._links.values(), *self._leaving]:
            link.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _open(self, client: ClientConnection, leader: str, again: Again) -> ForwardLink:
        config = self._config
        greeting = ForwardDialler(
            client.address,
            config.node_id,
            self._start_token,
            leader,
            config.cluster_secret,
            secrets.token_bytes(NONCE_SIZE),
            self._led_in,
            is_relayed=client.is_relayed,
        )

        def lost(frames: Sequence[Frame], moved: bool) -> None:
            if (link.closed or moved) and self._links.get(client) is link:
                del self._links[client]
            if link.closed:
                self._leaving.discard(link)
            elif moved:
                self._leaving.add(link)
            if frames and not self._closing:
                again(client, frames, moved)

        link = ForwardLink(
            client,
            greeting,
            frame_size_max=config.frame_size_max,
            open_bytes_max=config.leader_wait_bytes_max,
            term=self._led_in,
            applied=self._applied,
            lost=lost,
            owned=self._owned,
        )
        self._links[client] = link
        task = self._owned.create_task(self._connect(link, config.peers[leader]))
        self._tasks.add(task)
        self._owned.when_done(task, self._tasks.discard)
        return link

    async def _connect(self, link: ForwardLink, address: str) -> None:
        """Open the link; again while the leader refuses, which may not have its port open yet.

        Requests that are passed on meanwhile wait in the link. Nothing else would have them asked
        again: this node knows its leader, and the leader stays the same when its port opens. One
        link at a time dials again, however many clients there are; the others wait for it.
        """
        until = self._owned.loop.time() + self._config.leader_wait_seconds
        dials_again = self._dials_again[address]
        error: OSError | None = ConnectionRefusedError("another client's link waits for its port")
        if not dials_again.locked():
            error = await self._refusal(link, address)
        if error is not None and _may_open(error):
            async with dials_again:
                error = await self._connect_again(link, address, until, error)
        if error is not None:
            _log.info("the leader at %s cannot be reached: %s", address, error)
            link.failed()

    async def _connect_again(
        self, link: ForwardLink, address: str, until: float, error: OSError
    ) -> OSError | None:
        """None when the link is open, else the last error, of before or of here."""
        pause = CONNECT_AGAIN_SECONDS
        while not link.closed and self._owned.loop.time() < until:
            found = await self._refusal(link, address)
            if found is None or not _may_open(found):
                return found
            error = found
            await asyncio.sleep(pause)
            pause = min(2 * pause, CONNECT_AGAIN_SECONDS_MAX)
        return error

    async def _refusal(self, link: ForwardLink, address: str) -> OSError | None:
        """Dial once: None when the link is open, else the error."""
        try:
            await self._connect_once(link, address)
        except OSError as error:  # TimeoutError is one
            return error
        return None

    async def _connect_once(self, link: ForwardLink, address: str) -> None:
        """Raises OSError."""
        host, port = split_address(address)
        source = (self._config.source_host, 0) if self._config.source_host else None
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            await asyncio.get_running_loop().create_connection(
                lambda: link,
                host,
                port,
                local_addr=source,
                ssl=None if self._tls is None else self._tls.context(),
            )


def _may_open(error: OSError) -> bool:
    """True if dialling again may help soon: a silent machine and a wrong certificate stay so."""
    return not isinstance(error, TimeoutError | ssl.SSLError)
