"""A virtual network between replicas: two connections per pair of nodes, and all their faults.

    connection 0 control, connection 1 bulk     each direction of each connection is a `Pipe`

Two characters, drawn per seed:

    stream      as TCP: a pipe delivers in order and without holes until its connection breaks; then
                what was in flight is lost and both ends are told, late
    datagram    harsher than TCP: each frame by itself is lost, delayed, doubled or overtaken

A blocked pipe either *drops* (stream: its connection breaks) or *freezes*: frames are kept and
delivered in order when the pipe is opened again, so a stale leader's messages arrive late.

Frames are bytes: what was sent is what was encoded, and the receiver decodes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from chaos.sim.scheduler import Scheduler

CONNECTIONS = 2
#: A connection that broke, or a process that starts, is dialled for so long.
DIAL_SECONDS_MAX = 0.05
#: A frozen pipe keeps this many frames, then its connection counts as broken (socket buffers end).
FROZEN_FRAMES_MAX = 2000


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """One seed's weather. Times in seconds, the others are probabilities per frame.

    `jitter` is the mean of an exponential delay on top of `latency`; with `tail`, a frame is late
    by up to `tail_max` more. `bandwidth`: bytes a second of a pipe, 0 for no limit.
    """

    datagram: bool
    latency: float
    jitter: float
    tail: float
    tail_max: float
    loss: float
    double: float
    corrupt: float
    break_rate: float
    bandwidth: float = 0.0


#: What the network becomes for the liveness phase: quick, and nothing is lost.
CALM = NetworkOptions(
    datagram=False,
    latency=0.0005,
    jitter=0.0002,
    tail=0.0,
    tail_max=0.0,
    loss=0.0,
    double=0.0,
    corrupt=0.0,
    break_rate=0.0,
)


class Pipe:
    """One direction of one connection.

    `epoch` numbers its connections: a frame of an earlier one never arrives. `frozen` holds frames
    while the pipe is frozen, None while it is not. `free_at`: nothing may arrive before.
    """

    __slots__ = ("blocked", "connection", "epoch", "free_at", "frozen", "source", "target")

    def __init__(self, source: int, target: int, connection: int) -> None:
        self.source, self.target, self.connection = source, target, connection
        self.epoch = 0
        self.free_at = 0.0
        self.blocked = False
        self.frozen: list[bytes] | None = None


class Aftermath(Protocol):
    """Decides about frames that outlive the process they were sent to (former_processes.py)."""

    def missed(self, pipe: Pipe, frame: bytes) -> None:
        """A frame was lost because its target's process died while it was in flight."""

    def arrives(self, pipe: Pipe, frame: bytes) -> None:
        """A frame is about to be handed to its target."""

    def asks(self, source: int, frame: bytes) -> None:
        """A node sends a frame; if it asks something, an earlier answer may come again."""

    def died(self, node: int) -> None:
        """The node's process has ended; its connections break next."""

    def forget(self, node: int) -> None:
        """Another machine has the node's name: frames kept for the former one are dropped."""


class Network:
    """All pipes. `receive(pipe, frame)` and `disconnected(node, peer)` are the ends."""

    def __init__(
        self,
        scheduler: Scheduler,
        random: Random,
        options: NetworkOptions,
        nodes: int,
        receive: Callable[[Pipe, bytes], None],
        disconnected: Callable[[int, int], None],
    ) -> None:
        self._scheduler, self._random = scheduler, random
        self.receive, self.disconnected = receive, disconnected
        #: Told (node, peer) of each connection for heartbeats that is open again.
        self.connected: Callable[[int, int], None] | None = None
        self._dials = Random("dials")  # its own: who listens changes no other draw
        self.options = options
        self.sent = self.lost = 0
        self.aftermath: Aftermath | None = None
        self._deaths = [0] * nodes
        self.pipes = {
            (source, target, connection): Pipe(source, target, connection)
            for source in range(nodes)
            for target in range(nodes)
            for connection in range(CONNECTIONS)
            if source != target
        }

    def send(self, source: int, target: int, connection: int, frame: bytes) -> None:
        """Put a frame on its way; it arrives late, twice, damaged or never."""
        self.sent += 1
        if self.aftermath is not None:
            self.aftermath.asks(source, frame)
        pipe = self.pipes[source, target, connection]
        if pipe.frozen is not None:
            pipe.frozen.append(frame)
            if len(pipe.frozen) > FROZEN_FRAMES_MAX:
                self.block(pipe)
            return
        if pipe.blocked:
            self.lost += 1
            return
        options, random = self.options, self._random
        if options.corrupt and random.random() < options.corrupt:
            frame = _damage(frame, random)
        if not options.datagram:
            if options.break_rate and random.random() < options.break_rate:
                self.cut_connection(source, target, connection)
            else:
                self._schedule(pipe, frame, ordered=True)
            return
        if random.random() < options.loss:
            self.lost += 1
            return
        self._schedule(pipe, frame, ordered=False)
        if options.double and random.random() < options.double:
            self._schedule(pipe, frame, ordered=False)

    def _delay(self) -> float:
        options, random = self.options, self._random
        delay = options.latency + random.random() * random.random() * 4 * options.jitter
        if options.tail and random.random() < options.tail:
            delay += random.random() * options.tail_max
        return delay

    def _schedule(self, pipe: Pipe, frame: bytes, *, ordered: bool) -> None:
        when = self._scheduler.now + self._delay()
        if self.options.bandwidth:  # it waits for what is before it, then takes its own time
            when = max(when, pipe.free_at) + len(frame) / self.options.bandwidth
            pipe.free_at = when
        elif ordered:
            when = max(when, pipe.free_at)
            pipe.free_at = when
        sent = (pipe, pipe.epoch, self._deaths[pipe.target], frame)
        self._scheduler.at(when, self._arrive, sent)

    def _arrive(self, delivery: tuple[Pipe, int, int, bytes]) -> None:
        pipe, epoch, deaths, frame = delivery
        if epoch != pipe.epoch:
            self.lost += 1
            if self.aftermath is not None and deaths != self._deaths[pipe.target]:
                self.aftermath.missed(pipe, frame)
        elif pipe.frozen is not None:
            pipe.frozen.append(frame)
        elif pipe.blocked:
            self.lost += 1
        else:
            if self.aftermath is not None:
                self.aftermath.arrives(pipe, frame)
            self.receive(pipe, frame)

    # -- faults ------------------------------------------------------------------------------

    def block(self, pipe: Pipe) -> None:
        """Loses all frames from now on, including those in flight."""
        pipe.blocked, pipe.frozen = True, None
        if not self.options.datagram:
            self.cut_connection(pipe.source, pipe.target, pipe.connection)

    def freeze(self, pipe: Pipe) -> None:
        """Keep everything from now on for `open`."""
        if not pipe.blocked and pipe.frozen is None:
            pipe.frozen = []

    def open(self, pipe: Pipe) -> None:
        """Lets frames pass again; frozen ones are delivered first, in order."""
        if pipe.blocked:
            self._dial(pipe)
        pipe.blocked = False
        held, pipe.frozen = pipe.frozen, None
        for frame in held or ():
            self._schedule(pipe, frame, ordered=True)

    def open_all(self) -> None:
        """Lets frames pass on every pipe again; frozen ones are delivered first, in order."""
        for pipe in self.pipes.values():
            self.open(pipe)

    def cut_connection(self, one: int, other: int, connection: int) -> None:
        """Breaks one connection of two nodes; each end hears of it after a while of its own."""
        for source, target in ((one, other), (other, one)):
            pipe = self.pipes[source, target, connection]
            pipe.epoch += 1
            if pipe.frozen:
                pipe.frozen.clear()
            delay = self._random.random() * (0.5 if self._random.random() < 0.2 else 0.01)
            self._scheduler.after(delay, self._tell, (source, target))
            self._dial(pipe)

    def node_started(self, node: int) -> None:
        """A process begins to dial the others, and they to dial it."""
        for pipe in self.pipes.values():
            if node in (pipe.source, pipe.target):
                self._dial(pipe)

    def _dial(self, pipe: Pipe) -> None:
        if self.connected is not None and pipe.connection == 0:
            delay = self._dials.random() * DIAL_SECONDS_MAX
            self._scheduler.after(delay, self._dialled, (pipe, pipe.epoch))

    def _dialled(self, dialled: tuple[Pipe, int]) -> None:
        pipe, epoch = dialled
        if self.connected is not None and epoch == pipe.epoch and not pipe.blocked:
            self.connected(pipe.source, pipe.target)

    def node_died(self, node: int, nodes: int) -> None:
        """Breaks the connections of a dead process. Frames that it had sent arrive with a chance of
        one half."""
        last_words = self._random.random() < 0.5
        self._deaths[node] += 1
        if self.aftermath is not None:
            self.aftermath.died(node)
        for other in range(nodes):
            if other == node:
                continue
            for connection in range(CONNECTIONS):
                self.pipes[other, node, connection].epoch += 1
                if not last_words:
                    self.pipes[node, other, connection].epoch += 1
            self._scheduler.after(self._random.random() * 0.3, self._tell, (other, node))

    def forget(self, node: int) -> None:
        """Loses all frames to and from the node, because another machine has taken its name."""
        if self.aftermath is not None:
            self.aftermath.forget(node)
        for pipe in self.pipes.values():
            if node in (pipe.source, pipe.target):
                pipe.epoch += 1
                if pipe.frozen:
                    pipe.frozen.clear()

    def _tell(self, ends: tuple[int, int]) -> None:
        self.disconnected(*ends)


def _damage(frame: bytes, random: Random) -> bytes:
    """Flip some bits of one byte."""
    damaged = bytearray(frame)
    damaged[random.randrange(len(frame))] ^= random.randrange(1, 256)
    return bytes(damaged)
