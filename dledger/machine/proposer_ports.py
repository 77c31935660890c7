"""The proposer's ports to its node: the way to the leader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from dledger.core.types import NodeId
from dledger.errors import DledgerError
from dledger.machine.entries import Item
from dledger.wire.forwards import Forward


class ProposerPorts(Protocol):
    """The way to the leader; never called from inside an apply."""

    def append(
        self,
        session: int,
        lowest: int,
        items: Sequence[Item],
        done: Callable[[DledgerError | None], None],
    ) -> None:
        """Propose to this node's own log, which leads; `done` tells how it ended."""
        ...

    def forward(self, leader: NodeId, forward: Forward) -> bool:
        """Send; False: certainly not sent."""
        ...

    def new_number(self) -> int:
        """A number that no other process of any node uses: it names the session that it opens."""
        ...
