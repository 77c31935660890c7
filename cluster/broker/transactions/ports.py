"""The ports that requests of transactions use: kernel parts, and this feature's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.ports import LogPort
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.broker.transactions.outcomes import Outcomes
from cluster.protocol.frames import Frame


@dataclass(frozen=True, slots=True, eq=False)
class TransactionPorts:
    """Made once, by the wiring of the broker."""

    transactions: Outcomes
    derived: DerivedStore
    leadership: Leadership
    log: LogPort
    now_ms: Callable[[], int]
    #: Serves a request, which was checked when it came, from the beginning.
    route: Callable[[Any, Frame], None]
    writer: StateWriter
