"""The silent end of a run: machines and links fail once more, while no client asks for anything.

    a round   a fault begins ─► perhaps clients ask, for a moment ─► it ends ─► no entry comes
              ─► the nodes must become equal all the same, in bounded time

A later entry hides a node that stays behind: it brings all that the node missed. So here none
comes behind a fault, but for those of an election that it causes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from chaos.sim.network import CONNECTIONS, Network
from chaos.sim.node import SimNode
from chaos.sim.scheduler import Scheduler
from chaos.sim.service import NodeService

#: Rounds of a run.
ROUNDS = 3
#: Of rounds: in how many clients ask while the fault lasts; in how many a second one begins; in how
#: many frames are late and lost as in the run before, until a while behind the fault.
ASKED, DOUBLE, ROUGH, ROUGH_SECONDS = 0.5, 0.3, 0.5, 2.0
#: How long a fault lasts, and how long clients ask, in seconds.
FAULT_SECONDS, ASK_SECONDS = (0.05, 0.3, 1.0, 2.5), 0.6
#: How long clients wait for answers before the fault ends, and behind it.
MEANWHILE_SECONDS, ANSWER_SECONDS = 2.0, 10.0
#: A connection's end is told of within 0.3 s.
LATE_SECONDS = 0.35

Action = Callable[[], object]
#: Begins a fault at a machine; returns what ends it.
Blow = Callable[["Silence", SimNode], Action]


def _nothing() -> None:
    """The fault was over at once."""


def _kill(silence: Silence, node: SimNode) -> Action:
    node.crash(power=False)
    return node.start


def _power(silence: Silence, node: SimNode) -> Action:
    node.crash(power=True)
    return node.start


def _stop(silence: Silence, node: SimNode) -> Action:
    node.stop()
    return node.start


def _pause(silence: Silence, node: SimNode) -> Action:
    node.pause()
    return node.resume


def _hang(silence: Silence, node: SimNode) -> Action:
    node.hang_disk()
    return node.free_disk


def _full(silence: Silence, node: SimNode) -> Action:
    disk, node.disk.free = node.disk, 0

    def space() -> None:
        disk.free = 1 << 40

    return space


def _cut(silence: Silence, node: SimNode, *, ways: int = 2, freezes: bool = False) -> Action:
    network = silence.network
    pipes = [
        pipe
        for pipe in network.pipes.values()
        if pipe.source == node.index or (ways == 2 and pipe.target == node.index)
    ]
    for pipe in pipes:
        (network.freeze if freezes else network.block)(pipe)

    def heal() -> None:
        for pipe in pipes:
            network.open(pipe)

    return heal


def _late_words(silence: Silence, node: SimNode) -> Action:
    """A process's last answers arrive when the others know already that it has died."""
    thaw = _cut(silence, node, ways=1, freezes=True)
    silence.run(LATE_SECONDS)
    node.crash(power=False)
    silence.run(LATE_SECONDS)
    thaw()
    return node.start


def _reset(silence: Silence, node: SimNode) -> Action:
    for other in silence.nodes:
        for connection in range(CONNECTIONS if other is not node else 0):
            silence.network.cut_connection(node.index, other.index, connection)
    return _nothing


def _transfer(silence: Silence, node: SimNode) -> Action:
    for leader in silence.nodes:
        if leader.leads and leader is not node:
            NodeService(leader).transfer(node.index)
    return _nothing


BLOWS: dict[str, Blow] = {
    "kill": _kill,
    "late-words": _late_words,
    "power": _power,
    "stop": _stop,
    "pause": _pause,
    "hang": _hang,
    "cut": _cut,
    "one-way": partial(_cut, ways=1),
    "freeze": partial(_cut, freezes=True),
    "reset": _reset,
    "transfer": _transfer,
}
#: Of the log's own disk, which a machine under test does not play.
DISK_BLOWS: dict[str, Blow] = {"full": _full}


class Silence:
    """Has the rounds of one run; draws from a chance of its own: the run before it stays as it is.

    Attributes:
        counts: how often each fault was begun.
        asked: rounds in which clients asked meanwhile.
    """

    def __init__(
        self,
        seed: int,
        scheduler: Scheduler,
        nodes: Sequence[SimNode],
        network: Network,
        weather: Callable[[bool], None],
        blows: dict[str, Blow] = BLOWS,
    ) -> None:
        """`weather(True)`: the network is that of the run before again; else it is calm."""
        self.nodes, self.network = nodes, network
        self._scheduler, self._weather, self._blows = scheduler, weather, blows
        self._random = Random(f"dledger-silence-{seed}")
        self.counts: dict[str, int] = {}
        self.asked = 0

    def play(
        self,
        targets: Callable[[], Sequence[SimNode]],
        ask: Callable[[bool], None],
        all_answered: Callable[[], bool],
        settle: Callable[[str], None],
    ) -> None:
        """`targets`: the machines that may fail; `ask(True)`: clients begin to ask, `ask(False)`:
        they stop; `settle(words)`: waits until all nodes are equal, or ends the run.
        """
        for _ in range(ROUNDS):
            settle(self._round(targets(), ask, all_answered))

    def _round(
        self,
        targets: Sequence[SimNode],
        ask: Callable[[bool], None],
        all_answered: Callable[[], bool],
    ) -> str:
        random, ends, words = self._random, list[Action](), list[str]()
        if is_rough := random.random() < ROUGH:
            words.append("rough")
            self._weather(True)
        count = 2 if random.random() < DOUBLE else 1
        for node in random.sample(list(targets), min(count, len(targets))):
            name = random.choice(list(self._blows))
            self.counts[name] = self.counts.get(name, 0) + 1
            words.append(f"{name} {node.id}")
            ends.append(self._blows[name](self, node))
            self.run(random.random() * 0.2)
        if random.random() < ASKED:
            self.asked += 1
            words.append("asked")
            ask(True)
            self.run(ASK_SECONDS)
            ask(False)
            self._wait(all_answered, MEANWHILE_SECONDS)
        self.run(random.choice(FAULT_SECONDS))
        for end in ends:
            end()
            self.run(random.random() * 0.2)
        if is_rough:
            self.run(random.random() * ROUGH_SECONDS)
            self._weather(False)
        self._wait(all_answered, ANSWER_SECONDS)
        return ", ".join(words)

    def _wait(self, all_answered: Callable[[], bool], seconds: float) -> None:
        limit = self._scheduler.now + seconds
        while not all_answered() and self._scheduler.now < limit:
            self.run(0.1)

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        self._scheduler.run_until(self._scheduler.now + seconds)
