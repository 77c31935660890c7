"""One outgoing connection: dial, greet, send, and dial again when it breaks.

    dial ──► greet ──► open ──► lost ──► pause ──► dial …
                 └── refused or timed out ─┘

The pause doubles from `reconnect_min` to `reconnect_max`, times a jitter so that nodes which lost
each other do not meet in step; a peer that dials us ends it at once. Bytes that the other machine
does not take within `connection_timeout` end the connection (TCP_USER_TIMEOUT): after packets were
dropped for a while TCP itself would wait up to minutes before it tries again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from commitlog.files.system import Buffer
from dledger.config import Address, RaftConfig, TlsMode
from dledger.core.types import NodeId
from dledger.errors import MalformedFrame, PeerRefused
from dledger.membership.generation import Witness
from dledger.membership.handshake import Dialler, LinkKind, Member, RefusalReason, Strangers, Vouch
from dledger.membership.proof import NONCE_SIZE
from dledger.runtime.outbound import Outbound
from dledger.runtime.owned import Owned
from dledger.runtime.peer_tls import PeerTls
from dledger.wire.messages import size_of

_log = logging.getLogger(__name__)

#: How a dialled connection ends at a node that knows no TLS, or not our certificate.
_CUT_OFF = ConnectionResetError | ConnectionAbortedError


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """A link's settings, from the configuration; times in seconds."""

    peer: NodeId
    link_kind: LinkKind
    address: Address
    source: Address | None
    secret: bytes | None
    queue_bytes_max: int
    pause_min: float
    pause_max: float
    timeout: float
    own_address: str = ""
    tls: PeerTls | None = None

    @classmethod
    def of(
        cls,
        config: RaftConfig,
        peer: NodeId,
        link_kind: LinkKind,
        secret: bytes | None,
        address: Address | None = None,
        tls: PeerTls | None = None,
    ) -> LinkSettings:
        """`address`: where the peer is dialled; None: as the configuration says."""
        bulk = link_kind is LinkKind.BULK
        return cls(
            peer,
            link_kind,
            config.dial_address(peer) if address is None else address,
            config.source_address(),
            secret,
            config.bulk_queue_bytes_max if bulk else config.control_queue_bytes_max,
            config.reconnect_min_ms / 1000,
            config.reconnect_max_ms / 1000,
            config.connection_timeout_ms / 1000,
            config.own_address(),
            tls,
        )


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """A picture of one link. `error`: why the last attempt failed, "" while it is open; `refusal`:
    the number of the peer's reason (`membership.handshake.RefusalReason`), 0 when it was none.
    """

    open: bool
    error: str
    sent_frames: int
    sent_bytes: int
    dropped_frames: int
    queued_bytes: int
    refusal: int = 0


class Carriers(Protocol):
    """Connections between hosts, which carry those of their groups (host_links.py)."""

    async def ready(self, settings: LinkSettings) -> None:
        """Wait until there is a carrier, or until it is known that there will be none."""
        ...

    async def connect(self, settings: LinkSettings, outbound: Outbound) -> bool:
        """Open a channel for `outbound`; False: it must be dialled by itself."""
        ...

    def error(self, peer: NodeId, link_kind: LinkKind) -> str:
        """Why there is no carrier."""
        ...

    def tells_clocks(self, peer: NodeId) -> bool:
        """Is this peer told of the clocks here for all groups?"""
        ...


class Link:
    """Sends to one peer on one link."""

    def __init__(
        self,
        settings: LinkSettings,
        me: Callable[[], Member],
        vouch: Vouch,
        jitter: Callable[[], float],
        lost: Callable[[NodeId, LinkKind], None],
        carriers: Carriers | None = None,
    ) -> None:
        """`carriers`: of the host that this group runs on; None: it is alone."""
        self._carriers = carriers
        #: The connection that was dialled last is a channel of a carrier.
        self.is_carried = False
        self.strangers: Strangers = lambda _: False
        self.witness: Witness | None = None
        self.opened: Callable[[NodeId], None] = lambda _: None
        self._settings, self._me, self._vouch = settings, me, vouch
        self._jitter, self._lost = jitter, lost
        self._task: asyncio.Task[None] | None = None
        self._outbound: Outbound | None = None
        self._wake: asyncio.Event | None = None  # in a pause
        self._waits_for_host = False  # for its carrier
        self._error, self._refusal = "not dialled yet", 0
        self._said = self._said_plain = ""
        self._sent_frames = self._sent_bytes = self._dropped_frames = 0

    def start(self, owned: Owned) -> None:
        """Dial now, and again whenever the connection breaks."""
        self._task = owned.create_task(self._keep_dialling())

    async def stop(self) -> None:
        """Stop dialling, and cut the connection."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})  # however it ends: a mistake in it is told by its owner
        if self._outbound is not None:
            self._outbound.abort()
            self._outbound = None

    def cut(self) -> None:
        """End the connection; it is dialled again."""
        if self._outbound is not None:
            self._outbound.abort()

    def dial_now(self) -> None:
        """The peer is alive: end the pause before the next attempt."""
        if self._wake is not None:
            self._wake.set()

    def send(self, parts: list[Buffer]) -> None:
        """Send, queue or drop one frame."""
        outbound = self._outbound
        if outbound is None:
            self._dropped_frames += 1
            return
        dropped = outbound.send(parts)
        self._dropped_frames += dropped
        self._sent_frames += 1
        self._sent_bytes += size_of(parts)

    def announce(self, frame: bytes) -> None:
        """Send the peer a new generation, if it is connected and understands the frame."""
        if self._outbound is not None and self._outbound.knows_generations:
            self.send([frame])

    def tell_clocks(self, frame: Callable[[], bytes]) -> None:
        """Send the peer the times of our clocks, if it is connected and understands the frame."""
        if self._outbound is not None and self._outbound.knows_clocks:
            self.send([frame()])

    def forward(self, parts: list[Buffer]) -> bool:
        """Send a FORWARD or its reply; False: the peer is not there, or does not know it."""
        if self._outbound is None or not self._outbound.knows_forwards:
            return False
        self.send(parts)
        return True

    def status(self) -> LinkStatus:
        """Whether it is connected, its last error, and its counters."""
        outbound = self._outbound
        waits = self._host_error() if self._waits_for_host else ""
        return LinkStatus(
            outbound is not None,
            "" if outbound is not None else waits or self._error,
            self._sent_frames,
            self._sent_bytes,
            self._dropped_frames,
            0 if outbound is None else outbound.queued_bytes,
            0 if outbound is not None else self._refusal,
        )

    async def _keep_dialling(self) -> None:
        settings, loop = self._settings, asyncio.get_running_loop()
        pause = settings.pause_min
        while self._task is not None:  # until stop()
            await self._host()
            outbound = await self._attempt()
            if outbound is not None:
                opened = loop.time()
                self._outbound, self._error = outbound, ""
                self.opened(settings.peer)
                self._note(await outbound.closed)
                self._outbound = None
                if loop.time() - opened > settings.pause_max:  # it was worth something
                    pause = settings.pause_min
                    self._said = ""
                self._lost(settings.peer, settings.link_kind)
                if self.is_carried and self._host_error():
                    continue  # the host is gone: its next carrier is waited for
            self._wake = asyncio.Event()
            delay = self._pause(pause) * (0.5 + self._jitter() / 2)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), delay)
            self._wake = None
            pause = min(2 * pause, settings.pause_max)

    async def _host(self) -> None:
        """Wait for a carrier of the peer's host, without attempts: a thousand groups may wait."""
        if self._carriers is not None:
            self._waits_for_host = True
            try:
                await self._carriers.ready(self._settings)
            finally:
                self._waits_for_host = False

    def _host_error(self) -> str:
        """Why there is no carrier of the peer's host; "": there is one, or no host."""
        settings, carriers = self._settings, self._carriers
        return "" if carriers is None else carriers.error(settings.peer, settings.link_kind)

    def _pause(self, pause: float) -> float:
        """Seconds until the next attempt at most; `pause`: as doubled so far."""
        return pause

    def _new_outbound(self, dialler: Dialler) -> Outbound:
        settings, loop = self._settings, asyncio.get_running_loop()
        return Outbound(loop, dialler, settings.queue_bytes_max, settings.timeout)

    async def _attempt(self) -> Outbound | None:
        """Dial and greet once; None, with the reason kept, when that did not work.

        A permissive node dials without TLS where that did not work with it: its peers may know
        none yet, or show a certificate that is not believed, which is said.
        """
        tls = self._settings.tls
        found = await self._dial(None if tls is None else tls.context(dials=True))
        may_be_plain = tls is not None and tls.mode is TlsMode.PERMISSIVE
        if may_be_plain and isinstance(found, ssl.SSLError):
            why, found = found, await self._dial(None)
            if isinstance(found, Outbound):
                self._say_plain(str(why))
        if isinstance(found, Outbound):
            return found
        self._note(found)
        return None

    async def _dial(self, context: ssl.SSLContext | None) -> Outbound | Exception:
        """One connection, with TLS where there is a context: open, or why it is not."""
        settings = self._settings
        host, port = settings.address
        loop = asyncio.get_running_loop()
        dialler = Dialler(
            self._me(),
            settings.peer,
            settings.link_kind,
            settings.secret,
            os.urandom(NONCE_SIZE),
            self._vouch,
            settings.own_address,
            self.strangers,
            witness=self.witness,
        )
        outbound, carriers = self._new_outbound(dialler), self._carriers
        is_carried = carriers is not None
        try:
            async with asyncio.timeout(settings.timeout):
                is_carried = carriers is not None and await carriers.connect(settings, outbound)
                if not is_carried:
                    await loop.create_connection(
                        lambda: outbound, host, port, local_addr=settings.source, ssl=context
                    )
                await outbound.greeted
            self.is_carried = is_carried
            return outbound
        except TimeoutError as error:
            outbound.abort()
            why = self._host_error()
            return OSError(why) if why else error
        except (OSError, PeerRefused, MalformedFrame) as error:
            outbound.abort()
            if context is not None and not is_carried and isinstance(error, _CUT_OFF):
                return ssl.SSLError(
                    f"{settings.peer} closed a connection that began with TLS; see its log, and "
                    "that its tls_mode is permissive or enforcing"
                )
            return error
        except asyncio.CancelledError:
            outbound.abort()
            raise

    def _say_plain(self, why: str) -> None:
        """That a connection is in the clear although TLS is known, once for each reason."""
        if why != self._said_plain:
            self._said_plain = why
            _log.warning(
                "%s → %s goes without TLS: with it, %s; see that %s knows TLS and which "
                "certificates both show before tls_mode is enforcing",
                self._me().node_id,
                self._settings.peer,
                why,
                self._settings.peer,
            )

    def _note(self, error: Exception) -> None:
        """Log a refusal once, not with every attempt; a peer that is down is not logged.

        Nor is a host that does not run this group yet: it says so itself, for all callers once. A
        peer that checks the secret refuses what looked open for a moment: that ends nothing.
        """
        sentence = str(error) or f"no answer within {self._settings.timeout} s"
        refusal = error.reason if isinstance(error, PeerRefused) else 0
        told = isinstance(error, PeerRefused | MalformedFrame | ssl.SSLError)
        if sentence != self._said and told and refusal != RefusalReason.GROUP_NOT_OPEN:
            _log.warning("%s → %s: %s", self._me().node_id, self._settings.peer, sentence)
            self._said = sentence
        self._error, self._refusal = sentence, refusal
