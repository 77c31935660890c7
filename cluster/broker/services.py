"""The parts of one broker that request functions use, in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.broker.config import BrokerConfig
from cluster.broker.derived import DerivedStore
from cluster.broker.leadership import Leadership
from cluster.broker.offset_keeper import OffsetKeeper
from cluster.broker.ports import LogPort
from cluster.broker.pull import PullPath
from cluster.broker.reader import RecordReader
from cluster.broker.refusals import to_service_error
from cluster.broker.send import SendPath
from cluster.broker.state_writer import StateWriter
from cluster.core.apply import AppliedState
from cluster.core.groups import ClientRegistry
from cluster.errors import ClusterError
from dledger.errors import DledgerError


@dataclass(slots=True, eq=False)
class Services:
    """Wired by `node.py`."""

    config: BrokerConfig
    log: LogPort
    state: AppliedState
    derived: DerivedStore
    reader: RecordReader
    leadership: Leadership
    registry: ClientRegistry
    writer: StateWriter
    offsets: OffsetKeeper
    sends: SendPath
    pulls: PullPath
    now: Callable[[], float]
    now_ms: Callable[[], int]
    call_later: Callable[[float, Callable[[], None]], object]
    leader_address: Callable[[], str | None]
    young_bytes_max: int
    peer_clock: Callable[[str, int], None]

    def when_current(self, then: Callable[[DledgerError | None], None]) -> None:
        """Call `then(None)` when state and queues show every commit acknowledged before now."""

        def ready(error: DledgerError | None) -> None:
            if error is not None:
                then(error)
            else:
                self.derived.when_dispatched(self.log.applied, then)

        self.log.read_index(ready)

    def to_error(self, error: Exception) -> ClusterError:
        return to_service_error(error, self.leader_address())
