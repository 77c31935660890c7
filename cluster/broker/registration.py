"""Registers this broker name at every name server: at once on a change, else periodically.

The leader registers with id 0 and its term, followers with their place in the group (1, 2, …) and
the term they know. While the group has no leader no node registers: name servers keep the last id-0
address (docs/spec/remoting.md 4.7). Each name server has its own task and connection, so a dead one
delays no other.

A registration holds every topic. With thousands of topics it takes tens of milliseconds of the
event loop to make one, and a client that makes topics one after the other would have one made for
each. After a registration, new topics therefore wait for ten times as long as it took to make; a
change of the role or of the group does not wait.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from cluster.broker.config import BrokerConfig
from cluster.errors import LocalProtocolError, RemoteProtocolError
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame, FrameDecoder, encode_frame
from cluster.protocol.headers import (
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
    decode,
    encode,
)
from cluster.protocol.node_proof import PROOF_SECONDS_MAX, prove
from cluster.protocol.route import LEADER_ID
from cluster.protocol.topics import Registration as RegistrationBody
from cluster.protocol.topics import TopicConfig as WireTopic
from cluster.protocol.topics import encode_registration
from cluster.security.tls import DialTls
from commitlog.address import split_address
from dledger.runtime.owned import Owned

ANSWER_SECONDS_MAX = 2.0  # a name server answers from memory; then the connection is given up
#: New topics wait for so many times the seconds that the last registration took of the loop, at
#: most `TOPICS_WAIT_SECONDS_MAX`: so registrations take about a tenth of the loop's time.
TOPICS_WAIT_FACTOR, TOPICS_WAIT_SECONDS_MAX = 10, 1.0
RETRY_SECONDS = 0.5  # until a name server that could not be reached is tried again
READ_SIZE = 64 * 1024

_log = logging.getLogger(__name__)


class Registered:
    """The content of a registration, made anew for each."""

    def __init__(self, broker_id: int, term: int, leader: str | None, topics: list[WireTopic]):
        self.broker_id, self.term, self.leader, self.topics = broker_id, term, leader, topics


class Registrar:
    """One task per name server. `current()` gives the registration to send now, None for none."""

    def __init__(
        self,
        config: BrokerConfig,
        advertised: str,
        owned: Owned,
        *,
        current: Callable[[], Registered | None],
        version: Callable[[], tuple[int, int]],
        now_ms: Callable[[], int],
        living: Callable[[], Sequence[str]] = tuple,
        notified: Callable[[], str] = str,
        relay: Callable[[], str | None] = lambda: None,
        used: Callable[[], float] = time.thread_time,
    ) -> None:
        """The tasks begin with `start`.

        Args:
            living: node ids of the followers that this leader hears.
            notified: members of groups, as a registration has them (notified_groups.py). Sent only
                if every name server asks for it.
            relay: host:port on which this node passes sends on; None: it has no such port now.
            used: processor seconds of this thread so far.
        """
        self._living, self._notified, self._relay = living, notified, relay
        self._config, self._advertised, self._owned = config, advertised, owned
        self._current, self._version, self._now_ms, self._used = current, version, now_ms, used
        self._events: list[asyncio.Event] = []
        self._urgent: list[asyncio.Event] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._last_sent: Registered | None = None
        self._terms = dict.fromkeys(config.name_servers, -1)
        self._asks = dict.fromkeys(config.name_servers, False)
        self._stamp_ms = 0
        self.registrations = self.failures = 0

    def start(self) -> None:
        """Start the tasks; each registers at its name server at once."""
        for address in self._config.name_servers:
            event, urgent = asyncio.Event(), asyncio.Event()
            event.set()
            self._events.append(event)
            self._urgent.append(urgent)
            self._tasks.append(self._owned.create_task(self._serve(address, event, urgent)))

    def announce(self) -> None:
        """The role or the group changed: tell every name server now."""
        for event in (*self._events, *self._urgent):
            event.set()

    def announce_topics(self) -> None:
        """Topics changed: tell every name server, at a tenth of the loop's time at most."""
        for event in self._events:
            event.set()

    @property
    def is_asked_for_groups(self) -> bool:
        """True if every name server asks for `notified`; else none of them is sent it.

        Name servers show notification routes to the groups in it. The members of a group share out
        the queues of the route that they see, so all of them have to see the same route.
        """
        return bool(self._asks) and all(self._asks.values())

    def is_known(self, term: int) -> bool:
        """Has each name server answered a registration of this term, or of a later one?"""
        return all(known >= term for known in self._terms.values())

    async def close(self) -> None:
        """Stop, and unregister where a name server can still be reached.

        A node that knows no leader now sends the term of its last registration: with an older term
        the name servers would keep the node in their routes until its lease ends.
        """
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        last = self._current() or self._last_sent
        request = UnregisterBrokerRequest(
            self._config.broker_name,
            self._advertised,
            self._config.cluster_name,
            last.broker_id if last else -1,
            last.term if last else -1,
        )
        frame = self._proven(Frame(RequestCode.UNREGISTER_BROKER, 1, encode(request)))
        await asyncio.gather(*(self._send_once(a, frame) for a in self._config.name_servers))

    async def _send_once(self, address: str, frame: Frame) -> None:
        server = NameServerLink(self._config, address)
        with suppress(OSError, TimeoutError, RemoteProtocolError, EOFError):
            await server.ask(frame)
        server.close()

    async def _serve(self, address: str, event: asyncio.Event, urgent: asyncio.Event) -> None:
        server = NameServerLink(self._config, address)
        opaque = 0
        try:
            while True:  # until cancelled by `close`
                pause = self._config.registration_seconds
                event.clear()
                urgent.clear()
                began, topics_at = self._used(), 0.0
                current = self._current()
                if current is not None:
                    self._last_sent = current
                    opaque += 1
                    frame = self._frame(current, opaque, groups=self.is_asked_for_groups)
                    taken = self._used() - began
                    wait = min(TOPICS_WAIT_FACTOR * taken, TOPICS_WAIT_SECONDS_MAX)
                    topics_at = self._owned.time() + wait
                    try:
                        await self._register(server, address, current, frame)
                    except LocalProtocolError as error:
                        self.failures += 1
                        _log.error("the registration at %s was not sent: %s", address, error)
                    except (OSError, TimeoutError, RemoteProtocolError, EOFError) as error:
                        self.failures += 1
                        _log.info("name server %s: %s", address, error)
                        server.close()
                        pause = RETRY_SECONDS
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await event.wait()
                with suppress(TimeoutError):
                    async with asyncio.timeout(topics_at - self._owned.time()):
                        await urgent.wait()
        finally:
            server.close()

    async def _register(
        self, server: NameServerLink, address: str, current: Registered, frame: Frame
    ) -> None:
        """Send a registration. If its answer changes whether groups are sent, repeat all of them.

        Raises as `NameServerLink.ask`: LocalProtocolError when it is too large without groups, too.
        """
        try:
            answer = await server.ask(frame)
        except LocalProtocolError as error:
            if not self.is_asked_for_groups:
                raise
            _log.error("%s is told of no groups that wait for a new leader: %s", address, error)
            answer = await server.ask(self._frame(current, frame.opaque))
        self.registrations += 1
        self._terms[address] = current.term
        asked = self.is_asked_for_groups
        if not answer.code:
            found = decode(RegisterBrokerResponse, answer.ext)
            self._asks[address] = bool(found.asks_for_groups)
        if self.is_asked_for_groups is not asked and current.broker_id == LEADER_ID:
            self.announce_topics()

    def _frame(self, current: Registered, opaque: int, *, groups: bool = False) -> Frame:
        config, relay = self._config, self._relay()
        counter, timestamp = self._version()
        header = RegisterBrokerRequest(
            broker_name=config.broker_name,
            broker_addr=self._advertised,
            cluster_name=config.cluster_name,
            broker_id=current.broker_id,
            heartbeat_timeout_millis=int(config.registration_seconds * 4000),
            term=current.term,
            leader_addr=current.leader,
            relay_addr=None if config.advertised_relay else relay,
            advertised_relay=config.advertised_relay,
            node_id=config.node_id,
            serves_notify=relay is not None or None,
            serves_rest=relay is not None or None,
            living_nodes=",".join(self._living()) if current.broker_id == LEADER_ID else None,
            notified_groups=self._notified() if groups and current.broker_id == LEADER_ID else None,
        )
        topics = {topic.topic: topic for topic in current.topics}
        body = encode_registration(RegistrationBody(topics, counter, timestamp))
        return self._proven(Frame(RequestCode.REGISTER_BROKER, opaque, encode(header), body))

    def _proven(self, frame: Frame) -> Frame:
        """Prove a frame with the cluster secret, if there is one, under a stamp of its own.

        A name server accepts only stamps above the last one, and near its own clock. If this clock
        was set back, the last stamp may be too far ahead: then stamps begin at the clock again,
        since name servers have forgotten that one, too.
        """
        now_ms = self._now_ms()
        is_ahead = self._stamp_ms > now_ms + PROOF_SECONDS_MAX * 1000
        self._stamp_ms = now_ms if is_ahead else max(self._stamp_ms + 1, now_ms)
        secret = self._config.cluster_secret
        return frame if secret is None else prove(frame, self._stamp_ms, secret)


class NameServerLink:
    """A connection to one name server, opened when it is needed."""

    def __init__(self, config: BrokerConfig, address: str) -> None:
        self._address, self._source_host = address, config.source_host
        self._tls = _name_server_tls(config)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._decoder = FrameDecoder()

    async def ask(self, frame: Frame) -> Frame:
        """Send a request and return its answer.

        Raises OSError, TimeoutError, EOFError, RemoteProtocolError, LocalProtocolError.
        """
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            if self._writer is None or self._reader is None:
                await self._open()
            assert self._reader is not None
            assert self._writer is not None
            self._writer.write(encode_frame(frame))
            await self._writer.drain()
            while True:  # until our answer, or the time is over
                data = await self._reader.read(READ_SIZE)
                if not data:
                    raise EOFError("the name server closed the connection")
                for answer in self._decoder.feed(data):
                    if answer.is_response and answer.opaque == frame.opaque:
                        if answer.code:
                            _log.warning("%s refused: %s", self._address, answer.remark)
                        return answer

    async def _open(self) -> None:
        host, port = split_address(self._address)
        source = (self._source_host, 0) if self._source_host else None
        self._decoder = FrameDecoder()
        self._reader, self._writer = await asyncio.open_connection(
            host, port, local_addr=source, ssl=self._tls and self._tls.context()
        )

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


def _name_server_tls(config: BrokerConfig) -> DialTls | None:
    if not config.name_server_tls:
        return None
    return DialTls(config.tls_certificate, config.tls_key, config.tls_client_authority)
