"""One whole broker whose log, clock and leaderships a test turns by hand: no socket, no waiting.

    broker.lead() ─► client.send(…) ─► broker.turn() ─► broker.commit() ─► answers
    broker.follow(…)    another node leads; what was not committed is cut, its entries come instead

Everything but the sockets and the replica is the shipping code, wired as a node wires it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from cluster.broker.components import BrokerComponents
from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.environment import BrokerEnvironment
from cluster.broker.kernel.net.connection import ClientConnection
from cluster.broker.wiring import wire
from cluster.protocol.frames import Frame, FrameDecoder, encode_frame
from commitlog.files.system import OS_FILES
from commitlog.records.hosts import Host
from commitlog.records.message_layout import PHYSICAL_OFFSET_AT
from dledger.core.status import NodeStatus
from dledger.core.types import NO_INDEX, Index, NodeId, Role, Term
from dledger.errors import DledgerError, NotLeader, OutcomeUnknown
from dledger.replica.ports import Proposal
from dledger.runtime.owned import Owned
from dledger.testing.memory import MemoryLog

from .harness import SMALL, RawClient
from .test_parts import Loop

EPOCH_MS = 1_700_000_000_000
FILE_SIZE = 1 << 20


class HandLog:
    """Stands where the driver and its replica stand: commits and roles are the test's."""

    def __init__(self, store: MemoryLog) -> None:
        self.roster = SimpleNamespace(levels=dict)  # no other members
        self.config = SimpleNamespace(tls_mode="disabled")
        self.store, self.replica = store, self
        self.role, self.term, self.leader = Role.FOLLOWER, Term(1), cast(NodeId | None, None)
        self.applied = self.noop_index = NO_INDEX
        self.pending: list[Proposal] = []
        self.refusal: DledgerError | None = None
        self.transfers: list[Callable[[DledgerError | None], None]] = []

    def status(self) -> NodeStatus:
        return cast(NodeStatus, SimpleNamespace(noop_index=self.noop_index, peers=()))

    def propose(self, proposal: Proposal) -> None:
        if self.refusal is not None:
            raise self.refusal
        if self.role is not Role.LEADER:
            raise NotLeader(self.leader)
        proposal.first = Index(self.store.last.index + 1)
        proposal.last = Index(self.store.last.index + len(proposal.bodies))
        proposal.term = self.term
        proposal.positions = self.store.append(
            proposal.bodies, self.term, stamp_at=proposal.stamp_at
        )
        self.pending.append(proposal)

    def read_index(self, ready: Callable[[DledgerError | None], None]) -> None:
        ready(None if self.role is Role.LEADER else NotLeader(self.leader))

    def transfer(self, to: NodeId | None, done: Callable[[DledgerError | None], None]) -> None:
        self.transfers.append(done)

    def committed(self) -> None:
        while self.pending and self.pending[0].last <= self.applied:
            proposal = self.pending.pop(0)
            proposal.done(proposal, None)

    def cut_after(self, index: Index) -> None:
        self.store.truncate_after(index)
        while self.pending and self.pending[-1].last > index:
            proposal = self.pending.pop()
            proposal.done(proposal, OutcomeUnknown("cut"))


def owned_by(loop: Loop, died: Callable[[BaseException], None]) -> Owned:
    """The owner of what a loop that is turned by hand calls."""
    owned = Owned(died)
    owned.loop = cast(Any, loop)
    return owned


class HandBroker:
    """Node n0 of three."""

    def __init__(
        self, root: Path, store: MemoryLog | None = None, name: str = "n0", **settings: Any
    ) -> None:
        """`store`: entries that are there, of which none is applied."""
        self.loop, self.failures = Loop(), list[BaseException]()
        peers = {node: f"127.0.0.1:1{node[1]}" for node in ("n0", "n1", "n2") if node != name}
        config = BrokerConfig(name, root, peers=peers, **{**SMALL, **settings})
        self.log = HandLog(MemoryLog(file_size=FILE_SIZE) if store is None else store)
        around = BrokerEnvironment(
            config,
            Host("127.0.0.1", 10),
            OS_FILES,
            cast(Any, SimpleNamespace(time_ms=self.now_ms)),
            owned_by(self.loop, self.failures.append),
            salt=7,
            beginning=cast(Any, None),
        )
        self.parts: BrokerComponents = wire(around, self.log.store)
        self.parts.log.bind(cast(Any, self.log))
        self.log.applied = self.parts.derived.applied
        #: What a follower passed on: client and frame.
        self.forwarded: list[tuple[ClientConnection, Frame]] = []
        self.parts.links.send = lambda client, frame, leader, again: self.forwarded.append(  # type: ignore[method-assign]
            (client, frame)
        )

    def now_ms(self) -> int:
        return EPOCH_MS + round(self.loop.now * 1000)

    def close(self) -> None:
        self.parts.derived.close()
        assert not self.failures

    # -- time --------------------------------------------------------------------------------------

    def turn(self, seconds: float = 0.0) -> None:
        """The event loop runs on, by so long."""
        self.loop.run_to(self.loop.now + seconds)

    # -- roles and commits -------------------------------------------------------------------------

    def lead(self) -> None:
        """Win an election, and be ready to serve."""
        self.win()
        self.commit()
        assert self.parts.leadership.leads

    def win(self) -> None:
        """Win an election; the leadership's own first entry is not committed yet."""
        log, machine = self.log, self.parts.machine
        log.role, log.term = Role.LEADER, Term(log.term + 1)
        log.leader = NodeId(self.parts.config.node_id)
        machine.role_changed(Role.LEADER, log.term, log.leader)
        body = machine.noop_body(log.term)
        log.store.append([body], log.term, stamp_at=PHYSICAL_OFFSET_AT)
        log.noop_index = log.store.last.index

    def commit(self) -> None:
        """Everything proposed is committed, applied and answered, and what follows from it."""
        for _ in range(5):
            self.turn()
            self.apply()
        self.turn(1.0)

    def apply(self) -> None:
        """Everything in the log is committed and applied; the loop does not run on."""
        log = self.log
        first, log.applied = Index(log.applied + 1), log.store.last.index
        if first <= log.applied:
            log.store.save_commit(log.applied)
            self.parts.machine.apply(first, log.applied)
            log.committed()

    def step_down(self, leader: str | None = "n1") -> None:
        """Another node leads from now on, in a term of its own; the log is as it was."""
        log = self.log
        log.role, log.term, log.noop_index = Role.FOLLOWER, Term(log.term + 1), NO_INDEX
        log.leader = None if leader is None else NodeId(leader)
        self.parts.machine.role_changed(Role.FOLLOWER, log.term, log.leader)

    def follow(self, entries: Sequence[bytes] = ()) -> None:
        """The next leader never had what is not committed: its own entries stand there instead."""
        log = self.log
        log.cut_after(log.applied)
        if entries:
            log.store.append(entries, log.term, stamp_at=PHYSICAL_OFFSET_AT)
        self.commit()

    def lose_all(self) -> None:
        """A leadership ends, and nothing of what it had not committed is ever seen again."""
        self.step_down()
        self.follow()

    # -- clients -----------------------------------------------------------------------------------

    def client(self) -> HandClient:
        return HandClient(self)


class Asked:
    """One request and, when it has come, its answer."""

    def __init__(self) -> None:
        self.answer: Frame | None = None

    @property
    def code(self) -> int | None:
        """None: nothing was answered yet."""
        return None if self.answer is None else self.answer.code


class HandClient(RawClient):
    """A `RawClient` without a socket: `ask`, `send`, `pull` … return what holds the answer."""

    def __init__(self, broker: HandBroker) -> None:
        self.client_id, self._number = "client@1", 0
        self._asked: dict[int, Asked] = {}
        self._frames = FrameDecoder()
        self.connection = ClientConnection(
            broker.parts.server, 1 << 24, whole_frames=broker.parts.access.is_on
        )
        transport = SimpleNamespace(
            write=self._take,
            set_write_buffer_limits=lambda high: None,
            get_extra_info=lambda name: ("127.0.0.1", 5000) if name == "peername" else None,
            pause_reading=lambda: None,
            resume_reading=lambda: None,
            get_write_buffer_size=lambda: 0,
            close=lambda: None,
        )
        self.connection.connection_made(cast(Any, transport))

    def _take(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            if frame.opaque in self._asked:
                self._asked[frame.opaque].answer = frame

    def ask(  # type: ignore[override]
        self, code: int, ext: Mapping[str, Any] | None = None, body: bytes = b"", *, flag: int = 0
    ) -> Asked:
        self._number += 1
        asked = self._asked[self._number] = Asked()
        texts = {key: str(value) for key, value in (ext or {}).items()}
        frame = Frame(int(code), self._number, texts, body, flag, None, "JAVA", 479, 0)
        self.connection.data_received(encode_frame(frame))
        return asked
