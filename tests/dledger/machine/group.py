"""Three nodes with a state machine each, in one process, on their own loopback addresses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from dledger import MachineSettings, RaftConfig, ReplicatedNode, ReplicatedStateMachine
from dledger.machine.states_status import StatesStatus
from tests.dledger.runtime.group import Group
from tests.virtual_loop import LoopClock
from tests.waiting import eventually

C = TypeVar("C")
R = TypeVar("R")
QUICK = MachineSettings(propose_seconds=60, resend_seconds=0.5)


def states(node: ReplicatedNode[Any, Any]) -> StatesStatus:
    """Of a node whose machine has snapshots."""
    found = node.status().states
    assert found is not None
    return found


class MachineGroup(Generic[C, R]):
    """Nodes n0, n1, … with what `make` makes; each can be stopped and started again."""

    def __init__(
        self,
        folder: Path,
        address: Callable[[], str],
        make: Callable[[], ReplicatedStateMachine[C, R]],
        size: int = 3,
    ) -> None:
        self.configs: dict[str, RaftConfig] = Group(folder, address, size).configs
        self.make = make
        self.settings = QUICK
        self.nodes: dict[str, ReplicatedNode[C, R]] = {}

    async def start(self, *names: str) -> None:
        """Start these nodes, all when none is named."""
        for name in names or self.configs:
            self.nodes[name] = ReplicatedNode(
                self.configs[name],
                self.make(),
                create=True,
                settings=self.settings,
                clock=LoopClock(),
            )
            await self.nodes[name].start()

    async def stop(self, name: str) -> None:
        await self.nodes.pop(name).close()

    async def leader(self) -> ReplicatedNode[C, R]:
        """The node that all running nodes see as their leader."""

        def agreed() -> ReplicatedNode[C, R] | None:
            names = {node.leader for node in self.nodes.values()}
            return self.nodes.get(names.pop() or "") if len(names) == 1 else None

        found = await eventually(agreed, "a leader that all running nodes know", 60)
        assert found is not None
        return found

    async def follower(self) -> ReplicatedNode[C, R]:
        leader = await self.leader()
        return next(node for node in self.nodes.values() if node is not leader)

    async def close(self) -> None:
        for name in list(self.nodes):
            await self.stop(name)
