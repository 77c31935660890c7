"""Three hosts in one process, on their own loopback addresses; groups are opened on all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dledger import Host, RaftConfig, ReplicatedNode, ReplicatedStateMachine
from tests.dledger.runtime.group import Group
from tests.virtual_loop import LoopClock
from tests.waiting import eventually

from .group import QUICK

C = TypeVar("C")
R = TypeVar("R")


class Hosts:
    """Hosts n0, n1, n2; each can be stopped and started again on its folder."""

    def __init__(
        self, folder: Path, address: Callable[[], str], *, quiescence: bool | None = False
    ) -> None:
        """`quiescence`: None: as delivered."""
        self.quiescence = quiescence
        self.configs: dict[str, RaftConfig] = Group(folder, address).configs
        self.hosts: dict[str, Host] = {}

    async def start(self, *names: str) -> None:
        """Start these hosts without groups, all when none is named."""
        for name in names or self.configs:
            given = {} if self.quiescence is None else {"quiescence": self.quiescence}
            self.hosts[name] = Host(self.configs[name], clock=LoopClock(), **given)
            await self.hosts[name].start()

    async def open(
        self, group: str, make: Callable[[], ReplicatedStateMachine[C, R]]
    ) -> dict[str, ReplicatedNode[C, R]]:
        """This group's node on each host that runs."""
        return {name: await self.open_on(name, group, make()) for name in self.hosts}

    async def open_on(
        self, name: str, group: str, machine: ReplicatedStateMachine[C, R]
    ) -> ReplicatedNode[C, R]:
        return await self.hosts[name].open(group, machine, create=True, settings=QUICK)

    async def stop(self, name: str) -> None:
        await self.hosts.pop(name).close()

    async def close(self) -> None:
        for name in list(self.hosts):
            await self.stop(name)


async def leader_of(nodes: dict[str, ReplicatedNode[C, R]]) -> ReplicatedNode[C, R]:
    """The node that all of them see as their leader."""

    def agreed() -> ReplicatedNode[C, R] | None:
        names = {node.leader for node in nodes.values()}
        return nodes.get(names.pop() or "") if len(names) == 1 else None

    found = await eventually(agreed, "a leader that all nodes of a group know", 60)
    assert found is not None
    return found
