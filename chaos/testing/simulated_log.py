"""The part of a `ReplicatedLog` that the machine's modules use, on a simulated node."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any, cast

from chaos.testing.ports import ProcessNode
from chaos.testing.virtual import VirtualFuture, VirtualOwned
from commitlog.files.system import Buffer
from dledger.core.types import Index, NodeId
from dledger.errors import DledgerError
from dledger.log.port import LogStore
from dledger.replica.ports import Proposal
from dledger.replica.replica import Replica
from dledger.runtime.replicated_log import ReplicatedLog
from dledger.runtime.turns import Share

#: Bytes of an entry: the smallest log files hold some.
ENTRY_SIZE_MAX = 1000
Send = Callable[[NodeId, Sequence[Buffer]], bool]
#: Has the machine apply entries; returns the last one that it has.
Apply = Callable[[Index, Index], Index]


class SimulatedDriver:
    """The part of a `Driver`. `share`: the process's of the turns of its host."""

    def __init__(self, node: ProcessNode, owned: VirtualOwned, send: Send, share: Share) -> None:
        self._node, self._owned, self.share = node, owned, share
        self.clock = types.SimpleNamespace(time_ms=lambda: node.wall_ms)
        self.transport = types.SimpleNamespace(forward=send)
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
    """The log of one process; see the module's text.

    Its `apply` is the shipping one, which asks for a part of the loop's turn.
    """

    is_open, entry_size_max = True, ENTRY_SIZE_MAX

    apply: Apply = cast(Any, ReplicatedLog.apply)

    def __init__(
        self,
        node: ProcessNode,
        owned: VirtualOwned,
        store: LogStore,
        apply: Apply,
        driver: SimulatedDriver,
    ) -> None:
        """`apply`: the machine's."""
        self._node, self.owned, self.store = node, owned, store
        self.config = types.SimpleNamespace(node_id=node.id)
        self.driver = self._driver = driver
        self._machine = types.SimpleNamespace(apply=apply)
        self._applied = types.SimpleNamespace(seconds=0.0)
        self._tagging = types.SimpleNamespace(applied=lambda *_: None)

    def state_is(self, last: Index) -> None:
        """As of a ReplicatedLog: here no caller waits for an index."""

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
