"""The part of a `ReplicatedLog` that the machine's modules use, on a simulated node."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence

from chaos.testing.ports import ProcessNode
from chaos.testing.virtual import VirtualFuture, VirtualOwned
from commitlog.files.system import Buffer
from dledger.core.types import NodeId
from dledger.errors import DledgerError
from dledger.log.port import LogStore
from dledger.replica.ports import Proposal
from dledger.replica.replica import Replica
from dledger.runtime.turns import TURN_SECONDS

#: Bytes of an entry: the smallest log files hold some.
ENTRY_SIZE_MAX = 1000
Send = Callable[[NodeId, Sequence[Buffer]], bool]


class SimulatedDriver:
    """The part of a `Driver`; the group is alone on its loop, so it has all of each turn."""

    def __init__(self, node: ProcessNode, owned: VirtualOwned, send: Send) -> None:
        self._node, self._owned = node, owned
        self.clock = types.SimpleNamespace(time_ms=lambda: node.wall_ms)
        self.transport = types.SimpleNamespace(forward=send)
        self.share = types.SimpleNamespace(seconds=TURN_SECONDS)
        self.roster = types.SimpleNamespace(levels=node.levels)

    @property
    def replica(self) -> Replica:
        """The node's."""
        assert self._node.replica is not None
        return self._node.replica

    def tell_commit(self, to: NodeId) -> None:
        """In a turn of its own: the replica tells of a commit in the middle of one."""
        self._owned.call_soon(lambda: self.replica.tell_commit(to, self._node.now))


class SimulatedLog:
    """The log of one process; see the module's text."""

    is_open, entry_size_max = True, ENTRY_SIZE_MAX

    def __init__(self, node: ProcessNode, owned: VirtualOwned, store: LogStore, send: Send) -> None:
        self._node, self.owned, self.store = node, owned, store
        self.config = types.SimpleNamespace(node_id=node.id)
        self.driver = SimulatedDriver(node, owned, send)

    @property
    def is_leader(self) -> bool:
        """As of a ReplicatedLog."""
        return self._node.leads

    def append_at_once(self, bodies: Sequence[Buffer]) -> VirtualFuture:
        """As of a ReplicatedLog."""
        decision = VirtualFuture()
        proposal = Proposal(bodies, lambda _, error: decision.made(error))
        try:
            self.driver.replica.propose(proposal, self._node.now)
        except DledgerError as error:
            decision.made(error)
        else:
            for body in bodies:
                self._node.book.proposed(bytes(body))
        return decision
