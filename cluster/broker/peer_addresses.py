"""Where the other replicas of the group serve clients, as the group is now.

named in the settings    that address (a proxy may sit on the link)
a member of the group    what it told about itself when it joined (`RaftConfig.service`)
neither                  not in here: it is no peer

A member that nodes reach elsewhere than the settings say has moved since they were written (it was
replaced on another machine): then what it told counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dledger.config import Address
from dledger.core.configuration import Configuration, Member
from dledger.membership.roster import peer_address, service_of


class PeerAddresses(Mapping[str, str]):
    """Node id → client address; stands for `BrokerConfig.peers` and changes with the group."""

    def __init__(
        self,
        node_id: str,
        configured: Mapping[str, str],
        reached: Mapping[str, Address] | None = None,
    ) -> None:
        """`reached`: where nodes reach each member (`RaftConfig.peers`) by the same settings."""
        self._node_id, self._configured = node_id, dict(configured)
        self._reached = dict(reached or {})
        self._now = dict(configured)

    def follow(self, configuration: Configuration) -> None:
        """Take the group's new configuration. An empty one is ignored: this node is joining."""
        if not configuration.members:
            return
        found = {}
        for member in configuration.members:
            name = str(member.node_id)
            told, settings = service_of(member.address), self._configured.get(name, "")
            address = told if told and self.has_moved(member) else settings or told
            if name != self._node_id and address:
                found[name] = address
        self._now = found

    def has_moved(self, member: Member) -> bool:
        """Is it reached elsewhere than the settings say?"""
        known, now = self._reached.get(str(member.node_id)), peer_address(member.address)
        return known is not None and now is not None and known != now

    def __getitem__(self, name: str) -> str:
        return self._now[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now)

    def __len__(self) -> int:
        return len(self._now)
