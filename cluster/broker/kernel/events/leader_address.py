"""Where clients reach the leader of this group."""

from __future__ import annotations

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.events.leadership import Leadership


class LeaderAddress:
    """Client address of the leader, as clients are told it; None while no leader is known."""

    def __init__(self, config: BrokerConfig, leadership: Leadership, own: str) -> None:
        self._config, self._leadership, self._own = config, leadership, own

    def __call__(self) -> str | None:
        leader = self._leadership.leader
        if leader is None:
            return None
        if leader == self._config.node_id:
            return self._own
        advertised = self._config.peers_advertised.get(leader)
        return advertised or self._config.peers.get(leader)
