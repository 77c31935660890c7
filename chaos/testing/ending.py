"""The end of a run of a machine: no fault is left, and all nodes must have applied the same.

clients are answered again ─► they stop ─► equal ─► faults in silence (chaos/sim/silence.py), after
                                                    each of which all become equal, too
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from chaos.sim.network import CALM, Network, NetworkOptions
from chaos.sim.scheduler import Scheduler
from chaos.sim.silence import Silence
from chaos.testing.judge import Call
from chaos.testing.machine_node import MachineNode

#: Virtual seconds until a client is answered, and until all nodes are equal.
LIVENESS_SECONDS = 40.0
STEP = 0.5


class EndedRun(Protocol):
    """The part of a run that its end uses."""

    seed: int
    scheduler: Scheduler
    nodes: list[MachineNode]
    calls: list[Call]

    def ask(self, again: bool) -> None:
        """Clients begin to ask, or stop."""
        ...

    def violation(self, name: str, detail: str) -> None:
        """End the run."""
        ...


class Ending:
    """Plays the end of one run; `silent`: how often each fault was begun while no client asked."""

    def __init__(
        self, run: EndedRun, network: Network, rough: NetworkOptions, patience: float
    ) -> None:
        """`rough`: the network's options in the run before; `patience`: a client's."""
        self._run, self._network, self._rough, self._patience = run, network, rough, patience
        self._round_begin = 0
        self.silent: dict[str, int] = {}

    def play(self) -> None:
        """Raises the run's violation."""
        run = self._run
        end = self._answered_again()
        run.ask(False)
        self._equal(end, "")
        silence = Silence(run.seed, run.scheduler, run.nodes, self._network, self._weather)
        silence.play(self._nodes, self._ask, self._all_answered, self._equal_after)
        self.silent = silence.counts

    def _nodes(self) -> Sequence[MachineNode]:
        return self._run.nodes

    def _answered_again(self) -> float:
        """Wait for an answer; returns the time at which all nodes must be equal."""
        run = self._run
        end, before = run.scheduler.now + LIVENESS_SECONDS, len(run.calls)
        while not any(call.result is not None for call in run.calls[before:]):
            if run.scheduler.now > end:
                run.violation("liveness", "no command is answered after all faults ended")
            run.scheduler.run_until(run.scheduler.now + STEP)
        return end

    def _equal_after(self, words: str) -> None:
        end = self._run.scheduler.now + LIVENESS_SECONDS
        self._equal(end, f" after {words}, and no command came")

    def _equal(self, end: float, words: str) -> None:
        """Wait until all nodes have applied the same, and know that it is all."""
        run = self._run
        while True:  # until they are equal, or the time is over
            run.scheduler.run_until(run.scheduler.now + STEP)
            ends = {
                (node.process.applied, node.replica.node.commit, node.replica.log.last.index)
                for node in run.nodes
                if node.process is not None and node.replica is not None
            }
            are_equal = len(ends) == 1 and all(len(set(one)) == 1 for one in ends)
            if are_equal and all(node.up for node in run.nodes):
                return
            if run.scheduler.now > end:
                run.violation("liveness", f"nodes do not become equal{words}: {sorted(ends)}")

    def _ask(self, again: bool) -> None:
        if again:
            self._round_begin = len(self._run.calls)
        self._run.ask(again)

    def _all_answered(self) -> bool:
        """No client of this round waits any more; the node of one that does may have died."""
        since = self._run.scheduler.now - self._patience
        return all(
            call.ended is not None or call.begun < since
            for call in self._run.calls[self._round_begin :]
        )

    def _weather(self, is_rough: bool) -> None:
        self._network.options = self._rough if is_rough else CALM
