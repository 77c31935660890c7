"""Speaks for a replica that is down, at its own address: asks another one for its vote, raw.

    stand-in ──hello, VoteRequest──► voter
    stand-in ◄──hello, VoteReply──── voter        messages travel on what their sender dialled

The incarnation of the replica is read from its folder, so that it is let in; nothing of what
it promised is changed, and its folder is not written to.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from commitlog.address import split_address
from dledger.core.messages import Message, VoteReply, VoteRequest
from dledger.core.types import HardState, NodeId
from dledger.durable import hard_state
from dledger.durable.double_slot import slots_of
from dledger.errors import MalformedFrame, PeerRefused
from dledger.membership.handshake import Dialler, Hello, LinkKind, Member
from dledger.membership.proof import NONCE_SIZE
from dledger.runtime.inbound import Inbound, Side
from dledger.runtime.listening import listen_at
from dledger.runtime.owned import Owned
from dledger.wire.frames import FrameDecoder
from dledger.wire.messages import encode

DIAL_SECONDS_MAX = 20.0
HELLO_SECONDS_MAX = 5.0
ANSWER_SECONDS_MAX = 8.0
READ_BYTES = 4096


def hard_state_on_disk(folder: Path) -> HardState | None:
    """Reads term and vote as a start would find them; None if neither slot is valid. Does not
    write.

    `folder`: of the replicated log. Raises OSError.
    """
    raw = (folder / hard_state.FILE_NAME).read_bytes()
    slots = slots_of(raw)
    valid = [slot for slot in slots if slot is not None]
    return hard_state.decode(max(valid)[1]) if valid else None


def _anybody(_: NodeId, __: int) -> str | None:
    return None


def _mistake(error: BaseException) -> None:
    raise error


@dataclass(slots=True)
class StandIn:
    """Speaks for `me`, a node with a stopped process; `listen`: that node's "host:port" for peers.

    `secret`: the group's, None where it has none.
    """

    me: Member
    listen: str
    secret: bytes | None = None
    _heard: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    _inbound: set[Inbound] = field(default_factory=set)
    _server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        """Listens at the node's address. Raises OSError if it is in use."""
        host, port = split_address(self.listen)
        self._server = await listen_at(self._accept, host, port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for one in list(self._inbound):
            one.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HELLO_SECONDS_MAX):
                await self._server.wait_closed()

    def _accept(self) -> Inbound:
        one = Inbound(
            self,
            self.me.node_id,
            self.secret,
            os.urandom(NONCE_SIZE),
            HELLO_SECONDS_MAX,
            owned=Owned(_mistake),
        )
        self._inbound.add(one)
        return one

    def side_of(self, _: Hello, *, in_channel: bool = False) -> Side:
        """As a connection's host: accepts every caller, and puts its messages aside."""
        return Side(
            self.me,
            _Everybody(),
            _anybody,
            self._heard.put_nowait,
            lambda *_: None,
            self.ended,
            Owned(_mistake),
        )

    def greeted(self, _: Inbound) -> None:
        """As a connection's host: a connection is open."""

    def ended(self, one: Inbound, _: str) -> None:
        """As a connection's host: forgets a connection that ended."""
        self._inbound.discard(one)

    async def ask(self, voter: str, address: str, request: VoteRequest) -> VoteReply | None:
        """The answer to this request; None when there is none in time. Raises OSError."""
        reader, writer = await _dial(address)
        try:
            async with asyncio.timeout(HELLO_SECONDS_MAX):
                await self._greet(voter, reader, writer)
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                while True:  # bounded by the time-out
                    writer.writelines(encode(request))
                    reply = await self._reply_to(request)
                    if reply is not None:
                        return reply
        except TimeoutError:
            return None
        except (MalformedFrame, PeerRefused) as error:
            raise ConnectionError(f"{voter} did not let the stand-in in: {error}") from error
        finally:
            writer.close()

    async def _reply_to(self, request: VoteRequest) -> VoteReply | None:
        """Waits up to a second for the reply, because the voter may have to dial first. Other
        messages are discarded."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while True:  # bounded by the time-out
                    heard = await self._heard.get()
                    if not isinstance(heard, VoteReply) or heard.pre:
                        continue
                    if heard.request_term == request.term:
                        return heard
        return None

    async def _greet(
        self, voter: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        nonce = os.urandom(NONCE_SIZE)
        dialler = Dialler(self.me, NodeId(voter), LinkKind.CONTROL, self.secret, nonce, _anybody)
        writer.write(dialler.start())
        decoder = FrameDecoder()
        while dialler.peer is None:  # bounded by the caller's time-out
            data = await reader.read(READ_BYTES)
            if not data:
                raise ConnectionError(f"{voter} hung up on the stand-in")
            decoder.get_buffer()[: len(data)] = data
            for frame in decoder.frames(len(data)):
                writer.write(dialler.receive(frame))


async def _dial(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """As soon as the voter, which may just have been started, listens. Raises OSError."""
    host, port = split_address(address)
    end = time.monotonic() + DIAL_SECONDS_MAX
    while True:  # bounded by the time
        try:
            return await asyncio.open_connection(host, port)
        except OSError:
            if time.monotonic() > end:
                raise
        await asyncio.sleep(0.1)


class _Everybody(frozenset[NodeId]):
    """A set that contains every node, so that every caller counts as a member."""

    def __contains__(self, _: object) -> bool:
        return True
