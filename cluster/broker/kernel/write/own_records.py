"""Records of the broker's own in a batch: their writer is told when all readers here see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from cluster.broker.kernel.write.batch import Batch
from dledger.core.types import Index
from dledger.errors import DledgerError

Done = Callable[[Exception | None], None]
WhenDispatched = Callable[[Index, Done], None]


class OwnRecords:
    """The records that one call put into a batch; `last_at` is the place of the last of them."""

    __slots__ = ("done", "last_at", "when_dispatched")
    outlives: ClassVar[bool] = False

    def __init__(self, last_at: int, done: Done, when_dispatched: WhenDispatched) -> None:
        self.last_at, self.done, self.when_dispatched = last_at, done, when_dispatched

    def settled(self, batch: Batch, error: DledgerError | None) -> None:
        """Call `done`: with the error, or with None when readers here see the last record."""
        if error is not None:
            self.done(error)
        else:
            self.when_dispatched(Index(batch.first_index + self.last_at), self.done)
