"""Things that the process gives a broker: settings, files, clock, the event loop's owner."""

from __future__ import annotations

from dataclasses import dataclass, field

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.apply.log_beginning import LogBeginning
from cluster.broker.kernel.live_settings import LiveSettings
from commitlog.files.system import FileSystem
from commitlog.records.hosts import Host
from dledger.runtime.clock import Clock
from dledger.runtime.owned import Owned


@dataclass(frozen=True, slots=True, eq=False)
class BrokerEnvironment:
    """Supplied by the process that runs the broker.

    `advertised`: the broker's address in message ids and routes, an IP; the port is bound before.
    `live`: the settings that may change while it runs.
    `salt`: a random number, which makes keys and opaque numbers of this run differ from others'.
    """

    config: BrokerConfig
    advertised: Host
    files: FileSystem
    clock: Clock
    owned: Owned
    salt: int
    beginning: LogBeginning
    live: LiveSettings = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "live", LiveSettings(self.config))
