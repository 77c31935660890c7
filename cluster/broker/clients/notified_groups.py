"""How many members of each group wait on its notification route: told to name servers on a change.

    one Java member         not told: name servers take that for granted
    several                 their number, so that each of them gets a queue
    locks of queues         0: no such route. Members ask for locks of all queues, and would do so
                            every second for one that nobody leads
    members not of Java     0: they do not see such a route, so they share out real queues otherwise

Where that takes more than `SIZE_MAX`, groups that are not told have no such route: "*:0" stands
first, then groups that can use one, as far as there is space.

See cluster/nameserver/notify_routes.py. A leader that is asked looks once
a second, and at each registration.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.regular_look import RegularLook
from cluster.core.groups import ClientRegistry, ConsumerGroup
from cluster.protocol.codes import understands_notify_routes
from dledger.runtime.owned import Owned

LOOK_SECONDS = 1.0

SIZE_MAX = 64 * 1024
"""Bytes of the text; a header of a registration has space for sixteen times that."""

OTHERS_HAVE_NONE = "*:0"

_log = logging.getLogger(__name__)


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
        is_asked: Callable[[], bool],
    ) -> None:
        """`is_asked`: does a name server ask for the text? Else groups are not counted."""
        self._registry, self._leadership = registry, leadership
        self._is_ordered, self._is_asked = is_ordered, is_asked
        self._is_cut = False
        #: `changed` is called when it finds another text than before.
        self.look = RegularLook(owned, LOOK_SECONDS, self._text, before="", changed=changed)

    def __call__(self) -> str:
        found = sorted((group, self._members(group, row)) for group, row in self._groups())
        text = ",".join(f"{group}:{members}" for group, members in found if members != 1)
        if len(text) <= SIZE_MAX:
            return text
        if not self._is_cut:
            self._is_cut = True
            _log.warning(
                "not all of the %d groups fit into a registration, so consumers of those that do "
                "not hear of a new leader at their next look at routes only; have fewer groups, or "
                "groups of one Java client",
                len(found),
            )
        return ",".join(_first(f"{group}:{members}" for group, members in found if members))

    def _text(self) -> str:
        """The same as before while this node follows, or is not asked."""
        return self() if self._leadership.leads and self._is_asked() else self.look.told

    def _groups(self) -> list[tuple[str, ConsumerGroup]]:
        return [
            (group, row) for group, row in self._registry.consumer_groups() if _has_topic(group)
        ]

    def _members(self, group: str, row: ConsumerGroup) -> int:
        """A power of two, so that not every member that comes is told."""
        clients = [member.info for member in row.members.values()]
        understand = all(understands_notify_routes(info.language, info.version) for info in clients)
        if not understand or self._is_ordered(group):
            return 0
        members = 1
        while members < len(clients):
            members *= 2
        return members


def _has_topic(group: str) -> bool:
    """False for a name of which no retry topic can be made: it would tear the list apart."""
    return group.isascii() and not any(mark in group for mark in ",:*")


def _first(rows: Iterable[str]) -> list[str]:
    """The mark for groups that are not listed, then rows for which there is space."""
    kept, size = [OTHERS_HAVE_NONE], len(OTHERS_HAVE_NONE)
    for row in rows:
        size += 1 + len(row)
        if size > SIZE_MAX:
            break
        kept.append(row)
    return kept
