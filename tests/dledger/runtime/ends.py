"""Ends of peer connections for tests: transports without a replica behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dledger import RaftConfig
from dledger.core.messages import AppendEntries, Heartbeat, Message
from dledger.core.types import NO_ENTRY, Index, NodeId, Term, TermRun
from dledger.membership.handshake import LinkKind, Member
from dledger.runtime.clock import seeded_jitter
from dledger.runtime.group_clock import GroupClock
from dledger.runtime.owned import Owned
from dledger.runtime.transport import Listener, Transport

from .group import until


@dataclass
class End:
    """One transport and what it reported; bytes of appends are copied when they come."""

    config: RaftConfig
    incarnation: int = 7
    group: str = "default"
    got: list[Message] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    lost: list[tuple[str, LinkKind, bool]] = field(default_factory=list)
    died: list[BaseException] = field(default_factory=list)
    refuse: str | None = None
    clocks: GroupClock | None = None

    def __post_init__(self) -> None:
        member = Member("cluster", self.group, NodeId(self.config.node_id), self.incarnation)
        self.transport = Transport(
            self.config,
            member,
            Listener(self._received, self._disconnected, Owned(self.died.append)),
            seeded_jitter(1),
            lambda _peer, _incarnation: self.refuse,
            clocks=self.clocks,
        )

    def _received(self, message: Message) -> None:
        if isinstance(message, AppendEntries):
            self.raw.append(b"".join(bytes(part) for part in message.data or ()))
        self.got.append(message)

    def _disconnected(self, peer: NodeId, link_kind: LinkKind, dialled: bool) -> None:
        self.lost.append((peer, link_kind, dialled))

    @property
    def name(self) -> NodeId:
        return NodeId(self.config.node_id)

    def open(self, peer: str) -> bool:
        status = self.transport.status()
        return all(status[f"{peer}/{link_kind}"].open for link_kind in ("control", "bulk"))

    def error(self, peer: str) -> str:
        return self.transport.status()[f"{peer}/control"].error


Make = Callable[..., End]


async def meet(one: End, two: End) -> None:
    await one.transport.start()
    await two.transport.start()
    await until(lambda: one.open(two.name) and two.open(one.name))


def beat(sender: str, number: int = 1) -> Heartbeat:
    return Heartbeat(NodeId(sender), Term(1), Index(-1), number)


def append(sender: str, raw: bytes) -> AppendEntries:
    runs = (TermRun(Term(1), Index(0)),)
    return AppendEntries(
        NodeId(sender), Term(1), NO_ENTRY, Index(0), Index(-1), runs, 0, 0, len(raw), (raw,)
    )
