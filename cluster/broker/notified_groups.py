"""How many members of each group wait on its notification route: told to name servers on a change.

    one Java member         not told: name servers take that for granted
    several                 their number, so that each of them gets a queue
    locks of queues         0: no such route. Members ask for locks of all queues, and would do so
                            every second for one that nobody leads
    members not of Java     0: they do not see such a route, so they share out real queues otherwise

See cluster/nameserver/notify_routes.py. A leader looks once a second.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.kernel.events.leadership import Leadership
from cluster.core.groups import ClientRegistry, ConsumerGroup
from cluster.protocol.codes import VERSION_OWN, VERSION_STANDARD_JSON
from dledger.runtime.owned import Owned

LOOK_SECONDS = 1.0


class NotifiedGroups:
    """Call it for the text of a registration: "GROUP:MEMBERS", "," between them."""

    def __init__(
        self,
        registry: ClientRegistry,
        leadership: Leadership,
        owned: Owned,
        *,
        is_ordered: Callable[[str], bool],
        changed: Callable[[], None],
    ) -> None:
        self._registry, self._leadership, self._owned = registry, leadership, owned
        self._is_ordered, self._changed = is_ordered, changed
        self._told = ""
        self._stopped = False

    def __call__(self) -> str:
        found = ((group, self._members(group, row)) for group, row in self._groups())
        return ",".join(f"{group}:{members}" for group, members in sorted(found) if members != 1)

    def start(self) -> None:
        """Begin to look; `changed` is called when a look finds another text than the one before."""
        if self._stopped:
            return
        if self._leadership.leads:
            text = self()
            if text != self._told:
                self._told = text
                self._changed()
        self._owned.call_later(LOOK_SECONDS, self.start)

    def stop(self) -> None:
        """Look no more."""
        self._stopped = True

    def _groups(self) -> list[tuple[str, ConsumerGroup]]:
        return list(self._registry.consumer_groups())

    def _members(self, group: str, row: ConsumerGroup) -> int:
        """A power of two, so that not every member that comes is told."""
        clients = [member.info for member in row.members.values()]
        is_java = all(
            info.language == "JAVA" and VERSION_STANDARD_JSON <= info.version < VERSION_OWN
            for info in clients
        )
        if not is_java or self._is_ordered(group):
            return 0
        members = 1
        while members < len(clients):
            members *= 2
        return members
