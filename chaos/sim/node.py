"""One simulated machine: a disk that stays, and a process that comes and goes.

The process is the shipping `Replica` on the shipping storage; this class is its shell, as
`dledger.runtime` is in a real one. Each event goes through `step`, which looks for a power cut in
the middle of it, sets the timer and has every invariant checked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

from chaos.sim import due, states
from chaos.sim.disk import CutPolicy, PowerCut, SimDisk
from chaos.sim.duty import NodeDuty
from chaos.sim.group import NOTHING, Decoders, SimGroup, core_config, decoder_of, frames_of
from chaos.sim.machine import STAMP_AT, Machine, noop_body
from chaos.sim.machine_clock import MachineClock
from chaos.sim.network import Network, Pipe
from chaos.sim.observer import Observer, describe
from chaos.sim.scheduler import Scheduler
from chaos.sim.storage import DiskView, Storage, format_storage, open_storage
from chaos.sim.swarm import SwarmOptions
from commitlog.errors import StoreError
from dledger.core.configuration import Configuration
from dledger.core.messages import AppendEntries, Message, RangeReply, SnapshotChunk
from dledger.core.messages import AppendReply as AppendAnswer
from dledger.core.types import Index, NodeId, Role
from dledger.errors import DledgerError, MalformedFrame, RangeRejected
from dledger.membership.handshake import Member
from dledger.membership.roster import NodeIncarnation
from dledger.repair.repair import RepairSettings
from dledger.replica.ports import SyncWork
from dledger.replica.replica import Replica
from dledger.wire.messages import decode, encode

NEVER = float("inf")
BULK_KINDS = (AppendEntries, AppendAnswer, SnapshotChunk, RangeReply)


class SimNode(MachineClock):
    """Node number `index` of a run.

    Attributes:
        boot: number of the process on this machine; work of an earlier one comes to nothing.
        replica: None while no process runs. refused: why the last start was, "" if it was not.
        flushed_at_vote: what was flushed when the newest hard state began to be saved (R1).
        excused: a fault was injected after which it may stop or refuse to start.
        stuck: sync tasks that wait for a hung disk, None while it is not hung.
        trims: its log's beginning may be deleted.
        draw_incarnation: see `open_storage`; None where no small file is ever lost.
        duties: work beside the replica (duty.py); added before the first start.
    """

    recover, noop_body = staticmethod(states.recover), staticmethod(noop_body)
    prefix_of, end_threads = staticmethod(states.prefix_of), staticmethod(states.no_threads)
    noop_stamp_at = STAMP_AT
    due_at, call_due = staticmethod(due.due_at), staticmethod(due.call)

    def __init__(
        self,
        index: int,
        scheduler: Scheduler,
        random: Random,
        options: SwarmOptions,
        observer: Observer[SimNode],
        *,
        machines: int = 0,
        incarnations: list[int] | None = None,
    ) -> None:
        self.index = index
        self.id = NodeId(f"n{index}")
        self.scheduler, self.random, self.options = scheduler, random, options
        self.observer = observer
        self.network: Network | None = None
        self.disk = SimDisk(random)
        self.boot, self.refused = 0, ""
        self.replica: Replica | None = None
        self.storage: Storage | None = None
        self.machine: Machine | None = None
        self._saved: Machine | None = None
        self.excused = self.stopping = False
        self.flushed_at_vote, self.slow = -1, 1.0
        self.stuck: list[Any] | None = None
        self._syncing: list[tuple[int, SyncWork, int]] = []
        self.backlog: list[tuple[Callable[..., None], tuple[Any, ...]]] | None = None
        self._rate = 1.0 + options.drift * (random.random() * 2 - 1)
        self._offset = random.random() * 1000
        self._timer_at = NEVER
        self.machines = machines or options.nodes
        #: Which incarnation of each machine runs, by number; None: the group never changes.
        self.incarnations = incarnations
        self.others: list[Callable[[], Member]] = []
        self.group: SimGroup | None = None
        self.used = self.trims = False
        self.draw_incarnation: Callable[[], int] | None = None
        self.repair_settings: RepairSettings | None = None
        self.duties: list[NodeDuty] = []
        self._names = [NodeId(f"n{number}") for number in range(self.machines)]
        self._numbers = {name: number for number, name in enumerate(self._names)}
        log, first = options.log, self._names[: options.nodes]
        self.config = core_config(self.id, tuple(first) if self.id in first else (), log)
        self.view = DiskView(self.disk, log.file_size)
        self._decoders: Decoders = {}
        format_storage(self.disk, self.incarnation)

    @property
    def incarnation(self) -> int:
        """The incarnation of the node's disk."""
        return self.index + 1 if self.incarnations is None else self.incarnations[self.index]

    @property
    def up(self) -> bool:
        """True while a process runs on the machine, be it paused or failed."""
        return self.replica is not None

    @property
    def leads(self) -> bool:
        """True while its replica takes itself for the leader, even if others have a newer one."""
        return self.replica is not None and self.replica.node.role is Role.LEADER

    # -- start and end ------------------------------------------------------------------

    def start(self) -> None:
        """Come up if it is down, or stay down with `refused` set."""
        if not self.up:
            try:
                self._start_process()
            except PowerCut:
                self.crash(power=self.disk.fuse_power)
        for duty in self.duties:
            duty.started()

    def _start_process(self) -> None:
        for duty in self.duties:
            duty.starting()
        self.boot += 1
        self.refused = ""
        self.disk.now = self.scheduler.now
        try:
            log, draw = self.options.log, self.draw_incarnation
            storage = open_storage(
                self.disk, log, lambda: self.now, draw, repairs=bool(self.repair_settings)
            )
            me = NodeIncarnation(self.id, self.incarnation)
            self.group = None if self.incarnations is None else SimGroup(self.disk, storage, me)
        except (OSError, StoreError, DledgerError) as error:
            self._refuse(error)
            return
        self.storage = storage
        saved, self._saved = self._saved, None
        folder = states.folder_of(self.disk) if self.trims else None
        self.machine = machine = self.recover(saved, storage, self.random, folder)
        parts = self.config, storage.log, storage.hard, machine, self
        self.replica = Replica(
            *parts,
            noop_body=self.noop_body,
            noop_stamp_at=self.noop_stamp_at,
            jitter=self.random.random,
            now=self.now,
            first_id=self.boot << 32,
            applied=machine.applied,
            initial=states.initial_of(storage),
            configurations=self.group,
            prefix=self.prefix_of(machine, storage, folder),
            repair_settings=self.repair_settings,
        )
        if self.group is not None:
            self.group.roster.live_leader = self.replica.node.live_leader
            self.group.roster.follow(self.replica.node.configuration)
        self.used = True
        self.observer.started(self)
        self.step(self.replica.start, self.now)

    def _refuse(self, error: Exception) -> None:
        self.refused = f"{type(error).__name__}: {error}"
        self.disk.process_died()
        if not self.excused:
            self.observer.violation("refused-to-start", f"{self.id}: {self.refused}")

    def crash(self, *, power: bool, policy: CutPolicy | None = None) -> None:
        """Ends the process; with `power`, un-synced writes may be lost too, by `policy`."""
        self.boot += 1
        was_up = self.up
        self._saved = self.machine or self._saved
        self.replica = self.storage = self.machine = self.backlog = None
        self._timer_at = NEVER
        self._decoders.clear()
        self._syncing.clear()
        if self.stuck:
            self.stuck.clear()
        if power:
            self.disk.power_cut(policy or self.options.disk.cut)
        else:
            self.disk.process_died()
        if was_up and self.network is not None:
            self.network.node_died(self.index, self.machines)

    def replace(self) -> None:
        """The disk is lost; another one is formatted to join, and the process started on it."""
        assert self.incarnations is not None
        assert self.network is not None
        self.crash(power=True)
        self.network.forget(self.index)
        self.incarnations[self.index] += 1000
        self._saved = None
        self.used, self.excused, self.refused = False, False, ""
        self.flushed_at_vote = -1
        self.disk = SimDisk(self.random)
        self.view = DiskView(self.disk, self.options.log.file_size)
        self.config = dataclasses.replace(self.config, voters=())
        format_storage(self.disk, self.incarnation)
        self.start()

    def stop(self) -> None:
        """SIGTERM: wait for the disk, close the storage, then end."""
        if self.storage is None or self.replica is None:
            return
        if self.stuck is not None or self.backlog is not None:
            self.crash(power=False)  # a stop that does not end is followed by a kill
            return
        boot, replica, failed = self.boot, self.replica, self.replica.failure is not None
        self.stopping = True
        self.step(self.replica.stop, self.now)
        while self._syncing and self.boot == boot:
            self._run_sync(self._syncing[0])
        self.end_threads()
        self.stopping = False
        if self.boot != boot or self.storage is None:
            return
        try:
            if not (failed or replica.disk_refused):
                self.storage.close()
        except PowerCut:
            self.crash(power=self.disk.fuse_power)
            return
        except OSError as error:
            if not self.excused:
                self.observer.violation("stop-failed", f"{self.id}: {error}")
        self.crash(power=False)

    def pause(self) -> None:
        """SIGSTOP: everything that comes in waits."""
        if self.up and self.backlog is None:
            self.backlog = []

    def resume(self) -> None:
        """SIGCONT: all that waited happens now."""
        boot, backlog, self.backlog = self.boot, self.backlog, None
        for action, arguments in backlog or ():
            if self.boot != boot:
                return
            self.step(action, *arguments)

    def hang_disk(self) -> None:
        """Keeps sync tasks from running until `free_disk`; reads and writes go on."""
        self.stuck = self.stuck or []

    def free_disk(self) -> None:
        """Runs the sync tasks that were kept back, in order; not those of an ended process."""
        stuck, self.stuck = self.stuck, None
        for work in stuck or ():
            self._run_sync(work)

    # -- the one way in ----------------------------------------------------------------------

    def step(self, action: Callable[..., None], *arguments: Any) -> None:
        """Let the process handle one thing; the last argument is its clock's time."""
        if self.backlog is not None:
            self.backlog.append((action, arguments))
            return
        self.disk.now = self.scheduler.now
        try:
            action(*arguments)
        except PowerCut:
            self.crash(power=self.disk.fuse_power)
            return
        except Exception as error:
            self.observer.violation("exception", f"{self.id}: {describe(error)}")
            return
        replica = self.replica
        if replica is None:
            return
        if replica.failure is not None and not (self.excused or self.stopping):
            self.observer.violation("unexplained-stop", f"{self.id}: {replica.failure}")
        self._set_timer()
        self.observer.stepped(self)

    def _set_timer(self) -> None:
        replica = self.replica
        deadline = NEVER if replica is None else self.due_at(replica, self.now)
        when = (deadline - self._offset) / self._rate + 1e-9
        if when < self._timer_at:
            self._timer_at = when
            self.scheduler.at(when, self._timer, (self.boot, when))

    def _timer(self, set_for: tuple[int, float]) -> None:
        replica = self.replica
        if set_for != (self.boot, self._timer_at) or replica is None:
            return
        self._timer_at = NEVER
        if self.due_at(replica, self.now) > self.now:
            self._set_timer()
        else:
            self.step(self._timer_fired)

    def _timer_fired(self) -> None:
        if self.replica is not None:
            self.call_due(self.replica, self.now)

    # -- Ports -------------------------------------------------------------------------------

    def send(self, to: NodeId, message: Message) -> None:
        """`Ports.send`: encode now, as the bytes are now."""
        assert self.network is not None
        self.observer.sending(self, to, message)
        frame = b"".join(encode(message))
        connection = 1 if type(message) in BULK_KINDS else 0
        self.network.send(self.index, self._numbers[to], connection, frame)

    def configuration_changed(self, configuration: Configuration, index: Index) -> None:
        """`Ports.configuration_changed`."""
        if self.group is not None:
            self.group.roster.follow(configuration)

    def start_sync(self, work: SyncWork) -> None:
        """`Ports.start_sync`: sync all bytes written so far, after the disk's delay."""
        for duty in self.duties:
            duty.sync_begins(work)
        disk, random = self.options.disk, self.random
        delay = disk.sync * self.slow * (0.5 + random.random())
        if disk.tail and random.random() < disk.tail:
            delay += random.random() * disk.tail_max
        if work.kind == "hard" and self.storage is not None:
            self.flushed_at_vote = self.storage.log.flushed
        order = (self.boot, work, self.disk.writes)
        self._syncing.append(order)
        self.scheduler.after(delay, self._run_sync, order)

    def _run_sync(self, order: tuple[int, SyncWork, int]) -> None:
        boot, work, barrier = order
        if boot != self.boot or order not in self._syncing:
            return
        if self.stuck is not None:
            self.stuck.append(order)
            return
        self._syncing.remove(order)
        error: OSError | None = None
        self.disk.now = self.scheduler.now
        self.disk.begin_task(barrier)
        try:
            work.task.run()
        except PowerCut:
            self.crash(power=self.disk.fuse_power)
            return
        except OSError as failed:
            error = failed
        finally:
            self.disk.end_task()
        self.step(self._sync_ended, work, error)

    def _sync_ended(self, work: SyncWork, error: OSError | None) -> None:
        for duty in self.duties:
            duty.sync_ended(work, error)
        if self.replica is not None:
            self.replica.sync_done(work, error, self.now)
        for duty in self.duties:
            duty.sync_handled(work)

    # -- network -----------------------------------------------------------------------------

    def receive(self, pipe: Pipe, frame: bytes) -> None:
        """A frame arrives; a malformed one costs its connection."""
        if self.replica is not None:
            self.step(self._received, pipe, frame)

    def _received(self, pipe: Pipe, frame: bytes) -> None:
        replica, network = self.replica, self.network
        assert replica is not None
        assert network is not None
        sender, decoder = self._names[pipe.source], decoder_of(self._decoders, pipe)
        unheard = NOTHING if self.group is None else self.group.unheard(self.others[pipe.source]())
        if unheard is None:
            return
        whole = False
        try:
            for found in frames_of(decoder, frame):
                whole = True
                if found.type not in unheard:
                    replica.receive(decode(found, sender), self.now)
            if not whole and network.options.datagram:
                raise MalformedFrame("a datagram has nothing to do with the one behind it")
        except (MalformedFrame, RangeRejected):
            del self._decoders[pipe]
            network.cut_connection(pipe.source, self.index, pipe.connection)

    def peer_lost(self, peer: int) -> None:
        """Tells the replica, if there is one, that a connection to node `peer` broke."""
        if self.replica is not None:
            self.step(self._peer_lost, NodeId(f"n{peer}"))

    def _peer_lost(self, peer: NodeId) -> None:
        if self.replica is not None:
            self.replica.disconnected(peer, self.now)
