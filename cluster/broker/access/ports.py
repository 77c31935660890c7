"""The ports that accounts and the audit log use: kernel parts, and this feature's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.live_settings import LiveSettings
from cluster.broker.kernel.ports import LogPort
from cluster.broker.kernel.read.reader import RecordReader
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.core.apply import AppliedState
from cluster.security.access_file import Access
from dledger.runtime.owned import Owned


@dataclass(frozen=True, slots=True, eq=False)
class AccessPorts:
    """Made once, by the feature."""

    access: Access
    config: BrokerConfig
    derived: DerivedStore
    leadership: Leadership
    live: LiveSettings
    log: LogPort
    now_ms: Callable[[], int]
    owned: Owned
    reader: RecordReader
    state: AppliedState
    writer: StateWriter
