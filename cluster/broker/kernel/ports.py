"""The part of the replicated log that a broker uses; `dledger.runtime.ReplicatedLog` has it.

All calls come from the event loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dledger.core.status import NodeStatus
from dledger.core.types import Index, NodeId
from dledger.errors import DledgerError
from dledger.log.port import LogStore
from dledger.replica.ports import Proposal
from dledger.runtime.driver import Driver


class LogPort(Protocol):
    """The log of one replica, seen from the broker."""

    @property
    def store(self) -> LogStore:
        """The entries; never read above `applied`."""
        ...

    @property
    def applied(self) -> Index:
        """The highest index that was given to the state machine here."""
        ...

    @property
    def driver(self) -> Driver:
        """The group's driver, by which members are listed and changed."""
        ...

    def status(self) -> NodeStatus:
        """The replica's state at this moment, as a value."""
        ...

    def propose(self, proposal: Proposal) -> None:
        """Write the bodies as entries now, or raise a `NotDone`; `done` tells how it ended.

        Not to be called from inside `apply` or `done`.
        """
        ...

    def read_index(self, ready: Callable[[DledgerError | None], None]) -> None:
        """Call `ready(None)` when a linearizable read may be served from the applied state here."""
        ...

    def transfer(self, to: NodeId | None, done: Callable[[DledgerError | None], None]) -> None:
        """Hand leadership to `to`, or to the best follower."""
        ...
