"""The parts of one broker that request functions use, in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cluster.access_file import AccessFile
from cluster.broker.config import BrokerConfig
from cluster.broker.consume.lock_keeper import Locks
from cluster.broker.consume.pull import PullPath
from cluster.broker.consume.topic_routes import TopicRoutes
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.net.client_calls import ClientCalls
from cluster.broker.kernel.net.refusals import to_service_error
from cluster.broker.kernel.ports import LogPort
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.offset_keeper import OffsetKeeper
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.broker.manage.broker.counting import Mornings
from cluster.broker.parked.parts import Parked
from cluster.broker.pop.service import PopService
from cluster.broker.produce.send import SendPath
from cluster.broker.transactions.outcomes import Outcomes
from cluster.core.apply import AppliedState
from cluster.core.filter_bits import FilterBits
from cluster.core.groups import ClientRegistry
from cluster.core.statistics import Statistics
from cluster.errors import ClusterError
from cluster.protocol.frames import Frame
from dledger.errors import DledgerError
from dledger.runtime.owned import Owned


def _unknown() -> float:
    """Until housekeeping has looked."""
    return 0.0


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
    owned: Owned
    leader_address: Callable[[], str | None]
    young_bytes_max: int
    advertised: str
    started_ms: int
    statistics: Statistics
    mornings: Mornings
    calls: ClientCalls
    locks: Locks
    parked: Parked
    topic_routes: TopicRoutes
    pop: PopService
    #: None: everybody may do everything.
    access: AccessFile | None
    disk_used_ratio: Callable[[], float] = _unknown
    filters: FilterBits | None = None
    transactions: Outcomes = field(init=False)
    #: A request that was checked when it came, from the beginning.
    route: Callable[[Any, Frame], None] = field(init=False)
    #: A request of which nothing came, because a leadership ended, is asked of whoever leads next.
    ask_again: Callable[[Any, Frame], None] = field(init=False)

    def when_current(self, then: Callable[[DledgerError | None], None]) -> None:
        """Call `then(None)` when state and queues show every commit acknowledged before now."""

        def ready(error: DledgerError | None) -> None:
            if error is not None:
                then(error)
            else:
                self.derived.when_shown(self.log.applied, then)

        self.log.read_index(ready)

    def to_error(self, error: Exception) -> ClusterError:
        return to_service_error(error, self.leader_address())
