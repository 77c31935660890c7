"""Which followers are well: looked at ten times a second, told to name servers on a change.

A well follower answers, and it has most of the log. One that has just come back is busy with what
it missed: sends that came to it would wait for that, longer than a client waits for an answer.

A follower that dies causes no election, and its own registration lasts for a minute. The leader
notices within one election timeout, so a stock client that looks at routes after that is led to
living nodes only (cluster/nameserver/relays.py, spread.py).
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.write.replica_log import ReplicaLog
from cluster.broker.regular_look import RegularLook
from dledger.runtime.owned import Owned

LOOK_SECONDS = 0.1
SILENT_SECONDS = 0.5
"""A follower answers several times in an election timeout, which is about as long."""
CAUGHT_UP_ENTRIES, BEHIND_ENTRIES = 5_000, 20_000
"""So little may be missing to a follower when it is named, so much while it is. Some thousand are
on their way to each follower when a leader is busy."""


class LivingFollowers:
    """Call it for the node ids of the followers that are well; () when this node follows."""

    def __init__(
        self,
        log: ReplicaLog,
        leadership: Leadership,
        owned: Owned,
        *,
        changed: Callable[[], None],
    ) -> None:
        self._log, self._leadership = log, leadership
        none: tuple[str, ...] = ()
        #: `changed` is called when it finds others than before.
        self.look = RegularLook(owned, LOOK_SECONDS, self, before=none, changed=changed)

    def __call__(self) -> tuple[str, ...]:
        if not self._leadership.leads:
            return ()
        now, status = self._log.driver.now(), self._log.status()
        return tuple(
            sorted(
                peer.node_id
                for peer in status.peers
                if now - peer.heard_at < SILENT_SECONDS
                and status.last.index - peer.matched
                <= (BEHIND_ENTRIES if peer.node_id in self.look.told else CAUGHT_UP_ENTRIES)
            )
        )
