"""Where the other replicas of the group serve clients, as the group is now.

named in the settings    that address (a proxy may sit on the link)
a member of the group    what it told about itself when it joined (`RaftConfig.service`)
neither                  not in here: it is no peer
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dledger.core.configuration import Configuration
from dledger.runtime.roster import service_of


class PeerAddresses(Mapping[str, str]):
    """Node id → client address; stands for `BrokerConfig.peers` and changes with the group."""

    def __init__(self, node_id: str, configured: Mapping[str, str]) -> None:
        self._node_id, self._configured = node_id, dict(configured)
        self._now = dict(configured)

    def follow(self, configuration: Configuration) -> None:
        """The group is another one now. An empty one says nothing: this node joins."""
        if not configuration.members:
            return
        found = {}
        for member in configuration.members:
            name = str(member.node_id)
            address = self._configured.get(name) or service_of(member.address)
            if name != self._node_id and address:
                found[name] = address
        self._now = found

    def __getitem__(self, name: str) -> str:
        return self._now[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now)

    def __len__(self) -> int:
        return len(self._now)
