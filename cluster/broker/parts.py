"""What a broker stands on, and what it is made of; `wiring` makes the one from the other."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.broker.config import BrokerConfig
from cluster.broker.consume.long_poll import LongPolls
from cluster.broker.kernel.apply.leader_tables import LeaderTables
from cluster.broker.kernel.apply.log_beginning import LogBeginning
from cluster.broker.kernel.apply.machine import BrokerMachine
from cluster.broker.kernel.events.leadership_parts import LeadershipParts
from cluster.broker.kernel.net.links import Links
from cluster.broker.kernel.net.router import Router
from cluster.broker.kernel.net.server import ClientServer
from cluster.broker.kernel.write.appender import Appender
from cluster.broker.kernel.write.replica_log import ReplicaLog
from cluster.broker.manage.housekeeping import Housekeeping
from cluster.broker.registration import Registrar
from cluster.broker.services import Services
from commitlog.files import FileSystem
from commitlog.hosts import Host
from dledger.runtime.clock import Clock
from dledger.runtime.owned import Owned


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """What a broker stands on. `advertised`: its address in message ids and routes, an IP."""

    config: BrokerConfig
    advertised: Host
    files: FileSystem
    clock: Clock
    owned: Owned
    salt: int
    beginning: LogBeginning


@dataclass(slots=True, eq=False)
class Parts:
    """One broker, wired."""

    config: BrokerConfig
    advertised: str
    log: ReplicaLog
    services: Services
    machine: BrokerMachine
    appender: Appender
    leadership_parts: LeadershipParts
    tables: LeaderTables
    links: Links
    polls: LongPolls
    router: Router
    server: ClientServer
    registrar: Registrar
    housekeeping: Housekeeping
