"""Hosts that watch each other, as `dledger.runtime.host_beats` does it: `--quiescence` (R30).

    every interval    each machine beats to the others, looks, and tells its replica
    a connection ends its replica is told of the host first, as of a carrier that ends
    one is open again its replica is told (`PeerConnected`), for members that are on no host

Groups fall silent within a moment here, and clients pause, so that they do it often. A replica that
has failed leaves its connections, while its host goes on to beat.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from chaos.sim.duty import NodeDuty
from chaos.sim.network import CONNECTIONS, Network, Pipe
from chaos.sim.node import SimNode
from chaos.sim.scheduler import Scheduler
from chaos.sim.swarm import SwarmOptions
from dledger.core.events import HostsWatched, PeerConnected
from dledger.core.types import NodeId
from dledger.replica.beats import Beats
from dledger.wire.frames import FrameType, pack_frame

#: Few enough for silence between two operations, in all clients together.
OPERATIONS_PER_SECOND = 1.5
#: Seconds until some client has asked again: each pauses for up to twice its share of that rate.
LONGEST_PAUSE = 24.0
#: Of `CoreConfig`; the first one in heartbeats.
QUIET_AFTER, QUIET_CHECK = 2, 4.0
SPREAD = 0.3
#: "I am there", and "I hear you" as well.
_BEATS = tuple(pack_frame(FrameType.CHANNEL, bytes((0, 0, 0, hears, 3))) for hears in (0, 1))


def with_pauses(options: SwarmOptions) -> SwarmOptions:
    """The same with few operations."""
    load = replace(options.load, operations_per_second=OPERATIONS_PER_SECOND)
    return replace(options, load=load)


class _Dialling(NodeDuty):
    """A process that starts dials the others."""

    def __init__(self, network: Network, index: int) -> None:
        self._network, self._index = network, index

    def started(self) -> None:
        self._network.node_started(self._index)


class HostBeats:
    """The hosts of all machines. `silences`: how often a replica was quiet when its host looked."""

    def __init__(
        self,
        scheduler: Scheduler,
        nodes: Sequence[SimNode],
        network: Network,
        hostless: Collection[int] = (),
    ) -> None:
        """`hostless`: machines without a host: they beat to no other."""
        self._hostless = hostless
        self._scheduler, self._nodes, self._network = scheduler, nodes, network
        self._beats: dict[int, tuple[int, Beats]] = {}
        self._left: dict[int, int] = {}  # by machine: the boot of which the failed replica has left
        self.silences = 0
        for node in nodes:
            wait = QUIET_AFTER * node.config.heartbeat_interval
            node.config = replace(node.config, quiet_after=wait, quiet_check=QUIET_CHECK)
            node.duties.append(_Dialling(network, node.index))
        self._receive, network.receive = network.receive, self.receive
        self._disconnected, network.disconnected = network.disconnected, self.disconnected
        network.connected = self.connected

    def begin(self) -> None:
        """Beat from now on."""
        for node in self._nodes:
            self._network.node_started(node.index)
            if node.index in self._hostless:
                continue
            self._scheduler.after(0.001 * node.index, self._beat, node)

    def receive(self, pipe: Pipe, frame: bytes) -> None:
        """Take beats; all else is for the replicas."""
        if frame not in _BEATS:
            self._receive(pipe, frame)
        elif (
            node := self._nodes[pipe.target]
        ).replica is not None and node.index not in self._hostless:
            node.step(self._heard, node, self._nodes[pipe.source].id, frame == _BEATS[1])

    def disconnected(self, node: int, peer: int) -> None:
        """A connection ended."""
        lost = self._nodes[node]
        if lost.replica is not None and node not in self._hostless:
            lost.step(self._lost, lost, self._nodes[peer].id)
        self._disconnected(node, peer)

    def connected(self, node: int, peer: int) -> None:
        """A connection is open, if both processes are there."""
        opened, other = self._nodes[node], self._nodes[peer]
        if opened.replica is not None and other.up:
            opened.step(self._connected, opened, other.id)

    @staticmethod
    def _connected(node: SimNode, peer: NodeId) -> None:
        if node.replica is not None:
            node.replica.looked(PeerConnected(peer), node.now)

    def _of(self, node: SimNode) -> Beats:
        """The beats of the node's present process."""
        boot, beats = self._beats.get(node.index, (-1, None))
        if beats is None or boot != node.boot:
            config = node.config
            peers = [other.id for other in self._nodes if other is not node]
            interval, limit = config.heartbeat_interval, config.election_timeout_max
            beats = Beats(peers, interval, limit, node.now)
            self._beats[node.index] = node.boot, beats
        return beats

    def _beat(self, node: SimNode) -> None:
        self._scheduler.after(node.config.heartbeat_interval, self._beat, node)
        if node.replica is not None and node.backlog is None:
            node.step(self._look, node)

    def _look(self, node: SimNode) -> None:
        beats, now = self._of(node), node.now
        for other in self._nodes:
            if other is not node:
                frame = _BEATS[beats.hears(other.id, now)]
                self._network.send(node.index, other.index, 0, frame)
        if beats.look(now):
            self._tell(node, beats)
        if node.replica is not None:
            self.silences += node.replica.node.is_quiet
            if node.replica.failure is not None and self._left.get(node.index) != node.boot:
                self._left[node.index] = node.boot
                for other in self._nodes:
                    for connection in range(CONNECTIONS if other is not node else 0):
                        self._network.cut_connection(node.index, other.index, connection)

    def _heard(self, node: SimNode, peer: NodeId, hears_us: bool) -> None:
        self._of(node).heard(peer, node.now, hears_us=hears_us)

    def _lost(self, node: SimNode, peer: NodeId) -> None:
        beats = self._of(node)
        if beats.lost(peer):
            self._tell(node, beats)

    @staticmethod
    def _tell(node: SimNode, beats: Beats) -> None:
        if node.replica is not None:
            node.replica.looked(HostsWatched(beats.watched, SPREAD), node.now)
