"""Clocks that go wrong within a bound, for groups that read by leases: `--lease-reads`.

Each node's clock runs fast or slow, by another amount every second or so, and now and then it runs
back. Jumps ahead and pauses are faults that every run may draw (`kinds/processes.py`). A stale read
can only be seen while two nodes think that they lead, so leaders are cut off again and again, and
readers are many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from chaos.sim.node import SimNode
from chaos.sim.scheduler import Scheduler
from chaos.sim.swarm import SwarmOptions

#: As many as see a lease that lasts too long, in one run of some.
READERS = 20
OPERATIONS_PER_SECOND = 90.0
#: What makes a leader that does not know of the next one, or tries a promise; with their weights.
FAULTS = {
    "isolate-leader": 8.0,
    "partition": 3.0,
    "one-way": 3.0,
    "reset": 3.0,
    "pause": 3.0,
    "clock": 3.0,
    "transfer": 3.0,
    "kill": 3.0,
}
FAULT_GAP_MAX = 2.5
LEADER_AIM = 0.8
#: Between two changes of some node's clock, seconds at most.
CHANGE_GAP_MAX = 3.0
#: One change in so many is a clock that runs back, by so many seconds at most.
BACK_ONE_IN = 8
BACK_MAX = 0.5


def that_try_leases(options: SwarmOptions) -> SwarmOptions:
    """The same appenders, reads all the time, and leaders that are cut off."""
    load = replace(options.load, readers=READERS, operations_per_second=OPERATIONS_PER_SECOND)
    return replace(
        options,
        load=load,
        faults={**options.faults, **FAULTS},
        fault_gap_max=FAULT_GAP_MAX,
        leader_aim=LEADER_AIM,
    )


class Clocks:
    """Changes the rate of one node's clock after the other, until it is told to stop.

    `drift_max`: a clock gains or loses at most this part; a control makes it more than the nodes
    were told.
    """

    def __init__(self, seed: int, scheduler: Scheduler, nodes: Sequence[SimNode]) -> None:
        self._random = Random(f"dledger-clocks-{seed}")
        self._scheduler, self._nodes = scheduler, nodes
        for node in nodes:
            node.config = replace(node.config, lease_reads=True)
        self.drift_max = nodes[0].config.clock_drift_max
        self._stopped = False

    def begin(self) -> None:
        """Schedules the first change, within CHANGE_GAP_MAX seconds; each schedules the next."""
        self._again()

    def stop(self) -> None:
        """All run as fast as time again."""
        self._stopped = True
        for node in self._nodes:
            node.set_rate(1.0)

    def _again(self) -> None:
        self._scheduler.after(self._random.random() * CHANGE_GAP_MAX, self._change)

    def _change(self, _: object) -> None:
        if self._stopped:
            return
        random = self._random
        node = random.choice(self._nodes)
        if random.randrange(BACK_ONE_IN):
            node.set_rate(1.0 + self.drift_max * random.choice((-1.0, 0.0, 1.0)))
        else:
            node.skip_clock(-BACK_MAX * random.random())
        self._again()
