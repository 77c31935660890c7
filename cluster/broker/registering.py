"""Makes the registrar, and its two sources of news: living followers, groups to be notified."""

from __future__ import annotations

from cluster.broker.admin import Admin
from cluster.broker.clients.notified_groups import NotifiedGroups
from cluster.broker.consume import Consume
from cluster.broker.kernel.environment import BrokerEnvironment
from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.net.server import ClientServer
from cluster.broker.kernel.write.replica_log import ReplicaLog
from cluster.broker.living import LivingFollowers
from cluster.broker.registration import Registrar
from cluster.core.apply import AppliedState
from cluster.core.groups import ClientRegistry
from commitlog.records.hosts import Host


def registering(
    environment: BrokerEnvironment,
    log: ReplicaLog,
    state: AppliedState,
    registry: ClientRegistry,
    leadership: Leadership,
    consume: Consume,
    admin: Admin,
    server: ClientServer,
) -> tuple[LivingFollowers, NotifiedGroups, Registrar]:
    """The part that tells name servers, and two that look for news."""
    config, owned, advertised = environment.config, environment.owned, environment.advertised
    living = LivingFollowers(log, leadership, owned, changed=lambda: registrar.announce())
    notified = NotifiedGroups(
        registry,
        leadership,
        owned,
        is_ordered=consume.is_ordered,
        changed=lambda: registrar.announce_topics(),
        is_asked=lambda: registrar.is_asked_for_groups,
    )
    relay = Host(advertised.ip, config.relay_port) if config.relay_port else None

    def open_relay() -> str | None:
        """None while another program has the port: name servers would send clients to that one."""
        return str(relay) if relay and config.peers and not server.closed_relay_ports else None

    registrar = Registrar(
        config,
        str(advertised),
        owned,
        current=admin.registered,
        living=living,
        notified=notified,
        relay=open_relay,
        version=lambda: (state.topics.version.counter, state.topics.version.timestamp),
        now_ms=environment.clock.time_ms,
    )
    return living, notified, registrar
