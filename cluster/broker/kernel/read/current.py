"""Linearizable reads: this replica shows everything that was acknowledged before the question."""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.ports import LogPort
from dledger.errors import DledgerError


class CurrentReads:
    """The log's ReadIndex, then a wait until queues and state show all that is applied."""

    def __init__(self, log: LogPort, derived: DerivedStore) -> None:
        self._log, self._derived = log, derived

    def when_current(self, then: Callable[[DledgerError | None], None]) -> None:
        """Call `then(None)` when state and queues show every commit acknowledged before now."""

        def ready(error: DledgerError | None) -> None:
            if error is not None:
                then(error)
            else:
                self._derived.when_shown(self._log.applied, then)

        self._log.read_index(ready)
