"""One simulated machine: a disk that stays, and a process that comes and goes.

The process is the shipping `Replica` on the shipping storage; this class is its shell, as
`dledger.runtime` is in a real one: timers, frames, sync tasks. Everything that
happens to the process goes through `step`, which looks for a power cut in the middle of it, sets
the timer and has every invariant checked.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from chaos.sim.disk import CutPolicy, PowerCut, SimDisk
from chaos.sim.machine import STAMP_AT, Machine, noop_body
from chaos.sim.network import Network, Pipe
from chaos.sim.scheduler import Scheduler
from chaos.sim.storage import DiskView, Storage, format_storage, open_storage
from chaos.sim.swarm import SwarmOptions
from commitlog.errors import StoreError
from dledger.core.config import CoreConfig
from dledger.core.messages import AppendEntries, Message
from dledger.core.messages import AppendReply as AppendAnswer
from dledger.core.types import NodeId, Role
from dledger.errors import DledgerError, MalformedFrame, RangeRejected
from dledger.replica import Replica, SyncWork
from dledger.wire import FrameDecoder, decode, encode

NEVER = float("inf")


class Observer(Protocol):
    """Who watches the nodes."""

    def started(self, node: SimNode) -> None: ...

    def stepped(self, node: SimNode) -> None: ...

    def sending(self, node: SimNode, to: NodeId, message: Message) -> None: ...

    def violation(self, name: str, detail: str) -> None: ...


class SimNode:
    """Node number `index` of a run.

    Attributes:
        life: number of the process on this machine; work of an earlier one comes to nothing.
        replica: None while no process runs.
        refused: why the last start was refused, "" when it was not.
        flushed_at_vote: what was flushed when the newest hard state began to be saved (R1).
        excused: a fault was injected after which it may stop or refuse to start.
        stuck: sync tasks that wait for a hung disk, None while it is not hung.
    """

    def __init__(
        self,
        index: int,
        scheduler: Scheduler,
        random: Random,
        options: SwarmOptions,
        observer: Observer,
    ) -> None:
        self.index = index
        self.id = NodeId(f"n{index}")
        self.scheduler, self.random, self.options = scheduler, random, options
        self.observer = observer
        self.network: Network | None = None
        self.disk = SimDisk(random)
        self.life = 0
        self.replica: Replica | None = None
        self.storage: Storage | None = None
        self.machine: Machine | None = None
        self._saved: Machine | None = None
        self.refused = ""
        self.excused = self.stopping = False
        self.flushed_at_vote = -1
        self.slow = 1.0
        self.stuck: list[Any] | None = None
        self._syncing: list[tuple[int, SyncWork, int]] = []
        self.backlog: list[tuple[Callable[..., None], tuple[Any, ...]]] | None = None
        self._rate = 1.0 + options.drift * (random.random() * 2 - 1)
        self._offset = random.random() * 1000
        self._timer_at = NEVER
        voters = tuple(NodeId(f"n{number}") for number in range(options.nodes))
        log = options.log
        self.config = CoreConfig(
            self.id,
            voters,
            heartbeat_interval=log.heartbeat,
            election_timeout_min=log.election_min,
            election_timeout_max=log.election_max,
            frame_bytes_max=log.frame_bytes_max,
            window_bytes_max=max(log.frame_bytes_max, 16 << 10),
            window_frames_max=log.window_frames_max,
        )
        self.view = DiskView(self.disk, log.file_size)
        self._decoders: dict[tuple[int, int], tuple[int, FrameDecoder]] = {}
        format_storage(self.disk, index + 1)

    @property
    def now(self) -> float:
        """This machine's clock: its own zero and its own speed."""
        return self._offset + self.scheduler.now * self._rate

    @property
    def up(self) -> bool:
        return self.replica is not None

    @property
    def leads(self) -> bool:
        return self.replica is not None and self.replica.node.role is Role.LEADER

    # -- life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Recover from the disk and come up, or stay down with `refused` set."""
        if self.up:
            return
        self.life += 1
        self.refused = ""
        self.disk.now = self.scheduler.now
        try:
            storage = open_storage(self.disk, self.options.log, lambda: self.now)
        except PowerCut:
            self.crash(power=self.disk.fuse_power)
            return
        except (OSError, StoreError, DledgerError) as error:
            self._refuse(error)
            return
        self.storage = storage
        self.machine = self._recover_machine(storage)
        self.replica = Replica(
            self.config,
            storage.log,
            storage.hard,
            self.machine,
            self,
            noop_body=noop_body,
            noop_stamp_at=STAMP_AT,
            jitter=self.random.random,
            now=self.now,
            applied=self.machine.applied,
        )
        self.observer.started(self)
        self.step(self.replica.start, self.now)

    def _recover_machine(self, storage: Storage) -> Machine:
        """The saved state, or none: then everything is applied again."""
        saved, self._saved = self._saved, None
        if saved is None or not saved.whole or saved.applied > storage.log.last.index:
            return Machine(storage.log)
        if self.random.random() < 0.2:
            return Machine(storage.log)
        saved.restart(storage.log)
        return saved

    def _refuse(self, error: Exception) -> None:
        self.refused = f"{type(error).__name__}: {error}"
        self.disk.process_died()
        if not self.excused:
            self.observer.violation("refused-to-start", f"{self.id}: {self.refused}")

    def crash(self, *, power: bool, policy: CutPolicy | None = None) -> None:
        """The process is gone; with `power`, what it had not synced may be gone too."""
        self.life += 1
        was_up = self.up
        self._saved = self.machine or self._saved
        self.replica = self.storage = self.machine = None
        self.backlog = None
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
            self.network.node_died(self.index, self.options.nodes)

    def stop(self) -> None:
        """SIGTERM: wait for the disk, close the storage, then end."""
        if self.storage is None or self.replica is None:
            return
        if self.stuck is not None or self.backlog is not None:
            self.crash(power=False)  # a stop that does not end is followed by a kill
            return
        life, failed = self.life, self.replica.failure is not None
        self.stopping = True
        self.step(self.replica.stop, self.now)
        while self._syncing and self.life == life:
            self._run_sync(self._syncing[0])
        self.stopping = False
        if self.life != life or self.storage is None:
            return
        try:
            if not failed:
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
        backlog, self.backlog = self.backlog, None
        life = self.life
        for action, arguments in backlog or ():
            if self.life != life:
                return
            self.step(action, *arguments)

    def skip_clock(self, seconds: float) -> None:
        """The machine was asleep: its clock jumps ahead."""
        self._offset += seconds
        if self.up:
            self._set_timer()

    def hang_disk(self) -> None:
        if self.stuck is None:
            self.stuck = []

    def free_disk(self) -> None:
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
        if replica is None:
            return
        deadline = replica.deadline()
        if deadline == NEVER:
            return
        when = (deadline - self._offset) / self._rate + 1e-9
        if when < self._timer_at:
            self._timer_at = when
            self.scheduler.at(when, self._timer, (self.life, when))

    def _timer(self, set_for: tuple[int, float]) -> None:
        life, when = set_for
        replica = self.replica
        if life != self.life or when != self._timer_at or replica is None:
            return
        self._timer_at = NEVER
        if replica.deadline() > self.now:
            self._set_timer()
        else:
            self.step(self._timer_fired)

    def _timer_fired(self) -> None:
        if self.replica is not None:
            self.replica.timer(self.now)

    # -- Ports -------------------------------------------------------------------------------

    def send(self, to: NodeId, message: Message) -> None:
        """`Ports.send`: encode now, as the bytes are now."""
        assert self.network is not None
        self.observer.sending(self, to, message)
        parts = encode(message)
        frame = bytes(parts[0]) if len(parts) == 1 else b"".join(parts)
        lane = 1 if isinstance(message, AppendEntries | AppendAnswer) else 0
        self.network.send(self.index, int(to[1:]), lane, frame)

    def start_sync(self, work: SyncWork) -> None:
        """`Ports.start_sync`: what is written by now will be synced when the disk is done."""
        disk, random = self.options.disk, self.random
        delay = disk.sync * self.slow * (0.5 + random.random())
        if disk.tail and random.random() < disk.tail:
            delay += random.random() * disk.tail_max
        if work.kind == "hard" and self.storage is not None:
            self.flushed_at_vote = self.storage.log.flushed
        order = (self.life, work, self.disk.writes)
        self._syncing.append(order)
        self.scheduler.after(delay, self._run_sync, order)

    def _run_sync(self, order: tuple[int, SyncWork, int]) -> None:
        life, work, barrier = order
        if life != self.life or order not in self._syncing:
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
        if self.replica is not None:
            self.replica.sync_done(work, error, self.now)

    # -- network -----------------------------------------------------------------------------

    def receive(self, pipe: Pipe, frame: bytes) -> None:
        """A frame arrives; a malformed one costs its connection."""
        if self.replica is not None:
            self.step(self._received, pipe, frame)

    def _received(self, pipe: Pipe, frame: bytes) -> None:
        replica, network = self.replica, self.network
        assert replica is not None
        assert network is not None
        sender, decoder = self.config.voters[pipe.source], self._decoder_of(pipe)
        rest, whole = frame, False
        try:
            while rest:
                room = decoder.get_buffer()
                part = rest if len(rest) <= len(room) else rest[: len(room)]
                room[: len(part)] = part
                rest = rest[len(part) :]
                for found in decoder.frames(len(part)):
                    whole = True
                    replica.receive(decode(found, sender), self.now)
            if not whole and network.options.datagram:
                raise MalformedFrame("a datagram has nothing to do with the one behind it")
        except (MalformedFrame, RangeRejected):
            self._decoders.pop((pipe.source, pipe.lane))
            network.cut_connection(pipe.source, self.index, pipe.lane)

    def _decoder_of(self, pipe: Pipe) -> FrameDecoder:
        """One per connection."""
        key = (pipe.source, pipe.lane)
        epoch, decoder = self._decoders.get(key, (-1, None))
        if decoder is None or epoch != pipe.epoch:
            decoder = FrameDecoder()
            self._decoders[key] = (pipe.epoch, decoder)
        return decoder

    def peer_lost(self, peer: int) -> None:
        if self.replica is not None:
            self.step(self._peer_lost, NodeId(f"n{peer}"))

    def _peer_lost(self, peer: NodeId) -> None:
        if self.replica is not None:
            self.replica.disconnected(peer, self.now)


def describe(error: BaseException) -> str:
    """Type, text and the innermost place of an exception."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return f"{type(error).__name__}: {error}"
    name = trace.tb_frame.f_code.co_filename.rpartition("/")[2]
    return f"{type(error).__name__}: {error} ({name}:{trace.tb_lineno})"
