"""One process of a machine under test: the shipping modules of `dledger.machine` on a SimNode.

    client ─► Proposer ─► Leading (here, or by FORWARD over the simulated network) ─► Replica
    Replica.apply ─► Applying ─► Applier ─► the user's machine, which also notes what it applied
    Saving ─► states on the virtual disk, in threads ─► a start, or a leader's Prefix ─► Restoring

The shell around them is the simulator's, as `dledger.machine.node` is a real node's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple, cast

from chaos.sim.storage import FOLDER, Storage
from chaos.testing.in_order import InOrder
from chaos.testing.neighbours import neighbours
from chaos.testing.noted import noted
from chaos.testing.ports import ProcessNode
from chaos.testing.simulated_log import SimulatedDriver, SimulatedLog
from chaos.testing.virtual import VirtualOwned
from commitlog.files.system import Buffer
from dledger.core.types import Index, NodeId, Role, Term
from dledger.errors import (
    DledgerError,
    EntryTooLarge,
    QueueFull,
    SnapshotFailed,
)
from dledger.log.log_start import LogStart
from dledger.machine.agreement import Agreement
from dledger.machine.applier import Results, Told
from dledger.machine.applying import Applying
from dledger.machine.entries import HEAD_SIZE, LEVEL, Item, Kind
from dledger.machine.leading import Leading
from dledger.machine.node import Consistency
from dledger.machine.proposer import Proposer
from dledger.machine.saving import Saving
from dledger.machine.sending import Sending
from dledger.machine.settings import MachineSettings
from dledger.machine.state_machine import has_snapshots
from dledger.runtime.turns import Turns
from dledger.snapshots.prefix import Prefix
from dledger.snapshots.snapshot_files import SnapshotFolder
from dledger.snapshots.state_file import StateFile
from dledger.wire.forwards import Forward, pack_forward, unpack_forward, unpack_reply
from dledger.wire.frames import FrameDecoder, FrameType

Done = Callable[[object, DledgerError | None], None]
Found = Callable[[object, int, DledgerError | None], None]
RESEND_SECONDS = 0.5
#: How many processes have a leader's part that passes over what it has proposed already.
FILTERED = 0.5
#: Virtual seconds that a command takes a process.
COSTS = (0.0, 0.0, 0.0005, 0.01)


class Unfiltered(Leading):
    """A leader that proposes a command each time it comes: the sessions alone must tell."""

    def _new(self, session: int, items: Sequence[Item]) -> Sequence[Item]:
        return items


class _Parts(NamedTuple):
    """The part of `dledger.runtime.parts.Parts` that `Saving` uses."""

    log: Any
    snapshots: SnapshotFolder


def settings_of(random: Random) -> MachineSettings:
    """Draw those of a process."""
    return MachineSettings(
        resend_seconds=RESEND_SECONDS,
        apply_seconds_max=1e9,
        apply_waiting_max=random.choice((20, 16_384)),
        margin_files=random.choice((0, 0, 1)),
        state_seconds=random.choice((0.0, 0.2, 1.0)),
        state_bytes_per_second=0,
    )


class MachineProcess:
    """`StateMachine` of one process, and this node's part as the leader of others.

    Attributes:
        level: its feature level: 0 is that of a former release.
        saving: its states; None for a machine without any.
    """

    def __init__(self, node: ProcessNode, storage: Storage, level: int) -> None:
        self.node, self.level, self._store = node, level, storage.log
        random = node.random
        self.owned = VirtualOwned(
            node.scheduler,
            random,
            lambda action: node.in_process(self, action),
            lambda: node.stuck is not None,
        )
        owned, settings = cast(Any, self.owned), settings_of(random)
        self.machine = noted(node.make(), random.choice(COSTS), self._took)
        turns = Turns(owned)
        self._share = turns.share(owned, self._go_on)
        driver = SimulatedDriver(node, self.owned, self._send, self._share)
        log = cast(Any, SimulatedLog(node, self.owned, storage.log, self._apply, driver))
        names = tuple(f"n{number}" for number in range(node.machines))
        agreement = Agreement(node.id, self.machine.plain.compare_every, self._compare)
        self.applier = InOrder(self.machine, agreement, self._told, self._results, lambda: names)
        self.applying = Applying(log, self.applier, settings)
        self.proposer = Proposer(node.id, node.boot, self.applier, self, RESEND_SECONDS)
        leading = Leading if random.random() < FILTERED else Unfiltered
        self.leading = leading(log, self.applier, self.applying.refusal, self._shared_max)
        self.sending = Sending(self.proposer, log, lambda: True)
        self._log, self._number = log, (node.boot << 8 | node.index) << 32
        self._waiting: list[Callable[[], None]] = []
        self._folder = SnapshotFolder(node.disk, FOLDER)
        self._neighbours = neighbours(turns, self.owned, random)
        self.saving: Saving | None = None
        if has_snapshots(self.machine.plain):
            parts = cast(Any, _Parts(storage.log, self._folder))
            calls = self._trim, self._not_saved
            self.saving = Saving(parts, self.applier, owned, settings, *calls)
            self.saving.look(names, None)
            self.saving.begin()

    @property
    def applied(self) -> Index:
        """Highest index that the state holds."""
        return Index(self.applier.applied)

    @property
    def number(self) -> int:
        """The number of the last command that the state holds, or its index."""
        return self.applier.number

    @property
    def is_restoring(self) -> bool:
        """Is a leader's state given to the machine, by a thread?"""
        return self.saving is not None and not self.saving.restoring.may_read.is_set()

    def prefix(self) -> Prefix | None:
        """Deletes the log's beginning behind a state, and takes a leader's state."""
        if self.saving is None:
            return None
        return Prefix(cast(Any, self._store), self._folder, self._state_sent, by_file=True)

    def _shared_max(self) -> int:
        """A former release writes no entries of several commands."""
        return self.applying.shared_max() if self.level >= LEVEL else 1

    def _took(self, seconds: float) -> None:
        self.owned.spent += seconds

    # -- StateMachine ------------------------------------------------------------------------------

    def apply(self, first: Index, last: Index) -> Index:
        """Called by the replica."""
        end: Index = self._log.apply(first, last)
        for header, body in self._store.entries(first, end):
            self.node.committed(self.level, header.sequence, bytes(body))
        self.soon()
        return end

    def _apply(self, first: Index, last: Index) -> Index:
        return self.applying.apply(first, last, self.saving)

    @property
    def is_behind(self) -> bool:
        """Are entries left to a later turn?"""
        replica = self.node.replica
        return replica is not None and replica.failure is None and replica.pace.is_behind

    def _go_on(self) -> None:
        """Called when this group's part of a turn of the host has come."""
        if self.node.replica is not None:
            self.node.replica.go_on(self.node.now)
            self._wait()

    def _wait(self) -> None:
        if self.is_behind:
            self.node.book.waited += not self._share.waits
            self._share.wait()

    def turned(self) -> None:
        """An event is over: wait for the next turn if entries are left, be busy until then."""
        self._wait()
        spent, self.owned.spent = self.owned.spent, 0.0
        if spent:
            self.node.works(spent)

    def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
        """Called by the replica."""
        self.leading.role_changed()
        self.proposer.led_by(leader)
        self.node.book.led += role is Role.LEADER and self.is_restoring
        self.node.book.led_behind += role is Role.LEADER and self.is_behind
        self.soon()

    # -- states ------------------------------------------------------------------------------------

    def _state_sent(self, start: LogStart, state: StateFile) -> None:
        """As `ReplicatedNode` does it."""
        assert self.saving is not None
        machine, node = self.machine, self.node

        def taken() -> None:
            machine.is_threads = False
            node.state_taken()
            before = self.proposer.waiting_count
            self.proposer.state_taken()
            node.book.recalled += before - self.proposer.waiting_count
            self.soon()
            assert node.replica is not None
            node.replica.restored(node.now)
            waiting, self._waiting = self._waiting, []
            for read in waiting:
                read()

        node.book.restored += 1
        machine.is_threads = True
        self.saving.restoring.take(start, state, taken)

    def _trim(self, position: int) -> bool:
        return self.node.replica is not None and self.node.replica.trim(position)

    def _not_saved(self, error: SnapshotFailed) -> None:
        raise error

    def ended(self) -> None:
        """The process is being stopped: wait for its threads, then leave the folder alone."""
        self.owned.end_threads()
        if self.saving is not None:
            with contextlib.suppress(StopIteration):
                self.saving.ended().send(None)
                raise AssertionError("all threads have ended, and it waits for one")

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
        if len(data) + HEAD_SIZE > self._log.entry_size_max:
            done(None, EntryTooLarge(f"a command has {len(data)} bytes; send less"))
            return
        try:
            self.proposer.propose(Kind.COMMAND, data, done, ends_at)
        except DledgerError as error:
            done(None, error)
        self.sending.soon(may_be_now=True)

    def read(self, look: Callable[[Any], Any], found: Found, consistency: Consistency) -> None:
        """A client's question: the finding of `look`, and the command behind which it was found."""

        def readable() -> None:
            found(self.machine.look(look), self.number, None)

        def ready(error: DledgerError | None) -> None:
            if error is not None:
                found(None, -1, error)
            elif self.is_restoring:
                self._waiting.append(readable)
            else:
                readable()

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
                    self.proposer.answered(unpack_reply(found), self.owned.time())
                    self.sending.set_timer()

    def soon(self) -> None:
        """Send all that is queued when this event is over."""
        if self.proposer.queued_count:
            self.sending.soon()

    def _told(self, told: Told) -> None:
        self.leading.gone(told)
        self.proposer.told(told)

    def _results(self, session: int, results: Results) -> None:
        self.leading.applied(session, results)
        self.proposer.applied(session, results)

    def _compare(self, results: bytes) -> None:
        ends_at = self.owned.time() + 10
        try:
            self.proposer.propose(Kind.COMPARE, results, lambda *_: None, ends_at)
        except QueueFull:
            return
        self.sending.soon()

    def _send(self, to: NodeId, parts: Sequence[Buffer]) -> bool:
        assert self.node.network is not None
        frame = b"".join(map(bytes, parts))
        self.node.network.send(self.node.index, int(to[1:]), 1, frame)
        return True
