"""`LogPort` on a `dledger` driver: one replica of the group, opened for a broker."""

from __future__ import annotations

from collections.abc import Callable

from dledger.core.events import DiskChecked
from dledger.core.status import NodeStatus
from dledger.core.types import Index, NodeId
from dledger.errors import DledgerError
from dledger.log.port import LogStore
from dledger.replica.ports import Proposal
from dledger.runtime.driver import Driver
from dledger.runtime.owned import Owned


class ReplicaLog:
    """Bound to its driver once that exists; the store can be read before."""

    def __init__(self, store: LogStore, owned: Owned) -> None:
        self.store, self._owned = store, owned
        self._driver: Driver | None = None

    def bind(self, driver: Driver) -> None:
        """Use this driver from now on; called once, before the node starts."""
        self._driver = driver

    @property
    def driver(self) -> Driver:
        """The group's driver; an AssertionError before `bind`."""
        assert self._driver is not None, "the log is used once the node has started"
        return self._driver

    @property
    def applied(self) -> Index:
        """The highest index that was given to the state machine here."""
        return self.driver.replica.applied

    @property
    def first_position(self) -> int:
        """Where the log begins, in bytes."""
        store = self.store
        if store.last.index < store.first_index:
            return store.end_position
        return store.first_position

    def status(self) -> NodeStatus:
        """The replica's state at this moment, as a value."""
        return self.driver.replica.status()

    @property
    def disk(self) -> DiskChecked:
        """How this node's disk does."""
        return self.driver.replica.node.disk

    def disk_of(self, follower: NodeId) -> str:
        """How a follower's disk does, as it reported to this leader."""
        return self.driver.replica.node.progress[follower].disk_health.name.lower()

    def propose(self, proposal: Proposal) -> None:
        """As `LogPort.propose`. Raises a `NotDone` for bodies that are certainly not written."""
        self.driver.propose(proposal)

    def read_index(self, ready: Callable[[DledgerError | None], None]) -> None:
        """As `LogPort.read_index`; `ready` is called under the guard of the present request
        (`Owned.bound`).
        """
        self.driver.read_index(self._owned.bound(ready))

    def transfer(self, to: NodeId | None, done: Callable[[DledgerError | None], None]) -> None:
        """As `LogPort.transfer`; `done` is called under the guard of the present request
        (`Owned.bound`).
        """
        self.driver.transfer(to, self._owned.bound(done))
