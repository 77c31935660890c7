"""One process of a machine under test: the shipping applier, proposer and leader on a SimNode.

    client ─► Proposer ─► Leading (here, or by FORWARD over the simulated network) ─► Replica
    Replica.apply ─► Applier ─► the user's machine, which also notes what it applied

The shell around them is the simulator's, as `dledger.machine.node` is a real node's.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple, cast

from chaos.sim.node import SimNode
from chaos.sim.scheduler import Scheduler
from chaos.sim.storage import Storage
from chaos.testing.decision import Decision
from chaos.testing.subject import MakeMachine
from commitlog.files.system import Buffer
from dledger.core.types import Index, NodeId, Role, Term
from dledger.errors import CommandRefused, DledgerError, MalformedFrame, QueueFull
from dledger.machine.agreement import Agreement
from dledger.machine.applier import Applier, Results, Told
from dledger.machine.entries import COMMANDS_MAX, Item, Kind
from dledger.machine.leading import Leading
from dledger.machine.node import Consistency
from dledger.machine.proposer import Proposer
from dledger.machine.state_machine import (
    Entry,
    ReplicatedStateMachine,
    State,
    bytes_of,
    captured,
    has_checksum,
)
from dledger.replica.envelope import STAMP_AT, noop_body
from dledger.replica.ports import Proposal
from dledger.wire.forwards import Forward, pack_forward, unpack_forward, unpack_reply
from dledger.wire.frames import FrameDecoder, FrameType

Done = Callable[[object, DledgerError | None], None]
Found = Callable[[object, int, DledgerError | None], None]
#: A state is kept after so many entries, for a later process of the node.
SAVE_EVERY = 10
RESEND_SECONDS = 0.5
TICK_SECONDS = 0.05
#: How many processes have a leader's part that passes over what it has proposed already.
FILTERED = 0.5
#: Proposals of several commands that a leader brings in few entries.
TOGETHER = 0.7
#: Milliseconds since 1970 at the beginning of a run, and how far nodes' wall clocks stand apart.
BEGIN_MS, SKEW_MS = 1_700_000_000_000, 700


class Applied(NamedTuple):
    """One command as a node applied it; `result`: as bytes."""

    index: int  # type: ignore[assignment]  # hides tuple.index
    time_ms: int
    data: bytes
    result: bytes


class Kept(NamedTuple):
    """A state of a process; its bytes are made when another takes it, as a slow thread would."""

    index: int  # type: ignore[assignment]  # hides tuple.index
    head: bytes
    state: State | Callable[[], State]

    def data(self) -> bytes:
        """As a file has it."""
        return self.head + bytes_of(self.state)


class NotedMachine(ReplicatedStateMachine[bytes, bytes]):
    """The user's machine; its commands and results are noted as bytes."""

    def __init__(self, plain: ReplicatedStateMachine[Any, Any]) -> None:
        self.plain = plain
        self.applied: list[Applied] = []

    def apply(self, entry: Entry[bytes]) -> bytes:
        """As the user's, with a byte in front: was it done, or refused?"""
        result = apply_bytes(self.plain, entry.index, entry.time_ms, entry.command)
        self.applied.append(Applied(entry.index, entry.time_ms, entry.command, result))
        return result

    def snapshot(self) -> State | Callable[[], State]:
        """As the user's."""
        return self.plain.snapshot()

    def restore(self, state: bytes) -> Callable[[], None] | None:
        """Give the user's machine this state."""
        return self.plain.restore(state)

    def checksum(self) -> int:
        """As the user's; 0 for one that has none, on every node alike."""
        return self.plain.checksum() if has_checksum(self.plain) else 0

    def encode(self, command: bytes) -> bytes:
        """The command itself: commands are bytes."""
        return command

    def decode(self, data: bytes) -> bytes:
        """As `encode`."""
        return data

    def encode_result(self, result: bytes) -> bytes:
        """As `encode`."""
        return result

    def decode_result(self, data: bytes) -> bytes:
        """As `encode`."""
        return data


def apply_bytes(
    plain: ReplicatedStateMachine[Any, Any], index: int, time_ms: int, data: bytes
) -> bytes:
    """The answer of a machine to a command; its first 4 bytes only make it one of a kind."""
    try:
        result = plain.apply(Entry(index, 1, time_ms, plain.decode(data[4:])))
    except CommandRefused as refused:
        return b"R" + refused.happened.encode()
    return b"D" + plain.encode_result(result)


class Unfiltered(Leading):
    """A leader that proposes a command each time it comes: the sessions alone must tell."""

    def _new(self, session: int, items: Sequence[Item]) -> Sequence[Item]:
        return items


class MachineProcess:
    """`StateMachine` of one process, and this node's part as the leader of others."""

    def __init__(self, node: MachineNode, storage: Storage, states: Sequence[Kept]) -> None:
        """`states`: are taken one after the other; the last one counts."""
        self.node, self._store = node, storage.log
        self.machine = NotedMachine(node.make())
        names = tuple(f"n{number}" for number in range(node.machines))
        agreement = Agreement(node.id, self.machine.plain.compare_every, self._compare)
        self.applier = Applier(self.machine, agreement, self._told, self._results, lambda: names)
        self.proposer = Proposer(node.id, node.boot, self.applier, self, RESEND_SECONDS)
        leading = Leading if node.random.random() < FILTERED else Unfiltered
        self.leading = leading(
            cast(Any, self._log()), self.applier, commands_max=self._commands_max
        )
        self._number = (node.boot << 8 | node.index) << 32
        self._flushing = False
        for state in states:
            self.applier.load(state.data(), state.index)

    @property
    def applied(self) -> Index:
        """Highest index that the state holds."""
        return Index(self.applier.applied)

    @property
    def number(self) -> int:
        """The number of the last command that the state holds, or its index."""
        return self.applier.number

    def _commands_max(self) -> int:
        """Share entries among commands, and now and then do not."""
        return COMMANDS_MAX if self.node.random.random() < TOGETHER else 1

    # -- StateMachine ------------------------------------------------------------------------------

    def apply(self, first: Index, last: Index) -> None:
        """Called by the replica."""
        for header, body in self._store.entries(first, last):
            entry = (header.sequence, header.epoch, body)
            self.applier.apply([entry], leads=self.node.leads)
            if header.sequence % SAVE_EVERY == 0:
                kept = Kept(header.sequence, self.applier.head(), captured(self.machine.snapshot()))
                self.node.states.append(kept)
        self.soon()

    def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
        """Called by the replica."""
        self.leading.role_changed()
        self.proposer.led_by(leader)
        self.soon()

    # -- ProposerPorts -----------------------------------------------------------------------------

    def append(self, *arguments: Any) -> None:
        """As the leader, from this node."""
        self.leading.append(*arguments)

    def forward(self, leader: NodeId, forward: Forward) -> bool:
        """To the leader."""
        return self._send(leader, pack_forward(forward))

    def new_number(self) -> int:
        """One that no other process of any node uses."""
        self._number += 1
        return self._number

    # -- inside ------------------------------------------------------------------------------------

    def propose(self, data: bytes, done: Done, ends_at: float) -> None:
        """A client's command."""
        try:
            self.proposer.propose(Kind.COMMAND, data, done, ends_at)
        except DledgerError as error:
            done(None, error)
        self.soon()

    def read(self, look: Callable[[Any], Any], found: Found, consistency: Consistency) -> None:
        """A client's question: the finding of `look`, and the command behind which it was found."""

        def ready(error: DledgerError | None) -> None:
            if error is None:
                found(look(self.machine.plain), self.number, None)
            else:
                found(None, -1, error)

        assert self.node.replica is not None
        self.node.replica.read_index(ready, self.node.now, consistency.value)

    def received(self, sender: NodeId, frame: bytes) -> None:
        """A FORWARD or its reply. Raises MalformedFrame."""
        decoder = FrameDecoder()
        rest = frame
        while rest:
            view = decoder.get_buffer()
            part, rest = rest[: len(view)], rest[len(view) :]
            view[: len(part)] = part
            for found in decoder.frames(len(part)):
                if found.type is FrameType.FORWARD:
                    self.leading.take(sender, unpack_forward(found))
                else:
                    self.proposer.answered(unpack_reply(found), self.node.scheduler.now)

    def soon(self) -> None:
        """Send all that is queued when this event is over."""
        if self.proposer.queued_count and not self._flushing:
            self._flushing = True
            self.node.scheduler.after(0.0, lambda _: self.node.in_process(self, self._flush))

    def _flush(self) -> None:
        self._flushing = False
        self.proposer.flush(self.node.scheduler.now)

    def tick(self) -> None:
        """Every `TICK_SECONDS`."""
        self.proposer.tick(self.node.scheduler.now)

    def _told(self, told: Told) -> None:
        self.leading.gone(told)
        self.proposer.told(told)

    def _results(self, session: int, results: Results) -> None:
        self.leading.applied(session, results)
        self.proposer.applied(session, results)

    def _compare(self, results: bytes) -> None:
        ends_at = self.node.scheduler.now + 10
        try:
            self.proposer.propose(Kind.COMPARE, results, lambda *_: None, ends_at)
        except QueueFull:
            return

    def _send(self, to: NodeId, parts: Sequence[Buffer]) -> bool:
        assert self.node.network is not None
        frame = b"".join(map(bytes, parts))
        self.node.network.send(self.node.index, int(to[1:]), 1, frame)
        return True

    def _tell_commit(self, to: NodeId) -> None:
        """In a turn of its own: the replica tells of a commit in the middle of one."""
        node = self.node

        def tell() -> None:
            assert node.replica is not None
            node.replica.tell_commit(to, node.now)

        node.scheduler.after(0.0, lambda _: node.in_process(self, tell))

    def _log(self) -> Any:
        """The part of a `ReplicatedLog` that `Leading` uses."""
        node = self.node
        make = types.SimpleNamespace

        class Log:
            is_open, entry_size_max = True, 1000
            driver = make(
                clock=make(time_ms=lambda: node.wall_ms),
                transport=make(forward=self._send),
                tell_commit=self._tell_commit,
            )
            owned = make(when_done=lambda future, then: future.when_done(then))

            @property
            def is_leader(self) -> bool:
                return node.leads

            def append_at_once(self, bodies: Sequence[Buffer]) -> Decision:
                decision = Decision()
                proposal = Proposal(bodies, lambda _, error: decision.made(error))
                assert node.replica is not None
                try:
                    node.replica.propose(proposal, node.now)
                except DledgerError as error:
                    decision.made(error)
                return decision

        return Log()


class MachineNode(SimNode):
    """A simulated machine that runs a `MachineProcess`.

    Attributes:
        make: makes the machine under test; set before the first start.
        states: kept by its processes so far.
        lives: what each process of the node has applied, with the number that it began behind.
    """

    make: MakeMachine
    noop_stamp_at = STAMP_AT

    def __init__(self, index: int, scheduler: Scheduler, *arguments: Any, **named: Any) -> None:
        self.states: list[Kept] = []
        self.lives: list[tuple[int, list[Applied]]] = []
        super().__init__(index, scheduler, *arguments, **named)
        self.recover = self._recover  # type: ignore[assignment]
        self.noop_body = self._noop  # type: ignore[assignment]
        scheduler.after(TICK_SECONDS, self._tick)

    @property
    def wall_ms(self) -> int:
        """The node's wall clock."""
        return BEGIN_MS + round(self.scheduler.now * 1000) + self.index * SKEW_MS

    @property
    def process(self) -> MachineProcess | None:
        """The one that runs; None while it is down."""
        return cast("MachineProcess | None", self.machine) if self.up else None

    def _recover(self, _: object, storage: Storage, random: Random, __: object) -> MachineProcess:
        last = storage.log.last.index
        usable = [state for state in self.states if state.index <= last]
        taken: list[Kept] = []
        if usable and random.random() < 0.7:
            taken = [random.choice(usable) for _ in range(random.choice((1, 1, 2)))]
        process = MachineProcess(self, storage, taken)
        self.lives.append((process.number, process.machine.applied))
        return process

    def _noop(self, term: Term) -> Buffer:
        return noop_body(self.id, term, self.wall_ms)

    def in_process(self, process: object, action: Callable[[], None]) -> None:
        """Have this process do something, unless it has gone."""

        def act() -> None:
            if self.process is process:
                action()

        if self.process is process:
            self.step(act)

    def forwarded(self, source: int, frame: bytes) -> None:
        """A FORWARD or its reply has come."""
        process = self.process
        if process is None:
            return

        def act() -> None:
            try:
                process.received(NodeId(f"n{source}"), frame)
            except MalformedFrame:
                assert self.network is not None
                self.network.cut_connection(source, self.index, 1)
            process.soon()

        self.in_process(process, act)

    def _tick(self, _: object) -> None:
        self.scheduler.after(TICK_SECONDS, self._tick)
        process = self.process
        if process is not None and process.proposer.waiting_count:
            self.in_process(process, process.tick)
