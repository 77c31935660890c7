"""The part of a simulated machine that one of its processes uses."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from chaos.sim.disk import SimDisk
from chaos.sim.network import Network
from chaos.sim.scheduler import Scheduler
from chaos.testing.log_book import LogBook
from dledger.core.types import NodeId
from dledger.machine.state_machine import ReplicatedStateMachine
from dledger.replica.replica import Replica


class ProcessNode(Protocol):
    """A `MachineNode`, as its process sees it."""

    id: NodeId
    index: int
    boot: int
    machines: int
    random: Random
    scheduler: Scheduler
    disk: SimDisk
    network: Network | None
    replica: Replica | None
    stuck: list[Any] | None
    book: LogBook

    @property
    def make(self) -> Callable[[], ReplicatedStateMachine[Any, Any]]:
        """Makes the user's machine."""
        ...

    @property
    def now(self) -> float:
        """Seconds of the machine's clock."""
        ...

    @property
    def wall_ms(self) -> int:
        """The machine's wall clock."""
        ...

    @property
    def leads(self) -> bool:
        """As of a SimNode."""
        ...

    def levels(self) -> dict[NodeId, int]:
        """Feature levels of the others."""
        ...

    def in_process(self, process: object, action: Callable[[], object]) -> None:
        """Have this process do something, unless it has gone."""
        ...

    def works(self, seconds: float) -> None:
        """The process applies for so long."""
        ...

    def committed(self, level: int, index: int, body: bytes) -> None:
        """A process of this level has applied an entry."""
        ...

    def state_taken(self) -> None:
        """The process has taken a leader's state."""
        ...
